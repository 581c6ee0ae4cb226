//! What happens to hosts: they arrive, report and ask, are allowed to update, and are forgotten.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use protocol::report::code::{self, SENDS_NOBODY_BACK};

use super::{Fleet, is_below};
use crate::host::{ArrivalNumber, EnrolmentMark, Flags, GroupPlace, Host, HostFailure, HostId, Last, Mark, Outcome};
use crate::index::Index;
use crate::moment::Moment;
use crate::names::Name;
use crate::order;
use crate::rollout::{GroupStatus, Rollout, State};
use crate::tally::{BY_HAND, HostState, TallyContext};

/// Most hosts on which somebody decided before they were seen: a person's list, and no load.
const MOST_EXPECTED: usize = 10_000;

/// The list of hosts grows by one in so many: to double it would take as much memory once more.
const GROWS_BY: usize = 8;

/// What a host reports; what is absent stays as it is known.
#[derive(Debug, Clone, Default)]
pub struct HostReport {
    /// Its UUID.
    pub host: HostId,
    /// Its updater's id; 0: none.
    pub update_id: u128,
    /// The group that it declares.
    pub group: Option<String>,
    /// What it runs.
    pub version: Option<String>,
    /// Its labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// What it calls itself; empty: nothing.
    pub hostname: Option<String>,
    /// Whether its updater is pinned.
    pub pinned: Option<bool>,
    /// Whether its updater is disabled.
    pub disabled: Option<bool>,
    /// Its last change.
    pub last: Option<HostChange>,
    /// No rollout told it of that: somebody asked for it on the host.
    pub is_by_hand: bool,
    /// That was of a rollout or an attempt before: a failure is no failure of the present one.
    pub is_of_before: bool,
}

/// A host's last change, as a report has it.
#[derive(Debug, Clone)]
pub struct HostChange {
    /// What became of it.
    pub outcome: Outcome,
    /// The version that it was to.
    pub to: String,
    /// The code of its error; empty: none.
    pub code: String,
}

impl Fleet {
    /// Hosts and moves so far.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// There were at least so many.
    pub fn raise_arrivals(&mut self, arrivals: u64) {
        self.arrivals = self.arrivals.max(arrivals);
    }

