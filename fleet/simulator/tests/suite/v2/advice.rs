//! FLEET §6: the one command that would change a reason.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, asks, dev_and_prod, failed, halt, host, mark_done, report, rollback, rollout, run, start,
    start_by_force, t, timed, version,
};
use crate::support::Script;

fn advice(script: &Script, when: &str, group: &str) -> Value {
    script.group(when, group)["why"]["advice"].clone()
}

fn command(action: &Value) -> Value {
    json!({ "command": action })
}

fn started(group: &str, force: bool) -> Value {
    command(&json!({ "start": { "groups": [group], "force": force } }))
}

fn resumed(group: &str) -> Value {
    command(&json!({ "run": { "groups": [group], "all": false } }))
}

fn dev(keys: &Value) -> Script {
    let mut dev = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
    dev.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    rollout(&json!([dev]))
}

fn frozen() -> Value {
    json!([{ "from": t("Mon 12:10"), "to": t("Tue 08:00"), "reason": "sale" }])
}

#[test]
fn a_freeze_is_passed_by_force_before_the_start_and_after_it() {
    let script = dev(&json!({ "blackout": frozen() })).hosts("Mon 11:58", 1..=2, "dev", OLD);
    assert_eq!(script.group("Mon 12:20", "dev")["why"]["code"], "blackout");
    assert_eq!(advice(&script, "Mon 12:20", "dev"), started("dev", true));
    let forced = script.on("Mon 12:20", start_by_force(&["dev"]));
    assert_eq!(forced.find_host("Mon 12:21", 1, "dev"), super::is(NEW, true));
    assert_eq!(forced.refusal("Mon 12:22", start_by_force(&["dev"])).0, "already_exists");
    let before = dev(&json!({ "start_hour": 13, "blackout": frozen() }));
    assert_eq!(advice(&before, "Mon 13:20", "dev"), started("dev", true));
}

#[test]
fn a_group_behind_a_stopped_one_names_what_ends_the_stop() {
    let script = dev_and_prod().on("Mon 12:10", halt(&["dev"]));
    assert_eq!(advice(&script, "Mon 14:20", "prod"), resumed("dev"));
    assert_eq!(advice(&dev_and_prod(), "Mon 12:20", "prod"), started("prod", false));
}

#[test]
fn who_waits_behind_a_group_that_went_back_is_told_to_try_that_again() {
    let script = dev_and_prod().hosts("Mon 11:58", 1..=2, "dev", OLD).on("Mon 12:10", rollback(&["dev"]));
    assert_eq!(advice(&script, "Mon 14:20", "prod"), started("dev", false));
}

#[test]
fn outside_of_its_window_duration_only_time_or_another_policy_lets_a_group_go_on() {
    let script = dev(&json!({ "window_duration": "1h" })).hosts("Mon 12:58", 1..=9, "dev", OLD);
    for script in [script.clone(), script.on("Mon 12:59", mark_done(&["dev"]))] {
        assert_eq!(script.group("Mon 13:20", "dev")["why"]["code"], "outside_window");
        assert_eq!(advice(&script, "Mon 13:20", "dev"), json!({ "edit": ["autoupdate_config"] }));
    }
}

#[test]
fn a_blocked_release_is_edited_as_run_is_refused_meanwhile() {
    let release = json!({ "version": NEW, "blocked": { "reason": "breaks SELinux" } });
    let release =
        json!({ "put": { "kind": "fleet_release", "version": "v1", "metadata": { "name": "r" }, "spec": release } });
    let script = dev_and_prod().on("Mon 12:10", release);
    assert_eq!(advice(&script, "Mon 12:20", "dev"), json!({ "edit": ["fleet_release/r"] }));
    assert_eq!(script.refusal("Mon 12:20", run(&["dev"])).0, "conflict");
}

