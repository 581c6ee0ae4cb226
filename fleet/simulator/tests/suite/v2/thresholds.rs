//! FLEET §2, §3: what stops a bad release under a configuration of Managed Updates v2.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, asks, failed, halting, host, immediate, is, mark_done, outcome, report, run, state_and_reason,
    updated, version,
};
use crate::support::Script;

/// `dev` with these keys at 12 o'clock, `prod` behind it, and hosts 1 to `hosts` that have asked at 12:01.
fn of(hosts: u32, keys: &Value) -> Script {
    let mut dev = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
    dev.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    let script = Script::default()
        .on("Mon 11:00", halting(&json!([dev, { "name": "prod", "days": ["*"], "start_hour": 12 }])))
        .on("Mon 11:00", version())
        .hosts("Mon 11:58", 1..=hosts, "dev", OLD);
    (1..=hosts).fold(script, |script, number| script.on("Mon 12:01", asks(number, "dev")))
}

fn fail(script: Script, when: &str, numbers: std::ops::RangeInclusive<u32>) -> Script {
    numbers.fold(script, |script, number| script.on(when, failed(number, "dev")))
}

fn succeed(script: Script, when: &str, numbers: std::ops::RangeInclusive<u32>) -> Script {
    numbers.fold(script, |script, number| script.on(when, updated(number, "dev")))
}

#[test]
fn more_than_ten_percent_failed_halt_a_group_and_ten_percent_do_not() {
    // Hosts, the most that may fail.
    for (hosts, most) in [(10, 1), (11, 1), (19, 1), (20, 2), (21, 2), (30, 3), (40, 4), (9, 0), (5, 0), (1, 0)] {
        let script = fail(of(hosts, &json!({})), "Mon 12:05", 1..=most);
        assert_eq!(script.state("Mon 12:05", "dev"), "active", "{most} of {hosts}");
        let script = script.on("Mon 12:06", failed(most + 1, "dev"));
        assert_eq!(
            script.because("Mon 12:06", "dev"),
            state_and_reason("halted", "failed_threshold"),
            "{most} + 1 of {hosts}"
        );
    }
}

#[test]
fn a_halted_group_tells_nobody_and_lets_no_other_start() {
    let script = fail(of(20, &json!({})), "Mon 12:05", 1..=3);
    for when in ["Mon 12:06", "Mon 12:59", "Tue 12:30"] {
        assert!(!script.find(when, "dev").1, "{when}");
        assert!(!script.find_host(when, 1, "dev").1, "{when}: who failed");
        assert!(!script.find_host(when, 10, "dev").1, "{when}: who was told");
        assert!(!script.find_host(when, 99, "dev").1, "{when}: who is new");
        assert_eq!(script.state(when, "prod"), "unstarted", "{when}");
    }
}

#[test]
fn the_reason_of_a_halt_names_rule_count_and_commonest_code() {
    let script = of(20, &json!({}))
        .on("Mon 12:05", outcome(1, "dev", OLD, "failed", "no_space"))
        .on("Mon 12:05", outcome(2, "dev", OLD, "rolled_back", "unhealthy"))
        .on("Mon 12:05", outcome(3, "dev", OLD, "failed", "unhealthy"));
    let why = script.group("Mon 12:06", "dev")["why"].clone();
    let text = why.to_string();
    assert!(text.contains("failed_threshold") && text.contains("unhealthy") && text.contains('3'), "{why:#}");
    assert!(why["until"].is_null(), "{why:#}");
    assert_eq!(why["sample"], json!([host(1), host(2), host(3)]));
}

#[test]
fn a_halt_names_three_hosts_at_most_and_only_those_that_broke_its_rule() {
    let script = (1..=6).fold(of(20, &json!({ "max_failed_before_halt": "25%" })), |script, number| {
        script.on("Mon 12:05", outcome(number + 4, "dev", OLD, "failed", "unhealthy"))
    });
    let why = script.group("Mon 12:06", "dev")["why"].clone();
    assert_eq!((&why["count"], &why["sample"]), (&json!(6), &json!([host(5), host(6), host(7)])));
}

#[test]
fn each_kind_of_failure_counts() {
    for what in ["failed", "rolled_back", "refused"] {
        let script = of(10, &json!({}))
            .on("Mon 12:05", outcome(1, "dev", OLD, what, "x"))
            .on("Mon 12:05", outcome(2, "dev", OLD, what, "x"));
        assert_eq!(script.state("Mon 12:05", "dev"), "halted", "{what}");
    }
}

