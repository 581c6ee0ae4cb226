//! The hosts: what is known of each, and how that changes.

mod events;
mod held;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use jiff::Timestamp;
use protocol::Version;

use crate::host::{ArrivalNumber, Flags, GroupPlace, HOSTNAME, Host, HostFailure, HostId, Last, NamedHost, uuid};
use crate::index::Index;
use crate::membership::{DEFAULT_GROUP, MembershipFacts};
use crate::moment::Moment;
use crate::names::{Name, NameTable};
use crate::order;
use crate::policy::Schedule;
use crate::resource::counts_are_good;
use crate::rollout::{GroupStatus, Rollout};
use crate::said::Said;
use crate::selection::{BUILD, Build, Choice};
pub use crate::tally::FleetTerms;
use crate::tally::{GroupVersions, HostState};

pub use events::{HostChange, HostReport};
use held::HeldGroups;

/// Most update ids that are remembered though their hosts have others now.
const MOST_FORMER: usize = 100_000;
/// Fewer names than this that nobody has are not worth a walk through all hosts.
const FEW: usize = 1024;
/// Cases of hosts whose decisions are remembered: where each host says what no other does, that is of no use.
const MOST_CASES: usize = 65_536;
/// Nor is less than one name for so many hosts: the walk costs each new name as much, however many hosts there are.
const HOSTS_A_NAME: usize = 8;

/// All hosts that are known.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// How hosts are judged.
    pub terms: FleetTerms,
    /// Texts of hosts.
    pub names: NameTable,
    hosts: Vec<Host>,
    pub(crate) by_id: Index,
    pub(crate) by_update_id: Index,
    /// Update ids that hosts had before the one that they have.
    former: HashMap<u128, u32>,
    /// Groups by whose names hosts are held.
    held: HeldGroups,
    /// Groups that hosts stay in though they declare others: the number of the rollout, and the group.
    pub(crate) stays: HashMap<HostId, (u64, Name)>,
    /// Plans of which hosts were asked for a dry run, and the codes of what came of it; none: nothing yet.
    pub(crate) dry_runs: HashMap<HostId, (u128, Name)>,
    /// Names that were used when those of nobody were freed last.
    used_names: usize,
    /// Names of groups that nobody but hosts that only ask had then, and those that were made by questions since.
    names_of_questions: usize,
    /// Counts arrivals.
    arrivals: u64,
    /// A bit for each host: whether what a store keeps of it has changed.
    changed: Vec<u64>,
    counts: Option<HostCounts>,
    /// The rollout that keys and places are of.
    arranged: Option<Arranged>,
}

/// Hosts by group and version, as another server counts them (`autoupdate_agent_report`).
pub type ReportedCounts = BTreeMap<String, BTreeMap<String, u64>>;

/// A rollout for which all hosts were ordered and placed.
#[derive(Debug, Clone)]
struct Arranged {
    id: u128,
    /// Of what a directive's groups mean, and by what targets are chosen; 0: it is of no directive.
    digest: u64,
    start: Name,
    target: Name,
    /// Those of each group of a directive.
    of_groups: Vec<GroupVersions>,
}

#[derive(Debug, Clone)]
struct HostCounts {
    at: Moment,
    by_group: ReportedCounts,
}

impl Fleet {
    /// Groups that hosts declare and `rollout` does not have, with how many of those for whom `is_there` declare each: they are where
    /// hosts of no group are. Whom an operator assigned, or a group takes by labels, is where he should be.
    pub fn unknown_groups(&self, rollout: &Rollout, is_there: impl Fn(&Host) -> bool) -> BTreeMap<&str, u64> {
        let mut unknown = BTreeMap::new();
        if rollout.schedule == Schedule::Immediate {
            return unknown;
        }
        for host in self.hosts().iter().filter(|host| host.assigned.is_none()) {
            let group = self.names.text(host.declared);
            let facts = MembershipFacts::of(host, host.declared, &self.names);
            let is_known = || rollout.find(group).is_some() || rollout.groups.iter().any(|group| group.takes(&facts));
            if !matches!(group, "" | DEFAULT_GROUP) && !is_known() && is_there(host) {
                *unknown.entry(group).or_default() += 1;
            }
        }
        unknown
    }

