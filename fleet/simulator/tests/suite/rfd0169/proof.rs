//! A host's states, and when a group is done.

use serde_json::{Value, json};

use super::{Play, names, order};

const LENIENT: [&str; 2] = ["max_failed_before_halt", "max_timeout_before_halt"];

/// So many hosts in a group without a cap that no threshold halts.
fn lenient(count: usize, settings: Value) -> Play {
    let mut settings = settings;
    for key in LENIENT {
        settings[key] = "100%".into();
    }
    let mut play = Play::staging(settings);
    play.hosts("Mon 11:50", names(count), "staging");
    play
}

/// The six counts that add up to a group's members.
fn counts(group: &Value) -> [u64; 6] {
    ["pending", "in_flight", "updated", "failed", "timed_out", "silent"]
        .map(|what| group[format!("{what}_count")].as_u64().unwrap_or_else(|| panic!("no {what}_count: {group}")))
}

#[test]
fn the_six_counts_add_up_to_the_members() {
    let order = order(0, names(8));
    let mut play = lenient(8, json!({ "max_in_flight": "50%", "timeout_seconds": 30 }));
    play.hosts("Mon 11:55", &["other"], "elsewhere");
    for host in &order[..4] {
        assert!(play.is_told("Mon 12:00", host));
    }
    play.updates("Mon 12:01", order[0]).fails("Mon 12:01", order[1]).starts("Mon 12:01", order[2]);
    play.heard("Mon 12:10", &order[..7]);
    // One updated, one failed, one timed out, one told; three new ones let go, and one that is silent from 12:35 on.
    let group = play.group("Mon 12:20", "staging");
    assert_eq!(counts(&group), [1, 4, 1, 1, 1, 0], "{group}");
    let group = play.group("Mon 12:40", "staging");
    assert_eq!(counts(&group), [0, 4, 1, 1, 1, 1], "{group}");
}

#[test]
fn a_host_times_out_when_it_did_not_switch_within_timeout_seconds_of_its_start() {
    for (settings, seconds) in
        [(json!({}), 60), (json!({ "timeout_seconds": 30 }), 30), (json!({ "timeout_seconds": 900 }), 900)]
    {
        let mut play = lenient(1, settings.clone());
        assert!(play.is_told("Mon 12:00", "h01"));
        play.starts("Mon 12:05", "h01");
        let time = |seconds: u64| format!("Mon 12:{:02}:{:02}", 5 + seconds / 60, seconds % 60);
        assert_eq!(play.count(&time(seconds - 1), "staging", "timed_out"), 0, "{settings}");
        assert_eq!(play.count(&time(seconds + 1), "staging", "timed_out"), 1, "{settings}");
    }
}

#[test]
fn the_clock_of_timeout_seconds_does_not_run_over_question_jitter_download_and_watch() {
    let mut play = lenient(1, json!({ "jitter_seconds": 60 }));
    assert!(play.is_told("Mon 12:00", "h01"));
    assert_eq!(play.count("Mon 12:20", "staging", "in_flight"), 1, "it has not started");
    play.starts("Mon 12:20", "h01").switches("Mon 12:20:50", "h01");
    assert_eq!(play.count("Mon 12:40", "staging", "in_flight"), 1, "it watches");
    play.updates("Mon 12:41", "h01");
    assert_eq!(play.count("Mon 12:41", "staging", "updated"), 1);
}

#[test]
fn a_told_host_stalls_after_its_jitter_and_an_hour() {
    for jitter in [0, 60] {
        let mut play = lenient(1, json!({ "jitter_seconds": jitter }));
        assert!(play.is_told("Mon 12:00", "h01"));
        let (before, after) =
            if jitter == 0 { ("Mon 12:59:59", "Mon 13:00:01") } else { ("Mon 13:00:59", "Mon 13:01:01") };
        assert_eq!(play.count(before, "staging", "in_flight"), 1, "jitter {jitter}");
        assert_eq!(play.count(after, "staging", "timed_out"), 1, "jitter {jitter}");
    }
}

#[test]
fn who_switched_and_comes_to_no_outcome_stalls() {
    let mut play = lenient(1, json!({}));
    assert!(play.is_told("Mon 12:00", "h01"));
    play.starts("Mon 12:01", "h01").switches("Mon 12:01:30", "h01").switches("Mon 12:50", "h01");
    assert_eq!(play.count("Mon 12:59", "staging", "in_flight"), 1);
    assert_eq!(play.count("Mon 13:01", "staging", "timed_out"), 1);
}

