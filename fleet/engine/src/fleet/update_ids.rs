//! Ids of updaters, by which hosts are found: those that they have, and those that they had.

use super::Fleet;
use crate::host::Host;
use crate::index::Index;

/// Most update ids that are remembered though their hosts have others now.
const MOST_FORMER: usize = 100_000;
/// Indexed update ids that no host has any more, beyond as many as there are hosts twice.
const MOST_LEFT_BEHIND: usize = 1024;

impl Fleet {
    /// The host whose updater has this id.
    pub fn by_update_id(&self, id: u128) -> Option<&Host> {
        self.hosts.get(self.at_update_id(id)?)
    }

    /// How many update ids are indexed or remembered: bounded, whatever hosts call themselves.
    #[cfg(test)]
    fn update_ids(&self) -> usize {
        self.by_update_id.len() + self.former.len()
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
        // Slots of ids that no host has any more stay.
        if self.by_update_id.len() > 2 * self.hosts.len() + MOST_LEFT_BEHIND {
            self.index_update_ids();
        }
    }

    pub(super) fn index_update_id(&mut self, id: u128, at: usize) {
        self.by_update_id.insert(id, at, |at| self.hosts.get(at).map(|host| host.update_id));
    }

    /// Indexes the update ids that hosts have, and no others.
    fn index_update_ids(&mut self) {
        self.by_update_id = Index::default();
        for at in 0..self.hosts.len() {
            if let Some(id) = self.hosts.get(at).map(|host| host.update_id).filter(|id| *id != 0) {
                self.index_update_id(id, at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

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
