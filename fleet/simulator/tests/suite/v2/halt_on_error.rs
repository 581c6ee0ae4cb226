//! FLEET §3: from group to group, each when the one before it is done.

use serde_json::json;

use super::{
    NEW, OLD, Steps, asks, dev_and_prod, is, mark_done, report, rollback, rollout, start, state_and_reason, t, updated,
};
use crate::support::Script;

#[test]
fn a_group_starts_with_the_first_second_of_its_window() {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, 40)]);
    assert_eq!(script.because("Mon 11:59:59", "dev"), state_and_reason("unstarted", "cannot_start"));
    assert_eq!(script.find("Mon 11:59:59", "dev"), is(OLD, false));
    let group = script.group("Mon 12:00", "dev");
    assert_eq!(group["state"], "active");
    assert_eq!(group["last_update_reason"], "can_start");
    assert_eq!(group["start_time"], t("Mon 12:00").as_str());
    assert_eq!(group["initial_count"], 40);
    assert_eq!(script.find("Mon 12:00", "dev"), is(NEW, true));
}

#[test]
fn a_group_that_goes_on_is_in_progress() {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, 40)]);
    assert_eq!(script.because("Mon 12:10", "dev"), state_and_reason("active", "update_in_progress"));
}

#[test]
fn a_group_behind_one_that_is_not_done_waits_though_its_window_is_open() {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, 10)]);
    for when in ["Mon 11:59:30", "Mon 12:30", "Mon 14:00", "Mon 14:30", "Mon 15:30"] {
        assert_eq!(script.because(when, "prod"), state_and_reason("unstarted", "previous_groups_not_done"), "{when}");
        assert_eq!(script.find(when, "prod"), is(OLD, false));
    }
}

#[test]
fn every_group_before_must_be_done_and_not_only_the_last_of_them() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "stage", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 12 },
    ]))
    .counts("Mon 11:59:30", &[("dev", OLD, 10)])
    .on("Mon 12:10", mark_done(&["stage"]));
    assert_eq!(script.because("Mon 12:20", "prod"), state_and_reason("unstarted", "previous_groups_not_done"));
    assert_eq!(script.on("Mon 12:30", mark_done(&["dev"])).state("Mon 12:30", "prod"), "active");
}

/// The quirk of §2.5: previous groups are looked at first, and the pass goes on.
#[test]
fn hours_after_a_group_that_never_started_are_no_error() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["Sun"], "start_hour": 12 },
        { "name": "stage", "days": ["*"], "start_hour": 12, "wait_hours": 1 },
        { "name": "prod", "days": ["*"], "start_hour": 12 },
    ]));
    for name in ["stage", "prod"] {
        assert_eq!(script.because("Mon 12:30", name), state_and_reason("unstarted", "previous_groups_not_done"));
    }
}

#[test]
fn the_next_group_may_start_in_the_very_pass_in_which_one_is_done() {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, 10)]).counts("Mon 14:10:30", &[("dev", NEW, 10)]);
    let dev = script.group("Mon 14:10:30", "dev");
    assert_eq!((&dev["state"], &dev["last_update_reason"]), (&json!("done"), &json!("update_complete")));
    let prod = script.group("Mon 14:10:30", "prod");
    assert_eq!((&prod["state"], &prod["start_time"]), (&json!("active"), &json!(t("Mon 14:10:30"))));
}

#[test]
fn all_groups_of_one_window_can_be_done_in_one_pass_only_if_each_was_started() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 12 },
    ]))
    .counts("Mon 11:59:30", &[("dev", NEW, 10), ("prod", NEW, 10)]);
    // A group is done at the earliest in the pass after the one that started it.
    assert_eq!(script.state("Mon 12:00", "dev"), "active");
    assert_eq!(script.state("Mon 12:00", "prod"), "unstarted");
}

