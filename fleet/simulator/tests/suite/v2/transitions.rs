//! FLEET §3: which state a command leads to, from each.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, dev_and_prod, halt, immediate, is, mark_done, outcome, rollback, rollout, run, start,
    start_by_force, t, version,
};
use crate::support::Script;

/// All states that a group of halt-on-error can have.
const STATES: [&str; 6] = ["unstarted", "canary", "active", "done", "rolledback", "halted"];

/// `dev`, with a canary or without, in this state on Monday at 11:30. Its window is far away.
fn in_state(state: &str, canaries: u32) -> Script {
    let script = rollout(&json!([
        { "name": "dev", "days": ["Sun"], "start_hour": 20, "canary_count": canaries },
        { "name": "prod", "days": ["Sun"], "start_hour": 21 },
    ]))
    .hosts("Mon 11:10", 1..=4, "dev", OLD);
    let script = match state {
        "unstarted" => script,
        "canary" => script.on("Mon 11:20", start(&["dev"])),
        "active" => script.on("Mon 11:20", start_by_force(&["dev"])),
        "done" => script.on("Mon 11:20", mark_done(&["dev"])),
        "rolledback" => script.on("Mon 11:20", rollback(&["dev"])),
        "halted" => script.on("Mon 11:20", start_by_force(&["dev"])).on("Mon 11:21", halt(&["dev"])),
        _ => panic!("{state}"),
    };
    assert_eq!(script.state("Mon 11:30", "dev"), state);
    script.hosts("Mon 11:29", 1..=4, "dev", OLD)
}

/// Hosts 1 to 10 of `dev` ask.
fn asked(script: Script, when: &str) -> Script {
    (1..=10).fold(script, |script, number| script.on(when, super::asks(number, "dev")))
}

/// `dev` after `action`.
fn after(state: &str, canaries: u32, action: Value) -> Value {
    in_state(state, canaries).on("Mon 11:30:10", action).group("Mon 11:30:10", "dev")
}

/// Refused with this code, and nothing changed.
fn refused(state: &str, canaries: u32, action: &Value, codes: &[&str]) {
    let script = in_state(state, canaries);
    let answers = script.clone().on("Mon 11:30:10", action.clone()).on("Mon 11:30:10", json!({ "status": {} })).run();
    let code = answers[0]["error"]["code"].as_str().unwrap_or_else(|| panic!("{state}, {action}: {:#}", answers[0]));
    assert!(codes.contains(&code), "{state}, {action}: {code}");
    assert_eq!(answers[1], script.status("Mon 11:30:10"), "{state}, {action}");
}

/// A start leads to canaries where there are some.
#[test]
fn start_begins_a_group_that_has_not_begun_or_was_rolled_back() {
    for state in ["unstarted", "rolledback"] {
        for (canaries, wanted) in [(0, "active"), (1, "canary")] {
            let group = after(state, canaries, start(&["dev"]));
            assert_eq!(group["state"], wanted, "{state}");
            assert_eq!(group["start_time"], t("Mon 11:30:10").as_str(), "{state}");
            assert_eq!(group["initial_count"], 4, "{state}");
            if canaries == 0 {
                assert_eq!(group["last_update_reason"], "manual_trigger", "{state}");
            }
        }
    }
}

#[test]
fn start_force_begins_without_canaries() {
    for state in ["unstarted", "rolledback"] {
        for canaries in [0, 1] {
            let group = after(state, canaries, start_by_force(&["dev"]));
            assert_eq!(
                (&group["state"], &group["last_update_reason"]),
                (&json!("active"), &json!("manual_trigger")),
                "{state}"
            );
            assert_eq!(group["start_time"], t("Mon 11:30:10").as_str(), "{state}");
        }
    }
}

#[test]
fn start_force_ends_the_wait_for_canaries_and_start_alone_does_not() {
    let group = after("canary", 1, start_by_force(&["dev"]));
    assert_eq!((&group["state"], &group["last_update_reason"]), (&json!("active"), &json!("manual_trigger")));
    assert_eq!(group["start_time"], t("Mon 11:30:10").as_str());
    refused("canary", 1, &start(&["dev"]), &["already_exists"]);
}

