//! Hosts that are held because the group that they belong to by name is: one that the rollout does not have.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::Fleet;
use crate::book::Book;
use crate::host::Host;
use crate::names::Names;
use crate::rollout::Rollout;

/// Held groups that a rollout does not have.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    names: BTreeSet<String>,
    /// The id of that rollout.
    rollout: u128,
}

impl Held {
    /// Whether `host` is held by them.
    pub(super) fn has(&self, host: &Host, names: &Names) -> bool {
        !self.names.is_empty() && self.names.contains(names.text(host.group()))
    }
}

impl Book {
    /// Whether an operator holds the group called `name`, and `rollout` has none that is called so.
    pub(crate) fn holds_elsewhere(&self, name: &str, rollout: &Rollout) -> bool {
        self.holds.groups.contains(name) && rollout.find(name).is_none()
    }

    /// Orders and places all hosts for the present rollout, and holds those whose group is held.
    pub fn arrange(&self, fleet: &mut Fleet, now: Timestamp) {
        if let Some(rollout) = &self.rollout {
            self.arrange_for(rollout, fleet, now);
        }
    }

    pub(crate) fn arrange_for(&self, rollout: &Rollout, fleet: &mut Fleet, now: Timestamp) {
        fleet.arrange(rollout);
        let elsewhere = self.holds.groups.iter().filter(|name| self.holds_elsewhere(name, rollout));
        fleet.hold_groups(elsewhere.cloned().collect(), rollout, now);
    }
}

impl Fleet {
    /// These groups are held from now on, and no others. Hosts that are let go again arrive anew.
    fn hold_groups(&mut self, names: BTreeSet<String>, rollout: &Rollout, now: Timestamp) {
        if (&self.held.names, self.held.rollout) == (&names, rollout.id) {
            return;
        }
        let is_same_rollout = self.held.rollout == rollout.id;
        self.held = Held { names, rollout: rollout.id };
        for at in 0..self.hosts.len() {
            let Some(host) = self.hosts.get_mut(at) else { continue };
            let is_held = self.held.has(host, &self.names);
            if host.flags.held_by_group && !is_held && is_same_rollout {
                self.change(at, Some(rollout), now, |_| {});
            } else {
                host.flags.held_by_group = is_held;
            }
        }
    }
}
