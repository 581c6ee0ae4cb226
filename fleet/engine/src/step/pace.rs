//! Letting hosts go: the cursor, its passes, the cap and the rate (FLEET.md §3).

use jiff::{SignedDuration, Timestamp};

use super::gate;
use crate::fleet::Fleet;
use crate::host::{Host, Place};
use crate::policy::{Rate, Schedule, Strategy};
use crate::rollout::{Cursor, GroupStatus, RateAccount, Rollout, State};
use crate::tally::{HostState, Look};

/// What a rate is about.
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Lets hosts of capped groups go, as far as cap and rate allow.
pub(super) fn let_go(rollout: &mut Rollout, fleet: &Fleet, now: Timestamp) {
    for index in 0..rollout.groups.len() {
        if !is_moving(rollout, index, now) {
            continue;
        }
        let Some(group) = rollout.groups.get_mut(index) else { continue };
        if let Some(rate) = group.policy.pace.rate {
            group.keep_rate(rate, now);
        }
        match group.state {
            State::Canary => group.let_canaries_go(),
            _ if group.is_capped() => move_cursor(rollout, index, fleet, now),
            _ => {}
        }
    }
}

/// Whether hosts of the group may be let go now.
pub(crate) fn is_moving(rollout: &Rollout, index: usize, now: Timestamp) -> bool {
    let Some(group) = rollout.groups.get(index) else { return false };
    let is_on = matches!(group.state, State::Canary | State::Active | State::RolledBack)
        || (group.state == State::Done && rollout.strategy != Strategy::TimeBased);
    is_on && !group.is_closed && gate::blackout(group, now).is_none() && is_in_hours(rollout, group, now)
}

/// Whether the clock lets hosts go: within `window_duration`, and for RFD 0169's groups on their days. Going back waits for
/// neither.
pub(crate) fn is_in_hours(rollout: &Rollout, group: &GroupStatus, now: Timestamp) -> bool {
    if rollout.without_windows || rollout.schedule == Schedule::Immediate || group.state == State::RolledBack {
        return true;
    }
    let opening = &group.policy.gate.opening;
    let is_open = group.policy.pace.window.is_none_or(|length| opening.is_open(now, length));
    is_open && (rollout.strategy != Strategy::Requires || opening.is_day(now))
}

/// Slots that are free under the cap.
fn free_slots(group: &GroupStatus) -> u64 {
    let most = if group.at_once { u64::MAX } else { group.policy.pace.max_in_flight.cap(group.tally.counted) };
    let free = most.saturating_sub(group.tally.in_flight());
    group.rate.map_or(free, |rate| free.min(rate.allowed.saturating_sub(rate.granted)))
}

fn move_cursor(rollout: &mut Rollout, index: usize, fleet: &Fleet, now: Timestamp) {
    let Some(group) = rollout.groups.get(index) else { return };
    let mut free = usize::try_from(free_slots(group)).unwrap_or(usize::MAX);
    if free == 0 {
        return;
    }
    let look = Look::new(rollout, group, fleet, now);
    let place = u16::try_from(index).map_or(Place::Nowhere, Place::Group);
    let (mut again, mut first): (Vec<&Host>, Vec<&Host>) = fleet
        .hosts()
        .iter()
        .filter(|host| host.place == place && !look.has_departed(host))
        .filter(|host| match look.state(host) {
            HostState::Pending => true,
            HostState::Failed | HostState::TimedOut => look.is_retried(host),
            _ => false,
        })
        .filter(|host| group.state != State::RolledBack || look.goes_back(host))
        .partition(|host| look.is_retried(host));
    again.sort_by_key(|host| Cursor::of(host));
    first.sort_by_key(|host| Cursor::of(host));
    let arrivals = fleet.arrivals();
    let Some(group) = rollout.groups.get_mut(index) else { return };
    let before = free;
    // Those of the attempt before come first.
    for host in again {
        if free > 0 {
            group.retry = Some(Cursor::of(host));
            free -= 1;
        }
    }
    group.advance(&first, &mut free, arrivals);
    let granted = u64::try_from(before - free).unwrap_or(u64::MAX);
    if let Some(rate) = &mut group.rate {
        rate.granted += granted;
    }
}

impl GroupStatus {
    /// Moves the cursor over `pending`, which is in order, for each free slot; where it comes to its end, another pass begins
    /// with those that arrived since.
    fn advance(&mut self, pending: &[&Host], free: &mut usize, arrivals: u64) {
        loop {
            let is_member = |host: &&&Host| {
                host.arrival > self.complete_to
                    && host.arrival <= self.pass_to
                    && self.cursor.is_none_or(|cursor| Cursor::of(host) > cursor)
            };
            let members: Vec<&&Host> = pending.iter().filter(is_member).collect();
            let taken = members.len().min(*free);
            if let Some(last) = taken.checked_sub(1).and_then(|last| members.get(last)) {
                self.cursor = Some(Cursor::of(last));
            }
            *free -= taken;
            if taken < members.len() || self.pass_to >= arrivals {
                return;
            }
            (self.complete_to, self.pass_to, self.cursor) = (self.pass_to, arrivals, None);
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
        let account = *self.rate.get_or_insert_with(|| new(rate.base.min(rate.maximum).into(), now));
        if now.duration_since(account.hour) < HOUR {
            return;
        }
        let has_grown = updated > account.updated && failed <= account.failed;
        let grown = (account.allowed * u64::from(rate.factor_hundredths)).div_ceil(100);
        let allowed = if has_grown { grown } else { account.allowed };
        self.rate = Some(new(allowed.min(rate.maximum.into()), now));
    }
}
