//! Why each group is as it is, since when, and until when at the earliest.

use jiff::Timestamp;

use super::strategy::end_if_empty;
use super::{gate, pace};
use crate::calendar::{blackout_at, end_of_blackout};
use crate::moment::hours;
use crate::percent::Percent;
use crate::policy::{Rate, Schedule, Strategy};
use crate::reason::{WaitReason, Why};
use crate::rollout::{GroupStatus, Rollout, State};

/// Gives every group its reason. `since` stays while the reason does.
pub(super) fn give(rollout: &mut Rollout, now: Timestamp) {
    for index in 0..rollout.groups.len() {
        let (why, until) = reason(rollout, index, now);
        let Some(group) = rollout.groups.get_mut(index) else { continue };
        let is_same = std::mem::discriminant(&why) == std::mem::discriminant(&group.reason.why);
        let since = if is_same { group.reason.since } else { now };
        group.reason = WaitReason { why, since, until: until.filter(|until| *until > now) };
    }
}

fn reason(rollout: &Rollout, index: usize, now: Timestamp) -> (Why, Option<Timestamp>) {
    let Some(group) = rollout.groups.get(index) else { return (Why::NoRollout, None) };
    if let Some(halt) = &group.halt {
        return (halt.why(), None);
    }
    if let Some(stop) = rollout.stop(now) {
        return stop;
    }
    match group.state {
        State::Unstarted | State::Done if rollout.strategy == Strategy::TimeBased => {
            (between_windows(rollout, index, now), earliest_start(rollout, index, now))
        }
        // Where nothing keeps it the next step starts it.
        State::Unstarted => {
            (gate::closed(rollout, index, now).unwrap_or(Why::LetGo), earliest_start(rollout, index, now))
        }
        State::Canary | State::Active | State::Done if pace::paused(rollout, group, now).is_some() => {
            pace::paused(rollout, group, now).unwrap_or((Why::OutsideWindow, None))
        }
        State::Canary | State::Active if rollout.clock.silent_since(now).is_some() => (Why::FleetSilent, None),
        State::Canary => nobody(rollout, group, Strategy::Requires, now).unwrap_or_else(|| (canary(group), None)),
        State::Active if rollout.strategy == Strategy::TimeBased => {
            let (why, until) = active(rollout, group, now);
            // With its window, whatever its hosts do. An hour of its rate may end before.
            let end = window_end(rollout, group, now);
            let is_rate = matches!(why, Why::Rate { .. });
            (why, if is_rate { until.map(|until| end.map_or(until, |end| end.min(until))) } else { end })
        }
        State::Active => active(rollout, group, now),
        State::Done => (Why::Done, None),
        State::RolledBack if rollout.start_block_of(group).is_some() => (start_blocked(rollout, group), None),
        State::RolledBack => (at_nobody(group).unwrap_or(Why::RolledBack), None),
        State::Halted => (Why::Held, None),
    }
}

/// Why nobody is given the start version, nor sent back to it.
fn start_blocked(rollout: &Rollout, group: &GroupStatus) -> Why {
    let reason = rollout.start_block_of(group).map(|block| block.reason).unwrap_or_default();
    Why::VersionBlocked { reason }
}

/// Why a time-based group is not active.
fn between_windows(rollout: &Rollout, index: usize, now: Timestamp) -> Why {
    let opening = rollout.groups.get(index).map(|group| &group.policy.gate.opening);
    let is_open = rollout.without_windows || opening.is_some_and(|opening| opening.is_open(now, rollout.window));
    match gate::closed(rollout, index, now) {
        Some(previous @ Why::PreviousGroupsNotDone { .. }) => previous,
        _ if !is_open => Why::OutsideWindow,
        closed => closed.unwrap_or(Why::LetGo),
    }
}

