//! Hosts that are held because the group that they belong to by name is: one that the rollout does not have.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::Fleet;
use crate::book::Book;
use crate::host::Host;
use crate::names::Names;
use crate::policy::Schedule;
use crate::rollout::{Reach, Rollout};

/// Held groups that a rollout does not have.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    groups: BTreeMap<String, Reach>,
    /// The id of that rollout.
    rollout: u128,
    /// Its groups, where all of them are by name.
    known: BTreeSet<String>,
}

impl Held {
    /// Whether `host` is held by them.
    pub(super) fn has(&self, host: &Host, names: &Names) -> bool {
        self.by(host, names).is_some()
    }

    /// The one that holds `host`.
    fn by(&self, host: &Host, names: &Names) -> Option<&str> {
        let own = || self.groups.get_key_value(names.text(host.group()));
        let other = || self.groups.iter().find(|(_, reach)| reach.has(host, names, &self.known));
        if self.groups.is_empty() { None } else { own().or_else(other).map(|(name, _)| name.as_str()) }
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
        let reach = |name: &String| self.holds.reach.get(name).cloned().unwrap_or_default();
        fleet.hold_groups(elsewhere.map(|name| (name.clone(), reach(name))).collect(), rollout, now);
    }
}

impl Fleet {
    /// The group whose hold holds `host`, though the rollout does not have it.
    pub(crate) fn held_by(&self, host: &Host) -> Option<&str> {
        self.held.by(host, &self.names)
    }

    /// These groups are held from now on, and no others. Hosts that are let go again arrive anew.
    fn hold_groups(&mut self, groups: BTreeMap<String, Reach>, rollout: &Rollout, now: Timestamp) {
        if (&self.held.groups, self.held.rollout) == (&groups, rollout.id) {
            return;
        }
        let is_same_rollout = self.held.rollout == rollout.id;
        let policies = || rollout.groups.iter().map(|group| &group.policy);
        let are_by_name = rollout.schedule != Schedule::Immediate && policies().all(|policy| policy.members.is_none());
        let known = policies().filter(|_| are_by_name).map(|policy| policy.name.clone()).collect();
        self.held = Held { groups, rollout: rollout.id, known };
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
