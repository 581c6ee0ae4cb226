//! What a decision changes: as records, of rollouts that began or ended and of groups that started, were done, or halted; and what
//! that does to hosts.

use std::collections::HashMap;

use fleet_engine::fleet::Fleet;
use fleet_engine::host::{GroupPlace, Host, HostId};
use fleet_engine::names::Name;
use fleet_engine::rollout::{GroupStatus, Rollout, State};
use fleet_engine::rollout_state::RolloutState;
use fleet_engine::selection::Choice;
use fleet_engine::tally::TallyContext;
use fleet_wire::answers::ids;
use fleet_wire::api::{AuditEntry, Effects};
use jiff::Timestamp;
use protocol::Version;
use serde_json::{Value, json};

use super::CoreState;
use super::enrolments::EnrolmentAlert;

/// Who steps.
const ENGINE: &str = "engine";

/// A record of what the engine did, or found.
pub(super) fn record(at: Timestamp, action: &str, subject: String, detail: Value) -> AuditEntry {
    AuditEntry {
        at,
        who: ENGINE.to_owned(),
        action: action.to_owned(),
        subject,
        done: true,
        detail,
        ..AuditEntry::default()
    }
}

/// Adds the host's name to what is on record, where it has one.
pub(super) fn named(state: &CoreState, host: HostId, detail: &mut Value) {
    let hostname = state.fleet.host(host).map_or("", |host| state.fleet.hostname(host));
    if !hostname.is_empty() {
        detail["hostname"] = json!(hostname);
    }
}

/// The records of conflicts and surges since this was asked last.
pub(super) fn alerts(state: &mut CoreState) -> Vec<AuditEntry> {
    let alerts = state.enrolments.alerts();
    let of = |alert: EnrolmentAlert| {
        let (action, subject, mut detail) = match alert {
            EnrolmentAlert::Conflict(host, key) => {
                ("key_conflict", format!("host {}", ids::text(host)), json!({ "key": key.to_string() }))
            }
            EnrolmentAlert::Surge(most) => ("enrolment_surge", "new hosts".to_owned(), json!({ "an_hour": most })),
        };
        if let EnrolmentAlert::Conflict(host, _) = alert {
            named(state, host, &mut detail);
        }
        tracing::warn!(action, subject, "an operator should look at this");
        record(state.now(), action, subject, detail)
    };
    alerts.into_iter().map(of).collect()
}

/// The records of what is different in `after`.
pub(super) fn records(before: &RolloutState, after: &RolloutState, at: Timestamp) -> Vec<AuditEntry> {
    let record = |action: &str, subject: String, detail: Value| record(at, action, subject, detail);
    let mut records = Vec::new();
    let (old, new) = (before.rollout.as_ref(), after.rollout.as_ref());
    let is_same = matches!((old, new), (Some(old), Some(new)) if old.id == new.id);
    match (old, new) {
        (Some(old), None) => records.push(record("rollout_removed", subject(old), json!({}))),
        (_, Some(new)) if !is_same => records.push(record("rollout_started", subject(new), versions(new))),
        _ => {}
    }
    match (before.silent_since(), after.silent_since()) {
        (None, Some(since)) => records.push(record("fleet_silent", "fleet".to_owned(), json!({ "since": since }))),
        (Some(since), None) => records.push(record("fleet_heard", "fleet".to_owned(), json!({ "since": since }))),
        _ => {}
    }
    for group in new.into_iter().flat_map(|rollout| &rollout.groups) {
        let old = old.filter(|_| is_same).and_then(|old| old.groups.iter().find(|was| is_of(was, group)));
        let was = old.map_or(State::Unstarted, |old| old.state);
        if let Some(action) = action(was, group.state) {
            records.push(record(
                action,
                format!("group {}", group.policy.name),
                of_group(group, is_everything(after, group), new),
            ));
        }
    }
    records
}

