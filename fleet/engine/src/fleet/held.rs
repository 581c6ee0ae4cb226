//! Hosts that are held because a group is to which they belong, or belonged when it was held, though they are not in it now.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Fleet;
use crate::host::{GroupPlace, Host};
use crate::membership::{Membership, MembershipFacts};
use crate::names::NameTable;
use crate::rollout::Rollout;
use crate::rollout_state::RolloutState;

/// Held groups, as a rollout has them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct HeldGroups {
    /// Each with its place; `None`: the rollout does not have it.
    groups: BTreeMap<String, Option<GroupPlace>>,
    /// Who belonged to them.
    rules: Vec<Membership>,
    /// The id of that rollout.
    pub(super) rollout: u128,
}

impl HeldGroups {
    /// The one that holds `host`.
    pub(super) fn by(&self, host: &Host, names: &NameTable) -> Option<&str> {
        let is_assigned = !host.assigned.is_none();
        let known = MembershipFacts::of(host, host.group(), names);
        self.find(&known, is_assigned, host.place)
    }

    /// Who is in a held group stands still with it. An assignment beats what the host was a member of.
    pub(super) fn find(&self, host: &MembershipFacts<'_>, is_assigned: bool, place: GroupPlace) -> Option<&str> {
        let own = self.groups.get_key_value(host.group).filter(|(_, at)| is_assigned || at.is_none());
        let rules = self.rules.iter().filter(|_| !is_assigned).filter_map(|rule| rule.holds(host));
        let is_elsewhere = |name: &&str| self.groups.get(*name).is_some_and(|at| *at != Some(place));
        own.map(|(name, _)| name.as_str()).into_iter().chain(rules).find(is_elsewhere)
    }
}

impl RolloutState {
    /// Orders and places all hosts for the present rollout, and holds those whose group is held.
    pub fn arrange(&self, fleet: &mut Fleet, now: Timestamp) {
        if let Some(rollout) = &self.rollout {
            self.arrange_for(rollout, fleet, now);
        }
    }

    pub(crate) fn arrange_for(&self, rollout: &Rollout, fleet: &mut Fleet, now: Timestamp) {
        fleet.arrange(rollout);
        let groups = self.holds.groups.iter().map(|name| (name.clone(), rollout.place_named(name))).collect();
        fleet.hold_groups(HeldGroups { groups, rules: self.holds.rules.clone(), rollout: rollout.id }, rollout, now);
    }
}
