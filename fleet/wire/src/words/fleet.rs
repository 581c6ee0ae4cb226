//! How the fleet is, in one sentence: the first line of `status`, what stands on top of pages, and their title.

use fleet_engine::reason::Why;
use jiff::Timestamp;

use crate::api::HoldsView;
use crate::reason::{Reason, halted_by};
use crate::rollout::{AgentRollout, RolloutGroup, Stops};
use crate::text::{ago, clean, clock, hosts};
use crate::words::holds::{STOP_WAITS, held_by};

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FleetSummary {
    /// The sentence.
    pub text: String,
    /// Something is stopped or goes back: somebody should look.
    pub is_bad: bool,
}

/// Of the rollout, where there is one, and what keeps hosts besides it, at `now`.
pub fn summary(rollout: Option<&AgentRollout>, stops: &Stops, now: Timestamp) -> FleetSummary {
    let stopped = stops.stop_waits.then(|| STOP_WAITS.to_owned());
    let stopped = stopped.or_else(|| stops.store_unavailable.as_ref().map(Reason::sentence));
    if let Some(what) = stopped.or_else(|| rollout.and_then(halted)).or_else(|| held(rollout, &stops.holds)) {
        return FleetSummary { text: format!("Halted: {what}"), is_bad: true };
    }
    let Some(rollout) = rollout else {
        return FleetSummary { text: "Nothing to do: there is no rollout".to_owned(), is_bad: false };
    };
    let (start, target) = (clean(&rollout.spec.start_version), clean(&rollout.spec.target_version));
    let groups = || rollout.status.groups.iter();
    if let Some((first, more)) = first_and_more(rollout, "rolledback") {
        let text = format!("Rolled back: {}{more} from {target} to {start}", clean(&first.name));
        return FleetSummary { text, is_bad: true };
    }
    let all = format!("{} of {}", rollout.status.updated_count, hosts(rollout.status.host_count));
    let is_over = groups().all(|group| group.state == "done");
    let text = match rollout.status.updated_count == rollout.status.host_count {
        _ if rollout.status.host_count == 0 => format!("{target}: no host reports{}", how_far(rollout, now)),
        true if is_over => format!("Nothing to do: {all} run {target}"),
        false if is_over && !rollout.is_immediate() => format!("Done: {all} run {target}"),
        _ => format!("{target}: {all}{}", how_far(rollout, now)),
    };
    FleetSummary { text, is_bad: false }
}

/// The first group in a state, and how many more are.
fn first_and_more<'a>(rollout: &'a AgentRollout, state: &str) -> Option<(&'a RolloutGroup, String)> {
    let mut found = rollout.status.groups.iter().filter(|group| group.state == state);
    let first = found.next()?;
    let more = match found.count() {
        0 => String::new(),
        1 => " and 1 more group".to_owned(),
        more => format!(" and {more} more groups"),
    };
    Some((first, more))
}

/// That a group was halted, each by its own cause; what is held as a whole says [`held`].
fn halted(rollout: &AgentRollout) -> Option<String> {
    let target = clean(&rollout.spec.target_version);
    let by = |reason: &Reason| match reason.code.known() {
        Some(Why::Halted { rule, .. }) if rollout.status.stops.holds.all && rule.is_of_hold() => None,
        Some(Why::Halted { rule, count, of, error, .. }) => {
            Some(format!(", {}", halted_by(*rule, *count, *of, error.as_deref())))
        }
        _ => Some(String::new()),
    };
    if rollout.is_immediate() {
        let reason = rollout.status.why.as_ref().filter(|_| rollout.status.state.as_deref() == Some("halted"))?;
        return Some(format!("{target}{}", by(reason)?));
    }
    let (first, more) = first_and_more(rollout, "halted")?;
    Some(format!("{target} in {}{more}{}", clean(&first.name), by(&first.reason())?))
}

fn held(rollout: Option<&AgentRollout>, holds: &HoldsView) -> Option<String> {
    let status = rollout.map(|rollout| (clean(&rollout.spec.target_version), &rollout.status));
    let status = status.filter(|(_, status)| status.host_count > 0);
    let runs =
        status.map(|(to, status)| format!("; {} of {} run {to}", status.updated_count, hosts(status.host_count)));
    holds.all.then(|| format!("everything, by {}{}", held_by(holds), runs.unwrap_or_default()))
}

/// The group that is under way, or comes next.
fn how_far(rollout: &AgentRollout, now: Timestamp) -> String {
    if let Some(why) = rollout.status.why.as_ref().filter(|_| rollout.is_immediate()) {
        return progress(why, "", None, now);
    }
    let open: Vec<&RolloutGroup> = rollout.status.groups.iter().filter(|group| group.state != "done").collect();
    let is_moving = |group: &&&RolloutGroup| matches!(group.state.as_str(), "canary" | "active");
    let Some(group) = open.iter().find(is_moving).or(open.first()) else { return String::new() };
    let name = format!("group {}", clean(&group.name));
    let is_alone = open.len() == 1;
    progress(&group.reason(), if is_alone { "" } else { &name }, Some((&name, group.in_flight_count)), now)
}

/// When it ends by its pace, and whom it waits for; else what keeps it. `of`: whose end that is, if not the fleet's.
fn progress(why: &Reason, of: &str, group: Option<(&str, u64)>, now: Timestamp) -> String {
    let is_pace = matches!(
        why.code.known(),
        Some(Why::UpdateInProgress { .. } | Why::MaxInFlight { cap: 1.., .. } | Why::Rate { .. })
    );
    let mut said = match (&why.progress.estimated_end, group) {
        (Some(end), _) if of.is_empty() => format!(", about {}", clock(end, now)),
        (Some(end), _) => format!("; {of} about {}", clock(end, now)),
        (None, Some((name, _))) if !is_pace => format!("; {name}: {}", why.sentence()),
        (None, None) if !is_pace => format!("; {}", why.sentence()),
        _ => String::new(),
    };
    if let Some(Some(until)) = why.until.as_ref().filter(|_| !is_pace) {
        said.push_str(&format!(", until {} at the earliest", clock(until, now)));
    }
    if let Some(first) = why.progress.awaited.first() {
        said.push_str(&format!("; waits for {} (last seen {})", clean(&first.name), ago(&first.last_seen, now)));
        let all = group.map_or(0, |(_, in_flight)| in_flight).saturating_sub(1);
        said.push_str(&if all > 0 { format!(" and {all} more") } else { String::new() });
    }
    said
}