fn is_of(was: &GroupStatus, group: &GroupStatus) -> bool {
    was.policy.name == group.policy.name
}

fn action(was: State, is: State) -> Option<&'static str> {
    match (was, is) {
        _ if was == is => None,
        (_, State::Canary) => Some("group_canaries"),
        (_, State::Active) => Some("group_started"),
        (_, State::Done) => Some("group_done"),
        (_, State::Halted) => Some("group_halted"),
        (_, State::RolledBack) => Some("group_rolled_back"),
        (_, State::Unstarted) => None,
    }
}

fn subject(rollout: &Rollout) -> String {
    format!("rollout {}", rollout.number)
}

fn versions(rollout: &Rollout) -> Value {
    json!({ "start": rollout.start, "target": rollout.target, "schedule": rollout.schedule })
}

/// The hold of everything stops it, or the rollout has no groups to name: only `run --all` ends that.
fn is_everything(rollouts: &RolloutState, group: &GroupStatus) -> bool {
    let name = &group.policy.name;
    let is_named = rollouts.rollout.as_ref().is_some_and(|rollout| rollout.find(name).is_some());
    let is_of_hold = group.halt.as_ref().is_some_and(|halt| halt.rule.is_of_hold());
    (rollouts.holds.all && is_of_hold && !rollouts.holds.groups.contains(name)) || !is_named
}

fn of_group(group: &GroupStatus, all: bool, rollout: Option<&Rollout>) -> Value {
    let Some(halt) = &group.halt else { return json!({ "reason": group.last_update_reason }) };
    let back = rollout.is_some_and(Rollout::goes_back);
    let mut detail = json!({
            "rule": halt.rule, "count": halt.count, "of": halt.of, "error": halt.error, "sample": halt.sample, "hosts": halt.hosts,
            "all": all, "back": back,
    });
    // Another resource names its versions.
    if rollout.is_some_and(|rollout| rollout.directive.is_some()) {
        detail["directive"] = json!(true);
    }
    detail
}

/// What every host is told: the version, where it is allowed to update. Versions are few, and each is there once.
#[derive(Default)]
pub(super) struct ToldVersions {
    versions: Vec<Version>,
    /// For each host the number of its version, from 1; 0: it is told none, as those are of whom there is nothing.
    of_hosts: Vec<u16>,
}

impl ToldVersions {
    fn add(&mut self, version: Option<&Version>) {
        let number = version.map_or(0, |version| {
            let known = self.versions.iter().position(|known| known == version);
            let known = known.unwrap_or_else(|| {
                self.versions.push(version.clone());
                self.versions.len() - 1
            });
            u16::try_from(known + 1).unwrap_or(0)
        });
        self.of_hosts.push(number);
    }

    fn get(&self, host: usize) -> Option<&Version> {
        self.versions.get(usize::from(*self.of_hosts.get(host)?).checked_sub(1)?)
    }
}

/// What every host is told by these rollouts.
pub(super) fn told(rollouts: &RolloutState, fleet: &Fleet, now: Timestamp) -> ToldVersions {
    let mut told = ToldVersions::default();
    told.of_hosts.reserve_exact(fleet.hosts().len());
    rollouts.verdicts(fleet, now, |_, answer| told.add(answer.update.then_some(&answer.version)));
    told
}

