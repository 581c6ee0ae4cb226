//! Places: in which group of the present rollout each host is, and when its turn is.

use std::collections::HashMap;

use protocol::Version;

use super::Fleet;
use crate::host::{ArrivalNumber, GroupPlace, HostId};
use crate::names::Name;
use crate::order;
use crate::rollout::{GroupStatus, Rollout};
use crate::tally::HostState;

/// A rollout for which all hosts were ordered and placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arranged {
    pub(super) id: u128,
    pub(super) start: Name,
    pub(super) target: Name,
}

impl Fleet {
    /// The names of the rollout's start and target version; none: no host has been heard of it.
    pub(crate) fn versions(&self, rollout: &Rollout) -> (Name, Name) {
        if let Some(arranged) = self.arranged.filter(|arranged| arranged.id == rollout.id) {
            return (arranged.start, arranged.target);
        }
        let name = |version: &Version| self.names.find(&version.to_string()).unwrap_or(Name::NONE);
        (name(&rollout.start), name(&rollout.target))
    }

    /// Orders and places all hosts for `rollout`, if that was not done yet.
    pub fn arrange(&mut self, rollout: &Rollout) {
        if self.arranged.is_some_and(|arranged| arranged.id == rollout.id) {
            return;
        }
        let [start, target] = [&rollout.start, &rollout.target].map(|version| self.names.keep(&version.to_string()));
        self.arranged = Some(Arranged { id: rollout.id, start, target });
        // Many hosts have labels, names and versions in common: each case is decided once.
        let mut places: HashMap<(Name, Name, usize), GroupPlace> = HashMap::new();
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

    /// After a change of name, labels or assignment: the host moves if it was not let go yet, and did not fail.
    pub(super) fn move_on(&mut self, at: usize, rollout: Option<&Rollout>, before: Option<HostState>) {
        let (Some(rollout), Some(host)) = (rollout, self.hosts.get(at)) else { return };
        let has_failed = matches!(before, Some(HostState::Failed | HostState::TimedOut));
        let is_marked = host.mark.is_some_and(|mark| u64::from(mark.rollout) == rollout.number);
        let is_let_go =
            before == Some(HostState::LetGo) && rollout.group(host.place).is_some_and(GroupStatus::is_capped);
        let place = rollout.place_of(host, &self.names);
        if place == host.place {
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
}

/// Whether `version` comes before the rollout's start version.
pub(crate) fn is_below(version: Option<&str>, rollout: &Rollout) -> bool {
    let version = version.and_then(|version| version.parse::<Version>().ok());
    version.is_some_and(|version| version.precedes(&rollout.start))
}
