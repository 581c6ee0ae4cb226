//! Arrivals: hosts that are heard of for the first time, come back, are expected, put back from a store, or forgotten.

use std::borrow::Cow;
use std::collections::HashSet;

use jiff::Timestamp;

use super::Fleet;
use crate::host::{ArrivalNumber, EnrolmentMark, Host, HostId};
use crate::index::Index;
use crate::moment::Moment;
use crate::names::Name;
use crate::order;
use crate::rollout::Rollout;
use crate::tally::{HostState, TallyContext};

/// Most hosts on which somebody decided before they were heard of: a person's list, and no load.
const MOST_EXPECTED: usize = 10_000;

impl Fleet {
    /// Hosts and moves so far.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The index of a host that was heard of now.
    pub(crate) fn arrive(&mut self, id: HostId, rollout: Option<&Rollout>, now: Timestamp) -> usize {
        if let Some(at) = self.at(id) {
            self.change(at, rollout, now, |host| host.heard = host.heard.max(Moment::of(now)));
            return at;
        }
        self.arrivals += 1;
        let mut host = Host::new(id, Moment::of(now), ArrivalNumber::of(self.arrivals));
        if let Some(rollout) = rollout {
            host.key = order::key(id, rollout.id);
            host.place = rollout.place_of(&host, &self.names);
        }
        let at = self.hosts.len();
        self.hosts.push(host);
        self.index(id, at);
        self.note_change(at);
        at
    }

    /// `host` as it is when it is heard of at `now`: one that was silent arrives anew.
    pub(crate) fn as_if_heard<'a>(&self, host: &'a Host, rollout: &Rollout, now: Timestamp) -> Cow<'a, Host> {
        let state = |host: &Host| {
            rollout.group(host.place).map(|group| TallyContext::new(rollout, group, self, now).state(host))
        };
        if host.heard >= Moment::of(now) || state(host) != Some(HostState::Silent) {
            return Cow::Borrowed(host);
        }
        Cow::Owned(self.heard_at(host, Moment::of(now)))
    }

    /// A silent host as it is when it is heard of: it arrives anew.
    pub(crate) fn heard_at(&self, host: &Host, now: Moment) -> Host {
        Host { heard: now, arrival: ArrivalNumber::of(self.arrivals + 1), ..host.clone() }
    }

    /// Makes a host known that was never heard of, so that a decision on it acts when it comes: it is in no count until then.
    /// False if there are too many of those already.
    pub fn expect(&mut self, id: HostId, rollout: Option<&Rollout>) -> bool {
        if self.at(id).is_some() {
            return true;
        }
        if self.hosts.iter().filter(|host| host.is_expected()).count() >= MOST_EXPECTED {
            return false;
        }
        self.arrive(id, rollout, Timestamp::UNIX_EPOCH);
        true
    }

    /// Counts a host that only asks as enrolled, from now on. The place that it had when anybody could have made it up is worth nothing.
    pub fn enrol(&mut self, id: HostId) {
        let Some(at) = self.at(id) else { return };
        let Some(host) = self.hosts.get_mut(at).filter(|host| host.enrolled.is_none()) else { return };
        if host.mark.is_none() && host.arrival.get() < self.arrivals {
            self.arrivals += 1;
            host.arrival = ArrivalNumber::of(self.arrivals);
        }
        host.enrolled = Some(EnrolmentMark::at(self.arrivals));
        self.note_change(at);
    }

    /// Keeps that nobody but the host itself says who it is, or that somebody vouches for it.
    pub fn set_unproven(&mut self, id: HostId, is_unproven: bool) {
        let Some(at) = self.at(id) else { return };
        if let Some(enrolled) = self.hosts.get_mut(at).and_then(|host| host.enrolled.as_mut()) {
            enrolled.is_unproven = is_unproven;
        }
    }

    /// When each host was heard of last that is waited for: those that are enrolled; where nobody is, those that ask and may be
    /// let go.
    pub(crate) fn heard(&self) -> impl Iterator<Item = Moment> + Clone + '_ {
        let is_any = self.hosts.iter().any(|host| host.enrolled.is_some());
        let is_waited_for = move |host: &&Host| host.enrolled.is_some() || (!is_any && !self.is_proven);
        let speaks = |host: &&Host| !host.is_expected();
        self.hosts.iter().filter(is_waited_for).filter(speaks).map(|host| host.heard)
    }

    /// Another machine is the host from now on (a new image, a copy): what the one before did counts no more, unless it failed in
    /// this attempt, and it arrives anew. What an operator decided of it stays.
    pub fn renew(&mut self, id: HostId, rollout: Option<&Rollout>, now: Timestamp) {
        let Some(at) = self.at(id) else { return };
        if self.has_failed(id, rollout, now) {
            return;
        }
        self.arrivals += 1;
        let arrivals = ArrivalNumber::of(self.arrivals);
        if let Some(host) = self.hosts.get_mut(at) {
            (host.arrival, host.joined, host.enrolled) = (arrivals, arrivals, Some(EnrolmentMark::at(self.arrivals)));
            (host.last, host.failure, host.mark) = (None, None, None);
            (host.version, host.reports) = (Name::NONE, false);
        }
        self.stays.remove(&id);
        self.note_change(at);
    }

    /// Whether the host failed or timed out in the present attempt of its group.
    pub fn has_failed(&self, id: HostId, rollout: Option<&Rollout>, now: Timestamp) -> bool {
        let look = |at: usize| self.look(at, rollout, now).zip(self.hosts.get(at));
        self.at(id).and_then(look).is_some_and(|(look, host)| look.has_failed(host))
    }

    /// What runs on a host that has no key an earlier version knew by an import. Nobody says that any more, so it is as if the host
    /// was never heard of.
    pub fn drop_imported(&mut self, has_key: impl Fn(HostId) -> bool) {
        let is_imported = |host: &&mut Host| !host.version.is_none() && !has_key(host.id);
        for host in self.hosts.iter_mut().filter(is_imported) {
            (host.heard, host.enrolled) = (Moment::of(Timestamp::UNIX_EPOCH), None);
            (host.version, host.reports) = (Name::NONE, false);
        }
    }

    /// Puts back a host that a store kept.
    pub(crate) fn put_back(&mut self, host: Host, arrivals: u64) {
        self.arrivals = self.arrivals.max(arrivals).max(host.arrival.get());
        let (at, id, update_id) = (self.hosts.len(), host.id, host.update_id);
        self.hosts.push(host);
        self.index(id, at);
        if update_id != 0 {
            self.index_update_id(update_id, at);
        }
    }

    /// Forgets the hosts for which `goes` is true, and gives their ids. The others stay in their order.
    pub fn forget(&mut self, goes: impl Fn(&Host) -> bool) -> Vec<HostId> {
        let changed = self.take_changed();
        let mut gone = Vec::new();
        let kept = std::mem::take(&mut self.hosts).into_iter().filter(|host| {
            let stays = !goes(host);
            if !stays {
                gone.push(host.id);
            }
            stays
        });
        let kept: Vec<Host> = kept.collect();
        (self.by_id, self.by_update_id) = (Index::default(), Index::default());
        self.former.clear();
        let is_gone: HashSet<HostId> = gone.iter().copied().collect();
        self.stays.retain(|id, _| !is_gone.contains(id));
        let arrivals = self.arrivals;
        kept.into_iter().for_each(|host| self.put_back(host, arrivals));
        for at in changed.into_iter().filter_map(|id| self.at(id)).collect::<Vec<_>>() {
            self.note_change(at);
        }
        self.free_names();
        gone
    }
}