#[test]
fn a_timed_out_host_stays_so_though_silent_until_it_reports_the_target() {
    let mut play = lenient(2, json!({}));
    assert!(play.is_told("Mon 12:00", "h01"));
    play.starts("Mon 12:01", "h01");
    assert_eq!(play.count("Mon 12:03", "staging", "timed_out"), 1);
    play.starts("Mon 12:04", "h01");
    assert_eq!(play.count("Mon 12:04", "staging", "timed_out"), 1, "it begins again");
    assert_eq!(play.count("Tue 12:10", "staging", "timed_out"), 1, "it is silent for a day");
    play.switches("Tue 12:11", "h01");
    assert_eq!(play.count("Tue 12:11", "staging", "timed_out"), 1, "its watch goes on");
    play.updates("Tue 12:12", "h01");
    let group = play.group("Tue 12:12", "staging");
    assert_eq!([&group["timed_out_count"], &group["updated_count"]], [0, 1]);
}

#[test]
fn failure_seconds_of_zero_is_off() {
    let mut play = lenient(1, json!({}));
    assert!(play.is_told("Mon 12:00", "h01"));
    play.starts("Mon 12:01", "h01").switches("Mon 12:01:30", "h01");
    assert_eq!(play.count("Mon 12:55", "staging", "failed"), 0);
    let group = play.group("Mon 13:30", "staging");
    assert_eq!([&group["failed_count"], &group["timed_out_count"]], [0, 1]);
}

#[test]
fn who_began_and_reports_nothing_for_an_interval_and_failure_seconds_failed() {
    let mut play = lenient(2, json!({ "failure_seconds": 60 }));
    assert_eq!(play.told("Mon 12:00", names(2)).len(), 2);
    play.starts("Mon 12:01", "h01").switches("Mon 12:01:30", "h01");
    // 15 minutes are an interval, and a minute.
    assert_eq!(play.count("Mon 12:17:29", "staging", "failed"), 0);
    assert_eq!(play.count("Mon 12:17:31", "staging", "failed"), 1, "and not who did not begin");
    play.switches("Mon 12:20", "h01");
    assert_eq!(play.count("Mon 12:20", "staging", "failed"), 1, "a failure stays one");
}

#[test]
fn faults_of_the_way_do_not_count() {
    for code in ["network", "download_stalled", "lock_held", "interrupted"] {
        let mut play = Play::staging(json!({}));
        play.hosts("Mon 11:50", names(2), "staging");
        assert!(play.is_told("Mon 12:00", "h01"));
        play.reports("Mon 12:01", "h01", "1.0.0", "failed", code);
        let group = play.group("Mon 12:02", "staging");
        assert_eq!(group["state"], "active", "{code}");
        assert_eq!([&group["failed_count"], &group["in_flight_count"]], [0, 2], "{code}: it is still told");
        assert!(play.is_told("Mon 12:03", "h01"), "{code}: it is tried again");
    }
}

#[test]
fn every_other_failure_rollback_and_refusal_counts() {
    for (outcome, code) in [
        ("failed", "checksum_mismatch"),
        ("failed", ""),
        ("rolled_back", "unhealthy"),
        ("refused", "below_min_version"),
        ("failed", "some_code_of_tomorrow"),
    ] {
        let mut play = lenient(2, json!({}));
        assert!(play.is_told("Mon 12:00", "h01"));
        play.reports("Mon 12:01", "h01", "1.0.0", outcome, code);
        assert_eq!(play.count("Mon 12:02", "staging", "failed"), 1, "{outcome} {code}");
    }
}

#[test]
fn a_failure_of_another_version_or_of_a_rollout_before_does_not_count() {
    let mut play = Play::default();
    play.hosts("Mon 07:00", names(2), "staging");
    play.fails("Mon 07:30", "h01");
    play.groups("Mon 08:00", json!([super::labelled("staging")])).target("Mon 08:00", "2.0.0");
    play.fails("Mon 11:50", "h01").heard("Mon 11:50", names(2));
    assert_eq!(play.told("Mon 12:01", names(2)).len(), 2);
    let last = json!({ "outcome": "rolled_back", "to": "1.9.0", "code": "unhealthy" });
    play.say("Mon 12:02", json!({ "report": { "host": "h02", "version": "1.0.0", "last": last } }));
    let group = play.group("Mon 12:03", "staging");
    assert_eq!([&group["failed_count"], &group["in_flight_count"]], [0, 2], "{group}");
}