#[test]
fn an_active_group_cannot_be_started() {
    for action in [start(&["dev"]), start_by_force(&["dev"])] {
        for canaries in [0, 1] {
            refused("active", canaries, &action, &["already_exists"]);
        }
    }
}

#[test]
fn a_done_group_cannot_be_started() {
    for action in [start(&["dev"]), start_by_force(&["dev"])] {
        for canaries in [0, 1] {
            refused("done", canaries, &action, &["already_exists", "bad_request", "conflict"]);
        }
    }
}

/// FLEET §3: `start` of a halted group is refused and names `run`.
#[test]
fn a_halted_group_cannot_be_started_and_the_refusal_names_run() {
    for action in [start(&["dev"]), start_by_force(&["dev"])] {
        refused("halted", 0, &action, &["already_exists", "bad_request", "conflict"]);
        let (_, message) = in_state("halted", 0).refusal("Mon 11:31", action);
        assert!(message.contains("run"), "{message}");
    }
}

#[test]
fn mark_done_ends_every_state_but_done() {
    for state in STATES.into_iter().filter(|state| *state != "done") {
        let group = after(state, u32::from(state == "canary"), mark_done(&["dev"]));
        assert_eq!(
            (&group["state"], &group["last_update_reason"]),
            (&json!("done"), &json!("manual_forced_done")),
            "{state}"
        );
    }
    refused("done", 0, &mark_done(&["dev"]), &["already_exists"]);
}

#[test]
fn rollback_ends_every_state_but_rolledback() {
    for state in STATES.into_iter().filter(|state| *state != "rolledback") {
        let group = after(state, u32::from(state == "canary"), rollback(&["dev"]));
        assert_eq!(
            (&group["state"], &group["last_update_reason"]),
            (&json!("rolledback"), &json!("manual_rollback")),
            "{state}"
        );
    }
    refused("rolledback", 0, &rollback(&["dev"]), &["already_exists"]);
}

#[test]
fn only_a_reset_makes_a_group_unstarted_again() {
    for state in STATES.into_iter().filter(|state| !["unstarted", "canary"].contains(state)) {
        let script = in_state(state, 0);
        assert_ne!(script.state("Sat 12:00", "dev"), "unstarted", "{state}");
        if state != "halted" {
            let script = script.on("Mon 11:40", super::version_of(OLD, "17.2.2"));
            assert_eq!(script.state("Mon 11:40", "dev"), "unstarted", "{state}");
        }
    }
}

#[test]
fn start_minds_neither_window_nor_hours_nor_the_groups_before() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["Sun"], "start_hour": 20 },
        { "name": "prod", "days": ["Sun"], "start_hour": 21, "wait_hours": 48 },
        { "name": "last", "days": ["*"], "start_hour": 11 },
    ]))
    .on("Mon 11:30", start(&["prod"]));
    assert_eq!(script.state("Mon 11:30", "prod"), "active");
    assert_eq!(script.find("Mon 11:30", "prod"), is(NEW, true));
    assert_eq!(script.state("Mon 11:30", "dev"), "unstarted");
    // Those behind it still wait for all before them.
    assert_ne!(script.state("Tue 11:30", "prod"), "unstarted");
    assert_eq!(script.state("Wed 11:30", "last"), "unstarted");
}

#[test]
fn start_takes_the_counts_of_that_time() {
    let script =
        dev_and_prod().counts("Mon 11:30", &[("dev", OLD, 7), ("dev", NEW, 2)]).on("Mon 11:30:20", start(&["dev"]));
    let group = script.group("Mon 11:30:20", "dev");
    assert_eq!(
        (&group["initial_count"], &group["present_count"], &group["up_to_date_count"]),
        (&json!(9), &json!(9), &json!(2))
    );
}

#[test]
fn rollback_of_a_group_that_has_not_begun_keeps_it_from_beginning() {
    let script = dev_and_prod().on("Mon 11:30", rollback(&["dev"]));
    assert_eq!(script.state("Tue 12:30", "dev"), "rolledback");
    assert_eq!(script.state("Tue 12:30", "prod"), "unstarted");
}

// All started groups.