#[test]
fn a_mode_is_edited_where_it_is_low() {
    let low = super::version_in("suspended", "regular");
    let script = dev_and_prod().on("Mon 11:10", low);
    assert_eq!(advice(&script, "Mon 11:20", "dev"), json!({ "edit": ["autoupdate_version"] }));
    let agents = json!({ "mode": "disabled", "strategy": "halt-on-error" });
    let script = script.on("Mon 11:12", super::agents(&agents));
    assert_eq!(advice(&script, "Mon 11:20", "dev"), json!({ "edit": ["autoupdate_config", "autoupdate_version"] }));
}

#[test]
fn nobody_proposes_a_start_that_a_time_based_group_refuses() {
    let script = Script::default()
        .on("Mon 11:00", timed("1h", &json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])))
        .on("Mon 11:00", version());
    assert_eq!(advice(&script, "Mon 11:30", "dev"), Value::Null);
}

#[test]
fn a_stop_of_a_group_that_had_not_begun_is_no_start_when_it_ends() {
    let script = dev_and_prod().hosts("Mon 11:10", 1..=2, "dev", OLD).on("Mon 11:20", halt(&["dev"]));
    let script = script.on("Mon 11:30", run(&["dev"]));
    assert_eq!(script.because("Mon 11:31", "dev"), super::state_and_reason("unstarted", "cannot_start"));
    assert_eq!(script.find_host("Mon 11:31", 1, "dev"), super::is(OLD, false));
    // Its gate decides; and `run` of one that is not held starts it (RFD 0169).
    assert_eq!(script.state("Mon 12:01", "dev"), "active");
    assert_eq!(script.on("Mon 11:32", run(&["dev"])).state("Mon 11:33", "dev"), "active");
}

#[test]
fn a_hold_of_everything_that_ends_for_one_group_does_not_start_it() {
    let script = dev_and_prod().on("Mon 11:20", json!({ "halt": { "all": true } })).on("Mon 11:30", run(&["dev"]));
    assert_eq!(script.state("Mon 11:31", "dev"), "unstarted");
    assert_eq!(script.state("Mon 11:31", "prod"), "halted");
}

#[test]
fn run_starts_nothing_while_the_mode_is_suspended() {
    let script = dev_and_prod().on("Mon 11:10", super::version_in("suspended", "regular"));
    assert_eq!(script.refusal("Mon 11:20", run(&["dev"])).0, "conflict");
    let held = script.on("Mon 11:15", halt(&["dev"])).on("Mon 11:20", run(&["dev"]));
    assert_eq!(held.state("Mon 11:21", "dev"), "unstarted");
}

#[test]
fn no_command_stands_for_an_approval() {
    let script = dev(&json!({ "approval": "operator" })).hosts("Mon 11:10", 1..=2, "dev", OLD);
    for command in [start(&["dev"]), start_by_force(&["dev"]), run(&["dev"]), mark_done(&["dev"])] {
        let (code, message) = script.refusal("Mon 11:20", command.clone());
        assert_eq!(code, "conflict", "{command}");
        assert!(message.contains("approve dev"), "{message}");
    }
    assert_eq!(advice(&script, "Mon 11:30", "dev"), command(&json!({ "approve": { "groups": ["dev"] } })));
    let back = script.clone().on("Mon 11:20", rollback(&["dev"]));
    for command in [start(&["dev"]), mark_done(&["dev"])] {
        assert_eq!(back.refusal("Mon 11:30", command).0, "conflict");
    }
    let approved = script.on("Mon 11:20", json!({ "approve": { "group": "dev" } }));
    assert_eq!(approved.on("Mon 11:20", start(&["dev"])).find_host("Mon 11:21", 1, "dev"), super::is(NEW, true));
}

