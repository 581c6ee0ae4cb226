//! FLEET §3: the hosts that update before the others.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, asks, failed, host, is, mark_done, outcome, report, rollback, rollout, run, start, start_by_force,
    state_and_reason, t, told, updated, updater,
};
use crate::support::Script;

/// `dev` at 12 o'clock with so many canaries, and `prod` in the same hour.
fn groups(canaries: u32) -> Value {
    json!([
        { "name": "dev", "days": ["*"], "start_hour": 12, "canary_count": canaries },
        { "name": "prod", "days": ["*"], "start_hour": 12 },
    ])
}

/// Hosts 1 to `hosts` of `dev` have reported when the group starts at 12:00.
fn of(canaries: u32, hosts: u32) -> Script {
    rollout(&groups(canaries)).hosts("Mon 11:58", 1..=hosts, "dev", OLD)
}

/// The numbers of the canaries.
fn chosen(script: &Script, when: &str) -> Vec<u32> {
    let group = script.group(when, "dev");
    let canaries = group["canaries"].as_array().unwrap_or_else(|| panic!("no canaries: {group:#}"));
    let number = |id: &Value| id.as_str().unwrap()[24..].parse::<u32>().unwrap();
    for canary in canaries {
        assert_eq!(canary["host_id"], host(number(&canary["host_id"])).as_str());
        assert_eq!(canary["updater_id"], updater(number(&canary["host_id"])).as_str());
    }
    canaries.iter().map(|canary| number(&canary["host_id"])).collect()
}

fn successes(script: &Script, when: &str) -> usize {
    let group = script.group(when, "dev");
    group["canaries"].as_array().unwrap().iter().filter(|canary| canary["success"] == true).count()
}

/// The keys of a canary are v2's. A host calls itself by its label `hostname`.
#[test]
fn a_canary_is_shown_with_its_hostname() {
    let mut named = report(1, "dev", OLD);
    named["report"]["labels"] = json!({ "env": "dev", "hostname": "web01" });
    let script = rollout(&groups(2)).on("Mon 11:58", named).on("Mon 11:58", report(2, "dev", OLD));
    let mut canaries = script.group("Mon 12:00", "dev")["canaries"].as_array().unwrap().clone();
    canaries.sort_by_key(|canary| canary["host_id"].to_string());
    let shown = |number: u32, hostname: &str| json!({ "updater_id": updater(number), "host_id": host(number), "hostname": hostname, "success": false });
    assert_eq!(canaries, [shown(1, "web01"), shown(2, "")]);
}

#[test]
fn a_group_with_canaries_begins_with_them() {
    let script = of(2, 5);
    assert_eq!(script.state("Mon 11:59:59", "dev"), "unstarted");
    let group = script.group("Mon 12:00", "dev");
    assert_eq!(group["state"], "canary");
    assert_eq!(group["start_time"], t("Mon 12:00").as_str());
    assert_eq!(group["initial_count"], 5);
    assert_eq!(group["canary_count"], 2);
    let chosen: BTreeSet<u32> = chosen(&script, "Mon 12:00").into_iter().collect();
    assert_eq!(chosen.len(), 2);
    assert!(chosen.iter().all(|number| (1..=5).contains(number)));
    assert_eq!(successes(&script, "Mon 12:00"), 0);
    assert_eq!(script.because("Mon 12:02", "dev"), state_and_reason("canary", "waiting_for_canaries"));
    assert_eq!(script.state("Mon 12:02", "prod"), "unstarted");
}

#[test]
fn only_canaries_are_told() {
    let script = of(2, 5);
    let canaries = chosen(&script, "Mon 12:01");
    for number in 1..=5 {
        let wanted = if canaries.contains(&number) { is(NEW, true) } else { is(OLD, false) };
        assert_eq!(script.find_host("Mon 12:05", number, "dev"), wanted, "{number}");
    }
    assert_eq!(script.find("Mon 12:05", "dev"), is(OLD, false));
    assert_eq!(script.find_host("Mon 12:05", 99, "dev"), is(OLD, false));
}

/// Today's proxies pass the group and the updater's id on, and no host.
#[test]
fn a_canary_is_known_by_its_updaters_id() {
    let script = of(1, 3);
    let canary = chosen(&script, "Mon 12:01")[0];
    for number in 1..=3 {
        let question = json!({ "find": { "group": "dev", "update_id": updater(number) } });
        let wanted = if number == canary { is(NEW, true) } else { is(OLD, false) };
        assert_eq!(told(&script.then("Mon 12:05", question)), wanted, "{number}");
    }
    let stranger = json!({ "find": { "group": "dev", "update_id": updater(99) } });
    assert_eq!(told(&script.then("Mon 12:05", stranger)), is(OLD, false));
}