#[test]
fn a_failure_counts_once_though_it_is_reported_each_time() {
    let mut play = Play::staging(json!({ "max_failed_before_halt": "50%", "min_failed_before_halt": 2 }));
    play.hosts("Mon 11:50", names(3), "staging");
    assert!(play.is_told("Mon 12:00", "h01"));
    for when in ["Mon 12:01", "Mon 12:02", "Mon 12:16", "Mon 12:31"] {
        play.fails(when, "h01");
        let group = play.group(when, "staging");
        assert_eq!([&group["failed_count"], &group["state"]], [&json!(1), &json!("active")]);
    }
}

#[test]
fn a_failure_is_not_taken_back_by_another_try_or_a_fault_of_the_way() {
    for (outcome, code) in [("started", ""), ("failed", "network")] {
        let mut play = lenient(3, json!({}));
        assert!(play.is_told("Mon 12:00", "h01"));
        play.fails("Mon 12:01", "h01").reports("Mon 12:03", "h01", "1.0.0", outcome, code);
        assert_eq!(play.count("Mon 12:03", "staging", "failed"), 1, "{outcome}");
        play.updates("Mon 12:05", "h01");
        assert_eq!(play.count("Mon 12:05", "staging", "updated"), 1, "{outcome}: now it runs the target");
    }
}

#[test]
fn failures_one_after_the_other_halt_though_each_host_tries_again_before_the_next_fails() {
    let mut play = Play::staging(json!({ "max_failed_before_halt": "20%", "timeout_seconds": 900 }));
    play.hosts("Mon 11:50", names(10), "staging");
    assert_eq!(play.told("Mon 12:00", names(10)).len(), 10);
    for (number, host) in names(3).iter().enumerate() {
        play.fails(&format!("Mon 12:0{}:00", number + 1), host).starts(&format!("Mon 12:0{}:30", number + 1), host);
    }
    assert_eq!(play.state("Mon 12:04", "staging"), "halted", "three of ten failed");
}

#[test]
fn a_host_is_silent_after_three_report_intervals() {
    let mut play = lenient(1, json!({ "start_hour": 13 }));
    assert_eq!(play.count("Mon 12:34", "staging", "silent"), 0);
    let group = play.group("Mon 12:36", "staging");
    assert_eq!(counts(&group), [0, 0, 0, 0, 0, 1], "{group}");
    play.heard("Mon 12:40", names(1));
    assert_eq!(play.count("Mon 12:40", "staging", "silent"), 0);
}

#[test]
fn a_silent_host_departs_after_a_day_and_one_that_was_told_never_does() {
    let mut play = lenient(2, json!({}));
    assert!(play.is_told("Mon 12:00", "h01"));
    let group = play.group("Tue 11:40", "staging");
    assert_eq!(counts(&group), [0, 0, 0, 0, 1, 1], "{group}");
    let group = play.group("Tue 12:10", "staging");
    assert_eq!(counts(&group), [0, 0, 0, 0, 1, 0], "{group}");
    play.heard("Tue 12:20", &["h02"]);
    assert_eq!(counts(&play.group("Tue 12:20", "staging")).iter().sum::<u64>(), 2, "it is back");
}

#[test]
fn departed_and_excluded_hosts_leave_the_denominator() {
    // 20 hosts, of which 10 are pinned: two of ten failed are more than 10 %, one is not.
    let mut play = Play::staging(json!({ "max_failed_before_halt": "10%" }));
    play.hosts("Mon 11:50", names(20), "staging");
    for host in &names(20)[10..] {
        play.say("Mon 11:51", json!({ "report": { "host": host, "pinned": true } }));
    }
    assert_eq!(play.told("Mon 12:00", names(2)).len(), 2);
    play.fails("Mon 12:01", "h01");
    assert_eq!(play.state("Mon 12:02", "staging"), "active");
    play.fails("Mon 12:03", "h02");
    assert_eq!(play.state("Mon 12:04", "staging"), "halted");
    // The same with hosts that departed before it started.
    let mut play = Play::staging(json!({ "max_failed_before_halt": "10%", "start_hour": 18, "days": ["Tue"] }));
    play.hosts("Mon 11:50", names(20), "staging").heard("Tue 17:50", names(10));
    assert_eq!(play.told("Tue 18:00", names(2)).len(), 2);
    play.fails("Tue 18:01", "h01");
    assert_eq!(play.state("Tue 18:02", "staging"), "active");
    play.fails("Tue 18:03", "h02");
    assert_eq!(play.state("Tue 18:04", "staging"), "halted");
}