/// The earliest time at which the group could start, as far as the clock decides; `None` where a person or hosts do first.
pub(crate) fn earliest_start(rollout: &Rollout, index: usize, now: Timestamp) -> Option<Timestamp> {
    let group = rollout.groups.get(index)?;
    let gate = &group.policy.gate;
    if rollout.strategy != Strategy::TimeBased && gate::stopped_before(rollout, group).is_some() {
        return None;
    }
    let mut from = now;
    for (before_index, before) in rollout.groups.iter().enumerate() {
        let is_before = gate::before(rollout, index).iter().any(|one| one.policy.name == before.policy.name);
        if !is_before || gate::is_over(rollout, before) {
            continue;
        }
        let (starts, ends) = earliest_run(rollout, before_index, now)?;
        let waits = if before_index + 1 == index { gate.wait_hours } else { 0 };
        from =
            from.max(starts.saturating_add(hours(waits)).ok()?).max(ends.saturating_add(hours(gate.soak_hours)).ok()?);
    }
    let waits = gate::waits(rollout, index, now);
    from = waits.into_iter().fold(from, |from, (_, end)| from.max(end));
    opens(rollout, group, from, now)
}

/// When a group that is not done enters active, and is done, at the earliest; `None` where a person decides, or hosts do that
/// can only go one after the other.
fn earliest_run(rollout: &Rollout, index: usize, now: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let group = rollout.groups.get(index)?;
    let starts = match group.state {
        State::Unstarted => earliest_start(rollout, index, now)?,
        State::Canary => now,
        State::Active | State::Done => group.start_time.unwrap_or(now),
        State::RolledBack | State::Halted => return None,
    };
    let begins = starts.max(now);
    let ends = if rollout.strategy == Strategy::TimeBased {
        // It is done when its window closes.
        window_end(rollout, group, begins)?
    } else if group.state != State::Unstarted && group.initial_asking > 0 && group.present_count == 0 {
        return None;
    } else if group.is_empty() {
        end_if_empty(rollout, starts, now)
    } else {
        earliest_end(rollout, group, begins)?
    };
    Some((starts, ends.max(now)))
}

/// When enough hosts of a group can be on the target, from `from` on, at the earliest: when the clock and the rate let the last of
/// them go. How long hosts take that go one after the other, nobody knows. `None`: nobody may go.
pub(crate) fn earliest_end(rollout: &Rollout, group: &GroupStatus, from: Timestamp) -> Option<Timestamp> {
    let tally = &group.tally;
    let wanted = still_needed(rollout, group).min(tally.pending + tally.let_go + tally.told);
    // Those that were told are on their way.
    let still = wanted.saturating_sub(tally.told);
    if still == 0 {
        return Some(from);
    }
    let may_go = match pace::paused(rollout, group, from) {
        Some((_, until)) => until?,
        None => from,
    };
    let is_nobody = group.policy.pace.max_in_flight == Percent::ZERO && !group.at_once;
    let granted = tally.let_go.min(still);
    match group.policy.pace.rate.filter(|_| !group.at_once) {
        _ if is_nobody => None,
        Some(rate) if still > granted => hours_of_rate(group, rate, still - granted, may_go),
        _ => Some(may_go),
    }
}

/// How many hosts must still come to the target, or to an end, until the group is done.
pub(crate) fn still_needed(rollout: &Rollout, group: &GroupStatus) -> u64 {
    let tally = &group.tally;
    if rollout.strategy == Strategy::Requires || rollout.schedule == Schedule::Immediate {
        return tally.pending + tally.let_go + tally.told;
    }
    (tally.proof.present * 9).div_ceil(10).saturating_sub(tally.proof.up_to_date)
}

/// When a rate has let `hosts` more hosts go at the earliest: as if it grew after each hour.
fn hours_of_rate(group: &GroupStatus, rate: Rate, hosts: u64, from: Timestamp) -> Option<Timestamp> {
    /// Hours of a rate that are looked ahead: a year.
    const MOST: usize = 366 * 24;
    let most = u64::from(rate.maximum);
    let new = || (u64::from(rate.base).min(most), 0, from);
    let (mut allowed, granted, mut hour) =
        group.rate.map_or_else(new, |account| (account.allowed, account.granted, account.hour));
    let mut left = hosts.saturating_sub(allowed.saturating_sub(granted));
    for _ in 0..MOST {
        if left == 0 {
            return Some(hour.max(from));
        }
        hour = hour.saturating_add(hours(1)).ok()?;
        allowed = (allowed * u64::from(rate.factor_hundredths)).div_ceil(100).min(most);
        left = left.saturating_sub(allowed);
    }
    None
}