#[test]
fn canaries_stay_the_same() {
    let script = of(3, 20);
    let first = chosen(&script, "Mon 12:00");
    // Hosts that come later take nobody's place.
    let script = script.hosts("Mon 12:03", 21..=60, "dev", OLD).hosts("Mon 12:30", 1..=60, "dev", OLD);
    for when in ["Mon 12:31", "Mon 12:40", "Mon 13:10"] {
        assert_eq!(chosen(&script, when), first, "{when}");
    }
}

#[test]
fn the_first_of_the_order_are_others_with_another_seed() {
    let chosen = |seed: u64| {
        let answers = of(1, 10).on("Mon 12:01", json!({ "status": {} })).run_with(seed);
        crate::support::group(answers.last().unwrap(), "dev")["canaries"][0]["host_id"].as_str().unwrap().to_owned()
    };
    let all: BTreeSet<String> = (0..40).map(chosen).collect();
    assert!(all.len() > 4, "{all:?}");
}

#[test]
fn when_all_canaries_are_on_the_target_the_group_is_active_from_then_on() {
    let script = of(2, 5);
    let canaries = chosen(&script, "Mon 12:01");
    let one = script.on("Mon 12:05", asks(canaries[0], "dev")).on("Mon 12:10", updated(canaries[0], "dev"));
    assert_eq!(one.because("Mon 12:10", "dev"), state_and_reason("canary", "waiting_for_canaries"));
    assert_eq!(successes(&one, "Mon 12:10"), 1);
    assert!(one.find("Mon 12:10", "dev") == is(OLD, false));
    let both = one.on("Mon 12:15", asks(canaries[1], "dev")).on("Mon 12:20:30", updated(canaries[1], "dev"));
    let group = both.group("Mon 12:20:30", "dev");
    assert_eq!(group["state"], "active");
    assert_eq!(group["last_update_reason"], "canaries_are_alive");
    // canary → active sets it anew.
    assert_eq!(group["start_time"], t("Mon 12:20:30").as_str());
    assert_eq!(both.find("Mon 12:20:30", "dev"), is(NEW, true));
}

/// What they did on the way up is undone with the rollback.
#[test]
fn after_a_rollback_canaries_go_first_again() {
    let script = of(2, 5);
    let canaries = chosen(&script, "Mon 12:01");
    let asked = canaries.iter().fold(script, |script, canary| script.on("Mon 12:05", asks(*canary, "dev")));
    let script = canaries.iter().fold(asked, |script, canary| script.on("Mon 12:10", updated(*canary, "dev")));
    assert_eq!(script.state("Mon 12:11", "dev"), "active");
    let back = canaries.iter().fold(script.on("Mon 12:12", rollback(&["dev"])), |script, canary| {
        script.on("Mon 12:13", asks(*canary, "dev"))
    });
    let back = back.hosts("Mon 12:15", 1..=5, "dev", OLD);
    let again = back.on("Mon 12:20", run(&["dev"])).hosts("Mon 12:21", 1..=5, "dev", OLD);
    assert_eq!(again.group("Mon 12:22", "dev")["in_flight_count"], 2);
    assert_eq!((again.state("Mon 12:22", "dev"), successes(&again, "Mon 12:22")), ("canary".into(), 0));
    let canaries = chosen(&again, "Mon 12:22");
    assert_eq!(canaries.len(), 2);
    for number in 1..=5 {
        let wanted = if canaries.contains(&number) { is(NEW, true) } else { is(OLD, false) };
        assert_eq!(again.find_host("Mon 12:25", number, "dev"), wanted, "{number}");
    }
}

#[test]
fn wait_hours_count_from_the_end_of_the_canaries() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12, "canary_count": 1 },
        { "name": "prod", "days": ["*"], "start_hour": 13, "wait_hours": 1 },
    ]))
    .hosts("Mon 11:58", 1..=1, "dev", OLD)
    .on("Mon 12:05", asks(1, "dev"))
    .on("Mon 12:20", updated(1, "dev"));
    assert_eq!(script.state("Mon 12:30", "dev"), "done");
    assert_eq!(script.state("Mon 13:19:59", "prod"), "unstarted");
    assert_eq!(script.state("Mon 13:20", "prod"), "active");
}

