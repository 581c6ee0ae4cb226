//! FLEET §9, §12: what `fleet_release` does to a rollout, and the graph.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, asks, dev_and_prod, halt, host, immediate, is, mark_done, report, rollback, run, start, t,
    version, version_of,
};
use crate::support::{Script, group};

fn release(spec: Value) -> Value {
    json!({ "put": { "kind": "fleet_release", "version": "v1", "metadata": { "name": "r" }, "spec": spec } })
}

fn blocked() -> Value {
    release(json!({ "version": NEW, "blocked": { "reason": "breaks SELinux" } }))
}

fn unblocked() -> Value {
    release(json!({ "version": NEW }))
}

/// `dev` is active with one host told and one that was not; then the release is blocked.
fn stopped() -> Script {
    let begun = dev_and_prod().hosts("Mon 11:58", 1..=2, "dev", OLD);
    assert_eq!(begun.find_host("Mon 12:10", 1, "dev"), is(NEW, true));
    begun.on("Mon 12:10", asks(1, "dev")).on("Mon 12:20", blocked())
}

/// The last answer; the question of host 1 is among the lines.
fn last(script: &Script, when: &str, action: Value) -> Value {
    script.clone().on(when, action).run().pop().unwrap()
}

#[test]
fn a_release_that_is_blocked_halts_its_rollout() {
    let script = stopped();
    let status = last(&script, "Mon 12:20", json!({ "status": {} }));
    for name in ["dev", "prod"] {
        let group = group(&status, name);
        assert_eq!((&group["state"], &group["last_update_reason"]), (&json!("halted"), &json!("release_blocked")));
        assert_eq!(group["why"]["who"], "operator");
        assert_eq!(group["why"]["until"], Value::Null);
    }
    for (number, version) in [(1, NEW), (2, OLD), (3, OLD)] {
        let find = last(&script, "Mon 12:21", asks(number, "dev"))["find"].clone();
        assert_eq!((&find["agent_version"], &find["agent_auto_update"]), (&json!(version), &json!(false)), "{number}");
    }
    assert_eq!(last(&script, "Mon 14:30", json!({ "find": { "group": "prod" } }))["find"]["agent_auto_update"], false);
}

#[test]
fn a_release_that_is_blocked_halts_an_immediate_rollout_and_late_comers_of_done_groups() {
    let everybody = Script::default().on("Mon 11:00", immediate());
    assert_eq!(everybody.find("Mon 11:01", ""), is(NEW, true));
    assert_eq!(everybody.on("Mon 11:02", blocked()).find("Mon 11:02", ""), is(OLD, false));
    let done = dev_and_prod().on("Mon 12:10", mark_done(&["dev"]));
    assert_eq!(done.find("Mon 12:20", "dev"), is(NEW, true));
    assert_eq!(done.on("Mon 12:20", blocked()).find("Mon 12:20", "dev"), is(OLD, false));
}

#[test]
fn nobody_starts_or_runs_what_is_blocked_and_those_on_it_may_leave() {
    let script = stopped();
    for action in [run(&["dev"]), run(&["prod"]), json!({ "run": { "all": true } }), start(&["prod"])] {
        let answer = last(&script, "Mon 12:30", action.clone());
        assert_eq!(answer["error"]["code"], "conflict", "{action}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("17.2.1 is blocked by its fleet_release (breaks SELinux): "), "{message}");
    }
    let back = script.on("Mon 12:30", rollback(&["dev"]));
    let find = last(&back, "Mon 12:31", json!({ "find": { "group": "dev" } }))["find"].clone();
    assert_eq!((&find["agent_version"], &find["agent_auto_update"]), (&json!(OLD), &json!(true)));
    assert_eq!(last(&back, "Mon 12:32", start(&["dev"]))["error"]["code"], "conflict");
}

#[test]
fn only_a_person_or_another_target_goes_on_after_a_block() {
    for lifted in [unblocked(), json!({ "rm": "fleet_release/r" })] {
        let script = stopped().on("Mon 12:30", lifted);
        let status = last(&script, "Mon 14:30", json!({ "status": {} }));
        assert_eq!(
            (&group(&status, "dev")["state"], &group(&status, "prod")["state"]),
            (&json!("halted"), &json!("halted"))
        );
        let goes_on = script.clone().on("Mon 14:31", run(&["dev"]));
        assert_eq!(last(&goes_on, "Mon 14:31", asks(2, "dev"))["find"]["agent_auto_update"], true);
        let other = script.on("Mon 15:00", version_of(OLD, "17.2.2"));
        let status = last(&other, "Mon 15:00", json!({ "status": {} }));
        assert_eq!(group(&status, "dev")["state"], "unstarted");
    }
}

/// One stop does not end another.
#[test]
fn a_halt_by_hand_outlives_a_block() {
    let script = dev_and_prod().on("Mon 12:10", halt(&["dev"])).on("Mon 12:20", blocked()).on("Mon 12:30", unblocked());
    assert_eq!(script.because("Mon 12:31", "dev"), ("halted".to_owned(), "manual_halt".to_owned()));
}

#[test]
fn a_target_that_hosts_cannot_reach_is_refused_with_the_hosts() {
    let script = Script::default()
        .on("Mon 11:00", report(1, "dev", "17.1.0"))
        .on("Mon 11:00", report(2, "dev", OLD))
        .on("Mon 11:00", release(json!({ "version": NEW, "requires_from": [OLD] })));
    let (code, message) = script.refusal("Mon 11:01", version());
    assert_eq!(code, "conflict");
    assert!(message.contains(&host(1)) && !message.contains(&host(2)), "{message}");
    let (code, _) = script.refusal("Mon 11:01", json!({ "find": { "group": "dev" } }));
    assert_eq!(code, "no_rollout");
    let held = script.on("Mon 11:02", json!({ "hold": { "host": host(1) } })).on("Mon 11:03", version());
    assert_eq!(held.status("Mon 11:03")["status"]["spec"]["target_version"], NEW);
}

#[test]
fn a_script_asks_for_the_graph() {
    let named = |name: &str, spec: Value| json!({ "put": { "kind": "fleet_release", "version": "v1", "metadata": { "name": name }, "spec": spec } });
    let phased = json!({
        "version": NEW, "channels": ["stable"],
        "rollout": { "start": t("Mon 12:00"), "start_value": 0.0, "duration_minutes": 60 },
    });
    let script = Script::default()
        .on("Mon 11:00", named("old", json!({ "version": OLD, "channels": ["stable"] })))
        .on("Mon 11:00", named("new", phased));
    let graph = |when: &str, wariness: Value| {
        let question = json!({ "graph": { "channel": "stable", "rollout_wariness": wariness } });
        script.then(when, question)["graph"].clone()
    };
    let before = graph("Mon 11:30", json!("0.5"));
    let versions: Vec<&str> =
        before["nodes"].as_array().unwrap().iter().map(|node| node["version"].as_str().unwrap()).collect();
    assert_eq!(versions, [OLD, NEW]);
    assert_eq!(before["edges"], json!([]));
    assert_eq!(graph("Mon 12:29", json!(0.5))["edges"], json!([]));
    assert_eq!(graph("Mon 12:31", json!(0.5))["edges"], json!([[0, 1]]));
    for (question, code) in [
        (json!({ "graph": {} }), "missing_params"),
        (json!({ "graph": { "channel": "stable", "rollout_wariness": "nan" } }), "invalid_params"),
        (json!({ "graph": { "channel": "stable", "chanel": "x" } }), "invalid_params"),
    ] {
        assert_eq!(script.refusal("Mon 11:30", question).0, code);
    }
}