/// Seed 002: dev is done on Friday at 16:30, the window of prod is over: prod starts on Monday at 15:00.
#[test]
fn a_group_whose_window_is_over_waits_for_the_next_one() {
    let script = Script::default()
        .on(
            "Fri 11:00",
            super::halting(&json!([
                { "name": "dev", "days": ["*"], "start_hour": 13 },
                { "name": "prod", "days": ["Mon", "Tue", "Wed", "Thu", "Fri"], "start_hour": 15 },
            ])),
        )
        .on("Fri 11:00", super::version())
        .counts("Fri 12:59:30", &[("dev", OLD, 10)])
        .counts("Fri 16:30", &[("dev", NEW, 10)]);
    assert_eq!(script.state("Fri 16:30", "dev"), "done");
    assert_eq!(script.because("Fri 16:30", "prod"), state_and_reason("unstarted", "cannot_start"));
    assert_eq!(script.state("Sun 15:30", "prod"), "unstarted");
    assert_eq!(script.state("next Mon 14:59:59", "prod"), "unstarted");
    assert_eq!(script.state("next Mon 15:00", "prod"), "active");
}

/// The window to start in is open for an hour, and does not include its end.
#[test]
fn a_group_starts_in_the_last_second_of_its_hour_and_not_after_it() {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, 10)]);
    let done_at = |when: &str| script.clone().on(when, mark_done(&["dev"])).state(when, "prod");
    assert_eq!(done_at("Mon 13:59:59"), "unstarted");
    assert_eq!(done_at("Mon 14:00"), "active");
    assert_eq!(done_at("Mon 14:59:59"), "active");
    assert_eq!(done_at("Mon 15:00"), "unstarted");
    assert_eq!(done_at("Mon 15:00:01"), "unstarted");
}

// Hours between groups: since the start of the group before (D2).

/// `dev` at 12, and `prod` at `hour`, `wait` hours later.
fn waiting(hour: u32, wait: u32) -> Script {
    rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": hour, "wait_hours": wait },
    ]))
    .counts("Mon 11:59:30", &[("dev", OLD, 10)])
    .counts("Mon 12:10", &[("dev", NEW, 10)])
}

#[test]
fn wait_hours_count_from_the_start_of_the_group_before() {
    // Done at 12:10; counted from there, neither could start at the hour.
    let script = waiting(13, 1);
    assert_eq!(script.because("Mon 12:59:59", "prod"), state_and_reason("unstarted", "cannot_start"));
    assert_eq!(script.state("Mon 13:00", "prod"), "active");
    let script = waiting(12, 24);
    assert_eq!(script.state("Tue 11:59:59", "prod"), "unstarted");
    assert_eq!(script.state("Tue 12:00", "prod"), "active");
}

#[test]
fn wait_hours_that_end_after_the_window_wait_for_the_next_one() {
    let script = waiting(13, 2);
    for when in ["Mon 13:00", "Mon 13:59:59", "Mon 14:00", "Tue 12:59:59"] {
        assert_eq!(script.state(when, "prod"), "unstarted", "{when}");
    }
    assert_eq!(script.state("Tue 13:00", "prod"), "active");
    let script = waiting(12, 25);
    assert_eq!(script.state("Tue 12:30", "prod"), "unstarted");
    assert_eq!(script.state("Wed 12:00", "prod"), "active");
}

#[test]
fn wait_hours_that_end_within_the_window_start_the_group_in_that_very_second() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 20 },
        { "name": "prod", "days": ["*"], "start_hour": 13, "wait_hours": 1 },
    ]))
    .on("Mon 12:30:30", start(&["dev"]))
    .on("Mon 12:40", mark_done(&["dev"]));
    assert_eq!(script.because("Mon 13:30:29", "prod"), state_and_reason("unstarted", "cannot_start"));
    assert_eq!(script.state("Mon 13:30:30", "prod"), "active");
}

#[test]
fn without_wait_hours_a_group_may_start_in_the_hour_of_the_one_before() {
    let script = waiting(12, 0);
    assert_eq!(script.state("Mon 12:10", "prod"), "active");
}

/// Where the group before was marked as done without a start, upstream is in error. In doubt, what lets fewer hosts go: the
/// hours are not over before they have passed since then, and none is stuck for ever.
#[test]
fn wait_hours_after_a_group_without_a_start_are_not_skipped() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 20 },
        { "name": "prod", "days": ["*"], "start_hour": 13, "wait_hours": 1 },
    ]))
    .on("Mon 12:30", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 13:29:59", "prod"), "unstarted");
    assert_eq!(script.state("Mon 13:30", "prod"), "active");
}

// The 90 % rule.

