//! Lists of groups.

use jiff::SignedDuration;

use super::place::DocumentPlace;
use super::{Found, Known, freezes, matching};
use crate::percent::Percent;
use crate::policy::{Gate, GroupPolicy, OnHalt, Policy, Strategy, Unassigned};
use crate::resource::{longest_chain, minimum_rollout_hours};

/// How often updaters ask by default, minutes.
const ASK: i64 = 10;
/// A rollout that takes this long in the best case is long, hours: four days.
const LONG: u64 = 96;
/// More failed hosts than this are many.
const MANY: u64 = 100;
/// In a group of more hosts than this, one always fails.
const LARGE: u64 = 1000;

/// The groups of both schedules, which stand at `schedules`.
pub(super) fn lists(schedules: &DocumentPlace<'_>, policy: &Policy, known: &Known, found: &mut Found) {
    for (name, groups) in [("regular", &policy.regular), ("critical", &policy.critical)] {
        if groups.is_empty() {
            continue;
        }
        let list = schedules.key(name);
        order(&list, policy.strategy, groups, found);
        if policy.strategy == Strategy::Requires {
            members(&list, policy, groups, found);
        }
        let share = known.hosts.map(|hosts| hosts / u64::try_from(groups.len()).unwrap_or(u64::MAX).max(1));
        for (nth, group) in groups.iter().enumerate() {
            let at = list.item(nth);
            let of_group = known.by_group.as_ref().and_then(|counts| counts.get(&group.name)).copied();
            windows(&at, policy, group, found);
            stops(&at, group, of_group.or(share), found);
            freezes::check(&at, group, known.now, found);
            if of_group == Some(0) {
                let what = format!("no host is in {}", group.name);
                found.add(&at, "empty_group", what, "check its members, or take it out: an empty group costs an hour");
            }
        }
    }
}

/// Whether the first hosts are few, the last ones too, and the way is short.
fn order(list: &DocumentPlace<'_>, strategy: Strategy, groups: &[GroupPolicy], found: &mut Found) {
    if strategy != Strategy::TimeBased && groups.iter().all(|group| group.pace.canaries == 0) {
        let what = "no group has canaries: the first hosts that get a bad release are a group";
        let advice = "give the first group canary_count: 2, or up to 5";
        found.add(&list.item(0).key("canary_count"), "no_canary", what, advice);
    }
    for (nth, group) in groups.iter().enumerate() {
        let is_last = match strategy {
            Strategy::Requires => groups.iter().all(|other| !other.gate.requires.contains(&group.name)),
            Strategy::HaltOnError | Strategy::TimeBased => nth + 1 == groups.len(),
        };
        if is_last && group.pace.max_in_flight == Percent::ALL && group.pace.rate.is_none() {
            let what = format!("all of {}, a last group, update at once: nothing stops a release half-way", group.name);
            let advice = "give it max_in_flight, such as 10%";
            found.add(&list.item(nth).key("max_in_flight"), "last_group_at_once", what, advice);
        }
    }
    let (chain, hours) = match strategy {
        Strategy::HaltOnError => ((0..groups.len()).collect(), minimum_rollout_hours(groups)),
        Strategy::Requires => chain_of_requirements(groups),
        Strategy::TimeBased => (Vec::new(), 0),
    };
    if hours >= LONG {
        let names: Vec<&str> = chain.iter().filter_map(|nth| Some(groups.get(*nth)?.name.as_str())).collect();
        let what = format!("takes {} days in the best case: {}", hours.div_ceil(24), names.join(", then "));
        let advice =
            "bring hours closer together, or shorten wait_hours and soak_hours: a security release goes this way too";
        found.add(list, "long_chain", what, advice);
    }
}

/// The chain of requirements that takes longest, and its hours. There are no circles: they are refused.
fn chain_of_requirements(groups: &[GroupPolicy]) -> (Vec<usize>, u64) {
    let place = |name: &String| groups.iter().position(|other| other.name == *name);
    let required = |group: &GroupPolicy| group.gate.requires.iter().filter_map(place).collect();
    let gates: Vec<&Gate> = groups.iter().map(|group| &group.gate).collect();
    longest_chain(&gates, &groups.iter().map(required).collect::<Vec<_>>()).unwrap_or_default()
}

