//! Letting hosts go: the cursor, its passes, the cap and the rate (FLEET §3).

use std::collections::BinaryHeap;

use jiff::{SignedDuration, Timestamp};

use super::gate;
use crate::calendar::end_of_blackout;
use crate::fleet::Fleet;
use crate::host::{GroupPlace, Host};
use crate::policy::{Rate, Schedule, Strategy};
use crate::reason::Why;
use crate::rollout::{Cursor, GroupStatus, RateAccount, Rollout, RolloutPass, State};
use crate::tally::{HostState, TallyContext};

/// What a rate is about.
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Lets hosts of capped groups go, as far as cap and rate allow.
pub(super) fn let_go(rollout: &mut Rollout, fleet: &Fleet, now: Timestamp) {
    let mut free = vec![0; rollout.groups.len()];
    for (index, free) in free.iter_mut().enumerate() {
        if !is_moving(rollout, index, now) {
            continue;
        }
        let Some(group) = rollout.groups.get_mut(index) else { continue };
        if let Some(rate) = group.policy.pace.rate {
            group.keep_rate(rate, now);
        }
        match group.state {
            State::Canary => group.let_canaries_go(),
            _ if group.is_capped() => *free = usize::try_from(free_slots(group)).unwrap_or(usize::MAX),
            _ => {}
        }
    }
    if free.iter().all(|free| *free == 0) {
        return;
    }
    let waiting = waiting(rollout, &free, fleet, now);
    for ((group, waiting), free) in rollout.groups.iter_mut().zip(waiting).zip(free).filter(|(_, free)| *free > 0) {
        group.move_cursor(waiting, free, fleet.arrivals());
    }
}

/// Whether hosts of the group may be let go now.
pub(crate) fn is_moving(rollout: &Rollout, index: usize, now: Timestamp) -> bool {
    let Some(group) = rollout.groups.get(index) else { return false };
    let is_on = matches!(group.state, State::Canary | State::Active | State::RolledBack)
        || (group.state == State::Done && rollout.strategy != Strategy::TimeBased);
    let is_kept = group.state == State::RolledBack && rollout.start_block_of(group).is_some();
    is_on && !is_kept && !group.done_while_halted && paused(rollout, group, now).is_none()
}

/// What keeps the hosts of a started group that were not told yet: a group before it in which hosts
/// failed, a freeze, a change that nobody approved, or the clock.
pub(crate) fn paused(rollout: &Rollout, group: &GroupStatus, now: Timestamp) -> Option<(Why, Option<Timestamp>)> {
    // First, as it has no end by the clock, and its end is another group's.
    if let Some(stopped) = gate::stopped_before(rollout, group).filter(|_| group.state.has_started()) {
        return Some((gate::not_done(stopped), None));
    }
    if let Some(blackout) = group.blackout(now) {
        let end = end_of_blackout(&group.policy.gate.blackout, now);
        return Some((Why::Blackout { reason: blackout.reason.clone() }, Some(end)));
    }
    if let Some(role) = group.is_changed() {
        return Some((Why::Approval { role: role.to_owned() }, None));
    }
    (!is_in_hours(rollout, group, now)).then(|| (Why::OutsideWindow, next_hours(rollout, group, now)))
}

/// When hosts of a started group may be let go again.
fn next_hours(rollout: &Rollout, group: &GroupStatus, now: Timestamp) -> Option<Timestamp> {
    let opening = &group.policy.gate.opening;
    if rollout.schedule == Schedule::Immediate {
        return None;
    }
    match group.policy.pace.window {
        Some(_) => opening.next(now),
        None => opening.next_day(now),
    }
}

