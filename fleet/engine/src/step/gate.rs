//! When a group may start, and what keeps it.

use jiff::{SignedDuration, Timestamp};

use crate::calendar::Opening;
use crate::policy::Strategy;
use crate::reason::Why;
use crate::rollout::{GateAnswer, GroupStatus, Rollout, State};

/// Managed Updates: a window to start in is open for an hour.
pub(crate) const WINDOW: SignedDuration = SignedDuration::from_hours(1);
/// A rollout that began longer ago than this has seen a closed window since.
const BORN: SignedDuration = SignedDuration::from_hours(24);

/// What keeps a group from starting, the first that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Closed {
    /// A group before it is not done.
    Previous(String),
    /// An operator froze it.
    Blackout(String),
    /// So long after the start of the group before it.
    Wait(String, Timestamp),
    /// So long after groups before it were done.
    Soak(String, Timestamp),
    /// Its window is closed.
    Window,
    /// The rollout began in this window.
    BornInWindow,
    /// Somebody must approve it.
    Approval(String),
    /// An external check must let it.
    External(Option<GateAnswer>),
}

impl Closed {
    /// The reason that Managed Updates v2 gives.
    pub(crate) fn v2_reason(&self) -> &'static str {
        match self {
            Self::Previous(_) => "previous_groups_not_done",
            Self::BornInWindow => "rollout_changed_during_window",
            Self::Blackout(_)
            | Self::Wait(..)
            | Self::Soak(..)
            | Self::Window
            | Self::Approval(_)
            | Self::External(_) => "cannot_start",
        }
    }

    /// The reason with its subject.
    pub(crate) fn why(&self, group_before: &str) -> Why {
        match self {
            Self::Previous(group) => Why::PreviousGroupsNotDone { group: group.clone() },
            Self::Blackout(reason) => Why::Blackout { reason: reason.clone() },
            Self::Wait(..) => Why::WaitHours { group: group_before.to_owned() },
            Self::Soak(group, _) => Why::SoakHours { group: group.clone() },
            Self::Window => Why::OutsideWindow,
            Self::BornInWindow => Why::RolloutChangedDuringWindow,
            Self::Approval(role) => Why::Approval { role: role.clone() },
            Self::External(answer) => Why::Gate { answer: answer.map(|_| "wait".to_owned()) },
        }
    }
}

/// What keeps the group at `index` from starting at `now`; `None`: it may.
pub(crate) fn closed(rollout: &Rollout, index: usize, now: Timestamp) -> Option<Closed> {
    let group = rollout.groups.get(index)?;
    let gate = &group.policy.gate;
    let before = before(rollout, index);
    if let Some(waited_for) = before.iter().find(|group| group.state != State::Done) {
        return Some(Closed::Previous(waited_for.policy.name.clone()));
    }
    if let Some(blackout) = group.blackout(now) {
        return Some(Closed::Blackout(blackout.reason.clone()));
    }
    if let Some((name, end)) = wait_end(rollout, index, now).filter(|(_, end)| *end > now) {
        return Some(Closed::Wait(name, end));
    }
    if let Some((name, end)) = soak_end(rollout, index, now).filter(|(_, end)| *end > now) {
        return Some(Closed::Soak(name, end));
    }
    if !rollout.without_windows {
        if !gate.opening.is_open(now, WINDOW) {
            return Some(Closed::Window);
        }
        if began_in_window(&gate.opening, rollout.start_time, now, WINDOW) {
            return Some(Closed::BornInWindow);
        }
    }
    unasked(group)
}

/// Who has not agreed yet that the group starts.
fn unasked(group: &GroupStatus) -> Option<Closed> {
    let gate = &group.policy.gate;
    if let Some(role) = group.unapproved() {
        return Some(Closed::Approval(role.to_owned()));
    }
    match (&gate.external, group.gate) {
        (Some(_), answer) if answer != Some(GateAnswer::Go) => Some(Closed::External(answer)),
        _ => None,
    }
}

/// The same for a time-based group whose window is open.
pub(crate) fn closed_in_window(rollout: &Rollout, index: usize, now: Timestamp) -> Option<Closed> {
    let group = rollout.groups.get(index)?;
    if let Some(waited_for) = before(rollout, index).iter().find(|group| !group.was_run()) {
        return Some(Closed::Previous(waited_for.policy.name.clone()));
    }
    if let Some(blackout) = group.blackout(now) {
        return Some(Closed::Blackout(blackout.reason.clone()));
    }
    if let Some((name, end)) = soak_end(rollout, index, now).filter(|(_, end)| *end > now) {
        return Some(Closed::Soak(name, end));
    }
    if !rollout.without_windows && began_in_window(&group.policy.gate.opening, rollout.start_time, now, rollout.window)
    {
        return Some(Closed::BornInWindow);
    }
    unasked(group)
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

/// When the hours since the start of the group before it are over. One that was marked as done without a start counts from
/// there.
pub(crate) fn wait_end(rollout: &Rollout, index: usize, now: Timestamp) -> Option<(String, Timestamp)> {
    let wait = rollout.groups.get(index)?.policy.gate.wait_hours;
    let previous = rollout.groups.get(index.checked_sub(1)?)?;
    let from = previous.start_time.or(previous.done_time).filter(|_| wait > 0)?;
    Some((previous.policy.name.clone(), rollout.listening(now).end_of_wait(from, wait)))
}

/// When the hours since the groups before it were done are over.
pub(crate) fn soak_end(rollout: &Rollout, index: usize, now: Timestamp) -> Option<(String, Timestamp)> {
    let soak = rollout.groups.get(index)?.policy.gate.soak_hours;
    let before = match rollout.strategy {
        Strategy::HaltOnError => rollout.groups.get(index.checked_sub(1)?).into_iter().collect(),
        Strategy::TimeBased | Strategy::Requires => before(rollout, index),
    };
    let last = before.into_iter().filter(|group| group.done_time.is_some()).max_by_key(|group| group.done_time)?;
    let from = last.done_time.filter(|_| soak > 0)?;
    Some((last.policy.name.clone(), rollout.listening(now).end_of_wait(from, soak)))
}

/// Whether the rollout began while the window that is open now was open: then the group waits for the next one.
pub(crate) fn began_in_window(opening: &Opening, begun: Timestamp, now: Timestamp, length: SignedDuration) -> bool {
    now.duration_since(begun) <= BORN.max(length) && opening.is_open(begun, length) && {
        let of_then = opening.opened_at(begun, length);
        of_then.is_some() && of_then == opening.opened_at(now, length)
    }
}