#[test]
fn a_group_whose_canaries_only_ask_says_so() {
    let script = dev(&json!({ "canary_count": 2 })).on("Mon 11:58", asks(1, "dev")).on("Mon 11:58", asks(2, "dev"));
    let last = |action: Value| script.clone().on("Mon 12:10", action).run().pop().unwrap();
    let group = crate::support::group(&last(json!({ "status": {} })), "dev").clone();
    assert_eq!((&group["state"], &group["why"]["code"]), (&json!("canary"), &json!("no_reports")));
    assert_eq!(group["why"]["hosts"], 2);
    assert_eq!(group["why"]["advice"], started("dev", true));
}

#[test]
fn a_group_that_lacks_canaries_says_how_many_could_be_chosen() {
    let alone = json!({ "report": { "host": host(2), "group": "dev", "version": OLD } });
    let script = dev(&json!({ "canary_count": 2 })).on("Mon 11:58", report(1, "dev", OLD)).on("Mon 11:58", alone);
    let why = script.group("Mon 12:01", "dev")["why"].clone();
    assert_eq!(why["code"], "waiting_for_canaries");
    assert_eq!((&why["done"], &why["chosen"], &why["wanted"]), (&json!(0), &json!(1), &json!(2)));
    assert_eq!(why["advice"], started("dev", true));
}

#[test]
fn at_0_percent_nobody_goes_and_the_group_says_so() {
    let keys = [json!({ "max_in_flight": "0%" }), json!({ "max_in_flight": 0, "canary_count": 2 })];
    for keys in keys {
        let script = dev(&keys).hosts("Mon 11:58", 1..=3, "dev", OLD);
        for number in 1..=3 {
            assert_eq!(script.find_host("Mon 12:10", number, "dev"), super::is(OLD, false), "{keys}");
        }
        assert!(!script.find("Mon 12:10", "dev").1, "{keys}");
        let group = script.group("Mon 12:10", "dev");
        assert_eq!((&group["why"]["code"], &group["why"]["cap"]), (&json!("max_in_flight"), &json!(0)), "{keys}");
        assert_eq!((&group["let_go_count"], &group["in_flight_count"]), (&json!(0), &json!(0)), "{keys}");
        assert_eq!(group["why"]["who"], "operator");
        assert_eq!(group["why"]["advice"], json!({ "edit": ["autoupdate_config"] }));
    }
}

#[test]
fn at_0_percent_hosts_that_only_ask_do_not_go_either() {
    let script = dev(&json!({ "max_in_flight": "0%" })).on("Mon 11:58", asks(1, "dev"));
    let mut answers = script.on("Mon 12:10", asks(1, "dev")).on("Mon 12:10", json!({ "status": {} })).run();
    let status = answers.pop().unwrap();
    assert_eq!(super::told(&answers.pop().unwrap()), super::is(OLD, false));
    assert_eq!(crate::support::group(&status, "dev")["why"]["code"], "max_in_flight");
}

#[test]
fn a_host_that_is_sent_back_is_told_so_by_a_code_of_its_own() {
    let script = dev_and_prod()
        .hosts("Mon 11:58", 1..=2, "dev", OLD)
        .on("Mon 12:10", report(1, "dev", NEW))
        .on("Mon 12:20", rollback(&["dev"]));
    let code = |number| script.then("Mon 12:21", asks(number, "dev"))["find"]["fleet"]["why"]["code"].clone();
    assert_eq!((code(1), code(2)), (json!("sent_back"), json!("went_back")));
    assert_eq!(script.why("Mon 12:21", "dev").0, "sent_back");
}