#[test]
fn who_came_after_the_start_is_not_counted_in_thresholds() {
    let mut play = Play::staging(json!({ "max_failed_before_halt": "0%" }));
    play.hosts("Mon 11:50", names(2), "staging").hosts("Mon 12:01", &["late"], "staging");
    assert!(play.is_told("Mon 12:02", "late"), "it is shown, and told");
    play.fails("Mon 12:03", "late");
    let group = play.group("Mon 12:04", "staging");
    assert_eq!([&group["state"], &group["failed_count"]], [&json!("active"), &json!(1)]);
    // Two of two late ones do not make one of two counted ones more.
    assert!(play.is_told("Mon 12:05", "h01"));
    play.fails("Mon 12:05", "h01");
    assert_eq!(play.state("Mon 12:06", "staging"), "halted");
}

#[test]
fn a_group_is_done_when_nobody_is_pending_let_go_or_told() {
    let mut play = lenient(3, json!({}));
    play.all_update("Mon 12:01", &["h01", "h02"]);
    assert_eq!(play.state("Mon 12:02", "staging"), "active", "one is let go");
    assert!(play.is_told("Mon 12:03", "h03"));
    assert_eq!(play.state("Mon 12:03", "staging"), "active", "one is told");
    play.fails("Mon 12:04", "h03");
    assert_eq!(play.state("Mon 12:05", "staging"), "done", "two updated, one failed, as is allowed");
    let group = play.group("Mon 12:05", "staging");
    assert_eq!(group["last_update_reason"], "update_complete");
}

#[test]
fn a_group_of_which_nobody_updated_is_not_done() {
    let mut play = lenient(2, json!({}));
    assert_eq!(play.told("Mon 12:01", names(2)).len(), 2);
    play.fails("Mon 12:02", "h01").fails("Mon 12:02", "h02");
    assert_eq!(play.state("Mon 12:03", "staging"), "active");
    let why = play.group("Mon 18:00", "staging")["why"].clone();
    assert!(why["code"].is_string(), "{why}");
    assert_eq!(play.state("Tue 18:00", "staging"), "active");
}

#[test]
fn a_done_group_has_at_most_a_tenth_of_silent_hosts_or_max_silent() {
    for (settings, silent, state) in [
        (json!({}), 2, "done"),
        (json!({}), 3, "active"),
        (json!({ "max_silent": "25%" }), 5, "done"),
        (json!({ "max_silent": "25%" }), 6, "active"),
        (json!({ "max_silent": "0%" }), 1, "active"),
        (json!({ "max_silent": "0%" }), 0, "done"),
    ] {
        let mut play = Play::staging(settings.clone());
        play.hosts("Mon 11:10", names(20), "staging").heard("Mon 11:55", &names(20)[silent..]);
        assert_eq!(play.count("Mon 12:00", "staging", "silent"), silent as u64);
        play.all_update("Mon 12:01", &names(20)[silent..]);
        assert_eq!(play.state("Mon 12:02", "staging"), state, "{silent} silent ones, {settings}");
    }
}

#[test]
fn an_empty_group_is_done_after_an_hour() {
    let mut play = Play::staging(json!({}));
    assert_eq!(play.state("Mon 12:30", "staging"), "active");
    assert_eq!(play.state("Mon 12:59", "staging"), "active");
    assert_eq!(play.state("Mon 13:02", "staging"), "done");
}

#[test]
fn a_group_whose_hosts_are_all_silent_is_not_empty() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:00", names(5), "staging");
    let group = play.group("Mon 12:00", "staging");
    assert_eq!(counts(&group), [0, 0, 0, 0, 0, 5], "{group}");
    assert_eq!(play.state("Mon 13:05", "staging"), "active", "five hosts count, and none updated");
    assert_eq!(play.state("Tue 10:00", "staging"), "active");
}