#[test]
fn a_canary_that_runs_the_target_already_is_one_that_succeeded() {
    let script = rollout(&groups(1)).hosts("Mon 11:58", 1..=3, "dev", NEW);
    assert_eq!(script.state("Mon 12:03", "dev"), "done", "its canary and all of its hosts run the target");
}

#[test]
fn a_success_is_not_forgotten() {
    let script = of(2, 5);
    let canaries = chosen(&script, "Mon 12:01");
    let script = script.on("Mon 12:05", asks(canaries[0], "dev")).on("Mon 12:10", updated(canaries[0], "dev"));
    // It is not heard of again; the other one reports on.
    let script = ["Mon 12:30", "Mon 13:00", "Mon 13:30", "Mon 14:00"]
        .iter()
        .fold(script, |script, when| script.on(when, report(canaries[1], "dev", OLD)));
    assert_eq!(chosen(&script, "Mon 14:01"), canaries);
    assert_eq!(successes(&script, "Mon 14:01"), 1);
    let script = script.on("Mon 14:02", asks(canaries[1], "dev")).on("Mon 14:05", updated(canaries[1], "dev"));
    assert_eq!(script.state("Mon 14:05", "dev"), "active");
}

#[test]
fn whoever_has_no_updaters_id_is_no_canary() {
    let silent_id = |number: u32| json!({ "report": { "host": host(number), "group": "dev", "version": OLD } });
    let script = (1..=9).fold(rollout(&groups(2)), |script, number| script.on("Mon 11:58", silent_id(number)));
    let script = script.on("Mon 11:58", report(10, "dev", OLD));
    assert_eq!(chosen(&script, "Mon 12:01"), [10]);
    // Two are wanted, and the group has ten hosts: it waits.
    let script = script.on("Mon 12:05", asks(10, "dev")).on("Mon 12:10", updated(10, "dev"));
    assert_eq!(script.state("Mon 12:20", "dev"), "canary");
    let question = json!({ "find": { "host": host(1), "group": "dev" } });
    assert_eq!(told(&script.then("Mon 12:20", question)), is(OLD, false));
}

#[test]
fn pinned_and_disabled_hosts_are_no_canaries() {
    let with = |number: u32, flag: &str| {
        let mut line = report(number, "dev", OLD);
        line["report"][flag] = true.into();
        line
    };
    let script = (1..=4).fold(rollout(&groups(5)), |script, number| script.on("Mon 11:58", with(number, "pinned")));
    let script = (5..=8).fold(script, |script, number| script.on("Mon 11:58", with(number, "disabled")));
    let script = script.on("Mon 11:58", report(9, "dev", OLD)).on("Mon 11:58", report(10, "dev", OLD));
    let chosen: BTreeSet<u32> = chosen(&script, "Mon 12:01").into_iter().collect();
    assert_eq!(chosen, BTreeSet::from([9, 10]));
}

#[test]
fn hosts_of_other_groups_are_no_canaries() {
    let script = of(2, 2).hosts("Mon 11:58", 10..=30, "prod", OLD);
    let chosen: BTreeSet<u32> = chosen(&script, "Mon 12:01").into_iter().collect();
    assert_eq!(chosen, BTreeSet::from([1, 2]));
}

/// FLEET §3: heard of within an interval (15 minutes).
#[test]
fn whoever_was_not_heard_of_within_an_interval_is_no_canary() {
    let script = rollout(&groups(2)).hosts("Mon 11:40", 1..=8, "dev", OLD).hosts("Mon 11:58", 9..=10, "dev", OLD);
    let chosen: BTreeSet<u32> = chosen(&script, "Mon 12:01").into_iter().collect();
    assert_eq!(chosen, BTreeSet::from([9, 10]));
}

/// FLEET §3: fewer only if the group has fewer hosts. (Upstream such a group hangs.)
#[test]
fn a_group_of_fewer_hosts_has_fewer_canaries() {
    let script = of(5, 2);
    assert_eq!(chosen(&script, "Mon 12:01").len(), 2);
    let script =
        script.on("Mon 12:05", asks(1, "dev")).on("Mon 12:05", asks(2, "dev")).on("Mon 12:10", updated(1, "dev"));
    assert_eq!(script.state("Mon 12:10", "dev"), "canary");
    let script = script.on("Mon 12:11", updated(2, "dev"));
    assert_ne!(script.state("Mon 12:11", "dev"), "canary");
    assert_eq!(script.state("Mon 12:12", "dev"), "done");
}

