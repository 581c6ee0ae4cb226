//! The hosts, and what they say.

mod free;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use jiff::Timestamp;
use protocol::Version;
use protocol::report::{DEFAULT_INTERVAL, code};

use crate::host::{Arrival, Failure, Flags, Host, HostId, Last, Mark, Outcome, Place, Unfit};
use crate::index::Index;
use crate::label_set::{LabelSets, Labels};
use crate::moment::Moment;
use crate::names::{Name, Names};
use crate::order;
use crate::resource::counts_are_good;
use crate::rollout::{GroupStatus, Rollout, State};
use crate::tally::{HostState, Look};

/// Most update ids that are remembered though their hosts have others now.
const MOST_FORMER: usize = 100_000;
/// Most hosts on which somebody decided before they were heard of: a person's list, and no load.
const MOST_EXPECTED: usize = 10_000;

/// Indexed update ids that no host has any more, beyond as many as there are hosts twice.
const MOST_LEFT_BEHIND: usize = 1024;

/// All hosts that are known.
#[derive(Debug, Clone)]
pub struct Fleet {
    /// How often hosts report, seconds.
    pub interval: u32,
    /// Hosts enrol by token or approval, so that nobody can invent one: then failures that they report may send others back
    /// (`on_halt: rollback`, FLEET §3).
    pub is_proven: bool,
    /// Texts of hosts.
    pub names: Names,
    hosts: Vec<Host>,
    by_id: Index,
    by_update_id: Index,
    /// Update ids that hosts had before the one that they have.
    former: HashMap<u128, u32>,
    /// Groups that hosts stay in though they declare others: the number of the rollout, and the group.
    stays: HashMap<HostId, (u64, Name)>,
    /// When Teleport had last heard of hosts, by the newest import that lists them.
    listed: HashMap<HostId, Moment>,
    labels: LabelSets,
    /// Names that were used when those of nobody were freed last.
    used_names: usize,
    /// Names of groups that nobody but hosts that only ask had then, and those that were made by questions since.
    names_of_questions: usize,
    /// Counts arrivals.
    arrivals: u64,
    /// A bit for each host: whether what a store keeps of it has changed.
    changed: Vec<u64>,
    counts: Option<Counts>,
    /// The rollout that keys and places are of.
    arranged: Option<Arranged>,
}

/// A rollout for which all hosts were ordered and placed.
#[derive(Debug, Clone, Copy)]
struct Arranged {
    id: u128,
    start: Name,
    target: Name,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            interval: DEFAULT_INTERVAL,
            is_proven: true,
            names: Names::default(),
            hosts: Vec::new(),
            by_id: Index::default(),
            by_update_id: Index::default(),
            former: HashMap::new(),
            stays: HashMap::new(),
            listed: HashMap::new(),
            labels: LabelSets::default(),
            used_names: 0,
            names_of_questions: 0,
            arrivals: 0,
            changed: Vec::new(),
            counts: None,
            arranged: None,
        }
    }
}

/// Hosts by group and version, as another server counts them (`autoupdate_agent_report`).
pub type Counted = BTreeMap<String, BTreeMap<String, u64>>;

#[derive(Debug, Clone)]
struct Counts {
    at: Moment,
    by_group: Counted,
}

/// What a host reports; what is absent stays as it is known.
#[derive(Debug, Clone, Default)]
pub struct Report {
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
    /// Whether its updater is pinned.
    pub pinned: Option<bool>,
    /// Whether its updater is disabled.
    pub disabled: Option<bool>,
    /// Its last change.
    pub last: Option<Change>,
}

/// A host's last change, as a report has it.
#[derive(Debug, Clone)]
pub struct Change {
    /// What became of it.
    pub outcome: Outcome,
    /// The version that it was to.
    pub to: String,
    /// The code of its error; empty: none.
    pub code: String,
}