/// Whether the clock lets hosts go: within `window_duration`, which lasts over midnight; without one, RFD 0169's groups on their
/// days. Going back waits for neither.
fn is_in_hours(rollout: &Rollout, group: &GroupStatus, now: Timestamp) -> bool {
    if rollout.is_without_window(group) || rollout.schedule == Schedule::Immediate || group.state == State::RolledBack {
        return true;
    }
    let opening = &group.policy.gate.opening;
    match group.policy.pace.window {
        Some(length) => opening.is_open(now, length),
        None => rollout.strategy != Strategy::Requires || opening.is_day(now),
    }
}

/// Slots that are free under the cap.
pub(crate) fn free_slots(group: &GroupStatus) -> u64 {
    let most = if group.at_once { u64::MAX } else { group.policy.pace.max_in_flight.cap(group.tally.counted) };
    let free = most.saturating_sub(group.tally.slots());
    group.rate.map_or(free, |rate| free.min(rate.allowed.saturating_sub(rate.granted)))
}

/// The first of those that wait in a group, as many as there are free slots.
struct FreeSlots {
    /// They failed or timed out in the attempt before.
    again: First,
    /// Enrolled hosts.
    enrolled: WaitingLine,
    /// Hosts that only ask, behind them.
    unknown: WaitingLine,
}

/// Who waits for a pass.
struct WaitingLine {
    /// Its members.
    members: First,
    /// Those that came after it began.
    late: First,
}

/// Who waits in the groups that have free slots: one look at all hosts.
fn waiting(rollout: &Rollout, free: &[usize], fleet: &Fleet, now: Timestamp) -> Vec<FreeSlots> {
    let mut waiting: Vec<FreeSlots> = free
        .iter()
        .map(|free| FreeSlots {
            again: First::new(*free),
            enrolled: WaitingLine::new(*free),
            unknown: WaitingLine::new(*free),
        })
        .collect();
    let may_wait = |group: &GroupStatus| {
        !fleet.terms.is_proven || group.tally.pending + group.tally.failed + group.tally.timed_out > 0
    };
    let looks: Vec<Option<TallyContext<'_>>> = rollout
        .groups
        .iter()
        .zip(free)
        .map(|(group, free)| (*free > 0 && may_wait(group)).then(|| TallyContext::new(rollout, group, fleet, now)))
        .collect();
    if looks.iter().all(Option::is_none) {
        return waiting;
    }
    for host in fleet.hosts() {
        let GroupPlace::Group(index) = host.place else { continue };
        let index = usize::from(index);
        if let (Some(Some(look)), Some(waiting)) = (looks.get(index), waiting.get_mut(index)) {
            waiting.add(look, host);
        }
    }
    waiting
}

impl FreeSlots {
    fn add(&mut self, look: &TallyContext<'_>, host: &Host) {
        let group = look.group;
        let is_unknown = host.enrolled.is_none();
        let state = look.state(host);
        let waits = match state {
            HostState::Pending => true,
            HostState::Failed | HostState::TimedOut => look.is_retried(host),
            _ => false,
        };
        let goes = group.state != State::RolledBack || look.goes_back(host);
        if !waits || !goes || look.has_departed(host) || (is_unknown && look.terms.is_proven) {
            return;
        }
        match (look.is_retried(host), is_unknown) {
            (true, true) => {}
            (true, false) => self.again.add(Cursor::of(host)),
            (false, true) => self.unknown.add(&group.unknown, host),
            (false, false) => self.enrolled.add(&group.pass(), host),
        }
    }
}

impl WaitingLine {
    fn new(most: usize) -> Self {
        Self { members: First::new(most), late: First::new(most) }
    }

    fn add(&mut self, pass: &RolloutPass, host: &Host) {
        let (cursor, arrival) = (Cursor::of(host), host.arrival.get());
        if arrival > pass.pass_to {
            self.late.add(cursor);
        } else if arrival > pass.complete_to && pass.cursor.is_none_or(|passed| cursor > passed) {
            self.members.add(cursor);
        }
    }
}

/// The first cursors of many, and how many there were.
struct First {
    most: usize,
    count: usize,
    /// The last of them on top.
    kept: BinaryHeap<Cursor>,
}

