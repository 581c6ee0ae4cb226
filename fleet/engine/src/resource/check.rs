//! Rules across a list of groups.

use std::collections::HashMap;

use super::chain;
use super::hours::longest_chain;
use super::reader::ResourceReader;
use super::shown::escaped;
use crate::policy::{Gate, GroupPolicy, Strategy, Unassigned};

/// Most groups of Managed Updates v2's strategies (FLEET §2).
const MOST_HALT_ON_ERROR: usize = 10;
/// The same.
const MOST_TIME_BASED: usize = 20;
/// Most groups of RFD 0169, which names no limit: as many as an `autoupdate_agent_report` can count.
const MOST_REQUIRES: usize = 50;
/// Longest chain of groups that require one another, hours: a week (RFD 0169).
const LONGEST_CHAIN: u64 = 168;

/// A group and where it is written.
pub(super) type Placed<'a> = (ResourceReader<'a>, GroupPolicy);

/// Checks a list of groups that stands at `list`.
pub(super) fn groups(list: &ResourceReader<'_>, strategy: Strategy, groups: &[Placed<'_>]) {
    let most = match strategy {
        Strategy::HaltOnError => MOST_HALT_ON_ERROR,
        Strategy::TimeBased => MOST_TIME_BASED,
        Strategy::Requires => MOST_REQUIRES,
    };
    if groups.len() > most {
        list.refuse(format!("has {} groups, {most} are allowed", groups.len()));
        return;
    }
    unique_names(groups);
    for (index, placed) in groups.iter().enumerate() {
        alone(strategy, index, placed);
    }
    if let Some(edges) = requirements(strategy, groups) {
        circles_and_chains(groups, &edges);
    }
}

/// Checks that the group for hosts that belong to none is one of `groups`.
pub(super) fn unassigned(place: &ResourceReader<'_>, unassigned: &Unassigned, schedule: &str, groups: &[GroupPolicy]) {
    let Unassigned::Group(name) = unassigned else { return };
    if groups.iter().all(|group| group.name != *name) {
        place.refuse(format!("{} is neither hold nor last nor a group of the {schedule} schedule", escaped(name)));
    }
}

fn unique_names(groups: &[Placed<'_>]) {
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (index, (reader, group)) in groups.iter().enumerate() {
        match known.get(group.name.as_str()) {
            Some(first) if !group.name.is_empty() => {
                reader.at("name").refuse(format!("{} is the name of group {first} as well", escaped(&group.name)));
            }
            _ => {
                known.insert(&group.name, index);
            }
        }
    }
}

/// What a group may not ask for by its strategy and its place in the list: what would never act is refused, not ignored.
fn alone(strategy: Strategy, index: usize, (reader, group): &Placed<'_>) {
    let gate = &group.gate;
    let is_first = index == 0;
    let wait = match strategy {
        Strategy::HaltOnError if is_first => Some("the first group waits for none"),
        Strategy::HaltOnError => None,
        Strategy::TimeBased => Some("only supported for halt-on-error: the groups of time-based are independent"),
        Strategy::Requires => Some("only supported for halt-on-error: give soak_hours"),
    };
    if let Some(why) = wait.filter(|_| gate.wait_hours > 0) {
        reader.at("wait_hours").refuse(format!("{} is not 0: {why}", gate.wait_hours));
    }
    let follows = !gate.requires.is_empty() || strategy == Strategy::HaltOnError && !is_first;
    if gate.soak_hours > 0 && !follows {
        reader.at("soak_hours").refuse(format!("{} is not 0: this group follows none", gate.soak_hours));
    }
    if group.pace.canaries > 0 && strategy == Strategy::TimeBased {
        let canaries = group.pace.canaries;
        reader.at("canary_count").refuse(format!("{canaries} is not 0: time-based has no canaries"));
    }
}

/// Who requires whom; `None` after a fault that leaves it open.
fn requirements(strategy: Strategy, groups: &[Placed<'_>]) -> Option<Vec<Vec<usize>>> {
    let places: HashMap<&str, usize> =
        groups.iter().enumerate().rev().map(|(index, (_, group))| (group.name.as_str(), index)).collect();
    let mut is_clear = true;
    let mut edges = Vec::with_capacity(groups.len());
    for (index, (reader, group)) in groups.iter().enumerate() {
        let items = reader.at("requires").items();
        let mut required = Vec::with_capacity(group.gate.requires.len());
        for (item, name) in items.iter().zip(&group.gate.requires) {
            match places.get(name.as_str()) {
                _ if name.is_empty() => is_clear = false,
                None => {
                    item.refuse(format!("{} is not a group of this schedule", escaped(name)));
                    is_clear = false;
                }
                // Groups of halt-on-error also follow the list: such two would wait for each other.
                Some(other) if strategy == Strategy::HaltOnError && *other > index => {
                    item.refuse(format!("{} comes after this group in the list: neither could start", escaped(name)));
                    is_clear = false;
                }
                Some(other) if required.contains(other) => item.refuse(format!("{} is there twice", escaped(name))),
                Some(other) => required.push(*other),
            }
        }
        edges.push(required);
    }
    is_clear.then_some(edges)
}

fn circles_and_chains(groups: &[Placed<'_>], edges: &[Vec<usize>]) {
    let name = |index: &usize| escaped(&groups[*index].1.name);
    if let Some(circle) = chain::cycle(edges) {
        let mut names: Vec<String> = circle.iter().map(name).collect();
        names.extend(circle.first().map(name));
        groups[circle[0]].0.at("requires").refuse(format!("is a circle: {}", names.join(" requires ")));
        return;
    }
    let gates: Vec<&Gate> = groups.iter().map(|(_, group)| &group.gate).collect();
    let Some((chain, hours)) =
        longest_chain(&gates, edges).filter(|(chain, hours)| chain.len() > 1 && *hours > LONGEST_CHAIN)
    else {
        return;
    };
    let names: Vec<String> = chain.iter().map(name).collect();
    groups[chain[chain.len() - 1]].0.at("requires").refuse(format!(
        "ends a chain that takes {hours} hours at least, {LONGEST_CHAIN} (a week) are allowed: {}",
        names.join(" before ")
    ));
}