impl Fleet {
    /// Every host, in the order of their first arrival.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host with this UUID.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(self.at(id)?)
    }

    /// The host whose updater has this id.
    pub fn by_update_id(&self, id: u128) -> Option<&Host> {
        self.hosts.get(self.at_update_id(id)?)
    }

    /// The names of the rollout's start and target version; none: no host has been heard of it.
    pub(crate) fn versions(&self, rollout: &Rollout) -> (Name, Name) {
        if let Some(arranged) = self.arranged.filter(|arranged| arranged.id == rollout.id) {
            return (arranged.start, arranged.target);
        }
        let name = |version: &Version| self.names.find(&version.to_string()).unwrap_or(Name::NONE);
        (name(&rollout.start), name(&rollout.target))
    }

    /// The labels, which hosts that have the same share.
    pub(crate) fn keep_labels(&mut self, labels: &BTreeMap<String, String>) -> Labels {
        let names = &mut self.names;
        let labels = labels.iter().map(|(key, value)| (names.keep(key), names.keep(value))).collect();
        self.labels.keep(labels)
    }

    pub(crate) fn at(&self, id: HostId) -> Option<usize> {
        self.by_id.find(id, |at| self.hosts.get(at).map(|host| host.id))
    }

    fn at_update_id(&self, id: u128) -> Option<usize> {
        let known = self.by_update_id.find(id, |at| self.hosts.get(at).map(|host| host.update_id));
        known.or_else(|| self.former.get(&id).map(|at| *at as usize))
    }

    /// `host` as it is when it is heard of at `now`: one that was silent arrives anew.
    pub fn as_if_heard<'a>(&self, host: &'a Host, rollout: &Rollout, now: Timestamp) -> Cow<'a, Host> {
        let state =
            |host: &Host| rollout.group(host.place).map(|group| Look::new(rollout, group, self, now).state(host));
        if host.heard >= Moment::of(now) || state(host) != Some(HostState::Silent) {
            return Cow::Borrowed(host);
        }
        Cow::Owned(self.heard_at(host, Moment::of(now)))
    }

    /// A silent host as it is when it is heard of: it arrives anew.
    pub(crate) fn heard_at(&self, host: &Host, now: Moment) -> Host {
        Host { heard: now, arrival: Arrival::of(self.arrivals + 1), ..host.clone() }
    }

    /// Hosts and moves so far.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Takes another server's counts in place of those before.
    pub fn set_counts(&mut self, by_group: Counted, now: Timestamp) {
        self.counts = Some(Counts { at: Moment::of(now), by_group });
    }

    /// Another server's counts, while they are good.
    pub fn counts(&self, now: Timestamp) -> Option<&Counted> {
        let counts = self.counts.as_ref()?;
        counts_are_good(counts.at.time(), now).then_some(&counts.by_group)
    }

    /// Takes a report of an enrolled host.
    pub fn report(&mut self, report: &Report, rollout: Option<&Rollout>, now: Timestamp) {
        let at = self.arrive(report.host, rollout, now);
        let enrolled = Arrival::of(self.arrivals);
        let group = report.group.as_ref().map(|group| self.names.keep(group));
        let labels = report.labels.as_ref().map(|labels| self.keep_labels(labels));
        let version = report.version.as_ref().map(|version| self.names.keep(version));
        let is_below_start = rollout.is_some_and(|rollout| is_below(report.version.as_deref(), rollout));
        let last = report.last.as_ref().map(|change| Last {
            outcome: change.outcome,
            to: self.names.keep(&change.to),
            code: self.names.keep(&change.code),
            at: Moment::of(now),
            is_of_the_way: code::is_of_the_way(&change.code),
        });
        self.take_update_id(at, report.update_id);
        self.change(at, rollout, now, |host| {
            host.reports = true;
            host.enrolled.get_or_insert(enrolled);
            host.version = version.unwrap_or(host.version);
            host.is_below_start = version.map_or(host.is_below_start, |_| is_below_start);
            host.flags.pinned = report.pinned.unwrap_or(host.flags.pinned);
            host.flags.disabled = report.disabled.unwrap_or(host.flags.disabled);
            host.flags.unfit = None;
            host.declared = group.unwrap_or(host.declared);
            host.labels = labels.unwrap_or_else(|| std::mem::take(&mut host.labels));
            if let Some(last) = last {
                host.take(last);
            }
        });
        if let Some(rollout) = rollout {
            self.follow(at, rollout, now);
        }
        self.free_names_if_many();
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
        let group = group.map(|group| self.keep_of_question(group));
        self.change(at, rollout, now, |host| {
            if !host.reports {
                host.declared = group.unwrap_or(host.declared);
                host.flags.unfit = host.flags.unfit.filter(|unfit| *unfit != Unfit::SilentUpdater);
            }
        });
        self.free_names_if_many();
    }

    /// Counts a host that only asks as enrolled, from now on.
    pub fn enrol(&mut self, id: HostId) {
        let Some(at) = self.at(id) else { return };
        if let Some(host) = self.hosts.get_mut(at).filter(|host| host.enrolled.is_none()) {
            host.enrolled = Some(Arrival::of(self.arrivals));
            self.note_change(at);
        }
    }

    /// Another machine is the host from now on (a new image, a copy): what the one before did counts no more, and it arrives anew.
    /// What an operator decided of it stays.
    pub fn renew(&mut self, id: HostId) {
        let Some(at) = self.at(id) else { return };
        self.arrivals += 1;
        let arrivals = Arrival::of(self.arrivals);
        if let Some(host) = self.hosts.get_mut(at) {
            (host.arrival, host.joined, host.enrolled) = (arrivals, arrivals, Some(arrivals));
            (host.last, host.failure, host.mark) = (None, None, None);
            (host.version, host.reports) = (Name::NONE, false);
        }
        self.stays.remove(&id);
        self.note_change(at);
    }

    /// Hosts of which something changed that a store keeps, since this was asked last.
    pub fn take_changed(&mut self) -> Vec<HostId> {
        let words = std::mem::take(&mut self.changed);
        let is_set = |at: &usize| words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1);
        (0..self.hosts.len()).filter(is_set).filter_map(|at| self.hosts.get(at)).map(|host| host.id).collect()
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
        self.listed.retain(|id, _| !is_gone.contains(id));
        let arrivals = self.arrivals;
        kept.into_iter().for_each(|host| self.put_back(host, arrivals));
        for at in changed.into_iter().filter_map(|id| self.at(id)).collect::<Vec<_>>() {
            self.note_change(at);
        }
        self.free_names();
        gone
    }

    /// The group that a host stays in for a rollout, though it declares another.
    pub(crate) fn stays(&self, id: HostId) -> Option<(u64, &str)> {
        self.stays.get(&id).map(|(number, group)| (*number, self.names.text(*group)))
    }

    /// Notes in which group a host stays, as a store kept it.
    pub(crate) fn set_stays(&mut self, id: HostId, number: u64, group: &str) {
        let group = self.names.keep(group);
        self.stays.insert(id, (number, group));
    }

    /// When Teleport had last heard of a host, by the newest import that lists it.
    pub fn listed(&self, id: HostId) -> Option<Moment> {
        self.listed.get(&id).copied()
    }

    /// Hosts that an import lists.
    pub fn count_listed(&self) -> usize {
        self.listed.len()
    }

    /// Notes when Teleport had last heard of a host.
    pub(crate) fn set_listed(&mut self, id: HostId, seen: Moment) {
        self.listed.insert(id, seen);
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

    fn index(&mut self, id: HostId, at: usize) {
        self.by_id.insert(id, at, |at| self.hosts.get(at).map(|host| host.id));
    }

    fn index_update_id(&mut self, id: u128, at: usize) {
        self.by_update_id.insert(id, at, |at| self.hosts.get(at).map(|host| host.update_id));
    }

    fn note_change(&mut self, at: usize) {
        if self.changed.len() <= at / 64 {
            self.changed.resize(at / 64 + 1, 0);
        }
        if let Some(word) = self.changed.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    /// Marks a host whose turn has come as told to update.
    pub fn tell(&mut self, id: HostId, rollout: &Rollout, now: Timestamp) {
        let Some(at) = self.at(id) else { return };
        let state = self.state(at, Some(rollout), now);
        let look = self.look(at, Some(rollout), now);
        let goes_the_other_way = state == Some(HostState::Told)
            && look.is_some_and(|look| self.hosts.get(at).is_some_and(|host| look.goes_the_other_way(host)));
        if state != Some(HostState::LetGo) && !goes_the_other_way {
            return;
        }
        let is_back = look.is_some_and(|look| look.group.state == State::RolledBack);
        if let Some(host) = self.hosts.get_mut(at) {
            (host.mark, host.told_back) = (Some(Mark::told(rollout.number, Moment::of(now))), is_back);
            self.note_change(at);
        }
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

    /// An operator's decisions on a host; false if it is not known.
    pub fn decide(
        &mut self,
        id: HostId,
        rollout: Option<&Rollout>,
        now: Timestamp,
        change: impl FnOnce(&mut Flags),
    ) -> bool {
        let Some(at) = self.at(id) else { return false };
        self.change(at, rollout, now, |host| change(&mut host.flags));
        true
    }

    /// Puts a host into a group, whatever it declares; `None` gives it back its own. False if it is not known.
    pub fn assign(&mut self, id: HostId, group: Option<&str>, rollout: Option<&Rollout>, now: Timestamp) -> bool {
        let group = group.map_or(Name::NONE, |group| self.names.keep(group));
        let Some(at) = self.at(id) else { return false };
        self.change(at, rollout, now, |host| host.assigned = group);
        true
    }

    /// Orders and places all hosts for `rollout`, if that was not done yet.
    pub fn arrange(&mut self, rollout: &Rollout) {
        if self.arranged.is_some_and(|arranged| arranged.id == rollout.id) {
            return;
        }
        let [start, target] = [&rollout.start, &rollout.target].map(|version| self.names.keep(&version.to_string()));
        self.arranged = Some(Arranged { id: rollout.id, start, target });
        // Many hosts have labels, names and versions in common: each case is decided once.
        let mut places: HashMap<(Name, Name, usize), Place> = HashMap::new();
        let mut below: HashMap<Name, bool> = HashMap::new();
        let names = &self.names;
        for host in &mut self.hosts {
            host.key = order::key(host.id, rollout.id);
            let case = (host.assigned, host.declared, host.labels.address());
            let stays = self.stays.get(&host.id).filter(|(number, _)| *number == rollout.number);
            host.place = match stays.and_then(|(_, group)| rollout.place_named(names.text(*group))) {
                Some(place) => place,
                None => *places.entry(case).or_insert_with(|| rollout.place_of(host, names)),
            };
            let version = host.version;
            host.is_below_start = *below.entry(version).or_insert_with(|| is_below(Some(names.text(version)), rollout));
        }
    }

    /// The index of a host that was heard of now.
    pub(crate) fn arrive(&mut self, id: HostId, rollout: Option<&Rollout>, now: Timestamp) -> usize {
        if let Some(at) = self.at(id) {
            self.change(at, rollout, now, |host| host.heard = host.heard.max(Moment::of(now)));
            return at;
        }
        self.arrivals += 1;
        let mut host = Host::new(id, Moment::of(now), Arrival::of(self.arrivals));
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

    /// Changes what is known of a host. What had ended by the clock stays ended. Whoever had no part in the rollout, or was at
    /// its end, and has one again (heard of again, released, another version by hand) arrives anew: his turn comes with the next
    /// pass, so that no cap is exceeded.
    pub(crate) fn change(
        &mut self,
        at: usize,
        rollout: Option<&Rollout>,
        now: Timestamp,
        change: impl FnOnce(&mut Host),
    ) {
        self.note_change(at);
        let look = self.look(at, rollout, now);
        let before = self.hosts.get(at).and_then(|host| Some(look?.state(host)));
        let lost = self.hosts.get(at).and_then(|host| look?.lost_at(host));
        let Some(host) = self.hosts.get_mut(at) else { return };
        if let Some(mark) = &mut host.mark {
            mark.lost = mark.lost.or(lost);
        }
        change(host);
        self.move_on(at, rollout, before);
        let is_under_way = |state| matches!(state, Some(HostState::Pending | HostState::LetGo | HostState::Told));
        let after = self.state(at, rollout, now);
        if is_under_way(after) && before.is_some() && !is_under_way(before) {
            self.arrivals += 1;
            let arrivals = Arrival::of(self.arrivals);
            if let Some(host) = self.hosts.get_mut(at) {
                (host.arrival, host.mark) = (arrivals, None);
            }
        }
    }

    fn look<'a>(&self, at: usize, rollout: Option<&'a Rollout>, now: Timestamp) -> Option<Look<'a>> {
        let rollout = rollout?;
        let group = rollout.group(self.hosts.get(at)?.place)?;
        Some(Look::new(rollout, group, self, now))
    }

    fn state(&self, at: usize, rollout: Option<&Rollout>, now: Timestamp) -> Option<HostState> {
        Some(self.look(at, rollout, now)?.state(self.hosts.get(at)?))
    }

    pub(crate) fn take_update_id(&mut self, at: usize, update_id: u128) {
        if update_id == 0 || self.hosts.get(at).is_some_and(|host| host.update_id == update_id) {
            return;
        }
        // Whoever had it first keeps it: a copy of a host takes nothing away from it.
        let known = self.at_update_id(update_id);
        if known.is_some_and(|known| known != at) {
            return;
        }
        let Some(host) = self.hosts.get_mut(at) else { return };
        let before = std::mem::replace(&mut host.update_id, update_id);
        if before != 0 {
            // A host that changes its id with each question must not fill the memory.
            if self.former.len() >= MOST_FORMER {
                self.former.clear();
            }
            self.former.insert(before, u32::try_from(at).unwrap_or(u32::MAX));
        }
        self.index_update_id(update_id, at);
        self.note_change(at);
        // Slots of ids that no host has any more stay behind.
        if self.by_update_id.len() > 2 * self.hosts.len() + MOST_LEFT_BEHIND {
            self.index_update_ids();
        }
    }

    /// Indexes the update ids that hosts have, and no others.
    fn index_update_ids(&mut self) {
        self.by_update_id = Index::default();
        for at in 0..self.hosts.len() {
            match self.hosts.get(at).map(|host| host.update_id) {
                None | Some(0) => {}
                Some(id) => self.index_update_id(id, at),
            }
        }
    }

    /// How many update ids are indexed or remembered: bounded, whatever hosts call themselves.
    pub fn update_ids(&self) -> usize {
        self.by_update_id.len() + self.former.len()
    }

    /// After a change of name, labels or assignment: the host moves if it was not let go yet.
    fn move_on(&mut self, at: usize, rollout: Option<&Rollout>, before: Option<HostState>) {
        let (Some(rollout), Some(host)) = (rollout, self.hosts.get(at)) else { return };
        let is_marked = host.mark.is_some_and(|mark| u64::from(mark.rollout) == rollout.number);
        let is_let_go =
            before == Some(HostState::LetGo) && rollout.group(host.place).is_some_and(GroupStatus::is_capped);
        let place = rollout.place_of(host, &self.names);
        if place == host.place {
            return;
        }
        if is_marked || is_let_go {
            if let Some(group) = rollout.group(host.place) {
                let (id, name) = (host.id, self.names.keep(&group.policy.name));
                self.stays.insert(id, (rollout.number, name));
                self.note_change(at);
            }
            return;
        }
        self.arrivals += 1;
        let arrivals = Arrival::of(self.arrivals);
        if let Some(host) = self.hosts.get_mut(at) {
            (host.place, host.arrival, host.joined) = (place, arrivals, arrivals);
        }
    }

    /// What a report means for the rollout that the host was told of.
    pub(crate) fn follow(&mut self, at: usize, rollout: &Rollout, now: Timestamp) {
        self.note_change(at);
        let Some(look) = self.look(at, Some(rollout), now) else { return };
        let Some(host) = self.hosts.get_mut(at) else { return };
        let is_over = look.timed_out_at(host).is_some();
        let (version, last, told) = (host.version, host.last, look.told_version(host));
        let Some(mark) = host.mark.as_mut().filter(|mark| u64::from(mark.rollout) == rollout.number) else { return };
        let last = last.filter(|last| last.to == told && last.at >= mark.told);
        match last.map(|last| last.outcome) {
            Some(Outcome::Started) if !is_over => mark.started = mark.started.or(Some(look.now)),
            Some(Outcome::Switched) if !is_over => mark.switched = mark.switched.or(Some(look.now)),
            Some(Outcome::Started | Outcome::Switched) => {}
            _ if version == told => mark.arrived = mark.arrived.or(Some(look.now)),
            _ => {}
        }
    }
}

/// Whether `version` comes before the rollout's start version.
pub(crate) fn is_below(version: Option<&str>, rollout: &Rollout) -> bool {
    let version = version.and_then(|version| version.parse::<Version>().ok());
    version.is_some_and(|version| version.precedes(&rollout.start))
}

// Here, and not beside the type, which knows one group and no fleet.
impl<'a> Look<'a> {
    /// Of `group` at `now`.
    pub fn new(rollout: &Rollout, group: &'a GroupStatus, fleet: &Fleet, now: Timestamp) -> Self {
        let (start, target) = fleet.versions(rollout);
        let wanted = if group.state == State::RolledBack { start } else { target };
        let is_frozen = group.blackout(now).is_some();
        let (rollout, now, interval) = (rollout.number, Moment::of(now), fleet.interval);
        Self { rollout, group, wanted, start, target, now, interval, is_frozen }
    }
}

impl Mark {
    fn told(rollout: u64, told: Moment) -> Self {
        Self {
            rollout: u32::try_from(rollout).unwrap_or(u32::MAX),
            told,
            started: None,
            switched: None,
            arrived: None,
            lost: None,
        }
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

    fn new(id: HostId, heard: Moment, arrival: Arrival) -> Self {
        Self {
            id,
            update_id: 0,
            labels: Labels::default(),
            declared: Name::NONE,
            assigned: Name::NONE,
            version: Name::NONE,
            flags: Flags::default(),
            heard,
            arrival,
            joined: arrival,
            is_below_start: false,
            enrolled: None,
            reports: false,
            last: None,
            failure: None,
            mark: None,
            told_back: false,
            key: 0,
            place: Place::Nowhere,
        }
    }

    /// Keeps its last change, and a failure that is new.
    fn take(&mut self, last: Last) {
        self.last = Some(last);
        if !last.outcome.is_failure() || last.is_of_the_way {
            return;
        }
        let is_told_since = |before: &Failure| self.mark.is_some_and(|mark| mark.told > before.at);
        let is_known = self.failure.is_some_and(|before| before.to == last.to && !is_told_since(&before));
        if !is_known {
            self.failure = Some(Failure { to: last.to, code: last.code, at: last.at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_a_new_image_brings_nothing_of_the_old_one() {
        let (now, mut fleet) = (Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_hours(1), Fleet::default());
        let change = Change { outcome: Outcome::RolledBack, to: "2.0.0".to_owned(), code: "unhealthy".to_owned() };
        let report = Report { host: 1, version: Some("2.0.0".to_owned()), last: Some(change), ..Report::default() };
        fleet.report(&report, None, now);
        fleet.assign(1, Some("dev"), None, now);
        let before = fleet.host(1).unwrap().clone();
        fleet.renew(1);
        let after = fleet.host(1).unwrap();
        assert!(after.last.is_none() && after.failure.is_none() && after.mark.is_none() && after.version.is_none());
        assert!(after.enrolled > before.enrolled && after.arrival > before.arrival && after.joined > before.joined);
        assert_eq!(after.assigned, before.assigned);
        assert_eq!(fleet.take_changed(), [1]);
        fleet.renew(2);
        assert!(fleet.host(2).is_none());
    }

    #[test]
    fn a_host_that_changes_its_update_id_with_each_question_fills_no_memory() {
        let (now, mut fleet) = (Timestamp::UNIX_EPOCH, Fleet::default());
        fleet.question(1, Some("dev"), 7, None, now);
        for update_id in 1_000..301_000 {
            fleet.question(2, Some("dev"), update_id, None, now);
        }
        assert!(fleet.update_ids() <= MOST_FORMER + 2 * 2 + MOST_LEFT_BEHIND + 1, "{}", fleet.update_ids());
        let slots = fleet.by_update_id.len();
        assert!(slots <= MOST_LEFT_BEHIND + 5, "{slots} slots");
        let found = |id| fleet.by_update_id(id).map(|host| host.id);
        assert_eq!((found(7), found(300_999), found(300_998)), (Some(1), Some(2), Some(2)));
    }
}