#[test]
fn an_empty_group_with_canaries_is_done_after_an_hour_as_well() {
    let script = rollout(&groups(3));
    assert_ne!(script.state("Mon 13:00", "dev"), "done");
    assert_eq!(script.state("Mon 13:02", "dev"), "done");
}

/// Twenty hosts that were silent for longer than a day when the group starts, and come back in its first minutes.
#[test]
fn whoever_comes_back_to_a_group_with_canaries_that_all_had_left_waits_for_them() {
    let script = rollout(&groups(2))
        .hosts("Mon 11:01", 1..=20, "dev", OLD)
        .on("Mon 11:30", super::version_in("suspended", "regular"))
        .on("Tue 11:30", super::version());
    let empty = script.group("Tue 12:04", "dev");
    assert_eq!((&empty["state"], &empty["initial_count"]), (&json!("canary"), &json!(0)));
    assert_eq!(script.why("Tue 12:04", "dev"), ("shrunk".to_owned(), None));
    let back = script.clone().hosts("Tue 12:05", 1..=20, "dev", OLD);
    let told: Vec<u32> = (1..=20).filter(|number| back.find_host("Tue 12:06", *number, "dev").1).collect();
    let mut canaries = chosen(&back, "Tue 12:06");
    canaries.sort_unstable();
    assert_eq!((told.len(), &told), (2, &canaries));
    let done = told.iter().fold(back, |script, number| script.on("Tue 12:08", updated(*number, "dev")));
    let group = done.group("Tue 12:09", "dev");
    assert_eq!((&group["state"], &group["initial_count"]), (&json!("active"), &json!(20)));
    // Hosts that are new find others to go before them as well.
    let new = script.clone().hosts("Tue 12:05", 31..=40, "dev", OLD);
    assert_eq!((31..=40).filter(|number| new.find_host("Tue 12:06", *number, "dev").1).count(), 2);
    assert_eq!(script.because("Tue 13:00", "dev").0, "canary");
    assert_eq!(script.because("Tue 13:01", "dev").0, "canary", "absence is no success");
}

#[test]
fn more_canaries_are_chosen_as_soon_as_they_can_be() {
    // Ten hosts, of which one has been heard of lately.
    let script = rollout(&groups(2)).hosts("Mon 11:40", 1..=9, "dev", OLD).hosts("Mon 11:58", 10..=10, "dev", OLD);
    assert_eq!(chosen(&script, "Mon 12:01"), [10]);
    let script = script.on("Mon 12:02", report(4, "dev", OLD));
    let chosen: BTreeSet<u32> = chosen(&script, "Mon 12:03").into_iter().collect();
    assert_eq!(chosen, BTreeSet::from([4, 10]));
}

/// FLEET §5: only hosts that were enrolled when the group started count in canaries.
#[test]
fn whoever_came_after_the_start_is_no_canary() {
    let script = rollout(&groups(2))
        .hosts("Mon 11:40", 1..=9, "dev", OLD)
        .hosts("Mon 11:58", 10..=10, "dev", OLD)
        .hosts("Mon 12:02", 20..=40, "dev", OLD);
    assert_eq!(chosen(&script, "Mon 12:03"), [10]);
}

/// FLEET §3: one that goes silent (three report intervals) before it was told is replaced.
#[test]
fn a_canary_that_goes_silent_before_it_was_told_is_replaced() {
    let script = of(1, 3);
    let lost = chosen(&script, "Mon 12:01")[0];
    let others: Vec<u32> = (1..=3).filter(|number| *number != lost).collect();
    let report = |script: Script, when: &str| {
        others.iter().fold(script, |script, number| script.on(when, report(*number, "dev", OLD)))
    };
    // Last heard of at 11:58: silent after 45 minutes.
    let script = ["Mon 12:10", "Mon 12:24", "Mon 12:38"].into_iter().fold(script, report);
    assert_eq!(chosen(&script, "Mon 12:42"), [lost]);
    let script = report(script, "Mon 12:46");
    let now = chosen(&script, "Mon 12:47");
    assert_eq!(now.len(), 1);
    assert!(others.contains(&now[0]));
    assert_eq!(script.find_host("Mon 12:48", now[0], "dev"), is(NEW, true));
    assert_eq!(script.find_host("Mon 12:48", lost, "dev"), is(OLD, false));
}