    /// Every host, in the order of their first arrival.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The hosts of the group at `index` of the rollout that they were placed for.
    pub(crate) fn members(&self, index: usize) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| matches!(host.place, GroupPlace::Group(at) if usize::from(at) == index))
    }

    /// A label of a host, as an expression sees it; `None`: it has none of this key.
    pub fn label<'a>(&'a self, host: &'a Host, key: &str) -> Option<&'a str> {
        MembershipFacts::of(host, Name::NONE, &self.names).value(key)
    }

    /// The name of a host: its label `hostname`, which an operator can give, else what it calls itself; empty: it has none.
    pub fn hostname<'a>(&'a self, host: &'a Host) -> &'a str {
        self.label(host, HOSTNAME).unwrap_or_default()
    }

    /// The host as it is shown.
    pub fn named(&self, host: &Host) -> NamedHost {
        NamedHost { host: uuid(host.id), hostname: self.hostname(host).to_owned() }
    }

    /// Takes what a host calls itself whose reports do not count yet.
    pub fn call(&mut self, id: HostId, hostname: &str) {
        let Some(at) = self.at(id) else { return };
        let said = self.say(at, Some(hostname), None);
        if let Some(host) = self.hosts.get_mut(at).filter(|host| host.said != said) {
            host.said = said;
            self.note_change(at);
        }
    }

    /// The host with this UUID.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(self.at(id)?)
    }

    /// The labels of a host, by key.
    pub fn labels<'a>(&'a self, host: &Host) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.said(host).filter(|(key, _)| *key != BUILD)
    }

    /// What a host says of its build.
    pub fn build<'a>(&'a self, host: &'a Host) -> Build<'a> {
        MembershipFacts::of(host, Name::NONE, &self.names).build()
    }

    /// Its labels, and its build.
    pub(crate) fn said<'a>(&'a self, host: &Host) -> impl Iterator<Item = (&'a str, &'a str)> {
        let said = &self.names.said;
        said.pairs(said.labels(host.said)).map(|(key, value)| (self.names.text(key), self.names.text(value)))
    }

    /// What the host at a place says from now on; `None`: as before.
    fn say(&mut self, at: usize, hostname: Option<&str>, labels: Option<&BTreeMap<String, String>>) -> Said {
        let before = self.hosts.get(at).map_or(Said::default(), |host| host.said);
        if hostname.is_none() && labels.is_none() {
            return before;
        }
        let hostname = hostname.map_or_else(|| self.names.said.name(before).to_owned(), str::to_owned);
        let labels: Vec<(Name, Name)> = match labels {
            Some(labels) => labels.iter().map(|(key, value)| (self.names.keep(key), self.names.keep(value))).collect(),
            None => self.names.said.pairs(self.names.said.labels(before)).collect(),
        };
        self.names.said.keep(before, &hostname, labels.into_iter())
    }

    pub(crate) fn at(&self, id: HostId) -> Option<usize> {
        self.by_id.find(id, |at| self.hosts.get(at).map(|host| host.id))
    }

    /// Takes another server's counts in place of those before.
    pub fn set_counts(&mut self, by_group: ReportedCounts, now: Timestamp) {
        self.counts = Some(HostCounts { at: Moment::of(now), by_group });
    }

    /// Another server's counts, while they are good.
    pub fn counts(&self, now: Timestamp) -> Option<&ReportedCounts> {
        let counts = self.counts.as_ref()?;
        counts_are_good(counts.at.time(), now).then_some(&counts.by_group)
    }

    /// Hosts of which something changed that a store keeps, since this was asked last.
    pub fn take_changed(&mut self) -> Vec<HostId> {
        let words = std::mem::take(&mut self.changed);
        let is_set = |at: &usize| words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1);
        (0..self.hosts.len()).filter(is_set).filter_map(|at| self.hosts.get(at)).map(|host| host.id).collect()
    }

    fn index(&mut self, id: HostId, at: usize) {
        self.by_id.insert(id, at, |at| self.hosts.get(at).map(|host| host.id));
    }

    fn note_change(&mut self, at: usize) {
        if self.changed.len() <= at / 64 {
            self.changed.resize(at / 64 + 1, 0);
        }
        if let Some(word) = self.changed.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(crate) fn note_change_of(&mut self, host: HostId) {
        if let Some(at) = self.at(host) {
            self.note_change(at);
        }
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

    /// Changes what is known of a host. What had ended by the clock stays ended. Whoever had no part in the rollout, or was at
    /// its end, and has one again (seen again, released, another version by hand) arrives anew: his turn comes with the next
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
        if let Some(mark) = host.mark_mut() {
            mark.lost = mark.lost.or(lost);
        }
        change(host);
        self.move_on(at, rollout, before);
        if let Some(host) = self.hosts.get_mut(at) {
            host.flags.held_by_group = self.held.by(host, &self.names).is_some();
        }
        let is_under_way = |state| matches!(state, Some(HostState::Pending | HostState::LetGo | HostState::Told));
        let after = self.state(at, rollout, now);
        // Pinned or disabled before it began: it is not on the way, and times out no more.
        if (before, after) == (Some(HostState::Told), Some(HostState::Excluded))
            && let Some(host) = self.hosts.get_mut(at)
        {
            host.set_mark(None);
        }
        if is_under_way(after) && before.is_some() && !is_under_way(before) {
            self.arrivals += 1;
            let arrivals = ArrivalNumber::of(self.arrivals);
            if let Some(host) = self.hosts.get_mut(at) {
                host.arrival = arrivals;
                host.set_mark(None);
            }
        }
    }

    /// The names of the versions of `group`: of its start, and of what its hosts get. None: no host knows it.
    pub(crate) fn versions(&self, rollout: &Rollout, group: &GroupStatus) -> GroupVersions {
        let name = |version: &Version| self.names.find(&version.to_string()).unwrap_or(Name::NONE);
        let arranged = self.arranged.as_ref().filter(|arranged| arranged.id == rollout.id);
        // Names are looked up once, and not for each host.
        if let Some(Arranged { of_groups, .. }) =
            arranged.filter(|arranged| arranged.of_groups.len() == rollout.groups.len())
            && let Some(index) = rollout.groups.iter().position(|known| std::ptr::eq(known, group))
            && let Some(known) = of_groups.get(index)
        {
            return *known;
        }
        let policy = &group.policy;
        let start = match (&policy.start, arranged) {
            (None, Some(arranged)) => arranged.start,
            _ => name(rollout.start_of(group)),
        };
        if policy.targets.is_empty() {
            return GroupVersions::new(start, [arranged.map_or_else(|| name(&rollout.target), |known| known.target)]);
        }
        GroupVersions::new(start, policy.targets.iter().map(|target| name(&target.version)))
    }

    /// Orders and places all hosts for `rollout`, if that was not done yet.
    pub fn arrange(&mut self, rollout: &Rollout) {
        let digest = rollout.digest_of_directive();
        let before = self.arranged.as_ref().filter(|arranged| arranged.id == rollout.id);
        if before.is_some_and(|arranged| arranged.digest == digest) {
            return;
        }
        let of_before = before.map(|arranged| arranged.of_groups.clone());
        // Whoever was told another version in the present rollout has not been told yet.
        let was_told = |host: &Host| {
            let GroupPlace::Group(index) = host.place else { return None };
            let is_told = host.mark().is_some_and(|mark| u64::from(mark.rollout) == rollout.number);
            Some(of_before.as_ref()?.get(usize::from(index))?.target(host.choice)).filter(|_| is_told)
        };
        let told: Vec<(usize, Name)> = match digest {
            0 => Vec::new(),
            _ => self.hosts.iter().enumerate().filter_map(|(at, host)| Some((at, was_told(host)?))).collect(),
        };
        // What is known of the groups as they were says nothing of them as they are.
        self.arranged = None;
        let [start, target] = [&rollout.start, &rollout.target].map(|version| self.names.keep(&version.to_string()));
        for version in rollout.versions_of_groups() {
            self.names.keep(&version.to_string());
        }
        let of_groups = match digest {
            0 => Vec::new(),
            _ => rollout.groups.iter().map(|group| self.versions(rollout, group)).collect(),
        };
        self.arranged = Some(Arranged { id: rollout.id, digest, start, target, of_groups });
        self.place_all(rollout);
        if digest == 0 {
            return;
        }
        self.choose_all(rollout);
        for (at, told) in told {
            let Some(host) = self.hosts.get_mut(at) else { continue };
            let now = rollout.group(host.place).map(|group| (group, host.choice));
            let now = now.and_then(|(group, choice)| self.names.find(&rollout.target_of(group, choice)?.to_string()));
            if now != Some(told) {
                host.set_mark(None);
                self.note_change(at);
            }
        }
    }

    /// Gives every host its place in the order and its group.
    fn place_all(&mut self, rollout: &Rollout) {
        // Many hosts have labels, names and versions in common: each case is decided once.
        let mut places: HashMap<(Name, Name, &[u8]), GroupPlace> = HashMap::new();
        let mut below: HashMap<(Name, GroupPlace), bool> = HashMap::new();
        let names = &self.names;
        let (asks_for_names, asks_for_labels) = (rollout.asks_for_hostnames(), rollout.asks_for_labels());
        for host in &mut self.hosts {
            host.key = order::key(host.id, rollout.id);
            let labels = if asks_for_labels { names.said.labels(host.said) } else { &[] };
            let case = (host.assigned, host.declared, labels);
            let stays = self.stays.get(&host.id).filter(|(number, _)| *number == rollout.number);
            let before = host.place;
            host.place = match stays.and_then(|(_, group)| rollout.place_named(names.text(*group))) {
                Some(place) => place,
                None if asks_for_names => rollout.place_of(host, names),
                None => decided(&mut places, case, || rollout.place_of(host, names)),
            };
            if rollout.directive.is_some() && before != host.place {
                self.arrivals += 1;
                let arrival = ArrivalNumber::of(self.arrivals);
                (host.arrival, host.joined) = (arrival, arrival);
            }
            let (version, place) = (host.version, host.place);
            let is_below = || is_below(Some(names.text(version)), rollout, place);
            host.is_below_start = *below.entry((version, place)).or_insert_with(is_below);
        }
    }

    /// Gives every host its target.
    fn choose_all(&mut self, rollout: &Rollout) {
        // By group, labels, version and the version to which a change goes on.
        type Case<'a> = (GroupPlace, &'a [u8], Name, Name);
        let mut choices: HashMap<Case<'_>, (Choice, bool)> = HashMap::new();
        for host in &mut self.hosts {
            let goes_to = host.last().filter(|last| last.outcome.is_under_way()).map_or(Name::NONE, |last| last.to);
            let case = (host.place, self.names.said.labels(host.said), host.version, goes_to);
            (host.choice, host.flags.told_nothing) =
                decided(&mut choices, case, || rollout.choose(host, host.place, &self.names));
        }
    }

    /// After a change of name, labels or assignment: the host moves if it was not let go yet, and did not fail.
    pub(super) fn move_on(&mut self, at: usize, rollout: Option<&Rollout>, before: Option<HostState>) {
        let (Some(rollout), Some(host)) = (rollout, self.hosts.get(at)) else { return };
        let has_failed = matches!(before, Some(HostState::Failed | HostState::TimedOut));
        let is_marked = host.mark().is_some_and(|mark| u64::from(mark.rollout) == rollout.number);
        let is_let_go =
            before == Some(HostState::LetGo) && rollout.group(host.place).is_some_and(GroupStatus::is_capped);
        let place = rollout.place_of(host, &self.names);
        if place == host.place {
            self.choose_anew(at, rollout);
            return;
        }
        if is_marked || is_let_go || has_failed {
            if let Some(group) = rollout.group(host.place) {
                let (id, name) = (host.id, self.names.keep(&group.policy.name));
                self.stays.insert(id, (rollout.number, name));
                self.note_change(at);
            }
            return;
        }
        self.arrivals += 1;
        let arrivals = ArrivalNumber::of(self.arrivals);
        if let Some(host) = self.hosts.get_mut(at) {
            (host.place, host.arrival, host.joined) = (place, arrivals, arrivals);
        }
        self.choose_anew(at, rollout);
    }

    /// After a change of what a host runs or says: it may get another target of its group. Then it was not told that yet, and keeps
    /// its turn.
    fn choose_anew(&mut self, at: usize, rollout: &Rollout) {
        let Some(host) = self.hosts.get(at).filter(|_| rollout.directive.is_some()) else { return };
        let (choice, told_nothing) = rollout.choose(host, host.place, &self.names);
        let is_below_start = is_below(Some(self.names.text(host.version)), rollout, host.place);
        let Some(host) = self.hosts.get_mut(at) else { return };
        if host.choice != choice && !host.told_back {
            host.set_mark(None);
        }
        (host.choice, host.flags.told_nothing, host.is_below_start) = (choice, told_nothing, is_below_start);
    }

    /// The group that a host stays in for a rollout, though it declares another.
    pub(crate) fn stays(&self, id: HostId) -> Option<(u64, &str)> {
        self.stays.get(&id).map(|(number, group)| (*number, self.names.text(*group)))
    }

    /// The host whose updater has this id.
    pub fn by_update_id(&self, id: u128) -> Option<&Host> {
        self.hosts.get(self.at_update_id(id)?)
    }

    fn at_update_id(&self, id: u128) -> Option<usize> {
        let known = self.by_update_id.find(id, |at| self.hosts.get(at).map(|host| host.update_id));
        known.or_else(|| self.former.get(&id).map(|at| *at as usize))
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
        let Some(before) = self.hosts.get(at).map(|host| host.update_id) else { return };
        if before != 0 {
            // A host that changes its id with each question must not fill the memory.
            if self.former.len() >= MOST_FORMER {
                self.former.clear();
            }
            self.former.insert(before, u32::try_from(at).unwrap_or(u32::MAX));
            self.by_update_id.remove(before, |at| self.hosts.get(at).map(|host| host.update_id));
        }
        if let Some(host) = self.hosts.get_mut(at) {
            host.update_id = update_id;
        }
        self.index_update_id(update_id, at);
        self.note_change(at);
    }

    pub(super) fn index_update_id(&mut self, id: u128, at: usize) {
        self.by_update_id.insert(id, at, |at| self.hosts.get(at).map(|host| host.update_id));
    }

    /// Frees the names that nobody has where they may be more than those that somebody has. No name may be in hand.
    pub fn free_names_if_many(&mut self) {
        let is_many = self.names.len() > 2 * self.used_names + self.hosts.len() / HOSTS_A_NAME + FEW;
        if is_many || self.names.said.has_garbage(self.hosts.len() / HOSTS_A_NAME) {
            self.free_names();
        }
    }

    /// Frees the names that nobody has; the others stay as they are. No name may be in hand.
    pub fn free_names(&mut self) {
        let mut used = self.names.unused();
        let mark = |(key, value): &(Name, Name)| {
            used.mark(*key);
            used.mark(*value);
        };
        self.names.said.keep_only(self.hosts.iter_mut().map(|host| &mut host.said), mark);
        if let Some(Arranged { id: _, digest: _, start, target, of_groups }) = &self.arranged {
            let of_groups = of_groups.iter().flat_map(GroupVersions::names);
            for name in [*start, *target].into_iter().chain(of_groups) {
                used.mark(name);
            }
        }
        let stays = self.stays.values().map(|(_, group)| *group);
        let codes = self.dry_runs.values().map(|(_, code)| *code);
        let (asking, others) = (|host: &&Host| host.only_asks(), |host: &&Host| !host.only_asks());
        let declared = self.hosts.iter().filter(others).map(|host| host.declared);
        for name in stays.chain(codes).chain(self.hosts.iter().flat_map(Host::names)).chain(declared) {
            used.mark(name);
        }
        let of_questions = self.hosts.iter().filter(asking).filter(|host| used.mark(host.declared)).count();
        self.names.keep_only(&used);
        (self.used_names, self.names_of_questions) = (self.names.len(), of_questions);
    }

    /// Names of groups that only hosts declare that only ask; such that nobody has any more may be among them.
    pub fn names_of_questions(&self) -> usize {
        self.names_of_questions
    }

    /// The group whose hold holds `host`, though the host is not in it now.
    pub(crate) fn held_by(&self, host: &Host) -> Option<&str> {
        self.held.by(host, &self.names)
    }

    /// Whether the hold of another group holds somebody unknown at `place` who declares `group`.
    pub(crate) fn holds_unknown(&self, group: &str, place: GroupPlace) -> bool {
        self.held.find(&MembershipFacts::of_name(group, &self.names), false, place).is_some()
    }

    /// These groups are held from now on, and no others. Hosts that are let go again arrive anew.
    fn hold_groups(&mut self, held: HeldGroups, rollout: &Rollout, now: Timestamp) {
        if self.held == held {
            return;
        }
        let is_same_rollout = self.held.rollout == rollout.id;
        self.held = held;
        for at in 0..self.hosts.len() {
            let Some(host) = self.hosts.get_mut(at) else { continue };
            let is_held = self.held.by(host, &self.names).is_some();
            if host.flags.held_by_group && !is_held && is_same_rollout {
                self.change(at, Some(rollout), now, |_| {});
            } else {
                host.flags.held_by_group = is_held;
            }
        }
    }
}