/// Whether a group of `initial` hosts is done with so many on the target and so many on other versions.
fn is_done(initial: u64, new: u64, old: u64) -> bool {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, initial)]);
    let script = script.counts("Mon 12:10:10", &[("dev", NEW, new), ("dev", OLD, old)]);
    let group = script.group("Mon 12:10:10", "dev");
    assert_eq!(group["initial_count"], initial);
    assert_eq!(group["up_to_date_count"], new);
    match group["state"].as_str() {
        Some("done") => true,
        Some("active") => false,
        _ => panic!("{group:#}"),
    }
}

#[test]
fn a_group_is_done_when_nine_of_ten_are_present_and_nine_of_ten_of_those_up_to_date() {
    // Initial, on the target, on another version.
    for (initial, new, old) in [
        (1, 1, 0),
        (10, 10, 0),
        (10, 9, 0),
        (10, 9, 1),
        (9, 9, 0),
        (100, 90, 10),
        (100, 81, 9),
        (100, 99, 11),
        (30, 27, 0),
        (70, 63, 7),
        (1000, 810, 90),
        (1_000_000, 900_000, 0),
        (1_000_000, 810_000, 90_000),
        (10, 500, 0),
    ] {
        assert!(is_done(initial, new, old), "{initial}: {new} and {old}");
    }
    for (initial, new, old) in [
        (1, 0, 1),
        (1, 0, 0),
        (3, 2, 1),
        (7, 6, 0),
        (10, 8, 0),
        (10, 8, 1),
        (10, 8, 2),
        (9, 8, 0),
        (9, 8, 1),
        (100, 89, 11),
        (100, 80, 10),
        (100, 89, 0),
        (100, 98, 12),
        (100, 0, 100),
        (1_000_000, 899_999, 0),
        (1_000_000, 809_999, 90_001),
        (10, 89, 10),
    ] {
        assert!(!is_done(initial, new, old), "{initial}: {new} and {old}");
    }
}

#[test]
fn a_group_of_which_nothing_is_heard_any_more_is_not_done() {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", NEW, 10)]);
    // The counts are too old at 12:01: none of ten is present.
    let later = script.on("Mon 11:59:40", json!({ "counts": [] }));
    assert_eq!(later.group("Mon 12:00", "dev")["initial_count"], 0);
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, 10)]);
    for when in ["Mon 12:05", "Mon 13:30", "Tue 12:30"] {
        assert_eq!(script.state(when, "dev"), "active", "{when}");
    }
}

#[test]
fn a_group_that_shrank_waits_for_a_person() {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, 100)]);
    let script = script.counts("Mon 14:10:10", &[("dev", NEW, 89)]);
    assert_eq!(script.state("Mon 14:10:10", "dev"), "active");
    assert_eq!(script.state("Mon 14:10:10", "prod"), "unstarted");
    let script = script.on("Mon 14:11", mark_done(&["dev"]));
    assert_eq!(script.because("Mon 14:11", "dev"), state_and_reason("done", "manual_forced_done"));
    assert_eq!(script.state("Mon 14:11", "prod"), "active");
}

#[test]
fn the_rule_holds_of_hosts_that_report() {
    let script = dev_and_prod().hosts("Mon 11:59", 1..=10, "dev", OLD);
    let script = (1..=8).fold(script, |script, number| script.on("Mon 12:05", asks(number, "dev")));
    let eight = (1..=8).fold(script, |script, number| script.on("Mon 12:10", updated(number, "dev")));
    let group = eight.group("Mon 12:10", "dev");
    assert_eq!(
        (&group["initial_count"], &group["present_count"], &group["up_to_date_count"]),
        (&json!(10), &json!(10), &json!(8))
    );
    assert_eq!(group["state"], "active");
    assert_eq!(eight.on("Mon 12:11", updated(9, "dev")).state("Mon 12:11", "dev"), "done");
}

