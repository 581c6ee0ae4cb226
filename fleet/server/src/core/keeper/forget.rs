//! Which hosts are forgotten, so that strangers fill no memory (FLEET §5).

use std::collections::HashSet;

use fleet_engine::host::{Host, HostId};
use fleet_engine::moment::Moment;
use fleet_engine::tally::DEPARTED_AFTER;
use jiff::{SignedDuration, Timestamp};

use super::CoreState;
use crate::core::publish;

/// Most hosts that only ask, where fewer are enrolled (FLEET §5).
const MOST_ASKING: usize = 100_000;
/// A surplus of one in so many is taken away at once, so that not each newcomer costs a walk through all.
const FORGET_SHARE: usize = 50;
/// Between two looks for what strangers left here.
const CLEAR_EVERY: SignedDuration = SignedDuration::from_hours(1);
/// How long a key waits for an admin: over a week's absence. Who still reports by it then waits anew.
const WAITS_FOR: SignedDuration = SignedDuration::from_hours(10 * 24);

/// It only asks, and nobody decided anything on it.
fn is_stranger(host: &Host) -> bool {
    host.enrolled.is_none() && !host.flags.held && host.assigned.is_none()
}

impl CoreState {
    /// Of hosts that only ask there are at most as many as there are enrolled ones, and 100,000: whoever asked longest ago goes,
    /// those that were not told to update before those that were (FLEET §5). Of whom somebody decided something stays.
    pub(super) fn forget_surplus(&mut self) {
        let number = self.book.rollout.as_ref().map_or(0, |rollout| rollout.number);
        let rank = |host: &Host| {
            let may_go = is_stranger(host);
            let was_told = host.mark.is_some_and(|mark| u64::from(mark.rollout) == number);
            may_go.then_some((was_told, host.heard))
        };
        let mut ranks: Vec<_> = self.fleet.hosts().iter().filter_map(rank).collect();
        let most = MOST_ASKING.max(self.fleet.hosts().len() - ranks.len());
        if ranks.len() <= most {
            return;
        }
        let surplus = ranks.len() - most + most / FORGET_SHARE;
        let (_, last, _) = ranks.select_nth_unstable(surplus.saturating_sub(1).min(most));
        let last = *last;
        let left = std::cell::Cell::new(surplus);
        self.strike_off(|host| {
            let goes = left.get() > 0 && rank(host).is_some_and(|rank| rank <= last);
            left.set(left.get() - usize::from(goes));
            goes
        });
        tracing::warn!(count = surplus - left.get(), "more hosts ask than can be remembered: the oldest are forgotten");
    }

    /// Once an hour: forgets what strangers left here, and nobody asked for since.
    pub(super) fn forget_old(&mut self, now: Timestamp) {
        if now.duration_since(self.cleared) >= CLEAR_EVERY {
            self.cleared = now;
            self.forget_strangers(now);
        }
    }

    /// Forgets hosts that asked long before `now`, and keys that wait since long. Where hosts enrol by token or approval nobody only
    /// asks. Of whom somebody decided something stays.
    pub(in crate::core) fn forget_strangers(&mut self, now: Timestamp) {
        self.members.drop_waiting(|since| now.duration_since(since) >= WAITS_FOR);
        let (fleet, members) = (&self.fleet, &self.members);
        let is_old = |host: &Host| fleet.is_proven || Moment::of(now).since(host.heard) >= DEPARTED_AFTER;
        let is_kept = |host: &Host| members.waits(host.id).is_some();
        let goes = |host: &&Host| is_stranger(host) && is_old(host) && !is_kept(host);
        let gone: HashSet<HostId> = fleet.hosts().iter().filter(goes).map(|host| host.id).collect();
        if !gone.is_empty() {
            self.strike_off(|host| gone.contains(&host.id));
        }
    }

    /// Forgets a host that never came, and on which nothing is decided any more.
    pub(in crate::core) fn forget_nobody(&mut self, id: HostId) {
        if !self.fleet.host(id).is_some_and(Host::is_nobody) {
            return;
        }
        self.strike_off(|host| host.id == id);
    }

    /// Forgets the hosts for which `goes` is true, their keys with them. Gives whether there was one.
    pub(in crate::core) fn strike_off(&mut self, goes: impl Fn(&Host) -> bool) -> bool {
        let gone = self.fleet.forget(goes);
        publish::forget(&self.snapshot, &gone);
        self.members.forget(&gone);
        let is_gone: HashSet<HostId> = gone.iter().copied().collect();
        self.reports.retain(|report| !is_gone.contains(&report.host));
        let is_any = !gone.is_empty();
        self.forgotten.extend(gone);
        is_any
    }
}
