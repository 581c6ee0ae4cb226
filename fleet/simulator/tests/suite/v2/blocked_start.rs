//! FLEET §9: nobody new gets a version that is blocked, the one to start from and to go back to no less than the target.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, agents, asks, dev_and_prod, failed, halting, is, mark_done, outcome, report, resource, rollback,
    told, version, version_in, version_of, wanted,
};
use crate::support::{Script, group};

/// What was rolled out before [`OLD`].
const OLDER: &str = "17.1.9";

fn release(name: &str, version: &str, reason: Option<&str>) -> Value {
    let mut spec = json!({ "version": version });
    if let Some(reason) = reason {
        spec["blocked"] = json!({ "reason": reason });
    }
    json!({ "put": { "kind": "fleet_release", "version": "v1", "metadata": { "name": name }, "spec": spec } })
}

fn blocked(version: &str) -> Value {
    release(version, version, Some("leaks sessions"))
}

/// The last answer; a question may be among the lines.
fn last(script: &Script, when: &str, action: Value) -> Value {
    script.clone().on(when, action).run().pop().unwrap()
}

/// What a stranger of `group` is told, and the code why.
fn stranger(script: &Script, when: &str, group: &str) -> ((String, bool), String) {
    let answer = last(script, when, json!({ "find": { "group": group } }));
    (told(&answer), answer["find"]["fleet"]["why"]["code"].as_str().unwrap().to_owned())
}

/// [`OLDER`] was rolled out, then the way from [`OLD`] to [`NEW`] began.
fn after_another() -> Script {
    Script::default()
        .on(
            "Mon 09:00",
            halting(&json!([
                { "name": "dev", "days": ["*"], "start_hour": 12 },
                { "name": "prod", "days": ["*"], "start_hour": 14 },
            ])),
        )
        .on("Mon 09:00", version_of("17.1.8", OLDER))
        .on("Mon 09:01", mark_done(&["dev", "prod"]))
        .on("Mon 11:00", version())
}

#[test]
fn a_version_document_whose_start_is_blocked_is_refused_and_names_the_reason() {
    let script = Script::default().on("Mon 11:00", blocked(OLD));
    let refused = (
        "conflict".to_owned(),
        "17.2.0 is blocked by its fleet_release: leaks sessions; it is the start version: name another one".to_owned(),
    );
    assert_eq!(script.refusal("Mon 11:01", version()), refused);
    let flat = json!({ "agent_version": NEW, "agent_start_version": OLD, "agent_version_schedule": "regular" });
    assert_eq!(script.refusal("Mon 11:01", resource("autoupdate_version", &flat)), refused);
    assert_eq!(
        script.on("Mon 11:02", release(OLD, OLD, None)).on("Mon 11:03", version()).find("Mon 11:04", "x").0,
        OLD
    );
}

#[test]
fn a_start_that_a_flat_version_takes_from_the_rollout_before_is_refused_as_well() {
    let flat = json!({ "agent_version": NEW, "agent_version_schedule": "regular" });
    let flat = resource("autoupdate_version", &flat);
    let (code, message) = after_another().on("Mon 11:01", blocked(OLDER)).refusal("Mon 11:02", flat);
    assert!(code == "conflict" && message.starts_with("17.1.9 is blocked by its fleet_release: "), "{message}");
}

/// Whoever blocks the start of a rollout can still stop and hurry it.
#[test]
fn the_version_document_of_the_present_rollout_is_taken_though_its_start_was_blocked_since() {
    let script = dev_and_prod().on("Mon 11:10", blocked(OLD));
    for mode in ["suspended", "enabled"] {
        let answer = script.clone().on("Mon 11:11", version_in(mode, "regular")).status("Mon 11:12");
        assert_eq!(answer["status"]["spec"]["autoupdate_mode"], mode);
    }
    let (code, _) = script.refusal("Mon 11:11", version_of(OLD, "17.2.2"));
    assert_eq!(code, "conflict", "another rollout");
}

#[test]
fn whoever_is_new_gets_the_last_good_version_in_place_of_a_blocked_start() {
    let script = after_another().hosts("Mon 11:05", 1..=1, "prod", OLD).on("Mon 11:10", blocked(OLD));
    assert_eq!(stranger(&script, "Mon 11:11", "prod"), (is(OLDER, false), "version_blocked".to_owned()));
    // Its updater installs what it is told first, and does not say what it runs.
    assert_eq!(script.find_host("Mon 11:11", 7, "prod"), is(OLDER, false));
    assert_eq!(script.find_host("Mon 11:11", 1, "prod"), is(OLD, false), "it runs that already");
    assert_eq!(stranger(&script, "Mon 12:10", "dev").0, is(NEW, true), "its turn");
    let lifted = script.clone().on("Mon 11:20", release(OLD, OLD, None));
    assert_eq!(stranger(&lifted, "Mon 11:21", "prod"), (is(OLD, false), "previous_groups_not_done".to_owned()));
}

#[test]
fn without_a_good_version_whoever_is_new_gets_none() {
    let nothing = || (is(OLD, false), "version_blocked".to_owned());
    let never = dev_and_prod().on("Mon 11:10", blocked(OLD));
    assert_eq!(stranger(&never, "Mon 11:11", "prod"), nothing());
    let both = after_another().on("Mon 11:10", blocked(OLD)).on("Mon 11:10", blocked(OLDER));
    assert_eq!(stranger(&both, "Mon 11:11", "prod"), nothing());
    // The target is not good either for who waits for it.
    let target = dev_and_prod().on("Mon 11:05", mark_done(&["dev"])).on("Mon 11:06", mark_done(&["prod"]));
    let target = target.on("Mon 11:10", blocked(OLD)).on("Mon 11:10", blocked(NEW));
    assert_eq!(stranger(&target, "Mon 11:11", "prod"), nothing());
}