#[test]
fn all_started_groups_are_those_in_canary_active_or_done() {
    let script = rollout(&json!([
        { "name": "done", "days": ["Sun"], "start_hour": 20 },
        { "name": "active", "days": ["Sun"], "start_hour": 20 },
        { "name": "canary", "days": ["Sun"], "start_hour": 20, "canary_count": 1 },
        { "name": "back", "days": ["Sun"], "start_hour": 20 },
        { "name": "unstarted", "days": ["Sun"], "start_hour": 20 },
    ]))
    .hosts("Mon 11:10", 1..=2, "canary", OLD)
    .on("Mon 11:20", mark_done(&["done"]))
    .on("Mon 11:20", start(&["active", "canary"]))
    .on("Mon 11:20", rollback(&["back"]))
    .on("Mon 11:30", json!({ "rollback": { "all_started": true } }));
    for (name, state) in [
        ("done", "rolledback"),
        ("active", "rolledback"),
        ("canary", "rolledback"),
        ("back", "rolledback"),
        ("unstarted", "unstarted"),
    ] {
        assert_eq!(script.state("Mon 11:30", name), state, "{name}");
    }
    assert_eq!(script.find("Mon 11:30", "unstarted"), is(OLD, false));
    assert_eq!(script.find("Mon 11:30", "active"), is(OLD, true));
}

#[test]
fn without_started_groups_there_is_nothing_to_roll_back() {
    let all = json!({ "rollback": { "all_started": true } });
    assert_eq!(dev_and_prod().refusal("Mon 11:30", all.clone()).0, "already_exists");
    let script = dev_and_prod().on("Mon 11:30", start(&["dev"])).on("Mon 11:31", all.clone());
    assert_eq!(script.refusal("Mon 11:32", all).0, "already_exists");
}

// Several groups.

#[test]
fn several_groups_start_end_and_go_back_together() {
    let script = dev_and_prod().on("Mon 11:30", start(&["dev", "prod"]));
    assert_eq!([script.state("Mon 11:30", "dev"), script.state("Mon 11:30", "prod")], ["active", "active"]);
    let script = script.on("Mon 11:40", mark_done(&["prod", "dev"]));
    assert_eq!([script.state("Mon 11:40", "dev"), script.state("Mon 11:40", "prod")], ["done", "done"]);
    let script = script.on("Mon 11:50", rollback(&["dev", "prod"]));
    assert_eq!([script.state("Mon 11:50", "dev"), script.state("Mon 11:50", "prod")], ["rolledback", "rolledback"]);
}

/// A command of several groups, one of which cannot do it, does nothing.
#[test]
fn a_command_is_all_or_nothing() {
    let base = dev_and_prod();
    let prod_is_done = dev_and_prod().on("Mon 11:20", mark_done(&["prod"]));
    let prod_is_back = dev_and_prod().on("Mon 11:20", rollback(&["prod"]));
    let prod_is_halted = dev_and_prod().on("Mon 11:20", start(&["prod"])).on("Mon 11:21", halt(&["prod"]));
    for (script, action) in [
        (&base, start(&["dev", "nope"])),
        (&base, start(&["nope", "dev"])),
        (&base, start_by_force(&["dev", "nope"])),
        (&base, mark_done(&["dev", "nope"])),
        (&base, rollback(&["dev", "nope"])),
        (&base, halt(&["dev", "nope"])),
        (&base, run(&["dev", "nope"])),
        (&base, start(&["dev", ""])),
        (&prod_is_done, start(&["dev", "prod"])),
        (&prod_is_done, mark_done(&["dev", "prod"])),
        (&prod_is_done, run(&["dev", "prod"])),
        (&prod_is_back, rollback(&["dev", "prod"])),
        (&prod_is_halted, start(&["dev", "prod"])),
    ] {
        let answers = script.clone().on("Mon 11:30", action.clone()).on("Mon 11:30", json!({ "status": {} })).run();
        assert!(answers[0].get("error").is_some(), "{action}");
        assert_eq!(answers[1], script.status("Mon 11:30"), "{action}");
        assert_eq!(
            script.clone().on("Mon 11:30", action.clone()).on("Mon 11:45", json!({ "status": {} })).run()[1],
            script.status("Mon 11:45")
        );
    }
}

// What makes no sense.

fn actions(groups: &[&str]) -> Vec<Value> {
    vec![start(groups), start_by_force(groups), mark_done(groups), rollback(groups), halt(groups), run(groups)]
}