    /// The index of a host that was seen now.
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
            (host.choice, host.flags.told_nothing) = rollout.choose(&host, host.place, &self.names);
        }
        let at = self.hosts.len();
        self.make_room(at / GROWS_BY);
        self.hosts.push(host);
        self.index(id, at);
        self.note_change(at);
        at
    }

    /// Makes a host known that was never seen, so that a decision on it acts when it comes: it is in no count until then.
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
        if host.mark().is_none() && host.arrival.get() < self.arrivals {
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

    /// The same of all hosts.
    pub fn set_all_unproven(&mut self, is_unproven: impl Fn(HostId) -> bool) {
        for host in &mut self.hosts {
            let id = host.id;
            host.enrolled.iter_mut().for_each(|enrolled| enrolled.is_unproven = is_unproven(id));
        }
    }

    /// When each host was seen last that is waited for: those that are enrolled; where nobody is, those that ask and may be
    /// let go.
    pub(crate) fn heard(&self) -> impl Iterator<Item = Moment> + Clone + '_ {
        let is_any = self.hosts.iter().any(|host| host.enrolled.is_some());
        let is_waited_for = move |host: &&Host| host.enrolled.is_some() || (!is_any && !self.terms.is_proven);
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
            (host.history, host.version, host.reports) = (None, Name::NONE, false);
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
    /// was never seen.
    pub fn drop_imported(&mut self, has_key: impl Fn(HostId) -> bool) {
        let is_imported = |host: &&mut Host| !host.version.is_none() && !has_key(host.id);
        for host in self.hosts.iter_mut().filter(is_imported) {
            (host.heard, host.enrolled) = (Moment::of(Timestamp::UNIX_EPOCH), None);
            (host.version, host.reports) = (Name::NONE, false);
        }
    }

    /// Makes room for so many more hosts, if there is none for another one.
    pub(crate) fn make_room(&mut self, more: usize) {
        if self.hosts.len() == self.hosts.capacity() {
            self.hosts.reserve_exact(more + 1);
        }
    }

    /// Puts back a host that a store kept.
    pub(crate) fn put_back(&mut self, host: Host, arrivals: u64) {
        self.arrivals = self.arrivals.max(arrivals).max(host.arrival.get());
        let at = self.hosts.len();
        self.make_room(at / GROWS_BY);
        self.hosts.push(host);
        self.index_host(at);
    }

    fn index_host(&mut self, at: usize) {
        let Some(Host { id, update_id, .. }) = self.hosts.get(at) else { return };
        let (id, update_id) = (*id, *update_id);
        self.index(id, at);
        if update_id != 0 {
            self.index_update_id(update_id, at);
        }
    }

    /// Puts what a store has in the place of a host that is known.
    pub(crate) fn put_over(&mut self, at: usize, host: Host, arrivals: u64) {
        self.arrivals = self.arrivals.max(arrivals).max(host.arrival.get());
        let update_id = host.update_id;
        if let Some(known) = self.hosts.get_mut(at) {
            *known = Host { update_id: known.update_id, ..host };
        }
        self.take_update_id(at, update_id);
        if let Some(word) = self.changed.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// Forgets the hosts for which `goes` is true, and gives their ids. The others stay in their order.
    pub fn forget(&mut self, goes: impl Fn(&Host) -> bool) -> Vec<HostId> {
        let changed = self.take_changed();
        let mut gone = Vec::new();
        self.hosts.retain(|host| {
            let stays = !goes(host);
            if !stays {
                self.names.said.drop(host.said);
                gone.push(host.id);
            }
            stays
        });
        (self.by_id, self.by_update_id) = (Index::default(), Index::default());
        self.former.clear();
        let is_gone: HashSet<HostId> = gone.iter().copied().collect();
        self.stays.retain(|id, _| !is_gone.contains(id));
        self.dry_runs.retain(|id, _| !is_gone.contains(id));
        (0..self.hosts.len()).for_each(|at| self.index_host(at));
        for at in changed.into_iter().filter_map(|id| self.at(id)).collect::<Vec<_>>() {
            self.note_change(at);
        }
        self.free_names();
        gone
    }

    /// Takes a report of an enrolled host.
    pub fn report(&mut self, report: &HostReport, rollout: Option<&Rollout>, now: Timestamp) {
        let at = self.arrive(report.host, rollout, now);
        self.enrol(report.host);
        let group = report.group.as_ref().map(|group| self.names.keep(group));
        let said = self.say(at, report.hostname.as_deref(), report.labels.as_ref());
        let version = report.version.as_ref().map(|version| self.names.keep(version));
        let place = self.hosts.get(at).map_or(GroupPlace::Nowhere, |host| host.place);
        let is_below_start = rollout.is_some_and(|rollout| is_below(report.version.as_deref(), rollout, place));
        let is_sent_back = self.is_sent_back(at, report, rollout, now);
        let last = report.last.as_ref().map(|change| Last {
            outcome: change.outcome,
            to: self.names.keep(&change.to),
            code: self.names.keep(if is_sent_back { BY_HAND } else { &change.code }),
            at: Moment::of(now),
            is_of_the_way: code::is_of_the_way(&change.code),
        });
        self.take_update_id(at, report.update_id);
        let wanted = self.look(at, rollout, now).zip(self.hosts.get(at)).map(|(look, host)| look.wanted(host));
        let has_part = self.state(at, rollout, now) != Some(HostState::Excluded);
        self.change(at, rollout, now, |host| {
            host.reports = true;
            host.version = version.unwrap_or(host.version);
            host.is_below_start = version.map_or(host.is_below_start, |_| is_below_start);
            host.flags.pinned = report.pinned.unwrap_or(host.flags.pinned);
            host.flags.disabled = report.disabled.unwrap_or(host.flags.disabled);
            host.declared = group.unwrap_or(host.declared);
            host.said = said;
            if let Some(last) = last {
                host.take(last, wanted, !report.is_of_before && (has_part || !host.flags.is_held()));
            }
        });
        if let Some(rollout) = rollout {
            self.follow(at, rollout, now);
        }
        self.free_names_if_many();
    }

    /// Whether somebody on the host has it leave the version to which the rollout brought it.
    fn is_sent_back(&self, at: usize, report: &HostReport, rollout: Option<&Rollout>, now: Timestamp) -> bool {
        let Some((look, host)) = self.look(at, rollout, now).zip(self.hosts.get(at)) else { return false };
        let leaves =
            |last: &HostChange| !last.outcome.is_failure() && self.names.find(&last.to) != Some(look.wanted(host));
        report.is_by_hand && look.has_arrived(host) && report.last.as_ref().is_some_and(leaves)
    }

    /// Takes a question: the host is known from now on, and its version is not.
    pub fn question(
        &mut self,
        id: HostId,
        group: Option<&str>,
        update_id: u128,
        rollout: Option<&Rollout>,
        now: Timestamp,
    ) {
        let at = self.arrive(id, rollout, now);
        self.take_update_id(at, update_id);
        // The group of a host that reports is what it reports.
        let group = group.filter(|_| self.hosts.get(at).is_some_and(|host| !host.reports));
        self.names_of_questions += usize::from(group.is_some_and(|group| self.names.find(group).is_none()));
        let group = group.map(|group| self.names.keep(group));
        self.change(at, rollout, now, |host| {
            if !host.reports {
                host.declared = group.unwrap_or(host.declared);
            }
        });
        self.free_names_if_many();
    }

    /// Marks a host as told at `now` to update; `back`: to the start version. Its turn had come when it was answered: what was decided
    /// since, a halt or a hold, takes nothing of that back.
    pub fn tell(&mut self, id: HostId, rollout: &Rollout, back: bool, now: Timestamp) {
        let may_be_told = |host: &Host| host.enrolled.is_some() || !self.terms.is_proven;
        let Some(at) = self.at(id).filter(|at| self.hosts.get(*at).is_some_and(may_be_told)) else { return };
        let told = Moment::of(now);
        let takes = self.look(at, Some(rollout), now).zip(self.hosts.get(at)).is_some_and(|(look, host)| {
            let is_as_it_goes = back == (look.group.state == State::RolledBack);
            let wanted = if back { look.start() } else { look.target(host) };
            let is_later = || look.any_mark(host).is_none_or(|mark| mark.told <= told);
            let is_new = || host.version != wanted && look.any_mark(host).is_none_or(|mark| mark.told < told);
            let flags = Flags { held: false, held_by_group: false, ..host.flags };
            let state =
                if host.flags.is_held() { look.state(&Host { flags, ..host.clone() }) } else { look.state(host) };
            match state {
                HostState::LetGo if is_as_it_goes => true,
                HostState::Told => is_as_it_goes && is_later() && look.was_told_before(host),
                HostState::LetGo | HostState::Pending | HostState::Silent => is_new(),
                // Another server did not know yet that its group has turned round.
                HostState::Updated => !is_as_it_goes && is_new(),
                HostState::Excluded | HostState::Failed | HostState::TimedOut => false,
            }
        });
        if let Some(host) = self.hosts.get_mut(at).filter(|_| takes) {
            let rollout = u32::try_from(rollout.number).unwrap_or(u32::MAX);
            host.set_mark(Some(Mark { rollout, told, ..Mark::default() }));
            host.told_back = back;
            self.note_change(at);
        }
    }

    /// What a report means for the rollout that the host was told of.
    pub(crate) fn follow(&mut self, at: usize, rollout: &Rollout, now: Timestamp) {
        self.note_change(at);
        let Some(look) = self.look(at, Some(rollout), now) else { return };
        let Some(host) = self.hosts.get_mut(at) else { return };
        let is_over = look.timed_out_at(host).is_some();
        let (version, last, told) = (host.version, host.last(), look.told_version(host));
        let Some(mark) = host.mark_mut().filter(|mark| u64::from(mark.rollout) == rollout.number) else { return };
        let last = last.filter(|last| last.to == told && last.at >= mark.told);
        match last.map(|last| last.outcome) {
            Some(Outcome::Started) if !is_over => mark.started = mark.started.or(Some(look.now)),
            Some(Outcome::Switched) if !is_over => mark.switched = mark.switched.or(Some(look.now)),
            Some(Outcome::Started | Outcome::Switched) => {}
            _ if version == told => mark.arrived = mark.arrived.or(Some(look.now)),
            _ => {}
        }
    }

    pub(super) fn look<'a>(&self, at: usize, rollout: Option<&'a Rollout>, now: Timestamp) -> Option<TallyContext<'a>> {
        let rollout = rollout?;
        let group = rollout.group(self.hosts.get(at)?.place)?;
        Some(TallyContext::new(rollout, group, self, now))
    }

    pub(super) fn state(&self, at: usize, rollout: Option<&Rollout>, now: Timestamp) -> Option<HostState> {
        Some(self.look(at, rollout, now)?.state(self.hosts.get(at)?))
    }
}

