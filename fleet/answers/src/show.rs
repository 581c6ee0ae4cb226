//! The rollout and its answers as JSON, in the words of the resources.

use fleet_engine::advice::Advice;
use fleet_engine::answer::Answer;
use fleet_engine::book::{Book, Holds};
use fleet_engine::fleet::Fleet;
use fleet_engine::host::HostId;
use fleet_engine::policy::{Mode, Schedule, Strategy, Unassigned};
use fleet_engine::reason::Why;
use fleet_engine::rollout::{Canary, GroupStatus, Rollout, State};
use fleet_engine::shelf::Shelf;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::ids;

/// The resource `autoupdate_agent_rollout` (Managed Updates v2), with ours: reasons, counts of hosts, what would change a reason
/// at `now`, and what is held. `None`: there is no rollout.
pub fn rollout(book: &Book, shelf: &Shelf, fleet: &Fleet, now: Timestamp) -> Option<Value> {
    let mut shown = past(book.rollout.as_ref()?);
    let advice = |index| json!(book.advice(shelf, fleet, index, now));
    let status = &mut shown["status"];
    for (index, group) in status["groups"].as_array_mut().into_iter().flatten().enumerate() {
        group["why"]["advice"] = advice(index);
        for canary in group.get_mut("canaries").and_then(Value::as_array_mut).into_iter().flatten() {
            let host = canary["host_id"].as_str().and_then(ids::uuid);
            canary["hostname"] = host.map_or("", |host| hostname(fleet, host)).into();
        }
    }
    if status["why"].is_object() {
        status["why"]["advice"] = advice(0);
    }
    if book.holds != Holds::default() {
        status["holds"] = json!(book.holds);
    }
    Some(shown)
}

/// The same of a rollout as it was: nothing changes it any more.
pub fn past(rollout: &Rollout) -> Value {
    let groups: Vec<Value> = match rollout.schedule {
        Schedule::Immediate => Vec::new(),
        Schedule::Regular | Schedule::Critical => rollout
            .groups
            .iter()
            .enumerate()
            .map(|(index, status)| group(status, is_catch_all(rollout, index)))
            .collect(),
    };
    let mut spec = json!({
        "start_version": rollout.start,
        "target_version": rollout.target,
        "schedule": rollout.schedule,
        "autoupdate_mode": rollout.mode,
        "strategy": rollout.strategy,
    });
    if rollout.strategy == Strategy::TimeBased {
        spec["maintenance_window_duration"] = duration(rollout.window).into();
    }
    let mut status = json!({ "groups": groups, "start_time": second(rollout.start_time) });
    if let Some(state) = rollout.state() {
        status["state"] = state.name().into();
    }
    // It has no groups to show: what holds for everybody stands here.
    if let (Schedule::Immediate, Some(everybody)) = (rollout.schedule, rollout.groups.first()) {
        status["why"] = why(everybody);
    }
    json!({
        "kind": "autoupdate_agent_rollout",
        "version": "v1",
        "metadata": { "name": "autoupdate-agent-rollout" },
        "spec": spec,
        "status": status,
    })
}

/// Whether hosts that no group names belong to the group of this index.
fn is_catch_all(rollout: &Rollout, index: usize) -> bool {
    match &rollout.unassigned {
        _ if rollout.ungrouped.is_some() => false,
        Unassigned::Hold => false,
        Unassigned::Last => index + 1 == rollout.groups.len(),
        Unassigned::Group(name) => rollout.find(name) == Some(index),
    }
}

fn group(group: &GroupStatus, is_catch_all: bool) -> Value {
    let tally = &group.tally;
    let gate = &group.policy.gate;
    let mut shown = json!({
        "name": group.policy.name,
        "state": group.state.name(),
        "start_time": group.start_time.map(second),
        "last_update_time": second(group.last_update_time),
        "last_update_reason": group.last_update_reason,
        "config_days": gate.opening.days.names(),
        "config_start_hour": gate.opening.hour,
        "config_wait_hours": gate.wait_hours,
        "config_requires": gate.requires,
        "catch_all": is_catch_all,
        "initial_count": group.initial_count,
        "present_count": group.present_count,
        "up_to_date_count": group.up_to_date_count,
        "pending_count": tally.pending,
        "let_go_count": group.let_go_count,
        "in_flight_count": tally.in_flight(),
        "updated_count": tally.updated,
        "failed_count": tally.failed,
        "timed_out_count": tally.timed_out,
        "silent_count": tally.silent,
        "excluded_count": tally.excluded,
        "attempt": group.attempt,
        "why": why(group),
    });
    if let Some(role) = &gate.approval {
        (shown["approval"], shown["approved"]) = (role.clone().into(), group.is_approved().into());
    }
    if group.policy.pace.canaries > 0 {
        shown["canary_count"] = group.policy.pace.canaries.into();
        shown["canaries"] = group.canaries.iter().map(canary).collect();
    }
    shown
}