/// The first time from `from` on at which the window is open and no freeze lasts.
fn opens(rollout: &Rollout, group: &GroupStatus, from: Timestamp, now: Timestamp) -> Option<Timestamp> {
    /// Windows that freezes may cover one after the other: two years of daily ones.
    const MOST: usize = 800;
    let gate = &group.policy.gate;
    let length = gate::window(rollout);
    let mut from = from;
    for _ in 0..MOST {
        let free = end_of_blackout(&gate.blackout, from);
        if rollout.is_without_window(group) {
            return Some(free);
        }
        let is_born_in_it = gate::began_in_window(&gate.opening, rollout.start_time, free, length);
        if gate.opening.is_open(free, length) && !is_born_in_it {
            return Some(free.max(now));
        }
        let next = gate.opening.next(free)?;
        if blackout_at(&gate.blackout, next).is_none() {
            return Some(next);
        }
        from = next;
    }
    None
}

/// Why canaries are waited for.
fn canary(group: &GroupStatus) -> Why {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let (wanted, chosen) = (group.policy.pace.canaries, count(group.canaries.len()));
    let done = count(group.canaries.iter().filter(|canary| canary.success).count());
    let waits = group.canaries.iter().any(|canary| !canary.let_go && !canary.success);
    if let Some(nobody) = at_nobody(group).filter(|_| waits || chosen == 0) {
        return nobody;
    }
    // Who only asks proves nothing.
    if done == 0 && group.tally.asking > 0 && group.tally.present == 0 {
        return Why::NoReports { hosts: group.tally.asking };
    }
    Why::WaitingForCanaries { done, chosen, wanted }
}

/// Nobody is in the group, or by the rule of `strategy` too few are left.
fn nobody(
    rollout: &Rollout,
    group: &GroupStatus,
    strategy: Strategy,
    now: Timestamp,
) -> Option<(Why, Option<Timestamp>)> {
    if group.is_empty() {
        return Some((Why::Empty, group.start_time.map(|start| end_if_empty(rollout, start, now))));
    }
    // Who asked before it started is waited for, also when he was silent for a day.
    if group.initial_asking > 0 && group.initial_count == 0 && group.has_nobody() {
        return Some((Why::NoReports { hosts: group.initial_asking }, None));
    }
    let (present, initial, excluded) = (group.tally.proof.present, group.staying(), group.tally.excluded);
    group.is_shrunk(strategy).then_some((Why::Shrunk { present, initial, excluded }, None))
}

/// A group at 0 % lets nobody go, whatever else holds.
fn at_nobody(group: &GroupStatus) -> Option<Why> {
    let is_nobody = group.policy.pace.max_in_flight == Percent::ZERO && !group.at_once && group.tally.pending > 0;
    is_nobody.then(|| max_in_flight(group, 0))
}

fn max_in_flight(group: &GroupStatus, cap: u64) -> Why {
    let (updated, of) = (group.up_to_date_count, group.present_count);
    Why::MaxInFlight { in_flight: group.tally.in_flight(), cap, updated, of }
}

fn active(rollout: &Rollout, group: &GroupStatus, now: Timestamp) -> (Why, Option<Timestamp>) {
    if let Some(nobody) = at_nobody(group) {
        return (nobody, None);
    }
    let tally = &group.tally;
    if tally.asking > 0 && group.present_count == 0 {
        return (Why::NoReports { hosts: tally.asking }, None);
    }
    if let Some(nobody) = nobody(rollout, group, rollout.strategy, now) {
        return nobody;
    }
    if group.is_capped() && tally.pending > 0 {
        if let Some(rate) = group.rate.filter(|rate| rate.granted >= rate.allowed) {
            let end = rate.hour.saturating_add(hours(1)).ok();
            return (Why::Rate { granted: rate.granted, allowed: rate.allowed }, end);
        }
        return (max_in_flight(group, group.policy.pace.max_in_flight.cap(tally.counted)), None);
    }
    if group.is_stuck() && rollout.takes_commands() {
        let failed = tally.failed + tally.timed_out;
        return (Why::NobodyOnTheWay { failed, of: failed + tally.updated + tally.silent }, None);
    }
    (Why::UpdateInProgress { updated: group.up_to_date_count, of: group.present_count }, None)
}

/// When the window ends that a time-based group has at `at`; `None`: it has none.
fn window_end(rollout: &Rollout, group: &GroupStatus, at: Timestamp) -> Option<Timestamp> {
    let opened = group.policy.gate.opening.opened_at(at, rollout.window).filter(|_| !rollout.without_windows)?;
    opened.saturating_add(rollout.window).ok()
}
