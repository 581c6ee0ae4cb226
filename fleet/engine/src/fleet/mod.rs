//! The hosts: what is known of each, and how that changes.

mod arrivals;
mod free;
mod held;
mod marks;
mod places;
mod reports;
mod update_ids;

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use protocol::report::DEFAULT_INTERVAL;

use crate::host::{ArrivalNumber, Flags, GroupPlace, Host, HostId};
use crate::index::Index;
use crate::label_set::{LabelSets, Labels};
use crate::moment::Moment;
use crate::names::{Name, NameTable};
use crate::resource::counts_are_good;
use crate::rollout::Rollout;
use crate::tally::HostState;

use places::Arranged;
pub use reports::{HostChange, HostReport};

/// All hosts that are known.
#[derive(Debug, Clone)]
pub struct Fleet {
    /// How often hosts report, seconds.
    pub interval: u32,
    /// Hosts enrol by token or approval, so that nobody can invent one: then failures that they report may send others back
    /// (`on_halt: rollback`, FLEET §3).
    pub is_proven: bool,
    /// Texts of hosts.
    pub names: NameTable,
    hosts: Vec<Host>,
    by_id: Index,
    by_update_id: Index,
    /// Update ids that hosts had before the one that they have.
    former: HashMap<u128, u32>,
    /// Groups by whose names hosts are held.
    held: held::HeldGroups,
    /// Groups that hosts stay in though they declare others: the number of the rollout, and the group.
    stays: HashMap<HostId, (u64, Name)>,
    labels: LabelSets,
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

impl Default for Fleet {
    fn default() -> Self {
        Self {
            interval: DEFAULT_INTERVAL,
            is_proven: true,
            names: NameTable::default(),
            hosts: Vec::new(),
            by_id: Index::default(),
            by_update_id: Index::default(),
            former: HashMap::new(),
            held: held::HeldGroups::default(),
            stays: HashMap::new(),
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
pub type ReportedCounts = BTreeMap<String, BTreeMap<String, u64>>;

#[derive(Debug, Clone)]
struct HostCounts {
    at: Moment,
    by_group: ReportedCounts,
}

impl Fleet {
    /// Every host, in the order of their first arrival.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The hosts of the group at `index` of the rollout that they were placed for.
    pub(crate) fn members(&self, index: usize) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| matches!(host.place, GroupPlace::Group(at) if usize::from(at) == index))
    }

    /// The host with this UUID.
    pub fn host(&self, id: HostId) -> Option<&Host> {
        self.hosts.get(self.at(id)?)
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
        if let Some(host) = self.hosts.get_mut(at) {
            host.flags.held_by_group = self.held.by(host, &self.names).is_some();
        }
        let is_under_way = |state| matches!(state, Some(HostState::Pending | HostState::LetGo | HostState::Told));
        let after = self.state(at, rollout, now);
        // Pinned or disabled before it began: it is not on the way, and times out no more.
        if (before, after) == (Some(HostState::Told), Some(HostState::Excluded))
            && let Some(host) = self.hosts.get_mut(at)
        {
            host.mark = None;
        }
        if is_under_way(after) && before.is_some() && !is_under_way(before) {
            self.arrivals += 1;
            let arrivals = ArrivalNumber::of(self.arrivals);
            if let Some(host) = self.hosts.get_mut(at) {
                (host.arrival, host.mark) = (arrivals, None);
            }
        }
    }
}