/// Membership by labels: groups that nobody can be in, and hosts that are in none.
fn members(list: &DocumentPlace<'_>, policy: &Policy, groups: &[GroupPolicy], found: &mut Found) {
    let mut seen: Vec<(&GroupPolicy, String)> = Vec::new();
    let mut catches_all: Option<&GroupPolicy> = None;
    for (nth, group) in groups.iter().enumerate() {
        let Some(members) = &group.members else { continue };
        let at = list.item(nth).key("agents");
        let texts = [&members.node, &members.instance].map(|one| one.as_ref().map_or("", |one| one.text()).trim());
        let text = texts.join("\n");
        let before = seen.iter().find(|(_, other)| *other == text).map(|(group, _)| *group);
        if let Some(before) = catches_all.or(before) {
            let what = format!("{} takes every host before {}: no host gets there", before.name, group.name);
            found.add(&at, "unmatchable_group", what, "put the narrower group first");
        } else if matching::is_impossible(members) {
            let what = format!("no host can match {}", group.name);
            found.add(&at, "unmatchable_group", what, "check the expressions: two of them contradict each other");
        }
        if texts.iter().all(|text| text.is_empty()) {
            catches_all = catches_all.or(Some(group));
        }
        seen.push((group, text));
    }
    let is_left_out = policy.unassigned == Unassigned::Hold && policy.ungrouped.is_none();
    if is_left_out && catches_all.is_none() {
        let what = "hosts that match no group are never allowed to update";
        let advice =
            "write spec.agents.unassigned: last, or a last group without agents, or watch `hosts --state unassigned`";
        found.add(list, "unassigned_hosts", what, advice);
    }
}

/// Windows that are too short to be met.
fn windows(at: &DocumentPlace<'_>, policy: &Policy, group: &GroupPolicy, found: &mut Found) {
    let length = match policy.strategy {
        Strategy::TimeBased => Some(policy.window),
        Strategy::HaltOnError | Strategy::Requires => group.pace.window,
    };
    let needed = SignedDuration::from_mins(ASK) + SignedDuration::from_secs(i64::from(group.pace.jitter));
    if let Some(length) = length.filter(|length| *length < needed) {
        let what = format!(
            "the window of {} is {} long: hosts ask every {ASK} minutes and wait up to {} s, so some never fit in",
            group.name,
            if length.as_mins() == 1 { "1 minute".to_owned() } else { format!("{} minutes", length.as_mins()) },
            group.pace.jitter
        );
        found.add(&at.key("window_duration"), "window_too_short", what, "give it half an hour or more");
    }
}

/// What stops a group.
fn stops(at: &DocumentPlace<'_>, group: &GroupPolicy, hosts: Option<u64>, found: &mut Found) {
    let (proof, name) = (&group.proof, &group.name);
    if proof.max_failed == Percent::ALL && proof.max_failed_of_ended == Percent::ALL {
        let what = format!("no failure ever halts {name}");
        found.add(&at.key("max_failed_before_halt"), "never_halts", what, "give it max_failed_before_halt, such as 5%");
    } else if let Some(hosts) = hosts {
        thresholds(at, group, hosts, found);
    }
    if proof.on_halt == OnHalt::Rollback {
        let what = "acts only where hosts enrol by token or approval: else invented hosts could cause a downgrade";
        let advice = "start the server with --enrolment token or approve";
        found.add(&at.key("on_halt"), "rollback_needs_enrolment", what, advice);
    }
    if group.pace.max_in_flight == Percent::ZERO {
        let what = format!("0 % of {name} may be in flight: no host in it is ever allowed to update");
        found.add(&at.key("max_in_flight"), "nobody_in_flight", what, "give it 1% or more, or hold the group");
    }
}

/// What thresholds mean in a group of so many hosts.
fn thresholds(at: &DocumentPlace<'_>, group: &GroupPolicy, hosts: u64, found: &mut Found) {
    let (proof, name) = (&group.proof, &group.name);
    let allowed = hosts.saturating_mul(u64::from(proof.max_failed.get())) / 100;
    let is_judged = proof.max_failed_of_ended < Percent::ALL && proof.max_failed_of_ended <= proof.max_failed;
    if allowed > MANY && !is_judged {
        let what = format!("{allowed} of some {hosts} hosts in {name} may fail before it halts");
        found.add(&at.key("max_failed_before_halt"), "many_may_fail", what, "lower it, or give max_failed_of_ended");
    }
    if proof.max_failed == Percent::ZERO && proof.min_failed <= 1 && hosts > LARGE {
        let what = format!("a single failure among some {hosts} hosts halts {name}");
        let advice = "give it 1%, or min_failed_before_halt: in a large group some host always fails";
        found.add(&at.key("max_failed_before_halt"), "one_failure_halts", what, advice);
    }
}