fn why(group: &GroupStatus) -> Value {
    let mut why = json!(group.reason.why);
    why["since"] = second(group.reason.since).into();
    why["until"] = json!(group.reason.until.map(second));
    why["who"] = json!(group.reason.why.who());
    why
}

/// That no host is told to update because the store has not confirmed what is answered since `confirmed`, as a reason; a server
/// that was never confirmed has the beginning of time. `ahead`: when the last decision was made, where the clock is behind that.
pub fn stale(confirmed: Timestamp, ahead: Option<Timestamp>) -> Value {
    let mut why = json!({ "code": Why::StoreUnavailable.code(), "until": null, "who": Why::StoreUnavailable.who() });
    if confirmed > Timestamp::UNIX_EPOCH {
        why["since"] = second(confirmed).into();
    }
    if let Some(ahead) = ahead {
        behind(&mut why, ahead);
    }
    why
}

/// Adds to a reason that the clock is behind the last decision, which was made at `ahead`.
pub fn behind(why: &mut Value, ahead: Timestamp) {
    why["clock_behind"] = second(ahead).into();
}

fn canary(canary: &Canary) -> Value {
    json!({
        "updater_id": ids::text(canary.updater_id),
        "host_id": ids::text(canary.host_id),
        "hostname": "",
        "success": canary.success,
    })
}

/// What a host calls itself: its label of this name. A report has no other place for it.
fn hostname(fleet: &Fleet, id: HostId) -> &str {
    let labels = fleet.host(id).map(|host| &host.labels);
    let found =
        labels.into_iter().flat_map(|labels| labels.iter()).find(|(key, _)| fleet.names.text(*key) == "hostname");
    found.map_or("", |(_, value)| fleet.names.text(*value))
}

/// RFD 0169's answer, with ours in an object of its own. To strangers a reason is a code and a time (FLEET §4).
pub fn find(answer: &Answer) -> Value {
    let why = json!(answer.reason.why);
    json!({
        "agent_version": answer.version,
        "agent_auto_update": answer.update,
        "agent_update_jitter_seconds": answer.jitter,
        "fleet": {
            "rollout": answer.rollout,
            "attempt": answer.attempt,
            "why": { "code": why["code"] },
            "until": answer.reason.until.map(second),
        },
    })
}

/// What an operator is told of a host, since when its reason holds, where that is known, and what would change it.
pub fn explain(host: &str, state: &str, answer: &Answer, since: Option<Timestamp>, advice: Option<&Advice>) -> Value {
    let mut why = json!(answer.reason.why);
    // A store that never confirmed anything has no time.
    if let Some(since) = since.filter(|since| *since > Timestamp::UNIX_EPOCH) {
        why["since"] = second(since).into();
    }
    why["who"] = json!(answer.reason.why.who());
    why["advice"] = json!(advice);
    json!({
        "host": host,
        "group": answer.group,
        "state": state,
        "version": answer.version,
        "update": answer.update,
        "why": why,
        "until": answer.reason.until.map(second),
    })
}

/// A time without a fraction.
pub fn second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// As Go writes it: `2h0m0s`.
fn duration(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    format!("{}h{}m{}s", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Words of a status (`tctl autoupdate agents status`).
pub fn state_word(state: State) -> &'static str {
    match state {
        State::Unstarted => "Unstarted",
        State::Canary => "Canary",
        State::Active => "Active",
        State::Done => "Done",
        State::RolledBack => "Rolledback",
        State::Halted => "Halted",
    }
}

/// The name of a mode.
pub fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Disabled => "disabled",
        Mode::Suspended => "suspended",
        Mode::Enabled => "enabled",
    }
}
