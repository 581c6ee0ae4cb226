//! Hosts that a rollout leaves out: pinned, disabled, held.

use serde_json::{Value, json};

use super::{Play, names, order};

/// Each way to be left out, and back.
fn ways(host: &str) -> [(Value, Value); 3] {
    [
        (json!({ "report": { "host": host, "pinned": true } }), json!({ "report": { "host": host, "pinned": false } })),
        (
            json!({ "report": { "host": host, "disabled": true } }),
            json!({ "report": { "host": host, "disabled": false } }),
        ),
        (json!({ "hold": { "host": host } }), json!({ "release": { "host": host } })),
    ]
}

#[test]
fn excluded_hosts_take_no_slot_and_are_in_no_count_but_shown() {
    let order = order(0, names(4));
    for (out, _) in ways(order[0]) {
        let mut play = Play::staging(json!({ "max_in_flight": "25%" }));
        play.hosts("Mon 11:50", names(4), "staging").say("Mon 11:51", out.clone());
        assert_eq!(play.told("Mon 12:01", &order[1..]), [order[1]], "{out}");
        let group = play.group("Mon 12:02", "staging");
        let six = ["pending", "in_flight", "updated", "failed", "timed_out", "silent"];
        let sum: u64 = six.iter().map(|what| group[format!("{what}_count")].as_u64().unwrap()).sum();
        assert_eq!([sum, group["excluded_count"].as_u64().unwrap()], [3, 1], "{group}");
        for (minute, host) in order[1..].iter().enumerate() {
            play.all_update(&format!("Mon 12:{:02}", minute + 3), &[host]);
        }
        assert_eq!(play.state("Mon 12:10", "staging"), "done", "{out}");
    }
}

#[test]
fn a_held_host_is_never_told_and_a_released_one_waits_for_its_turn() {
    let order = order(0, names(3));
    let mut play = Play::staging(json!({ "max_in_flight": "1%" }));
    play.hosts("Mon 11:50", names(3), "staging").say("Mon 11:51", json!({ "hold": { "host": order[0] } }));
    assert!(!play.is_told("Mon 12:01", order[0]));
    assert!(play.is_told("Mon 12:01", order[1]));
    play.say("Mon 12:02", json!({ "release": { "host": order[0] } }));
    assert!(!play.is_told("Mon 12:03", order[0]), "there is but one slot");
    assert_eq!(play.count("Mon 12:03", "staging", "in_flight"), 1);
}

#[test]
fn a_hold_of_a_told_host_stops_it() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", names(2), "staging");
    assert!(play.is_told("Mon 12:01", "h01"));
    play.say("Mon 12:02", json!({ "hold": { "host": "h01" } }));
    assert!(!play.is_told("Mon 12:03", "h01"));
    assert!(play.is_told("Mon 12:03", "h02"));
}

#[test]
fn a_hold_of_a_host_survives_a_new_target() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", names(2), "staging").say("Mon 11:51", json!({ "hold": { "host": "h01" } }));
    play.target("Mon 11:55", "2.0.1");
    play.say("Mon 11:56", json!({ "report": { "host": "h01", "version": "1.0.0", "labels": { "env": "staging" } } }));
    assert_eq!(play.told("Mon 12:01", names(2)), ["h02"]);
    play.say("Mon 12:02", json!({ "release": { "host": "h01" } }));
    assert!(play.is_told("Mon 12:03", "h01"));
}

#[test]
fn a_host_that_was_told_then_left_out_and_is_back_does_not_exceed_the_cap() {
    let order = order(0, names(4));
    for (out, back) in ways(order[0]) {
        let mut play = Play::staging(json!({ "max_in_flight": "25%" }));
        play.hosts("Mon 11:50", names(4), "staging");
        assert!(play.is_told("Mon 12:01", order[0]));
        play.say("Mon 12:02", out.clone());
        let others = play.told("Mon 12:03", &order[1..]);
        play.say("Mon 12:04", back);
        let mut told = play.told("Mon 12:05", &order);
        told.extend(others);
        told.sort();
        told.dedup();
        assert!(play.count("Mon 12:05", "staging", "in_flight") <= 1, "{out}: {told:?}");
    }
}

#[test]
fn a_held_host_that_belongs_to_no_group_is_held_as_well() {
    let mut play = Play::default();
    let spec = json!({ "agent_auto_update": { "regular": { "start_hour": 12 } } });
    play.put("Mon 08:00", "cluster_maintenance_config", spec).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["a", "b"], "x").say("Mon 11:51", json!({ "hold": { "host": "a" } }));
    assert_eq!(play.told("Mon 12:01", &["a", "b"]), ["b"]);
}
