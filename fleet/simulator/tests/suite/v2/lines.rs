//! What a line of a script does at its time (FLEET §6): the line acts, the engine steps, the question is answered.

use serde_json::{Value, json};

use super::{NEW, OLD, Steps, asks, failed, halt, is, outcome, report, rollout, start, start_by_force, updated};
use crate::support::Script;

/// `dev` at 12 o'clock, with these keys besides.
fn dev(keys: &Value) -> Script {
    let mut group = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
    group.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    rollout(&json!([group]))
}

#[test]
fn a_line_acts_before_the_step_of_its_minute() {
    let none = dev(&json!({}));
    // The window opens at 12:00.
    let counted = none.clone().on("Mon 12:00", json!({ "counts": [{ "group": "dev", "version": OLD, "count": 10 }] }));
    assert_eq!(counted.group("Mon 12:00", "dev")["initial_count"], 10);
    let started = none.clone().on("Mon 12:00", start(&["dev"]));
    assert_eq!(started.group("Mon 12:00", "dev")["last_update_reason"], "manual_trigger");
    let halted = none.on("Mon 12:00", halt(&["dev"])).group("Mon 12:00", "dev");
    assert_eq!((&halted["state"], &halted["start_time"]), (&json!("halted"), &Value::Null), "it never started");
    let canary = dev(&json!({ "canary_count": 1 })).on("Mon 12:00", report(1, "dev", OLD));
    assert_eq!(canary.state("Mon 12:00", "dev"), "canary");
}

#[test]
fn hosts_that_only_ask_count_and_can_be_canaries() {
    let keys = json!({ "canary_count": 1, "max_in_flight": "50%" });
    let asking = |script: Script, number| script.on("Mon 11:55", asks(number, "dev"));
    let script = (1..=3).fold(dev(&keys), asking);
    let canaries = script.group("Mon 12:01", "dev")["canaries"].as_array().unwrap().clone();
    assert_eq!(canaries.len(), 1);
    let told = (1..=3).filter(|number| script.find_host("Mon 12:01", *number, "dev").1).count();
    assert_eq!(told, 1, "the canary, and nobody else");
}

#[test]
fn made_up_hosts_are_known_from_their_line_on() {
    let hosts = json!({ "hosts": { "count": 100, "group": "dev", "version": OLD } });
    let group = dev(&json!({ "canary_count": 3 })).on("Mon 11:59", hosts).group("Mon 12:00", "dev");
    assert_eq!((&group["initial_count"], &group["present_count"]), (&json!(100), &json!(100)));
}

#[test]
fn a_canary_that_fails_halts_by_that_rule_in_a_group_of_any_size() {
    for hosts in [2, 6, 30] {
        let script = dev(&json!({ "canary_count": 2 })).hosts("Mon 11:58", 1..=hosts, "dev", OLD);
        let canary = script.group("Mon 12:00", "dev")["canaries"][0]["host_id"].as_str().unwrap().to_owned();
        let number = canary[24..].parse().unwrap();
        let script = script.on("Mon 12:01", asks(number, "dev")).on("Mon 12:05", failed(number, "dev"));
        let group = script.group("Mon 12:05", "dev");
        assert_eq!(
            (&group["state"], &group["why"]["rule"]),
            (&json!("halted"), &json!("canary_failed")),
            "{hosts} hosts"
        );
    }
}

#[test]
fn a_start_in_a_freeze_lets_nobody_go_and_force_passes_it_afterwards() {
    let freeze = json!([{ "from": "2026-01-05T11:00:00Z", "to": "2026-01-06T12:00:00Z", "reason": "fair" }]);
    let script =
        dev(&json!({ "blackout": freeze })).hosts("Mon 11:58", 1..=3, "dev", OLD).on("Mon 12:01", start(&["dev"]));
    let group = script.group("Mon 12:02", "dev");
    for count in ["let_go_count", "in_flight_count"] {
        assert_eq!(group[count], 0, "{count}: {group}");
    }
    assert_eq!(group["why"]["code"], "blackout");
    let forced = script.clone().on("Mon 12:03", start_by_force(&["dev"]));
    assert_eq!(forced.find_host("Mon 12:04", 1, "dev"), is(NEW, true));
    assert_eq!(script.find_host("Tue 12:01", 1, "dev"), is(NEW, true), "the freeze is over");
}

#[test]
fn no_freeze_keeps_hosts_from_going_back() {
    let freeze = json!([{ "from": "2026-01-05T12:30:00Z", "to": "2026-01-06T12:00:00Z", "reason": "fair" }]);
    let script = dev(&json!({ "blackout": freeze }))
        .hosts("Mon 11:58", 1..=2, "dev", OLD)
        .on("Mon 12:05", updated(1, "dev"))
        .on("Mon 12:10", super::rollback(&["dev"]));
    assert_eq!(script.find_host("Mon 12:40", 1, "dev"), is(OLD, true), "it began after the rollback");
}

#[test]
fn of_those_that_ended_successes_count_as_failures_do() {
    let keys = json!({ "max_failed_before_halt": "100%", "max_failed_of_ended": "50%", "min_ended": 4 });
    let script = dev(&keys).hosts("Mon 11:58", 1..=20, "dev", OLD);
    let script = (1..=3).fold(script, |script, number| script.on("Mon 12:05", failed(number, "dev")));
    assert_eq!(script.state("Mon 12:05", "dev"), "active", "three ended, and four are the least");
    let one_updated = script.clone().on("Mon 12:06", outcome(4, "dev", NEW, "updated", ""));
    assert_eq!(one_updated.state("Mon 12:06", "dev"), "halted", "three of four");
    // Who ran the target before has not ended in this rollout.
    assert_eq!(script.on("Mon 12:06", report(4, "dev", NEW)).state("Mon 12:06", "dev"), "active");
}