/// FLEET §2: who was told and vanished stays in `initial_count`.
#[test]
fn who_was_told_and_vanished_is_missed() {
    let script = dev_and_prod().hosts("Mon 11:59", 1..=10, "dev", OLD);
    let script = (1..=10).fold(script, |script, number| script.on("Mon 12:01", asks(number, "dev")));
    // Eight of ten go on and report; two are not heard of again.
    let later = ["Mon 12:10", "Mon 12:40", "Mon 13:10", "Mon 14:10", "Mon 15:00"];
    let script = later
        .iter()
        .fold(script, |script, when| (1..=8).fold(script, |script, number| script.on(when, updated(number, "dev"))));
    let group = script.group("Mon 15:01", "dev");
    assert_eq!((&group["initial_count"], &group["present_count"]), (&json!(10), &json!(8)));
    assert_ne!(group["state"], "done");
    assert_eq!(script.state("Mon 15:01", "prod"), "unstarted");
}

// The empty group.

#[test]
fn an_empty_group_is_done_when_more_than_an_hour_is_over() {
    let script = dev_and_prod();
    assert_eq!(script.state("Mon 12:00", "dev"), "active");
    assert_eq!(script.group("Mon 12:00", "dev")["initial_count"], 0);
    assert_eq!(script.state("Mon 12:59:59", "dev"), "active");
    assert_eq!(script.state("Mon 13:00", "dev"), "active");
    assert_eq!(script.because("Mon 13:00:01", "dev"), state_and_reason("done", "update_complete"));
}

#[test]
fn an_empty_group_that_was_started_by_hand_is_done_an_hour_after_that() {
    let script = dev_and_prod().on("Mon 11:20:30", start(&["dev"]));
    assert_eq!(script.state("Mon 12:20:30", "dev"), "active");
    assert_eq!(script.state("Mon 12:20:31", "dev"), "done");
}

/// FLEET §3, done.
#[test]
fn a_group_whose_hosts_ask_and_do_not_report_is_not_empty() {
    let question = json!({ "find": { "host": super::host(1), "group": "dev" } });
    let script = dev_and_prod().on("Mon 11:50", question.clone());
    let script = ["Mon 12:00:10", "Mon 12:20", "Mon 12:40", "Mon 13:00", "Mon 13:20"]
        .iter()
        .fold(script, |script, when| script.on(when, question.clone()));
    assert_eq!(script.state("Mon 13:30", "dev"), "active");
    assert_eq!(script.on("Mon 13:30", mark_done(&["dev"])).state("Mon 13:30", "dev"), "done");
}

/// FLEET §3: who asked before it started is waited for, also when he was silent for longer than a day since.
#[test]
fn a_group_whose_hosts_asked_before_it_started_is_not_empty_a_day_later() {
    let script = (1..=3).fold(dev_and_prod(), |script, number| script.on("Mon 11:50", asks(number, "dev")));
    for (when, state) in [("Mon 13:01", "active"), ("Tue 11:51", "active"), ("Wed 13:00", "active")] {
        assert_eq!(script.state(when, "dev"), state, "{when}");
    }
    let why = |name: &str| script.group("Wed 13:00", name)["why"]["code"].clone();
    assert_eq!((why("dev"), why("prod")), (json!("no_reports"), json!("previous_groups_not_done")));
    assert_eq!(script.state("Wed 14:30", "prod"), "unstarted");
    assert_eq!(script.clone().on("Wed 13:00", mark_done(&["dev"])).state("Wed 13:00", "dev"), "done");
    // Who asks after it started keeps it from nothing.
    let late = dev_and_prod().on("Mon 12:10", asks(1, "dev"));
    assert_eq!(late.state("Mon 13:01", "dev"), "done");
}

/// Where nobody was present at its start, a group is done after an hour, and not with its first updated host.
#[test]
fn the_first_host_of_a_group_that_began_with_nobody_does_not_make_it_done() {
    let known = dev_and_prod().hosts("Mon 11:01", 1..=20, "dev", OLD);
    let away = known.on("Mon 11:30", super::version_in("suspended", "regular")).on("Tue 11:30", super::version());
    for (script, day) in [(dev_and_prod(), "Mon"), (away, "Tue")] {
        let at = |time: &str| format!("{day} {time}");
        let script = script.on(&at("12:05"), report(1, "dev", OLD)).on(&at("12:05:30"), asks(1, "dev"));
        let script = script.on(&at("12:07"), updated(1, "dev"));
        let group = script.group(&at("12:08"), "dev");
        assert_eq!((&group["state"], &group["initial_count"]), (&json!("active"), &json!(0)), "{day}");
        // It goes on reporting.
        let script = ["12:20", "12:35", "12:50", "12:59"]
            .into_iter()
            .fold(script, |script, time| script.on(&at(time), report(1, "dev", NEW)));
        assert_eq!(script.state(&at("13:00"), "dev"), "active", "{day}");
        assert_eq!(script.because(&at("13:01"), "dev"), state_and_reason("done", "update_complete"), "{day}");
        // Somebody who is there and behind is waited for.
        let behind = (2..=5).fold(script, |script, number| script.on(&at("12:59:30"), report(number, "dev", OLD)));
        assert_eq!(behind.state(&at("13:01"), "dev"), "active", "{day}");
    }
}