#[test]
fn a_host_is_advised_as_its_group_and_by_what_keeps_it_alone() {
    let explain = |script: &Script, when: &str, number| {
        script.then(when, json!({ "explain": { "host": host(number) } }))["explain"]["why"]["advice"].clone()
    };
    let script = dev_and_prod().hosts("Mon 11:10", 1..=2, "dev", OLD);
    assert_eq!(explain(&script, "Mon 11:20", 1), started("dev", false));
    assert_eq!(explain(&script.clone().on("Mon 11:15", halt(&["dev"])), "Mon 11:20", 1), resumed("dev"));
    let held = script.clone().on("Mon 11:15", json!({ "hold": { "host": host(1) } }));
    assert_eq!(explain(&held, "Mon 11:20", 1), json!({ "host": "release" }));
    // No cap: it is told the target still, and only its own refusal keeps it.
    let broken = script.on("Mon 12:10", failed(1, "dev"));
    let why = broken.then("Mon 12:11", json!({ "explain": { "host": host(1) } }))["explain"]["why"].clone();
    assert!(["halted", "failed_here"].contains(&why["code"].as_str().unwrap()), "{why}");
    assert!(!why["advice"].is_null(), "{why}");
}

#[test]
fn a_hold_of_a_host_acts_when_it_comes() {
    let hold = |verb: &str| json!({ verb: { "host": host(1) } });
    let script = dev_and_prod().on("Mon 11:00", hold("hold"));
    let group = script.group("Mon 12:05", "dev");
    for count in ["pending", "excluded", "in_flight", "silent"] {
        assert_eq!(group[format!("{count}_count")], 0, "{count}");
    }
    let come = script.on("Mon 12:10", report(1, "dev", OLD));
    assert_eq!(come.find_host("Mon 12:11", 1, "dev"), super::is(OLD, false));
    assert_eq!(come.then("Mon 12:11", asks(1, "dev"))["find"]["fleet"]["why"]["code"], "held");
    assert_eq!(come.on("Mon 12:12", hold("release")).find_host("Mon 12:13", 1, "dev"), super::is(NEW, true));
}

#[test]
fn a_host_that_never_came_is_forgotten_with_its_hold() {
    let line = |verb: &str| json!({ verb: { "host": host(1) } });
    let script = dev_and_prod().on("Mon 11:00", line("hold")).on("Mon 11:01", line("release"));
    assert_eq!(script.refusal("Mon 11:02", line("release")).0, "not_found");
    let assigned = dev_and_prod().on("Mon 11:00", json!({ "assign": { "host": host(1), "group": "prod" } }));
    let come = assigned.on("Mon 11:10", report(1, "dev", OLD));
    assert_eq!(come.group("Mon 11:11", "prod")["pending_count"], 1);
}

#[test]
fn what_is_held_is_in_the_status_whether_the_rollout_has_it_or_not() {
    let script = dev_and_prod();
    assert_eq!(script.status("Mon 11:10")["status"]["status"]["holds"], Value::Null);
    let held = script.on("Mon 11:10", halt(&["prod"]));
    let other = super::halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }]));
    let held = held.on("Mon 11:11", other).on("Mon 11:12", super::version_of(NEW, "17.2.2"));
    assert_eq!(held.status("Mon 11:13")["status"]["status"]["holds"]["groups"], json!(["prod"]));
    let free = held.on("Mon 11:14", run(&["prod"]));
    assert_eq!(free.status("Mon 11:15")["status"]["status"]["holds"], Value::Null);
}

#[test]
fn a_group_whose_hold_outlived_the_rollout_is_released_without_one() {
    let held = dev_and_prod().on("Mon 11:10", halt(&["prod"])).on("Mon 11:11", json!({ "rm": "autoupdate_version" }));
    let free = held.on("Mon 11:12", run(&["prod"])).on("Mon 11:13", version());
    assert_eq!(free.state("Mon 11:14", "prod"), "unstarted");
}

#[test]
fn an_immediate_rollout_that_is_halted_says_why_and_how_it_goes_on() {
    let script = Script::default().on("Mon 11:00", super::immediate());
    let halted = script.on("Mon 11:01", json!({ "halt": { "all": true } }));
    let why = halted.status("Mon 11:02")["status"]["status"]["why"].clone();
    assert_eq!(why["code"], "halted");
    assert_eq!(why["advice"], command(&json!({ "run": { "groups": [], "all": true } })));
}
