//! FLEET §2: `autoupdate_version`.

use serde_json::{Value, json};

use super::{NEW, OLD, Steps, halting, is, resource, version_of, wanted};
use crate::support::Script;

fn taken(put: &Value) {
    let answers = Script::default().on("Mon 11:00", put.clone()).run();
    assert_eq!(answers, Vec::<Value>::new(), "{put:#}");
}

fn refused(put: &Value, key: &str) {
    let (_, message) = Script::default().refusal("Mon 11:00", put.clone());
    assert!(message.contains(key), "{message:?} does not name {key}");
}

#[test]
fn its_only_name_is_autoupdate_version() {
    let mut put = super::version();
    put["put"]["metadata"]["name"] = "autoupdate-config".into();
    refused(&put, "metadata.name");
}

#[test]
fn start_and_target_are_required() {
    refused(&wanted(&json!({ "target_version": NEW, "mode": "enabled" })), "spec.agents.start_version");
    refused(&wanted(&json!({ "start_version": OLD, "mode": "enabled" })), "spec.agents.target_version");
    refused(&wanted(&json!({ "start_version": "", "target_version": NEW, "mode": "enabled" })), "start_version");
    refused(&wanted(&json!({ "start_version": OLD, "target_version": "", "mode": "enabled" })), "target_version");
}

#[test]
fn versions_are_strict_semver_with_or_without_a_v() {
    for good in ["17.2.1", "v17.2.1", "18.0.0-rc.1", "v18.0.0-alpha.2", "17.2.1+build.5"] {
        taken(&version_of(OLD, good));
        taken(&version_of(good, NEW));
    }
    for bad in
        ["17", "17.2", "v17.2", "17.2.1.0", "latest", "vv17.2.1", "017.2.1", "17.2.x", " 17.2.1", "17.2.1-", "-1.0.0"]
    {
        refused(&version_of(OLD, bad), "spec.agents.target_version");
        refused(&version_of(bad, NEW), "spec.agents.start_version");
    }
    refused(&wanted(&json!({ "start_version": 17, "target_version": NEW })), "spec.agents.start_version");
}

#[test]
fn a_schedule_is_regular_or_immediate() {
    for schedule in ["regular", "immediate"] {
        taken(&super::version_in("enabled", schedule));
    }
    for schedule in ["", "Regular", "nightly", "now", "critical"] {
        refused(&super::version_in("enabled", schedule), "spec.agents.schedule");
    }
}

#[test]
fn a_mode_is_one_of_three_words() {
    for mode in ["enabled", "disabled", "suspended"] {
        taken(&super::version_in(mode, "regular"));
    }
    for mode in ["", "on", "paused"] {
        refused(&super::version_in(mode, "regular"), "spec.agents.mode");
    }
}

#[test]
fn tools_have_a_version_that_is_semver() {
    taken(&resource("autoupdate_version", &json!({ "tools": { "target_version": "v17.2.1" } })));
    refused(
        &resource("autoupdate_version", &json!({ "tools": { "target_version": "17" } })),
        "spec.tools.target_version",
    );
}

#[test]
fn unknown_keys_are_refused() {
    refused(&wanted(&json!({ "start_version": OLD, "target_version": NEW, "target": NEW })), "spec.agents.target");
}

/// The regular schedule is the default.
#[test]
fn without_a_schedule_it_is_regular() {
    let script = Script::default()
        .on("Mon 11:00", halting(&json!([{ "name": "dev", "start_hour": 12 }])))
        .on("Mon 11:00", wanted(&json!({ "start_version": OLD, "target_version": NEW, "mode": "enabled" })));
    assert_eq!(script.status("Mon 11:00")["status"]["spec"]["schedule"], "regular");
    assert_eq!(script.find("Mon 11:30", "dev"), is(OLD, false));
    assert_eq!(script.find("Mon 12:00", "dev"), is(NEW, true));
}

/// `start == target` is legal: it freezes.
#[test]
fn start_may_be_the_target() {
    let script = Script::default()
        .on("Mon 11:00", halting(&json!([{ "name": "dev", "start_hour": 12 }])))
        .on("Mon 11:00", version_of(OLD, OLD));
    assert_eq!(script.find("Mon 11:30", "dev"), is(OLD, false));
    assert_eq!(script.find("Mon 12:30", "dev").0, OLD);
}

#[test]
fn a_version_is_answered_without_its_v() {
    let script = Script::default()
        .on("Mon 11:00", halting(&json!([{ "name": "dev", "start_hour": 12 }])))
        .on("Mon 11:00", version_of("v17.2.0", "v17.2.1"));
    assert_eq!(script.find("Mon 11:30", "dev"), is("17.2.0", false));
    assert_eq!(script.find("Mon 12:00", "dev"), is("17.2.1", true));
}

#[test]
fn a_version_without_agents_makes_no_rollout() {
    let script = Script::default()
        .on("Mon 11:00", resource("autoupdate_version", &json!({ "tools": { "target_version": NEW } })));
    assert_eq!(script.refusal("Mon 11:00", json!({ "status": {} })).0, "no_rollout");
    assert_eq!(script.refusal("Mon 11:00", json!({ "find": { "group": "dev" } })).0, "no_rollout");
}