impl Host {
    /// It was never seen: an operator decided on it before it came.
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

    /// Keeps its last change, and a failure that is new: not in place of that of the version that is `wanted` of it now, and none of
    /// a host that an operator holds and that was not allowed to update (`counts`).
    fn take(&mut self, last: Last, wanted: Option<Name>, counts: bool) {
        let (failure, mark) = (self.failure(), self.mark());
        let history = self.history.get_or_insert_default();
        history.last = Some(last);
        let has_failed = |wanted: Name| failure.is_some_and(|before| before.to == wanted && last.to != wanted);
        if !counts || !last.outcome.is_failure() || last.is_of_the_way || wanted.is_some_and(has_failed) {
            return;
        }
        let is_told_since = |before: &HostFailure| mark.is_some_and(|mark| mark.told > before.at);
        let is_known = failure.is_some_and(|before| before.to == last.to && !is_told_since(&before));
        if !is_known {
            history.failure = Some(Box::new(HostFailure { to: last.to, code: last.code, at: last.at }));
        }
    }
}

// Here, and not beside the type, which knows one group and no fleet.
impl<'a> TallyContext<'a> {
    /// Of `group` at `now`.
    pub fn new(rollout: &'a Rollout, group: &'a GroupStatus, fleet: &Fleet, now: Timestamp) -> Self {
        let versions = fleet.versions(rollout, group);
        let is_frozen = group.blackout(now).is_some() || group.is_changed().is_some();
        let listening = rollout.listening(now);
        let (rollout, now) = (rollout.number, Moment::of(now));
        let (by_hand, terms) = (fleet.names.find(BY_HAND), fleet.terms);
        let sends_nobody_back = SENDS_NOBODY_BACK.map(|code| fleet.names.find(code.as_str()));
        Self { rollout, group, versions, by_hand, sends_nobody_back, now, listening, terms, is_frozen }
    }
}

#[cfg(test)]
mod tests {
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
        assert!(after.history.is_none() && after.version.is_none());
        assert!(after.enrolled > before.enrolled && after.arrival > before.arrival && after.joined > before.joined);
        assert_eq!(after.assigned, before.assigned);
        assert_eq!(fleet.take_changed(), [1]);
        fleet.renew(2, None, now);
        assert!(fleet.host(2).is_none());
    }
}
