//! FLEET §3: groups that depend on nothing but their windows.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, asks, failed, halt, is, mark_done, rollback, run, start, start_by_force, state_and_reason, t,
    timed, version, version_of,
};
use crate::support::Script;

/// `east` at 4, `west` at 6 and `europe` at 12 o'clock, two hours each; begun on Monday at 00:00.
fn three() -> Script {
    begun("Mon 00:00")
}

fn groups() -> Value {
    json!([
        { "name": "europe", "days": ["*"], "start_hour": 12 },
        { "name": "east", "days": ["*"], "start_hour": 4 },
        { "name": "west", "days": ["*"], "start_hour": 6 },
    ])
}

fn begun(when: &str) -> Script {
    Script::default().on(when, timed("2h", &groups())).on(when, version())
}

#[test]
fn a_group_is_active_within_its_window_and_done_outside_of_it() {
    let script = three();
    for (when, state, reason) in [
        ("Mon 03:59:59", "unstarted", "outside_window"),
        ("Mon 04:00", "active", "in_window"),
        ("Mon 05:59:59", "active", "in_window"),
        ("Mon 06:00", "done", "outside_window"),
        ("Tue 03:59:59", "done", "outside_window"),
        ("Tue 04:00", "active", "in_window"),
        ("Tue 05:59:59", "active", "in_window"),
        ("Tue 06:00", "done", "outside_window"),
        ("Wed 04:00", "active", "in_window"),
    ] {
        assert_eq!(script.because(when, "east"), state_and_reason(state, reason), "{when}");
    }
}

#[test]
fn its_start_is_that_of_its_last_window() {
    let script = three();
    assert_eq!(script.group("Mon 04:30", "east")["start_time"], t("Mon 04:00").as_str());
    assert_eq!(script.group("Mon 23:00", "east")["start_time"], t("Mon 04:00").as_str());
    assert_eq!(script.group("Tue 05:00", "east")["start_time"], t("Tue 04:00").as_str());
}

#[test]
fn groups_wait_for_nobody() {
    // `europe` stands first, and its window comes last.
    let script = three();
    let states = |when: &str| ["europe", "east", "west"].map(|name| script.state(when, name));
    assert_eq!(states("Mon 04:00"), ["unstarted", "active", "unstarted"]);
    assert_eq!(states("Mon 06:00"), ["unstarted", "done", "active"]);
    assert_eq!(states("Mon 12:00"), ["active", "done", "done"]);
    assert_eq!(script.status("Mon 15:00")["status"]["status"]["state"], "done");
    assert_eq!(script.status("Mon 12:00")["status"]["status"]["state"], "active");
}

#[test]
fn the_window_is_no_longer_than_it_is_said_to_be() {
    let script = Script::default()
        .on("Mon 00:00", timed("10m", &json!([{ "name": "dev", "days": ["*"], "start_hour": 4 }])))
        .on("Mon 00:00", version());
    assert_eq!(script.state("Mon 04:09:59", "dev"), "active");
    assert_eq!(script.state("Mon 04:10", "dev"), "done");
}

#[test]
fn a_window_between_full_minutes_lets_nobody_go_too_late() {
    let script = Script::default()
        .on("Mon 00:00", timed("10m30s", &json!([{ "name": "dev", "days": ["*"], "start_hour": 4 }])))
        .on("Mon 00:00", version());
    assert_eq!(script.find("Mon 04:10:29", "dev"), is(NEW, true));
    assert_eq!(script.find("Mon 04:10:30", "dev"), is(NEW, false));
}

#[test]
fn windows_longer_than_an_hour_can_be_entered_at_any_time() {
    // The mode lets it start in the second hour of its window.
    let suspended = super::version_in("suspended", "regular");
    let script =
        Script::default().on("Mon 00:00", timed("3h", &groups())).on("Mon 00:00", suspended).on("Mon 06:50", version());
    assert_eq!(script.state("Mon 06:50", "east"), "active");
}

#[test]
fn before_in_and_after_the_window_the_answers_are_those_of_the_table() {
    let script = three();
    assert_eq!(script.find("Mon 03:59:59", "east"), is(OLD, false));
    assert_eq!(script.find("Mon 04:00", "east"), is(NEW, true));
    assert_eq!(script.find("Mon 05:59:59", "east"), is(NEW, true));
    assert_eq!(script.find("Mon 06:00", "east"), is(NEW, false));
    assert_eq!(script.find("Mon 23:00", "east"), is(NEW, false));
    assert_eq!(script.find("Tue 04:00", "east"), is(NEW, true));
}

#[test]
fn a_rollout_that_begins_in_a_window_waits_for_the_next_one() {
    for when in ["Mon 04:00", "Mon 05:30", "Mon 05:59:59"] {
        let script = begun(when);
        assert_eq!(
            script.because(when, "east"),
            state_and_reason("unstarted", "rollout_changed_during_window"),
            "{when}"
        );
        assert_eq!(script.find("Mon 05:59:59", "east"), is(OLD, false), "{when}");
        assert_eq!(script.because("Mon 06:00", "east"), state_and_reason("unstarted", "outside_window"), "{when}");
        assert_eq!(script.state("Tue 03:59:59", "east"), "unstarted", "{when}");
        assert_eq!(script.state("Tue 05:59:59", "east"), "active", "{when}");
        // The others do not mind.
        assert_eq!(script.state("Mon 06:00", "west"), "active", "{when}");
    }
}