#[test]
fn the_chain_goes_on_behind_an_empty_group() {
    let script = dev_and_prod();
    assert_eq!(script.state("Mon 14:00", "dev"), "done");
    assert_eq!(script.state("Mon 14:00", "prod"), "active");
}

// After the end.

#[test]
fn a_done_group_goes_on_with_late_comers() {
    let script = dev_and_prod().counts("Mon 11:59:30", &[("dev", OLD, 10)]).counts("Mon 12:10", &[("dev", NEW, 10)]);
    let script = script.on("Thu 03:00", report(1, "dev", OLD));
    assert_eq!(script.find("Thu 03:00", "dev"), is(NEW, true));
    assert_eq!(script.find_host("Thu 03:00", 1, "dev"), is(NEW, true));
    assert_eq!(script.state("Thu 03:01", "dev"), "done");
}

#[test]
fn a_done_group_stays_done_though_its_hosts_are_not() {
    let script = dev_and_prod()
        .counts("Mon 11:59:30", &[("dev", OLD, 10)])
        .counts("Mon 12:10", &[("dev", NEW, 10)])
        .counts("Mon 12:20", &[("dev", OLD, 1000)]);
    assert_eq!(script.state("Mon 12:20", "dev"), "done");
    assert_eq!(script.group("Mon 12:20", "dev")["initial_count"], 10);
}

#[test]
fn a_rolled_back_group_stays_and_keeps_the_others_from_starting() {
    let script = dev_and_prod().on("Mon 11:30", rollback(&["dev"]));
    for when in ["Mon 12:30", "Tue 12:30", "next Mon 14:30"] {
        assert_eq!(script.because(when, "dev"), state_and_reason("rolledback", "manual_rollback"), "{when}");
        assert_eq!(script.because(when, "prod"), state_and_reason("unstarted", "previous_groups_not_done"), "{when}");
    }
}

#[test]
fn made_up_hosts_bring_three_groups_to_their_end() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12, "canary_count": 2 },
        { "name": "stage", "days": ["*"], "start_hour": 13 },
        { "name": "prod", "days": ["*"], "start_hour": 14, "wait_hours": 24, "canary_count": 5 },
    ]))
    .on("Mon 11:00", json!({ "hosts": { "count": 10, "group": "dev", "version": OLD } }))
    .on("Mon 11:00", json!({ "hosts": { "count": 20, "group": "stage", "version": OLD } }))
    .on("Mon 11:00", json!({ "hosts": { "count": 40, "group": "prod", "version": OLD } }));
    let times = ["Mon 13:00", "Mon 14:00", "Tue 13:59", "Tue 14:00", "Tue 16:00"];
    let answers = times.iter().fold(script, |script, when| script.on(when, json!({ "status": {} }))).run();
    let states = |name: &str| -> Vec<&str> {
        answers.iter().map(|answer| crate::support::group(answer, name)["state"].as_str().unwrap()).collect()
    };
    assert_eq!(states("dev"), ["done"; 5]);
    assert_eq!(states("stage"), ["active", "done", "done", "done", "done"]);
    assert_eq!(states("prod"), ["unstarted", "unstarted", "unstarted", "canary", "done"]);
    assert_eq!(crate::support::group(&answers[4], "prod")["up_to_date_count"], 40);
    assert_eq!(answers[4]["status"]["status"]["state"], "done");
}