#[test]
fn a_canary_that_was_told_is_not_replaced() {
    let script = of(1, 3);
    let canary = chosen(&script, "Mon 12:01")[0];
    let others: Vec<u32> = (1..=3).filter(|number| *number != canary).collect();
    let script = script.on("Mon 12:02", asks(canary, "dev"));
    let script = ["Mon 12:10", "Mon 12:24", "Mon 12:38", "Mon 12:52"].iter().fold(script, |script, when| {
        others.iter().fold(script, |script, number| script.on(when, report(*number, "dev", OLD)))
    });
    assert_eq!(chosen(&script, "Mon 12:55"), [canary]);
    assert_eq!(script.state("Mon 12:55", "dev"), "canary");
}

#[test]
fn a_canary_that_is_pinned_before_it_was_told_is_replaced() {
    let script = of(1, 3);
    let lost = chosen(&script, "Mon 12:01")[0];
    let mut pinned = report(lost, "dev", OLD);
    pinned["report"]["pinned"] = true.into();
    let script = script.on("Mon 12:02", pinned);
    let now = chosen(&script, "Mon 12:03");
    assert!(now.len() == 1 && now[0] != lost, "{now:?}");
}

/// FLEET §3: one that fails halts the group.
#[test]
fn a_canary_that_fails_halts_the_group() {
    for what in ["failed", "rolled_back", "refused"] {
        let script = of(1, 30);
        let canary = chosen(&script, "Mon 12:01")[0];
        let script =
            script.on("Mon 12:05", asks(canary, "dev")).on("Mon 12:10", outcome(canary, "dev", OLD, what, "unhealthy"));
        let group = script.group("Mon 12:10", "dev");
        assert_eq!(
            (&group["state"], &group["last_update_reason"]),
            (&json!("halted"), &json!("canary_failed")),
            "{what}"
        );
        assert_eq!(group["why"]["error"], "unhealthy");
        for number in 1..=30 {
            assert!(!script.find_host("Mon 12:11", number, "dev").1, "{what}: {number}");
        }
        assert_eq!(script.state("Tue 12:30", "prod"), "unstarted", "{what}");
    }
}

#[test]
fn a_canary_that_gives_no_outcome_in_time_halts_the_group() {
    // Told at 12:05; a minute's jitter, and an hour.
    let script = of(1, 30);
    let canary = chosen(&script, "Mon 12:01")[0];
    let script = script.on("Mon 12:05", asks(canary, "dev"));
    assert_eq!(script.state("Mon 13:06", "dev"), "canary");
    assert_eq!(script.because("Mon 13:06:01", "dev"), state_and_reason("halted", "canary_failed"));
}

#[test]
fn the_ways_faults_fail_no_canary() {
    for code in ["network", "download_stalled", "lock_held", "interrupted"] {
        let script = of(1, 3);
        let canary = chosen(&script, "Mon 12:01")[0];
        let script =
            script.on("Mon 12:05", asks(canary, "dev")).on("Mon 12:10", outcome(canary, "dev", OLD, "failed", code));
        assert_eq!(script.state("Mon 12:11", "dev"), "canary", "{code}");
        assert_eq!(chosen(&script, "Mon 12:11"), [canary]);
        assert_eq!(script.find_host("Mon 12:15", canary, "dev"), is(NEW, true), "{code}");
        assert_eq!(script.on("Mon 12:20", updated(canary, "dev")).state("Mon 12:20", "dev"), "active", "{code}");
    }
}

/// FLEET §3: success means watched and healthy.
#[test]
fn a_canary_whose_watch_goes_on_has_not_succeeded() {
    let script = of(1, 3);
    let canary = chosen(&script, "Mon 12:01")[0];
    let script = script
        .on("Mon 12:05", asks(canary, "dev"))
        .on("Mon 12:06", outcome(canary, "dev", OLD, "started", ""))
        .on("Mon 12:08", outcome(canary, "dev", NEW, "switched", ""));
    assert_eq!(script.state("Mon 12:09", "dev"), "canary");
    assert_eq!(successes(&script, "Mon 12:09"), 0);
    assert_eq!(script.on("Mon 12:12", updated(canary, "dev")).state("Mon 12:12", "dev"), "active");
}