#[test]
fn the_ways_faults_and_failures_of_other_versions_do_not_count() {
    for code in ["network", "download_stalled", "lock_held", "interrupted"] {
        let script = (1..=10).fold(of(10, &json!({})), |script, number| {
            script.on("Mon 12:05", outcome(number, "dev", OLD, "failed", code))
        });
        assert_eq!(script.state("Mon 12:06", "dev"), "active", "{code}");
    }
    let other = |number: u32| {
        let mut line = report(number, "dev", OLD);
        line["report"]["last"] = json!({ "outcome": "failed", "to": "17.1.9", "code": "x" });
        line
    };
    let script = (1..=10).fold(of(10, &json!({})), |script, number| script.on("Mon 12:05", other(number)));
    assert_eq!(script.state("Mon 12:06", "dev"), "active");
}

#[test]
fn a_failure_counts_once() {
    let script = of(10, &json!({}));
    let script = ["Mon 12:05", "Mon 12:06", "Mon 12:20", "Mon 12:35"]
        .iter()
        .fold(script, |script, when| script.on(when, failed(1, "dev")));
    // The group has no cap: it is told again, and fails again.
    let script = script.on("Mon 12:40", asks(1, "dev")).on("Mon 12:45", failed(1, "dev"));
    let group = script.group("Mon 12:46", "dev");
    assert_eq!((&group["state"], &group["failed_count"]), (&json!("active"), &json!(1)));
}

#[test]
fn a_failure_of_before_the_rollout_does_not_count() {
    let script = Script::default();
    let script = (1..=5).fold(script, |script, number| script.on("Mon 10:00", failed(number, "dev")));
    let script = script
        .on("Mon 11:00", halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])))
        .on("Mon 11:00", version());
    let script = (1..=5).fold(script, |script, number| script.on("Mon 11:58", failed(number, "dev")));
    assert_eq!(script.state("Mon 12:05", "dev"), "active");
    assert_eq!(script.group("Mon 12:05", "dev")["failed_count"], 0);
}

/// FLEET §3: of the members counted when the group started.
#[test]
fn who_came_after_the_start_neither_fails_nor_dilutes() {
    let script = of(10, &json!({})).hosts("Mon 12:02", 100..=200, "dev", OLD);
    let script = fail(script, "Mon 12:05", 1..=2);
    assert_eq!(script.state("Mon 12:05", "dev"), "halted", "2 of the 10 that were counted");
    let script = of(10, &json!({})).hosts("Mon 12:02", 100..=110, "dev", OLD);
    let script = (100..=110).fold(script, |script, number| script.on("Mon 12:03", asks(number, "dev")));
    let script = (100..=110).fold(script, |script, number| script.on("Mon 12:05", failed(number, "dev")));
    assert_eq!(script.state("Mon 12:05", "dev"), "active");
}

/// FLEET §3: less excluded ones.
#[test]
fn pinned_hosts_are_not_in_the_denominator() {
    let mut pinned = report(10, "dev", OLD);
    pinned["report"]["pinned"] = true.into();
    let script = fail(of(10, &json!({})).on("Mon 12:02", pinned), "Mon 12:05", 1..=1);
    assert_eq!(script.state("Mon 12:05", "dev"), "halted", "1 of 9");
}

/// FLEET §2: half of those that ended, from 20 on; here nothing else halts.
#[test]
fn half_of_those_that_ended_may_fail_and_no_more() {
    let of = || of(200, &json!({ "max_failed_before_halt": 100 }));
    // 19 ended, all of them failed.
    let script = fail(of(), "Mon 12:05", 1..=19);
    assert_eq!(script.state("Mon 12:05", "dev"), "active");
    assert_eq!(script.on("Mon 12:06", failed(20, "dev")).because("Mon 12:06", "dev").0, "halted");
    // 10 of 20 is half, 11 of 21 is more.
    let script = succeed(fail(of(), "Mon 12:05", 1..=10), "Mon 12:05", 11..=20);
    assert_eq!(script.state("Mon 12:05", "dev"), "active");
    assert_eq!(script.on("Mon 12:06", failed(21, "dev")).state("Mon 12:06", "dev"), "halted");
    // 9 of 19, then 10 of 20.
    let script = succeed(fail(of(), "Mon 12:05", 1..=9), "Mon 12:05", 10..=19);
    assert_eq!(script.on("Mon 12:06", failed(20, "dev")).state("Mon 12:06", "dev"), "active");
}