/// The difference between what hosts were told and what they are told by `rollouts`.
pub(super) fn effects(before: &ToldVersions, rollouts: &RolloutState, fleet: &Fleet, now: Timestamp) -> Effects {
    let mut effects = Effects::default();
    let target = rollouts.target.as_ref().map(|target| &target.target);
    let group = |host: &Host| rollouts.rollout.as_ref().and_then(|rollout| rollout.group(host.place));
    let mut above: HashMap<(Name, GroupPlace, Choice), bool> = HashMap::new();
    let mut is_above_target = |host: &Host| {
        let has_part = !host.flags.pinned && !host.flags.disabled && !host.flags.is_held();
        let is_later = |version: Version| {
            let rollout = rollouts.rollout.as_ref();
            // Its own: of a directive each host has another, or none.
            let own = rollout.and_then(|rollout| rollout.target_of(rollout.group(host.place)?, host.choice));
            own.is_some_and(|target| target.precedes(&version))
        };
        let case = (host.version, host.place, host.choice);
        has_part
            && host.place != GroupPlace::Nowhere
            && !group(host).is_some_and(|group| group.state == State::RolledBack || group.done_while_halted)
            && *above.entry(case).or_insert_with(|| fleet.names.text(host.version).parse().is_ok_and(is_later))
    };
    let after = told(rollouts, fleet, now);
    for (at, host) in fleet.hosts().iter().enumerate() {
        let (before, after) = (before.get(at), after.get(at));
        let runs = fleet.names.text(host.version);
        let Some(after) = after else {
            effects.above_target += u64::from(is_above_target(host));
            // Of one that is there already a stop takes nothing.
            effects.stops += u64::from(before.is_some_and(|before| before.to_string() != runs));
            continue;
        };
        if before == Some(after) {
            continue;
        }
        // One that is on its way to the target goes back, though it runs another version yet.
        let turns_round = rollouts.rollout.as_ref().is_some_and(|rollout| {
            let group = rollout.group(host.place).filter(|group| group.state == State::RolledBack);
            group.is_some_and(|group| TallyContext::new(rollout, group, fleet, now).goes_the_other_way(host))
        });
        if runs == after.to_string() && !turns_round {
            continue;
        }
        effects.lets_go += 1;
        let is_above = |version: &Version| after.precedes(version);
        if runs.parse().is_ok_and(|runs| is_above(&runs)) || (turns_round && target.is_some_and(is_above)) {
            effects.goes_down += 1;
        }
    }
    effects.halted_before = rollouts.target.as_ref().is_some_and(|target| rollouts.halted.contains(&target.target));
    effects
}

#[cfg(test)]
mod tests {
    use fleet_engine::command::Command;
    use fleet_engine::resource_set::ResourceSet;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_transition_is_one_record_and_a_step_without_one_is_none() {
        let now: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let (mut rollouts, mut fleet, mut resources) =
            (RolloutState::default(), Fleet::default(), ResourceSet::default());
        let version = json!({"kind": "autoupdate_version", "version": "v1", "spec": {"agents": {
            "start_version": "1.0.0", "target_version": "1.1.0", "schedule": "regular", "mode": "enabled"}}});
        resources.put_json(&version, 1, &mut rollouts).unwrap();
        let actions = |before: &RolloutState, after: &RolloutState| -> Vec<String> {
            records(before, after, now)
                .into_iter()
                .map(|record| format!("{} {}", record.action, record.subject))
                .collect()
        };
        let before = rollouts.clone();
        rollouts.step(&mut fleet, now);
        assert_eq!(actions(&before, &rollouts), ["rollout_started rollout 1"]);
        let before = rollouts.clone();
        rollouts.step(&mut fleet, now);
        assert_eq!(actions(&before, &rollouts), [""; 0]);
        let start = Command::Start { groups: vec!["default".to_owned()], force: true, ignore_blackout: false };
        rollouts.command(&start, &fleet, now).unwrap();
        assert_eq!(actions(&before, &rollouts), ["group_started group default"]);
        let before = rollouts.clone();
        rollouts.command(&Command::Halt { groups: Vec::new(), all: true }, &fleet, now).unwrap();
        assert_eq!(actions(&before, &rollouts), ["group_halted group default"]);
        let before = rollouts.clone();
        resources.remove("autoupdate_version", &mut rollouts).unwrap();
        rollouts.step(&mut fleet, now);
        assert_eq!(actions(&before, &rollouts), ["rollout_removed rollout 1"]);
    }
}
