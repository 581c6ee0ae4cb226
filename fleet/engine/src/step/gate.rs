//! When a group may start, and what keeps it.

use jiff::{SignedDuration, Timestamp};

use crate::calendar::WindowOpening;
use crate::policy::Strategy;
use crate::reason::Why;
use crate::rollout::{GateAnswer, GroupStatus, Halt, Rollout, State};

/// Managed Updates: a window to start in is open for an hour.
pub(crate) const WINDOW: SignedDuration = SignedDuration::from_hours(1);
/// A rollout that began longer ago than this has seen a closed window since.
const BORN: SignedDuration = SignedDuration::from_hours(24);

/// The reason that Managed Updates v2 gives for what keeps a group from starting.
pub(crate) fn v2_reason(why: &Why) -> &'static str {
    match why {
        Why::PreviousGroupsNotDone { .. } => "previous_groups_not_done",
        Why::RolloutChangedDuringWindow => "rollout_changed_during_window",
        _ => "cannot_start",
    }
}

/// How long the windows of a rollout are in which groups start.
pub(crate) fn window(rollout: &Rollout) -> SignedDuration {
    if rollout.strategy == Strategy::TimeBased { rollout.window } else { WINDOW }
}

/// Whether `group` lets those that come after it start.
pub(crate) fn is_over(rollout: &Rollout, group: &GroupStatus) -> bool {
    if rollout.strategy == Strategy::TimeBased { group.was_run() } else { group.state == State::Done }
}

/// What keeps the group at `index` from starting at `now`, the first that holds; `None`: it may. Whether the window of a
/// time-based one is open is asked elsewhere.
pub(crate) fn closed(rollout: &Rollout, index: usize, now: Timestamp) -> Option<Why> {
    let group = rollout.groups.get(index)?;
    let gate = &group.policy.gate;
    let is_time_based = rollout.strategy == Strategy::TimeBased;
    if let Some(waited_for) = before(rollout, index).iter().find(|group| !is_over(rollout, group)) {
        return Some(not_done(waited_for));
    }
    // Also one that lies behind groups that are done: with a list all are named above.
    if let Some(stopped) = stopped_before(rollout, group).filter(|_| !is_time_based) {
        return Some(not_done(stopped));
    }
    if let Some(blackout) = group.blackout(now) {
        return Some(Why::Blackout { reason: blackout.reason.clone() });
    }
    let waits = waits(rollout, index, now).into_iter().find(|(_, end)| *end > now);
    if let Some((why, _)) = waits {
        return Some(why);
    }
    if !rollout.is_without_window(group) {
        if !is_time_based && !gate.opening.is_open(now, WINDOW) {
            return Some(Why::OutsideWindow);
        }
        if began_in_window(&gate.opening, rollout.start_time, now, window(rollout)) {
            return Some(Why::RolloutChangedDuringWindow);
        }
    }
    if let Some(role) = group.unapproved() {
        return Some(Why::Approval { role: role.to_owned() });
    }
    let is_unasked = gate.external.is_some() && group.gate != Some(GateAnswer::Go);
    is_unasked.then(|| Why::Gate { answer: group.gate.map(|_| "wait".to_owned()) })
}

/// The groups that must be done before the one at `index`.
pub(crate) fn before(rollout: &Rollout, index: usize) -> Vec<&GroupStatus> {
    let required = rollout.groups.get(index).map(|group| group.policy.gate.requires.as_slice());
    let named = |name: &String| rollout.find(name).and_then(|found| rollout.groups.get(found));
    let required = required.unwrap_or_default().iter().filter_map(named);
    match rollout.strategy {
        Strategy::HaltOnError => rollout.groups.iter().take(index).chain(required).collect(),
        Strategy::TimeBased | Strategy::Requires => required.collect(),
    }
}

/// That `group` is waited for.
pub(crate) fn not_done(group: &GroupStatus) -> Why {
    let stopped = group.is_stopped().then(|| group.state.name().to_owned());
    Why::PreviousGroupsNotDone { group: group.policy.name.clone(), stopped }
}

/// The first group before the one at `index`, or before those, of which `is_wanted` holds.
pub(crate) fn find_before(
    rollout: &Rollout,
    index: usize,
    is_wanted: impl Fn(&GroupStatus) -> bool,
) -> Option<&GroupStatus> {
    let (mut seen, mut next) = (vec![index], 0);
    while let Some(at) = seen.get(next).copied() {
        for group in before(rollout, at) {
            if is_wanted(group) {
                return Some(group);
            }
            // In the order of a list all of them are before it already.
            let further = rollout.find(&group.policy.name).filter(|_| rollout.strategy != Strategy::HaltOnError);
            seen.extend(further.filter(|found| !seen.contains(found)));
        }
        next += 1;
    }
    None
}

/// A group before `group` that hosts did not bear the version in: halted by them, or rolled back. One that a person started since
/// goes on (FLEET §3).
pub(crate) fn stopped_before<'a>(rollout: &'a Rollout, group: &GroupStatus) -> Option<&'a GroupStatus> {
    let is_bad = |before: &GroupStatus| {
        // Whoever halts a group that goes back ends nothing of why it does.
        let is_bad = |halt: &Halt| halt.rule.is_by_hosts() || halt.from == State::RolledBack;
        let by_hosts = before.halt.as_ref().is_none_or(is_bad);
        before.is_stopped() && by_hosts && group.started_by_hand.is_none_or(|at| at < before.last_update_time)
    };
    // Most often nobody is, and that is seen at once.
    let index = rollout.find(&group.policy.name).filter(|_| rollout.groups.iter().any(is_bad))?;
    find_before(rollout, index, is_bad)
}

/// What it waits for by the clock since something of the groups before it, and until when.
pub(crate) fn waits(rollout: &Rollout, index: usize, now: Timestamp) -> Vec<(Why, Timestamp)> {
    let since = |from: Option<Timestamp>, hours: u32| {
        from.filter(|_| hours > 0).map(|from| rollout.listening(now).end_of_wait(from, hours))
    };
    let Some(group) = rollout.groups.get(index) else { return Vec::new() };
    let name = |group: &GroupStatus| group.policy.name.clone();
    let previous = index.checked_sub(1).and_then(|before| rollout.groups.get(before));
    // One that was marked as done without a start counts from there.
    let started = previous.filter(|_| rollout.strategy != Strategy::TimeBased).and_then(|previous| {
        let end = since(previous.start_time.or(previous.done_time), group.policy.gate.wait_hours)?;
        Some((Why::WaitHours { group: name(previous) }, end))
    });
    let before = match rollout.strategy {
        Strategy::HaltOnError => previous.into_iter().collect(),
        Strategy::TimeBased | Strategy::Requires => before(rollout, index),
    };
    let last = before.into_iter().filter(|group| group.done_time.is_some()).max_by_key(|group| group.done_time);
    let soaked = last.and_then(|last| {
        Some((Why::SoakHours { group: name(last) }, since(last.done_time, group.policy.gate.soak_hours)?))
    });
    started.into_iter().chain(soaked).collect()
}

/// Whether the rollout began while the window that is open now was open: then the group waits for the next one.
pub(crate) fn began_in_window(
    opening: &WindowOpening,
    begun: Timestamp,
    now: Timestamp,
    length: SignedDuration,
) -> bool {
    now.duration_since(begun) <= BORN.max(length) && opening.is_open(begun, length) && {
        let of_then = opening.opened_at(begun, length);
        of_then.is_some() && of_then == opening.opened_at(now, length)
    }
}