#[test]
fn an_unknown_group_is_not_found() {
    for action in actions(&["nope"]).into_iter().chain(actions(&["Dev"])) {
        assert_eq!(dev_and_prod().refusal("Mon 11:30", action.clone()).0, "not_found", "{action}");
    }
}

#[test]
fn an_empty_name_is_a_bad_request() {
    for action in actions(&[""]) {
        let (code, _) = dev_and_prod().refusal("Mon 11:30", action.clone());
        assert!(["bad_request", "bad_parameter"].contains(&code.as_str()), "{action}: {code}");
    }
}

#[test]
fn commands_need_groups() {
    for action in [start(&[]), start_by_force(&[]), mark_done(&[])] {
        let (_, message) = dev_and_prod().refusal("Mon 11:30", action.clone());
        assert!(message.contains("no groups specified"), "{action}: {message}");
    }
}

#[test]
fn an_immediate_rollout_has_no_groups_to_command() {
    let script = Script::default().on("Mon 11:00", immediate());
    for action in [
        start(&["dev"]),
        start_by_force(&["dev"]),
        mark_done(&["dev"]),
        rollback(&["dev"]),
        json!({ "rollback": { "all_started": true } }),
    ] {
        let (_, message) = script.refusal("Mon 11:30", action.clone());
        assert!(message.contains("immediate"), "{action}: {message}");
    }
}

#[test]
fn without_a_rollout_there_is_nothing_to_command() {
    for action in actions(&["dev"]) {
        assert_eq!(Script::default().refusal("Mon 11:30", action.clone()).0, "no_rollout", "{action}");
    }
}

// What the states mean for the hosts.

#[test]
fn a_rolled_back_group_gives_the_start_version_back() {
    let script = dev_and_prod()
        .hosts("Mon 11:55", 1..=2, "dev", OLD)
        .on("Mon 12:01", super::asks(1, "dev"))
        .on("Mon 12:10", super::updated(1, "dev"))
        .on("Mon 12:20", rollback(&["dev"]));
    assert_eq!(script.find_host("Mon 12:20", 1, "dev"), is(OLD, true));
    assert_eq!(script.find("Mon 12:20", "dev"), is(OLD, true));
    assert_eq!(script.find_host("Mon 12:20", 2, "dev").0, OLD);
}

#[test]
fn a_rolled_back_group_that_is_started_again_tells_the_target_again() {
    let script = dev_and_prod()
        .hosts("Mon 11:55", 1..=2, "dev", OLD)
        .on("Mon 12:01", super::asks(1, "dev"))
        .on("Mon 12:10", super::updated(1, "dev"))
        .on("Mon 12:20", rollback(&["dev"]))
        .on("Mon 12:21", super::asks(1, "dev"))
        .on("Mon 12:25", super::report(1, "dev", OLD))
        .on("Mon 12:40", start(&["dev"]));
    assert_eq!(script.state("Mon 12:40", "dev"), "active");
    assert_eq!(script.find_host("Mon 12:41", 1, "dev"), is(NEW, true));
    assert_eq!(script.find_host("Mon 12:41", 2, "dev"), is(NEW, true));
}

#[test]
fn a_done_group_that_is_rolled_back_lets_no_other_begin() {
    let script = dev_and_prod().on("Mon 12:30", mark_done(&["dev"])).on("Mon 13:00", rollback(&["dev"]));
    assert_eq!(script.state("Mon 14:30", "prod"), "unstarted");
}

// Halt and run (FLEET §3).

#[test]
fn halt_stops_a_group_in_each_state() {
    for state in ["unstarted", "canary", "active", "done", "rolledback"] {
        let script = in_state(state, u32::from(state == "canary")).on("Mon 11:30:10", halt(&["dev"]));
        let group = script.group("Mon 11:30:10", "dev");
        assert_eq!(
            (&group["state"], &group["last_update_reason"]),
            (&json!("halted"), &json!("manual_halt")),
            "{state}"
        );
        for number in 1..=4 {
            assert!(!script.find_host("Mon 11:31", number, "dev").1, "{state}");
        }
        assert!(!script.find("Mon 11:31", "dev").1, "{state}");
    }
}