#[test]
fn both_thresholds_and_their_samples_can_be_set() {
    let script = fail(of(10, &json!({ "max_failed_before_halt": 30 })), "Mon 12:05", 1..=3);
    assert_eq!(script.state("Mon 12:05", "dev"), "active");
    assert_eq!(fail(script, "Mon 12:06", 4..=4).state("Mon 12:06", "dev"), "halted");
    let script = of(10, &json!({ "max_failed_before_halt": 0 }));
    assert_eq!(fail(script, "Mon 12:05", 1..=1).state("Mon 12:05", "dev"), "halted");
    let script = fail(of(10, &json!({ "min_failed_before_halt": 4 })), "Mon 12:05", 1..=3);
    assert_eq!(script.state("Mon 12:05", "dev"), "active");
    assert_eq!(fail(script, "Mon 12:06", 4..=4).state("Mon 12:06", "dev"), "halted");
    let keys = json!({ "max_failed_before_halt": 100, "max_failed_of_ended": 20, "min_ended": 5 });
    let script = succeed(fail(of(50, &keys), "Mon 12:05", 1..=1), "Mon 12:05", 2..=5);
    assert_eq!(script.state("Mon 12:05", "dev"), "active", "1 of 5 is 20 %");
    assert_eq!(fail(script, "Mon 12:06", 6..=6).state("Mon 12:06", "dev"), "halted", "2 of 6");
}

/// FLEET §2: `immediate`, which has no groups, stops by them too.
#[test]
fn an_immediate_rollout_stops_by_both_thresholds() {
    let script = Script::default().hosts("Mon 11:00", 1..=10, "dev", OLD).on("Mon 11:01", immediate());
    let script = (1..=10).fold(script, |script, number| script.on("Mon 11:02", asks(number, "dev")));
    let script = fail(script, "Mon 11:05", 1..=1);
    assert_eq!(script.find("Mon 11:05", "dev"), is(NEW, true));
    let script = fail(script, "Mon 11:06", 2..=2);
    for when in ["Mon 11:06", "Mon 11:07", "Sun 11:00"] {
        assert!(!script.find(when, "dev").1, "{when}");
        assert!(!script.find(when, "").1, "{when}");
        assert!(!script.find_host(when, 7, "dev").1, "{when}");
        assert!(!script.find_host(when, 77, "prod").1, "{when}");
    }
    let all = json!({ "run": { "all": true } });
    assert!(script.on("Mon 12:00", all).find("Mon 12:01", "dev").1);
}

#[test]
fn an_immediate_rollout_stops_by_those_that_ended_too() {
    // Hosts that came later are not counted when the rollout begins; half of 300 is not reached before 31 failed.
    let script = Script::default().hosts("Mon 11:00", 1..=300, "dev", OLD).on("Mon 11:01", immediate());
    let script = (1..=40).fold(script, |script, number| script.on("Mon 11:02", asks(number, "dev")));
    let script = fail(script, "Mon 11:05", 1..=19);
    assert!(script.find("Mon 11:05", "dev").1);
    assert!(!fail(script, "Mon 11:06", 20..=20).find("Mon 11:06", "dev").1, "20 of 20 that ended");
}

#[test]
fn an_immediate_rollout_can_be_halted_and_go_on() {
    let script = Script::default().on("Mon 11:00", immediate()).on("Mon 11:05", json!({ "halt": { "all": true } }));
    assert!(!script.find("Mon 11:06", "dev").1);
    assert!(script.on("Mon 11:10", json!({ "run": { "all": true } })).find("Mon 11:10", "dev").1);
}

/// FLEET §2: soak failures halt too.
#[test]
fn failures_after_a_group_is_done_halt_it() {
    let script = succeed(of(20, &json!({})), "Mon 12:05", 1..=18);
    assert_eq!(script.state("Mon 12:06", "dev"), "done");
    // Two that were late fail, and then one whose success is taken back.
    let script = fail(script, "Mon 12:10", 19..=20);
    assert_eq!(script.state("Mon 12:11", "dev"), "done");
    let script = script.on("Mon 12:20", outcome(1, "dev", OLD, "rolled_back", "crash"));
    assert_eq!(script.because("Mon 12:20", "dev"), state_and_reason("halted", "soak_failed"));
    assert!(!script.find("Mon 12:21", "dev").1);
}

