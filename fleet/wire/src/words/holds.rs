//! What is held besides the groups of the rollout: every rollout to come, and groups that the present one does not have.

use crate::api::{HaltCause, HoldsView};
use fleet_engine::command::Command;

use crate::lenient::{Lenient, word};
use crate::reason::advice;
use crate::rollout::{Needs, UnknownGroup};
use crate::text::{clean, hosts};

/// What is said while a stop waits for the store (FLEET §3).
pub const STOP_WAITS: &str = "a stop waits for the store: until it is decided, no host is allowed to update";

/// Most unknown groups that are named.
const NAMED: usize = 5;

/// A line for each thing that waits for a person, with the command that shows it.
pub fn needs(needs: &Needs) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(waiting) = needs.waiting_hosts {
        let verb = if waiting == 1 { "waits" } else { "wait" };
        lines.push(format!(
            "{} {verb} to be accepted, and no group counts what waits; to see them: teleport-fleet hosts --waiting",
            hosts(waiting)
        ));
    }
    if !needs.unknown_groups.is_empty() {
        let groups = &needs.unknown_groups;
        let name = |unknown: &UnknownGroup| format!("{} ({})", clean(&unknown.group), unknown.hosts);
        let named: Vec<_> = groups.iter().take(NAMED).map(name).collect();
        let more = match groups.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let place = match &needs.unknown_groups_in {
            Some(group) => format!("they are in {}", clean(group)),
            None => "they are in no group".to_owned(),
        };
        let all = groups.iter().map(|unknown| unknown.hosts).sum();
        let verb = if all == 1 { "declares a group" } else { "declare groups" };
        lines.push(format!(
            "{} {verb} that this rollout does not have: {}{more}; {place}",
            hosts(all),
            named.join(", ")
        ));
    }
    lines
}

/// A line for each hold that no line of a group tells of; `is_shown` says which groups have one.
pub fn lines(holds: &HoldsView, is_shown: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    let end = |groups: Vec<String>, all| advice::words(&Command::Run { groups, all });
    if holds.all {
        let by = match &holds.cause {
            None | Some(Lenient::Known(HaltCause::Operator)) => "an operator",
            Some(Lenient::Known(HaltCause::Restore)) => "a restore",
            Some(Lenient::Known(HaltCause::StoreLost)) => "the server, as its store lost decisions",
            Some(newer @ Lenient::Newer(_)) => &word(newer),
        };
        let beneath = if holds.by_operator { ", and beneath that by an operator" } else { "" };
        let by = format!("{}{beneath}", clean(by));
        let released: Vec<_> = holds.released.iter().map(|name| clean(name)).collect();
        let but = if released.is_empty() {
            String::new()
        } else {
            format!(", except {} of this rollout", released.join(", "))
        };
        lines.push(format!(
            "everything is held by {by}{but}, rollouts to come too; to end that: {}",
            end(Vec::new(), true)
        ));
    }
    for group in holds.groups.iter().filter(|group| !is_shown(group)) {
        lines.push(format!(
            "{}: held by an operator, in rollouts to come too; to end that: {}",
            clean(group),
            end(vec![group.clone()], false)
        ));
    }
    lines
}