impl Host {
    /// It was never heard of: an operator decided on it before it came.
    pub fn is_expected(&self) -> bool {
        self.heard == Moment::of(Timestamp::UNIX_EPOCH)
    }

    /// Nothing is known of it, and nothing decided any more.
    pub fn is_nobody(&self) -> bool {
        self.is_expected() && !self.flags.held && self.assigned.is_none()
    }

    /// One of which nothing else is known.
    pub(crate) fn new(id: HostId, heard: Moment, arrival: ArrivalNumber) -> Self {
        Self { id, heard, arrival, joined: arrival, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use crate::fleet::{HostChange, HostReport};
    use crate::host::Outcome;

    use super::*;

    #[test]
    fn a_host_of_a_new_image_brings_nothing_of_the_old_one() {
        let (now, mut fleet) = (Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1), Fleet::default());
        let change = HostChange { outcome: Outcome::RolledBack, to: "2.0.0".to_owned(), code: "unhealthy".to_owned() };
        let report =
            HostReport { host: 1, version: Some("2.0.0".to_owned()), last: Some(change), ..HostReport::default() };
        fleet.report(&report, None, now);
        fleet.assign(1, Some("dev"), None, now);
        let before = fleet.host(1).unwrap().clone();
        fleet.renew(1, None, now);
        let after = fleet.host(1).unwrap();
        assert!(after.last.is_none() && after.failure.is_none() && after.mark.is_none() && after.version.is_none());
        assert!(after.enrolled > before.enrolled && after.arrival > before.arrival && after.joined > before.joined);
        assert_eq!(after.assigned, before.assigned);
        assert_eq!(fleet.take_changed(), [1]);
        fleet.renew(2, None, now);
        assert!(fleet.host(2).is_none());
    }
}