/// FLEET §5: a success that is taken back is a soak failure.
#[test]
fn a_success_that_is_taken_back_is_a_failure() {
    let script = succeed(of(10, &json!({})), "Mon 12:05", 1..=10);
    assert_eq!(script.state("Mon 12:06", "dev"), "done");
    let script = script.on("Mon 12:20", report(1, "dev", OLD)).on("Mon 12:21", report(2, "dev", OLD));
    assert_eq!(script.because("Mon 12:21", "dev"), state_and_reason("halted", "soak_failed"));
}

#[test]
fn a_group_that_is_halted_while_it_soaks_keeps_the_next_one_from_starting() {
    let script = Script::default()
        .on(
            "Mon 11:00",
            halting(&json!([
                { "name": "dev", "days": ["*"], "start_hour": 12 },
                { "name": "prod", "days": ["*"], "start_hour": 15 },
            ])),
        )
        .on("Mon 11:00", version())
        .hosts("Mon 11:58", 1..=10, "dev", OLD);
    let script = (1..=10).fold(script, |script, number| script.on("Mon 12:01", asks(number, "dev")));
    let script = succeed(script, "Mon 12:05", 1..=10);
    let script = (1..=2)
        .fold(script, |script, number| script.on("Mon 14:00", outcome(number, "dev", OLD, "rolled_back", "crash")));
    assert_eq!(script.state("Mon 15:30", "dev"), "halted");
    assert_eq!(script.state("Mon 15:30", "prod"), "unstarted");
}

#[test]
fn thresholds_go_on_to_count_while_the_rollout_is_suspended() {
    let script = of(10, &json!({})).on("Mon 12:02", super::version_in("suspended", "regular"));
    let script = fail(script, "Mon 12:05", 1..=2).on("Mon 12:10", version());
    assert_eq!(script.state("Mon 12:10", "dev"), "halted");
}

/// FLEET §12: `on_halt: rollback` works.
#[test]
fn on_halt_rollback_gives_the_start_version_back() {
    let script = of(10, &json!({ "on_halt": "rollback" })).on("Mon 12:03", updated(9, "dev"));
    let script = fail(script, "Mon 12:05", 1..=2);
    assert_eq!(script.state("Mon 12:05", "dev"), "rolledback");
    assert_eq!(script.find_host("Mon 12:06", 9, "dev"), is(OLD, true));
    assert_eq!(script.state("Mon 12:59", "prod"), "unstarted");
}

/// FLEET §3: nobody's percentages of nobody.
#[test]
fn a_group_without_counted_hosts_is_not_halted_by_nothing() {
    let script = of(0, &json!({}));
    assert_eq!(script.state("Mon 12:30", "dev"), "active");
}

#[test]
fn what_another_group_fails_halts_the_other_group_alone() {
    let script = of(10, &json!({})).hosts("Mon 12:02", 50..=59, "prod", OLD).on("Mon 12:03", mark_done(&["dev"]));
    let script = (50..=51).fold(script, |script, number| script.on("Mon 12:04", asks(number, "prod")));
    let script = (50..=51).fold(script, |script, number| script.on("Mon 12:06", failed(number, "prod")));
    assert_eq!(script.state("Mon 12:06", "prod"), "halted");
    assert_eq!(script.state("Mon 12:06", "dev"), "done");
    let script = script.on("Mon 12:07", run(&["prod"]));
    assert_eq!(script.state("Mon 12:08", "prod"), "active");
}

/// The six counts add up to the members (FLEET §12).
#[test]
fn the_counts_of_a_group_add_up_to_its_members() {
    let script = succeed(fail(of(40, &json!({})), "Mon 12:05", 1..=3), "Mon 12:05", 10..=20);
    let script = script.hosts("Mon 12:06", 50..=55, "dev", OLD);
    for when in ["Mon 11:59:59", "Mon 12:00", "Mon 12:06", "Mon 12:30", "Mon 13:30", "Mon 14:30"] {
        let before = Script::default()
            .on("Mon 11:00", halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])))
            .on("Mon 11:00", version())
            .hosts("Mon 11:58", 1..=40, "dev", OLD);
        let (script, members) = if when < "Mon 12:06" { (&before, 40) } else { (&script, 46) };
        let group = script.group(when, "dev");
        let keys =
            ["pending_count", "in_flight_count", "updated_count", "failed_count", "timed_out_count", "silent_count"];
        let sum: u64 = keys.iter().map(|key| group[*key].as_u64().unwrap_or_else(|| panic!("{key}: {group:#}"))).sum();
        assert_eq!(sum, members, "{when}: {group:#}");
    }
}