impl Host {
    /// Nobody vouches for it: what it declares, anybody may have made up.
    fn only_asks(&self) -> bool {
        self.enrolled.is_none() && !self.reports
    }

    /// Its names, but for those of its labels and the group that it declares. A field that is added has to be considered here.
    fn names(&self) -> impl Iterator<Item = Name> {
        let Self {
            id: _,
            update_id: _,
            said: _,
            declared: _,
            assigned,
            version,
            flags: _,
            heard: _,
            arrival: _,
            joined: _,
            is_below_start: _,
            enrolled: _,
            reports: _,
            history: _,
            told_back: _,
            key: _,
            place: _,
            choice: _,
        } = self;
        let last = self.last().map(|Last { outcome: _, to, code, at: _, is_of_the_way: _ }| [to, code]);
        let failure = self.failure().map(|HostFailure { to, code, at: _ }| [to, code]);
        [*assigned, *version].into_iter().chain(last.into_iter().flatten()).chain(failure.into_iter().flatten())
    }
}

/// What is decided of a case, once for all hosts of it.
pub(crate) fn decided<Case: Eq + Hash, T: Clone>(
    known: &mut HashMap<Case, T>,
    case: Case,
    decide: impl FnOnce() -> T,
) -> T {
    if let Some(known) = known.get(&case) {
        return known.clone();
    }
    let made = decide();
    if known.len() < MOST_CASES {
        known.insert(case, made.clone());
    }
    made
}

/// Whether `version` comes before the start version of the group at `place`.
pub(crate) fn is_below(version: Option<&str>, rollout: &Rollout, place: GroupPlace) -> bool {
    let version = version.and_then(|version| version.parse::<Version>().ok());
    let start = rollout.group(place).map_or(&rollout.start, |group| rollout.start_of(group));
    version.is_some_and(|version| version.precedes(start))
}