#[test]
fn a_failure_of_before_the_rollout_fails_no_canary() {
    let groups = groups(1);
    let script = Script::default()
        .on("Mon 10:00", failed(1, "dev"))
        .on("Mon 11:00", super::halting(&groups))
        .on("Mon 11:00", super::version())
        .on("Mon 11:58", failed(1, "dev"));
    assert_eq!(script.state("Mon 12:05", "dev"), "canary");
}

#[test]
fn start_without_force_begins_with_canaries_and_with_force_without() {
    let script = of(2, 5).on("Mon 11:59", start(&["dev"]));
    assert_eq!(script.because("Mon 11:59", "dev").0, "canary");
    let script = of(2, 5).on("Mon 11:59", start_by_force(&["dev"]));
    assert_eq!(script.because("Mon 11:59", "dev"), state_and_reason("active", "manual_trigger"));
    assert_eq!(script.find("Mon 11:59", "dev"), is(NEW, true));
}

#[test]
fn start_force_lets_the_others_go_before_the_canaries_are_done() {
    let script = of(2, 5).on("Mon 12:10", start_by_force(&["dev"]));
    let group = script.group("Mon 12:10", "dev");
    assert_eq!((&group["state"], &group["start_time"]), (&json!("active"), &json!(t("Mon 12:10"))));
    assert_eq!(script.find("Mon 12:10", "dev"), is(NEW, true));
}

#[test]
fn mark_done_ends_canaries_that_never_come() {
    let script = of(2, 5).on("Mon 12:10", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 12:10", "dev"), "done");
    assert_eq!(script.state("Mon 12:10", "prod"), "active");
}

/// §3.2 with mode suspended: nobody is told, a canary neither.
#[test]
fn a_suspended_rollout_tells_no_canary() {
    let script = of(1, 3);
    let canary = chosen(&script, "Mon 12:01")[0];
    let script = script.on("Mon 12:02", super::version_in("suspended", "regular"));
    assert_eq!(script.find_host("Mon 12:03", canary, "dev"), is(NEW, false));
    assert_eq!(script.find("Mon 12:03", "dev"), is(OLD, false));
    let script = script.on("Mon 12:04", super::version_in("disabled", "regular"));
    assert_eq!(script.find_host("Mon 12:05", canary, "dev"), is(NEW, false));
}

#[test]
fn canaries_of_the_next_group_are_chosen_when_it_starts() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 12, "canary_count": 2 },
    ]))
    .hosts("Mon 12:10", 1..=4, "prod", OLD)
    .on("Mon 12:15", mark_done(&["dev"]));
    let prod = script.group("Mon 12:15", "prod");
    assert_eq!((&prod["state"], prod["canaries"].as_array().unwrap().len()), (&json!("canary"), 2));
}

#[test]
fn run_after_a_canary_failed_begins_with_canaries_again() {
    let script = of(1, 30);
    let canary = chosen(&script, "Mon 12:01")[0];
    let script = script
        .on("Mon 12:05", asks(canary, "dev"))
        .on("Mon 12:10", failed(canary, "dev"))
        .hosts("Mon 12:15", 1..=30, "dev", OLD)
        .on("Mon 12:20", super::run(&["dev"]));
    let group = script.group("Mon 12:21", "dev");
    assert_eq!((&group["state"], &group["attempt"]), (&json!("canary"), &json!(2)));
    let now = chosen(&script, "Mon 12:21");
    assert_eq!(now.len(), 1);
    for number in 1..=30 {
        assert_eq!(script.find_host("Mon 12:22", number, "dev").1, number == now[0], "{number}");
    }
}

/// FLEET §3, D2: what is said of a canary's failure holds of one whose success was counted already.
#[test]
fn a_canary_that_goes_back_before_the_others_are_done_halts_the_group() {
    let script = of(2, 30);
    let canaries = chosen(&script, "Mon 12:01");
    let script = script
        .on("Mon 12:05", asks(canaries[0], "dev"))
        .on("Mon 12:05", asks(canaries[1], "dev"))
        .on("Mon 12:10", updated(canaries[0], "dev"))
        .on("Mon 12:20", outcome(canaries[0], "dev", OLD, "rolled_back", "crash"))
        .on("Mon 12:21", updated(canaries[1], "dev"));
    assert_eq!(script.state("Mon 12:21", "dev"), "halted");
    assert!(!script.find("Mon 12:21", "dev").1);
}
