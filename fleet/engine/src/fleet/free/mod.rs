//! Names that nobody has any more are freed: what hosts can make the fleet keep is bounded by what they say at a time.

use super::Fleet;
use super::places::Arranged;
use crate::host::{Host, HostFailure, Last};
use crate::names::Name;

/// Fewer names than this that nobody has are not worth a walk through all hosts.
const FEW: usize = 1024;
/// Nor is less than one name for so many hosts: the walk costs each new name as much, however many hosts there are.
const HOSTS_A_NAME: usize = 8;

impl Fleet {
    /// Frees the names that nobody has where they may be more than those that somebody has. No name may be in hand.
    pub(crate) fn free_names_if_many(&mut self) {
        if self.names.len() > 2 * self.used_names + self.hosts.len() / HOSTS_A_NAME + FEW {
            self.free_names();
        }
    }

    /// Frees the names that nobody has; the others stay as they are. No name may be in hand.
    pub fn free_names(&mut self) {
        self.labels.clean();
        let mut used = self.names.unused();
        let arranged = self.arranged.map(|Arranged { id: _, start, target }| [start, target]);
        let stays = self.stays.values().map(|(_, group)| *group);
        for name in arranged.into_iter().flatten().chain(stays).chain(self.labels.names()) {
            used.mark(name);
        }
        for name in self.hosts.iter().flat_map(Host::names) {
            used.mark(name);
        }
        for host in self.hosts.iter().filter(|host| !host.only_asks()) {
            used.mark(host.declared);
        }
        let mut of_questions = 0;
        for host in self.hosts.iter().filter(|host| host.only_asks()) {
            of_questions += usize::from(used.mark(host.declared));
        }
        self.names.keep_only(&used);
        (self.used_names, self.names_of_questions) = (self.names.len(), of_questions);
    }

    /// Names of groups that only hosts declare that only ask; such that nobody has any more may be among them.
    pub fn names_of_questions(&self) -> usize {
        self.names_of_questions
    }

    /// The name of a group that a question has, which anybody may ask.
    pub(super) fn keep_of_question(&mut self, group: &str) -> Name {
        self.names_of_questions += usize::from(self.names.find(group).is_none());
        self.names.keep(group)
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
            labels: _,
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
            last,
            failure,
            mark: _,
            told_back: _,
            key: _,
            place: _,
        } = self;
        let last = last.map(|Last { outcome: _, to, code, at: _, is_of_the_way: _ }| [to, code]);
        let failure = failure.map(|HostFailure { to, code, at: _ }| [to, code]);
        [*assigned, *version].into_iter().chain(last.into_iter().flatten()).chain(failure.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests;