#[test]
fn a_new_target_within_the_window_waits_for_the_next_one() {
    let script = three().on("Mon 05:00", version_of(NEW, "17.2.2"));
    assert_eq!(script.find("Mon 05:10", "east"), is(NEW, false));
    assert_eq!(script.find("Tue 05:30", "east"), is("17.2.2", true));
}

#[test]
fn there_are_no_manual_transitions() {
    let actions = [start(&["east"]), start_by_force(&["east"]), mark_done(&["east"]), rollback(&["east"])];
    for action in actions {
        for when in ["Mon 03:00", "Mon 04:30", "Mon 07:00"] {
            let (_, message) = three().refusal(when, action.clone());
            assert!(message.contains("not supported"), "{action}: {message}");
            let answers = three().on(when, action.clone()).on(when, json!({ "status": {} })).run();
            let without = three().on(when, json!({ "status": {} })).run();
            assert_eq!(answers[1], without[0], "{action} at {when} changed something");
        }
    }
}

#[test]
fn all_started_groups_cannot_be_rolled_back_either() {
    let (_, message) = three().refusal("Mon 04:30", json!({ "rollback": { "all_started": true } }));
    assert!(message.contains("not supported"), "{message}");
}

#[test]
fn counts_are_filled() {
    let script = three().counts("Mon 04:10", &[("east", OLD, 6), ("east", NEW, 4), ("lab", NEW, 3)]);
    let group = script.group("Mon 04:10", "east");
    assert_eq!((&group["present_count"], &group["up_to_date_count"]), (&json!(10), &json!(4)));
    assert_eq!(script.group("Mon 04:10", "west")["present_count"], 3, "the last group has the others");
}

#[test]
fn a_group_does_not_end_before_its_window_does() {
    let script = three().counts("Mon 03:59:30", &[("east", OLD, 10)]).counts("Mon 04:10", &[("east", NEW, 10)]);
    assert_eq!(script.state("Mon 04:10", "east"), "active");
    // An empty one neither.
    assert_eq!(three().state("Mon 05:30", "east"), "active");
}

#[test]
fn whoever_is_late_gets_the_next_window() {
    let script = three().hosts("Mon 03:50", 1..=2, "east", OLD);
    assert_eq!(script.find_host("Mon 07:00", 1, "east"), is(NEW, false));
    assert_eq!(script.find_host("Tue 05:00", 1, "east"), is(NEW, true));
}

#[test]
fn a_freeze_keeps_a_window_shut() {
    let groups = json!([{
        "name": "dev", "days": ["*"], "start_hour": 4,
        "blackout": [{ "from": t("Mon 00:00"), "to": t("Mon 05:00"), "reason": "sale" }],
    }]);
    let script = Script::default().on("Mon 00:00", timed("2h", &groups)).on("Mon 00:00", version());
    assert!(!script.find("Mon 04:30", "dev").1);
    assert!(!script.find("Mon 04:59:59", "dev").1);
    assert_eq!(script.find("Mon 05:00", "dev"), is(NEW, true));
    assert_eq!(script.find("Mon 06:00", "dev"), is(NEW, false));
}

/// FLEET §3: the window's end, again at the next; but a halted group stays halted.
#[test]
fn a_halted_group_does_not_begin_again_with_the_next_window() {
    let script = three().on("Mon 04:30", halt(&["east"]));
    for when in ["Mon 04:30", "Mon 06:00", "Tue 04:30"] {
        assert_eq!(script.state(when, "east"), "halted", "{when}");
        assert!(!script.find(when, "east").1, "{when}");
        assert_eq!(script.state(when, "west"), three().state(when, "west"), "{when}");
    }
    let script = script.on("Tue 04:40", run(&["east"]));
    assert_eq!(script.find("Tue 04:40", "east"), is(NEW, true));
}

#[test]
fn a_halted_group_that_goes_on_outside_its_window_waits_for_the_next_one() {
    let script = three().on("Mon 04:30", halt(&["east"])).on("Mon 08:00", run(&["east"]));
    assert!(!script.find("Mon 08:00", "east").1);
    assert!(!script.find("Tue 03:59:59", "east").1);
    assert_eq!(script.find("Tue 04:00", "east"), is(NEW, true));
}

#[test]
fn too_many_failures_halt_a_group_within_its_window_and_for_those_to_come() {
    let script = three().hosts("Mon 03:59", 1..=10, "east", OLD);
    let script = (1..=2).fold(script, |script, number| script.on("Mon 04:05", asks(number, "east")));
    let one = script.on("Mon 04:10", failed(1, "east"));
    assert_eq!(one.state("Mon 04:10", "east"), "active");
    let two = one.on("Mon 04:11", failed(2, "east"));
    assert_eq!(two.because("Mon 04:11", "east"), state_and_reason("halted", "failed_threshold"));
    assert_eq!(two.state("Tue 04:30", "east"), "halted");
    assert_eq!(two.state("Mon 06:30", "west"), "active", "the groups are independent");
}

#[test]
fn a_rollout_that_is_suspended_over_the_end_of_a_window_lets_nobody_go_when_it_is_enabled() {
    let script = three().on("Mon 05:00", super::version_in("suspended", "regular")).on("Mon 07:00", version());
    assert!(!script.find("Mon 07:00", "east").1);
    assert_eq!(script.state("Mon 07:00", "east"), "done");
}