#[test]
fn a_group_whose_hosts_ask_and_do_not_report_waits_for_reports() {
    let mut play = Play::staging(json!({ "agents": {}, "max_timeout_before_halt": "100%" }));
    for when in ["Mon 11:58", "Mon 12:20", "Mon 12:40", "Mon 13:00", "Mon 13:20"] {
        play.ask(when, "asks");
    }
    assert_eq!(play.state("Mon 13:21", "staging"), "active", "it waits for reports");
    play.say("Mon 13:22", json!({ "mark_done": { "groups": ["staging"] } }));
    assert_eq!(play.state("Mon 13:22", "staging"), "done");
}

#[test]
fn a_group_for_which_somebody_asked_before_it_started_is_not_empty_though_he_is_silent_since() {
    for when in ["Mon 11:58", "Mon 11:00"] {
        let mut play = Play::staging(json!({ "agents": {} }));
        assert!(!play.is_told(when, "asks"));
        assert_eq!(play.state("Mon 13:05", "staging"), "active", "asked at {when}");
    }
}

#[test]
fn a_group_whose_hosts_are_all_pinned_is_waited_for() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", names(2), "staging");
    for host in names(2) {
        play.say("Mon 11:51", json!({ "report": { "host": host, "pinned": true } }));
    }
    let group = play.group("Mon 13:02", "staging");
    assert_eq!((&group["state"], &group["why"]["code"]), (&json!("active"), &json!("shrunk")));
}

#[test]
fn updated_is_who_runs_the_target_and_no_watch_goes_on() {
    let mut play = lenient(1, json!({}));
    assert!(play.is_told("Mon 12:00", "h01"));
    play.starts("Mon 12:01", "h01").switches("Mon 12:01:30", "h01");
    let group = play.group("Mon 12:02", "staging");
    assert_eq!(
        [&group["updated_count"], &group["in_flight_count"], &group["state"]],
        [&json!(0), &json!(1), &json!("active")]
    );
    play.updates("Mon 12:05", "h01");
    let group = play.group("Mon 12:05", "staging");
    assert_eq!(
        [&group["updated_count"], &group["in_flight_count"], &group["state"]],
        [&json!(1), &json!(0), &json!("done")]
    );
}

#[test]
fn who_moves_in_after_the_start_does_not_loosen_a_threshold() {
    let mut play = Play::staging(json!({ "max_failed_before_halt": "10%" }));
    play.hosts("Mon 11:50", names(10), "staging").hosts("Mon 11:50", &names(20)[10..], "elsewhere");
    assert_eq!(play.told("Mon 12:00", names(10)).len(), 10);
    play.hosts("Mon 12:01", &names(20)[10..], "staging");
    play.fails("Mon 12:02", "h01").fails("Mon 12:03", "h02");
    assert_eq!(play.state("Mon 12:04", "staging"), "halted", "two of the ten that were counted when it started");
}

#[test]
fn a_group_that_everybody_left_after_its_start_says_what_ends_that() {
    let mut play = lenient(2, json!({}));
    assert_eq!(play.state("Mon 12:01", "staging"), "active");
    play.hosts("Mon 12:02", names(2), "elsewhere");
    for when in ["Mon 12:03", "Mon 13:30", "Wed 12:00"] {
        let group = play.group(when, "staging");
        let why = &group["why"];
        let is_ended_by_time = why["who"] == "time" && !why["until"].is_null();
        assert!(group["state"] == "done" || why["who"] == "operator" || is_ended_by_time, "{when}: {group}");
    }
}

/// Who comes later proves nothing of members that were there, where these are all pinned.
#[test]
fn newcomers_do_not_finish_a_group() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", names(2), "staging");
    for host in names(2) {
        play.say("Mon 11:51", json!({ "report": { "host": host, "pinned": true } }));
    }
    let late = json!({ "host": "new", "version": "2.0.0", "labels": { "env": "staging" } });
    play.say("Mon 12:01", json!({ "report": late }));
    let group = play.group("Mon 12:02", "staging");
    assert_eq!([&group["state"], &group["why"]["code"]], [&json!("active"), &json!("shrunk")], "{group}");
    for host in names(2) {
        play.say("Mon 12:03", json!({ "report": { "host": host, "pinned": false } }));
    }
    play.all_update("Mon 12:04", names(2));
    assert_eq!(play.state("Mon 12:05", "staging"), "done");
}