#[test]
fn a_release_that_breaks_every_host_stays_in_the_first_group() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 12 },
    ]))
    .on("Mon 11:00", json!({ "hosts": { "count": 10, "group": "dev", "version": OLD, "breaks": "100%" } }))
    .on("Mon 11:00", json!({ "hosts": { "count": 20, "group": "prod", "version": OLD, "breaks": "100%" } }));
    assert_eq!(script.state("Mon 13:00", "dev"), "halted");
    let prod = script.group("Wed 13:00", "prod");
    assert_eq!(
        (&prod["state"], &prod["let_go_count"], &prod["failed_count"]),
        (&json!("unstarted"), &json!(0), &json!(0))
    );
}

/// `dev` and `prod` of three hosts each, who all ask `dev`'s when it is active.
fn asked() -> Script {
    let all = |script: Script, when: &str| script.hosts(when, 1..=3, "dev", OLD).hosts(when, 4..=6, "prod", OLD);
    let script = all(all(dev_and_prod(), "Mon 11:58"), "Mon 13:55");
    (1..=3).fold(script, |script, number| script.on("Mon 13:58", asks(number, "dev")))
}

/// Success is watched and healthy: hosts that have switched may be rolled back yet.
#[test]
fn a_group_whose_hosts_are_watched_is_not_done() {
    let switched = |script: Script| {
        (1..=3)
            .fold(script, |script, number| script.on("Mon 14:01", super::outcome(number, "dev", NEW, "switched", "")))
    };
    let script = switched(asked());
    let group = script.group("Mon 14:02", "dev");
    assert_eq!([&group["state"], &group["up_to_date_count"]], [&json!("active"), &json!(0)], "{group:#}");
    assert_eq!(script.state("Mon 14:02", "prod"), "unstarted");
    let failed = (1..=3).fold(script.clone(), |script, number| script.on("Mon 14:04", super::failed(number, "dev")));
    assert_eq!([failed.state("Mon 14:05", "dev"), failed.state("Mon 14:05", "prod")], ["halted", "unstarted"]);
    let updated = (1..=3).fold(script, |script, number| script.on("Mon 14:04", updated(number, "dev")));
    assert_eq!([updated.state("Mon 14:05", "dev"), updated.state("Mon 14:05", "prod")], ["done", "active"]);
}

/// Only those that were enrolled when the group started count: nobody else makes it done.
#[test]
fn newcomers_do_not_finish_a_group() {
    let script = asked().hosts("Mon 14:01", 11..=37, "dev", NEW);
    let group = script.group("Mon 14:02", "dev");
    assert_eq!((&group["state"], &group["present_count"]), (&json!("active"), &json!(30)), "{group:#}");
    assert_eq!(script.state("Mon 14:02", "prod"), "unstarted");
    let script = script.hosts("Mon 14:03", 1..=3, "dev", NEW);
    assert_eq!(script.state("Mon 14:04", "dev"), "done");
    // Nor does who comes with the old version keep it.
    let late = asked().hosts("Mon 14:01", 11..=37, "dev", OLD).hosts("Mon 14:01", 1..=3, "dev", NEW);
    assert_eq!(late.state("Mon 14:02", "dev"), "done");
}

/// Of an autoscaled group: who comes with the target stands in for who updated and was taken away, and for nobody else.
#[test]
fn a_group_whose_hosts_are_replaced_is_done() {
    let script = |has_updated: bool, newcomers: &str| {
        let script = dev_and_prod().hosts("Mon 11:58", 1..=10, "dev", OLD);
        let script = (1..=2)
            .filter(|_| has_updated)
            .fold(script, |script, number| script.on("Mon 12:05", updated(number, "dev")));
        let script =
            ["Mon 12:20", "Mon 12:40"].iter().fold(script, |script, when| script.hosts(when, 3..=10, "dev", OLD));
        let script = (3..=10).fold(script, |script, number| script.on("Mon 13:00", updated(number, "dev")));
        script.hosts("Mon 13:01", 11..=12, "dev", newcomers)
    };
    assert_eq!(script(true, NEW).state("Mon 13:02", "dev"), "done");
    for (has_updated, newcomers) in [(true, OLD), (false, NEW)] {
        let group = script(has_updated, newcomers).group("Mon 13:02", "dev");
        let why = &group["why"];
        assert_eq!(
            [&group["state"], &why["code"], &why["present"]],
            [&json!("active"), &json!("shrunk"), &json!(8)],
            "{group:#}"
        );
    }
}