#[test]
fn hosts_of_no_group_get_no_blocked_start_either() {
    let groups = json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }]);
    let hold = agents(&json!({
        "mode": "enabled", "strategy": "halt-on-error", "unassigned": "hold", "schedules": { "regular": groups },
    }));
    let script = Script::default().on("Mon 11:00", hold).on("Mon 11:00", version()).on("Mon 11:10", blocked(OLD));
    assert_eq!(stranger(&script, "Mon 11:11", "nope"), (is(OLD, false), "version_blocked".to_owned()));
}

#[test]
fn after_its_version_was_removed_a_blocked_one_is_given_to_nobody() {
    let removed = after_another().on("Mon 11:20", json!({ "rm": "autoupdate_version" }));
    assert_eq!(stranger(&removed, "Mon 11:21", "dev"), (is(OLDER, false), "no_rollout".to_owned()));
    let another = after_another().on("Mon 11:01", mark_done(&["dev", "prod"])).on("Mon 11:02", blocked(NEW));
    let another = another.on("Mon 11:03", json!({ "rm": "autoupdate_version" }));
    assert_eq!(stranger(&another, "Mon 11:04", "dev"), (is(OLDER, false), "version_blocked".to_owned()));
    let script = removed.on("Mon 11:22", blocked(OLDER));
    assert_eq!(stranger(&script, "Mon 11:23", "dev"), (is(OLDER, false), "version_blocked".to_owned()));
}

#[test]
fn a_rollback_to_a_blocked_start_is_refused_and_says_what_to_do() {
    let script = dev_and_prod().hosts("Mon 11:58", 1..=2, "dev", OLD).on("Mon 12:10", blocked(OLD));
    for action in [rollback(&["dev"]), json!({ "rollback": { "all_started": true } })] {
        let (code, message) = script.refusal("Mon 12:11", action);
        assert_eq!(code, "conflict");
        assert_eq!(
            message,
            "17.2.0 is blocked by its fleet_release (leaks sessions), nobody is sent back to it: name another \
             start_version in autoupdate_version, or take `blocked` out of it"
        );
    }
}

#[test]
fn a_rollback_that_goes_on_ends_with_the_block_of_its_start() {
    let script = dev_and_prod()
        .hosts("Mon 11:58", 1..=3, "dev", NEW)
        .on("Mon 12:10", rollback(&["dev"]))
        .on("Mon 12:11", asks(1, "dev"))
        .on("Mon 12:20", blocked(OLD));
    for number in [1, 2, 9] {
        let answer = last(&script, "Mon 12:21", asks(number, "dev"));
        assert!(!told(&answer).1, "{number}: {answer}");
        assert_eq!(answer["find"]["fleet"]["why"]["code"], "version_blocked", "{number}");
    }
    let why = group(&last(&script, "Mon 12:21", json!({ "status": {} })), "dev")["why"].clone();
    assert_eq!(
        [&why["code"], &why["who"], &why["until"]],
        [&json!("version_blocked"), &json!("operator"), &Value::Null]
    );
    assert_eq!(why["advice"], json!({ "edit": ["autoupdate_version"] }));
    let lifted = script.on("Mon 12:30", release(OLD, OLD, None));
    assert_eq!(told(&last(&lifted, "Mon 12:31", asks(2, "dev"))), is(OLD, true));
}

#[test]
fn a_halt_that_would_roll_back_to_a_blocked_start_stops_and_says_why() {
    let groups = json!([
        { "name": "dev", "days": ["*"], "start_hour": 12, "on_halt": "rollback" },
        { "name": "prod", "days": ["*"], "start_hour": 14 },
    ]);
    let begun = super::rollout(&groups).hosts("Mon 11:58", 1..=3, "dev", OLD).on("Mon 12:01", report(1, "dev", NEW));
    let fails = |script: Script| {
        let script = script.on("Mon 12:05", failed(2, "dev")).on("Mon 12:05", failed(3, "dev"));
        let script = script.on("Mon 12:05", outcome(1, "dev", NEW, "updated", ""));
        group(&last(&script, "Mon 12:06", json!({ "status": {} })), "dev").clone()
    };
    assert_eq!(fails(begun.clone())["state"], "rolledback");
    let stopped = fails(begun.on("Mon 12:02", blocked(OLD)));
    assert_eq!([&stopped["state"], &stopped["last_update_reason"]], ["halted", "failed_threshold"]);
    assert_eq!(stopped["why"]["no_way_back"], true);
}

#[test]
fn a_channel_of_a_blocked_version_is_refused() {
    let channel = |version: &str| {
        json!({ "put": { "kind": "fleet_channel", "version": "v1", "metadata": { "name": "stable" },
                "spec": { "static_version": version } } })
    };
    let script = Script::default().on("Mon 11:00", blocked(OLD));
    assert_eq!(
        script.refusal("Mon 11:01", channel(OLD)),
        (
            "conflict".to_owned(),
            "fleet_channel stable: spec.static_version: 17.2.0 is blocked by its fleet_release: leaks sessions"
                .to_owned()
        )
    );
    assert!(script.on("Mon 11:01", channel(NEW)).run().is_empty());
}

/// The same version document with another target comes after the block of the present one.
#[test]
fn a_blocked_target_is_refused_with_its_reason() {
    let script = dev_and_prod().on("Mon 11:10", blocked(NEW));
    let (code, message) = script.refusal(
        "Mon 11:11",
        wanted(&json!({
            "start_version": OLDER, "target_version": NEW, "schedule": "regular", "mode": "enabled",
        })),
    );
    assert!(
        code == "conflict" && message.contains("17.2.1 is blocked by its fleet_release: leaks sessions"),
        "{message}"
    );
}
