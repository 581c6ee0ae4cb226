//! What is held besides the groups of the rollout: every rollout to come, and groups that the present one does not have.

use crate::api::{HaltCause, HoldsView};
use fleet_engine::command::Command;

use crate::lenient::{Lenient, word};
use crate::reason::advice;
use crate::rollout::{Needs, UnknownGroup};
use crate::text::{clean, hosts};

/// What is said while a stop waits for the store (FLEET §3).
pub const STOP_WAITS: &str = "a stop waits for the store: until it is decided, no host is allowed to update";

/// A line for each thing that waits for a person.
pub fn needs(needs: &Needs) -> Vec<String> {
    let waiting = needs.waiting_hosts.map(|count| {
        let verb = if count == 1 { "has" } else { "have" };
        format!(
            "{} {verb} a key that waits for an admin, and reports with it do not count; to see them: teleport-fleet hosts --waiting",
            hosts(count)
        )
    });
    let refused = needs.without_token.as_ref().map(|refused| {
        let one = refused.one.as_deref().map(|name| format!(" ({})", clean(name))).unwrap_or_default();
        let (verb, counts, each) =
            if refused.hosts == 1 { ("was", "counts", "it") } else { ("were", "count", "each") };
        format!(
            "{}{one} {verb} refused in the last hour without a good join token, and {counts} nowhere; give {each} one: teleport-fleet \
             tokens join create NAME",
            hosts(refused.hosts)
        )
    });
    let unknown = needs.unknown_groups.as_ref().map(|unknown| {
        let name = |group: &UnknownGroup| format!("{} ({})", clean(&group.name), group.hosts);
        let named: Vec<_> = unknown.largest.iter().map(name).collect();
        let more = unknown.groups.saturating_sub(u64::try_from(named.len()).unwrap_or(u64::MAX));
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let place = unknown.place.as_deref().map_or("in no group".to_owned(), |group| format!("in {}", clean(group)));
        let (verb, they) =
            if unknown.hosts == 1 { ("declares a group", "it is") } else { ("declare groups", "they are") };
        let (count, named) = (hosts(unknown.hosts), named.join(", "));
        format!("{count} {verb} that this rollout does not have: {named}{more}; {they} {place}")
    });
    waiting.into_iter().chain(refused).chain(unknown).collect()
}

/// Who holds everything: `an operator`.
pub fn held_by(holds: &HoldsView) -> String {
    let by = match &holds.cause {
        None | Some(Lenient::Known(HaltCause::Operator)) => "an operator",
        Some(Lenient::Known(HaltCause::Restore)) => "a restore",
        Some(Lenient::Known(HaltCause::StoreLost)) => "the server, as its store lost decisions",
        Some(newer @ Lenient::Newer(_)) => &word(newer),
    };
    let beneath = if holds.by_operator { ", and beneath that by an operator" } else { "" };
    format!("{}{beneath}", clean(by))
}

/// A line for each hold that no line of a group tells of; `is_shown` says which groups have one.
pub fn lines(holds: &HoldsView, is_shown: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    let end = |groups: Vec<String>, all| advice::words(&Command::Run { groups, all });
    if holds.all {
        let by = held_by(holds);
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