#[test]
fn run_leads_back_to_where_the_group_was_with_another_attempt() {
    for state in ["active", "done", "rolledback"] {
        let script = in_state(state, 0);
        let before = script.group("Mon 11:30:10", "dev")["attempt"].as_u64().unwrap();
        let group = script.on("Mon 11:30:10", halt(&["dev"])).on("Mon 11:35", run(&["dev"])).group("Mon 11:35", "dev");
        assert_eq!(group["state"], state);
        assert_eq!(group["attempt"], before + 1, "{state}");
    }
}

/// FLEET §3: `run` of one that has not begun starts it (RFD).
#[test]
fn run_starts_a_group_that_has_not_begun() {
    assert_eq!(after("unstarted", 0, run(&["dev"]))["state"], "active");
    assert_eq!(after("unstarted", 1, run(&["dev"]))["state"], "canary");
}

#[test]
fn run_of_what_is_not_halted_and_has_begun_is_refused() {
    for state in ["active", "done"] {
        refused(state, 0, &run(&["dev"]), &["already_exists", "bad_request", "conflict"]);
    }
    refused("canary", 1, &run(&["dev"]), &["already_exists", "bad_request", "conflict"]);
}

#[test]
fn a_halt_stays_until_a_person_ends_it() {
    let script = dev_and_prod().on("Mon 11:30", halt(&["dev"]));
    for when in ["Mon 12:30", "Tue 12:30", "next Mon 12:30"] {
        assert_eq!(script.state(when, "dev"), "halted", "{when}");
        assert_eq!(script.state(when, "prod"), "unstarted", "{when}");
        assert!(!script.find(when, "dev").1, "{when}");
    }
}

/// FLEET §1: "from now on nobody is told to update, until `run`".
#[test]
fn halt_all_outlives_the_target_and_the_rollout() {
    let all = |script: Script| script.on("Mon 11:30", json!({ "halt": { "all": true } }));
    let another = all(dev_and_prod()).on("Mon 11:40", super::version_of(OLD, "17.2.2"));
    let removed = all(dev_and_prod()).on("Mon 11:40", json!({ "rm": "autoupdate_version" })).on("Mon 11:50", version());
    let at_once = all(dev_and_prod()).on("Mon 11:40", immediate());
    let timed = all(dev_and_prod())
        .on("Mon 11:40", super::timed("2h", &json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])));
    for (name, script) in [("another", another), ("removed", removed), ("immediate", at_once), ("timed", timed)] {
        for when in ["Mon 12:10", "Tue 12:10", "Sun 14:10"] {
            assert!(!script.find(when, "dev").1, "{name} at {when}");
            assert!(!script.find_host(when, 1, "dev").1, "{name} at {when}");
        }
    }
}

#[test]
fn halt_all_before_the_first_rollout_holds_it() {
    let script = Script::default()
        .on("Mon 10:00", json!({ "halt": { "all": true } }))
        .on("Mon 11:00", super::halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])))
        .on("Mon 11:00", version());
    assert!(!script.find("Mon 12:10", "dev").1);
    let script = script.on("Mon 12:20", json!({ "run": { "all": true } }));
    assert!(script.find("Mon 12:21", "dev").1);
}

#[test]
fn run_all_ends_halt_all() {
    let script = dev_and_prod()
        .on("Mon 12:05", json!({ "halt": { "all": true } }))
        .on("Mon 12:10", json!({ "run": { "all": true } }));
    assert_eq!(script.state("Mon 12:10", "dev"), "active");
    assert_eq!(script.find("Mon 12:10", "dev"), is(NEW, true));
    assert_eq!(script.find("Mon 12:10", "prod"), is(OLD, false));
}

#[test]
fn a_halted_group_that_was_told_keeps_the_target_and_others_the_start() {
    let script = dev_and_prod()
        .hosts("Mon 11:55", 1..=3, "dev", OLD)
        .on("Mon 12:01", super::asks(1, "dev"))
        .on("Mon 12:05", halt(&["dev"]));
    assert_eq!(script.find_host("Mon 12:06", 1, "dev"), is(NEW, false));
    assert_eq!(script.find_host("Mon 12:06", 2, "dev"), is(OLD, false));
    assert_eq!(script.find("Mon 12:06", "dev"), is(OLD, false));
}