impl First {
    fn new(most: usize) -> Self {
        Self { most, count: 0, kept: BinaryHeap::new() }
    }

    fn add(&mut self, cursor: Cursor) {
        self.count += 1;
        if self.kept.len() < self.most {
            self.kept.push(cursor);
        } else if let Some(mut last) = self.kept.peek_mut()
            && cursor < *last
        {
            *last = cursor;
        }
    }

    /// The last of the first `most`, which are not more than it was made for; how many there are of them.
    fn last(self, most: usize) -> (Option<Cursor>, usize) {
        let taken = self.kept.len().min(most);
        let last = if taken == self.kept.len() {
            self.kept.peek().copied()
        } else {
            let in_order = self.kept.into_sorted_vec();
            taken.checked_sub(1).and_then(|last| in_order.get(last)).copied()
        };
        (last, taken)
    }
}

impl RolloutPass {
    /// Moves the cursor over those that wait, at most `free`. Where it comes to its end, another pass begins with those that
    /// arrived since. Gives how many were let go.
    fn advance(&mut self, waiting: WaitingLine, free: usize, arrivals: u64) -> usize {
        let members = waiting.members.count;
        let (last, taken) = waiting.members.last(free);
        self.cursor = last.or(self.cursor);
        if taken < members || self.pass_to >= arrivals {
            return taken;
        }
        (self.complete_to, self.pass_to) = (self.pass_to, arrivals);
        let (last, late) = waiting.late.last(free - taken);
        self.cursor = last;
        taken + late
    }
}

impl GroupStatus {
    /// Moves the cursors over those that wait, for each of the `free` slots: those of the attempt before come first, and those
    /// that only ask last.
    fn move_cursor(&mut self, waiting: FreeSlots, mut free: usize, arrivals: u64) {
        let before = free;
        let (last, taken) = waiting.again.last(free);
        self.retry_cursor = last.or(self.retry_cursor);
        free -= taken;
        let mut pass = self.pass();
        free -= pass.advance(waiting.enrolled, free, arrivals);
        (self.cursor, self.complete_to, self.pass_to) = (pass.cursor, pass.complete_to, pass.pass_to);
        free -= self.unknown.advance(waiting.unknown, free, arrivals);
        let granted = u64::try_from(before - free).unwrap_or(u64::MAX);
        if let Some(rate) = &mut self.rate {
            rate.granted += granted;
        }
    }

    fn let_canaries_go(&mut self) {
        let mut free = free_slots(self);
        for canary in self.canaries.iter_mut().filter(|canary| !canary.let_go && !canary.success) {
            if free > 0 {
                canary.let_go = true;
                free -= 1;
                if let Some(rate) = &mut self.rate {
                    rate.granted += 1;
                }
            }
        }
    }

    /// Begins another hour of the rate; it grows after an hour in which hosts arrived and none failed.
    fn keep_rate(&mut self, rate: Rate, now: Timestamp) {
        let (updated, failed) = (self.tally.updated, self.tally.failed + self.tally.timed_out);
        let new = |allowed: u64, hour: Timestamp| RateAccount { hour, granted: 0, allowed, updated, failed };
        let counted = self.tally.counted;
        let base = || rate.share.map_or_else(|| rate.base.min(rate.maximum).into(), |share| share.cap(counted));
        let account = *self.rate.get_or_insert_with(|| new(base(), now));
        if now.duration_since(account.hour) < HOUR {
            return;
        }
        let has_grown = updated > account.updated && failed <= account.failed;
        let grown = (account.allowed * u64::from(rate.factor_hundredths)).div_ceil(100);
        let grown = if has_grown { grown } else { account.allowed };
        let allowed = if rate.share.is_some() { base() } else { grown };
        self.rate = Some(new(allowed.min(rate.maximum.into()), now));
    }
}
