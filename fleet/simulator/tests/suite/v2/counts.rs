//! FLEET §5: how many hosts of a group run which version, as another server counts them or as they report.

use serde_json::{Value, json};

use super::{NEW, OLD, Steps, dev_and_prod, resource};
use crate::support::Script;

fn numbers(script: &Script, when: &str, group: &str) -> [u64; 2] {
    let group = script.group(when, group);
    ["present_count", "up_to_date_count"].map(|key| group[key].as_u64().unwrap())
}

#[test]
fn counts_are_good_at_sixty_seconds_of_age_and_not_later() {
    let script = dev_and_prod().counts("Mon 11:10:20", &[("dev", OLD, 7), ("dev", NEW, 3)]);
    for (when, wanted) in [
        ("Mon 11:10:20", [10, 3]),
        ("Mon 11:11:00", [10, 3]),
        ("Mon 11:11:20", [10, 3]),
        ("Mon 11:11:21", [0, 0]),
        ("Mon 11:12:00", [0, 0]),
    ] {
        assert_eq!(numbers(&script, when, "dev"), wanted, "{when}");
    }
}

#[test]
fn counts_replace_those_before() {
    let script = dev_and_prod()
        .counts("Mon 11:10", &[("dev", OLD, 7), ("prod", OLD, 50)])
        .counts("Mon 11:10:30", &[("dev", NEW, 2), ("dev", OLD, 1)]);
    assert_eq!(numbers(&script, "Mon 11:10:30", "dev"), [3, 2]);
    assert_eq!(numbers(&script, "Mon 11:10:30", "prod"), [0, 0]);
}

#[test]
fn counts_of_a_group_and_version_that_come_twice_are_added() {
    let script = dev_and_prod().counts("Mon 11:10", &[("dev", OLD, 7), ("dev", OLD, 5)]);
    assert_eq!(numbers(&script, "Mon 11:10", "dev"), [12, 0]);
}

#[test]
fn counts_are_refreshed_in_every_state() {
    let counts = [("dev", OLD, 4_u64), ("dev", NEW, 6)];
    let unstarted = dev_and_prod();
    let done = dev_and_prod().on("Mon 11:05", super::mark_done(&["dev"]));
    let active = dev_and_prod().on("Mon 11:05", super::start(&["dev"]));
    let rolled_back = dev_and_prod().on("Mon 11:05", super::rollback(&["dev"]));
    let halted = dev_and_prod().on("Mon 11:05", super::start(&["dev"])).on("Mon 11:06", super::halt(&["dev"]));
    for (name, script) in
        [("unstarted", unstarted), ("done", done), ("active", active), ("rolledback", rolled_back), ("halted", halted)]
    {
        let script = script.counts("Mon 11:10", &counts);
        let group = script.group("Mon 11:10", "dev");
        assert_eq!(group["state"], name);
        assert_eq!((&group["present_count"], &group["up_to_date_count"]), (&json!(10), &json!(6)), "{name}");
    }
}

/// The last group is the catch-all: its own name, and every name that is not in the rollout.
#[test]
fn the_last_group_counts_all_groups_that_the_rollout_does_not_know() {
    let script = dev_and_prod().counts(
        "Mon 11:10",
        &[("dev", OLD, 1), ("prod", OLD, 10), ("prod", NEW, 20), ("lab", NEW, 100), ("attic", OLD, 1000)],
    );
    assert_eq!(numbers(&script, "Mon 11:10", "dev"), [1, 0]);
    assert_eq!(numbers(&script, "Mon 11:10", "prod"), [1130, 120]);
}

#[test]
fn only_the_target_itself_is_up_to_date() {
    let script = dev_and_prod().counts("Mon 11:10", &[("dev", "17.2.2", 5), ("dev", "18.0.0", 5), ("dev", NEW, 1)]);
    assert_eq!(numbers(&script, "Mon 11:10", "dev"), [11, 1]);
}

#[test]
fn hosts_that_report_are_present_and_the_unknown_group_is_the_last_one() {
    let script = dev_and_prod()
        .hosts("Mon 11:10", 1..=3, "dev", OLD)
        .hosts("Mon 11:10", 4..=4, "dev", NEW)
        .hosts("Mon 11:10", 5..=6, "prod", NEW)
        .hosts("Mon 11:10", 7..=7, "lab", OLD);
    assert_eq!(numbers(&script, "Mon 11:11", "dev"), [4, 1]);
    assert_eq!(numbers(&script, "Mon 11:11", "prod"), [3, 2]);
}

/// FLEET §5: where another server's names a group, it stands in for our presence there.
#[test]
fn another_servers_counts_stand_in_for_our_own_where_they_name_the_group() {
    let script = dev_and_prod()
        .hosts("Mon 11:10", 1..=3, "dev", OLD)
        .hosts("Mon 11:10", 4..=5, "prod", OLD)
        .counts("Mon 11:11", &[("dev", OLD, 70), ("dev", NEW, 30)]);
    assert_eq!(numbers(&script, "Mon 11:11", "dev"), [100, 30]);
    assert_eq!(numbers(&script, "Mon 11:11", "prod"), [2, 0]);
    // When they are too old, ours count again.
    assert_eq!(numbers(&script, "Mon 11:13", "dev"), [3, 0]);
}

/// FLEET §5: ... never for failures.
#[test]
fn another_servers_counts_hide_no_failures() {
    let script = (1..=2).fold(
        dev_and_prod().hosts("Mon 11:59", 1..=10, "dev", OLD).counts("Mon 11:59:30", &[("dev", OLD, 1000)]),
        |script, number| script.on("Mon 12:05", super::failed(number, "dev")),
    );
    let script = script.counts("Mon 12:05", &[("dev", OLD, 100), ("dev", NEW, 900)]);
    assert_eq!(script.state("Mon 12:05", "dev"), "halted");
}

fn agent_report(groups: &Value) -> Value {
    resource("autoupdate_agent_report", &json!({ "timestamp": super::t("Mon 11:00"), "groups": groups }))
}

fn of_many(groups: usize, versions: usize) -> Value {
    let versions: serde_json::Map<String, Value> =
        (0..versions).map(|patch| (format!("17.2.{patch}"), json!({ "count": 1 }))).collect();
    let groups: serde_json::Map<String, Value> =
        (0..groups).map(|number| (format!("g{number}"), json!({ "versions": versions }))).collect();
    agent_report(&Value::Object(groups))
}

#[test]
fn a_report_has_at_most_fifty_groups_and_twenty_versions_of_each() {
    let taken = |put: Value| Script::default().on("Mon 11:00", put).run().is_empty();
    assert!(taken(of_many(50, 20)));
    assert!(!taken(of_many(51, 1)));
    assert!(!taken(of_many(1, 21)));
}