/// FLEET §3: `mark_done` of a halted one opens the way for dependents; its other hosts stay.
#[test]
fn mark_done_of_a_halted_group_opens_the_way_and_its_other_hosts_stay() {
    let script = dev_and_prod()
        .hosts("Mon 11:55", 1..=3, "dev", OLD)
        .on("Mon 12:01", super::asks(1, "dev"))
        .on("Mon 12:05", halt(&["dev"]))
        .on("Mon 14:10", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 14:10", "prod"), "active");
    assert!(!script.find_host("Mon 14:11", 2, "dev").1);
    assert!(!script.find_host("Mon 14:11", 9, "dev").1);
    assert!(!script.find("Mon 14:11", "dev").1);
    assert!(!script.find_host("Tue 14:11", 2, "dev").1);
}

#[test]
fn after_run_what_failed_before_counts_no_more() {
    let script = (1..=3)
        .fold(asked(dev_and_prod().hosts("Mon 11:55", 1..=10, "dev", OLD), "Mon 12:01"), |script, number| {
            script.on("Mon 12:05", super::failed(number, "dev"))
        });
    assert_eq!(script.state("Mon 12:06", "dev"), "halted");
    let script = script.on("Mon 12:10", run(&["dev"]));
    assert_eq!(script.state("Mon 12:11", "dev"), "active");
    assert_eq!(script.group("Mon 12:11", "dev")["failed_count"], 0);
    // Reports of the whole state say the same failure again, until the host is told again.
    let script = (1..=3).fold(script, |script, number| script.on("Mon 12:12", super::failed(number, "dev")));
    assert_eq!(script.state("Mon 12:13", "dev"), "active");
    // Failures of this attempt count.
    let again =
        (1..=2).fold(asked(script, "Mon 12:20"), |script, number| script.on("Mon 12:25", super::failed(number, "dev")));
    assert_eq!(again.state("Mon 12:26", "dev"), "halted");
}

/// FLEET §3: only a person or a new target ends it.
#[test]
fn a_new_target_ends_a_halt_by_failures() {
    let script = (1..=2)
        .fold(asked(dev_and_prod().hosts("Mon 11:55", 1..=10, "dev", OLD), "Mon 12:01"), |script, number| {
            script.on("Mon 12:05", super::failed(number, "dev"))
        });
    let script = script.on("Mon 13:00", super::version_of(OLD, "17.2.2"));
    assert_eq!(script.state("Mon 13:00", "dev"), "unstarted");
    // Failures of another version do not count.
    let script = script.hosts("Tue 11:50", 1..=10, "dev", OLD);
    assert_eq!(script.find_host("Tue 12:00", 1, "dev"), is("17.2.2", true));
    let again = script
        .on("Tue 12:01", outcome(1, "dev", OLD, "failed", "x"))
        .on("Tue 12:01", outcome(2, "dev", OLD, "failed", "x"));
    assert_eq!(again.state("Tue 12:02", "dev"), "active");
}

/// FLEET §3: who has the target goes back to the start version, also where that is above the target.
#[test]
fn a_rollback_of_a_downgrade_sends_back_up_who_has_the_target() {
    let (below, start_version, target) = ("17.1.0", NEW, OLD);
    let script = Script::default()
        .on("Mon 11:00", super::halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])))
        .on("Mon 11:00", super::version_of(start_version, target))
        .hosts("Mon 11:58", 1..=4, "dev", start_version)
        .hosts("Mon 11:58", 5..=5, "dev", below)
        .on("Mon 12:01", super::asks(1, "dev"))
        .on("Mon 12:01", super::asks(2, "dev"))
        .on("Mon 12:05", super::report(1, "dev", target))
        .on("Mon 12:06", rollback(&["dev"]));
    assert_eq!(script.find_host("Mon 12:07", 1, "dev"), is(start_version, true), "it has the target");
    assert_eq!(script.find_host("Mon 12:07", 2, "dev"), is(start_version, true), "it was told");
    assert!(!script.find_host("Mon 12:07", 5, "dev").1, "to go back is no reason to go up");
    let back = script.on("Mon 12:08", super::asks(1, "dev")).on("Mon 12:10", super::report(1, "dev", start_version));
    let group = back.group("Mon 12:10", "dev");
    // The one that was told may yet come to the target.
    assert_eq!([&group["updated_count"], &group["in_flight_count"]], [&json!(3), &json!(1)]);
}
