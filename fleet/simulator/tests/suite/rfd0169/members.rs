//! Who belongs to which group.

use serde_json::{Value, json};

use super::{Play, at, labelled, names, order, with};

fn report(play: &mut Play, when: &str, host: &str, labels: Value) {
    play.say(when, json!({ "report": { "host": host, "version": "1.0.0", "labels": labels } }));
}

fn group_of(play: &mut Play, when: &str, host: &str) -> String {
    play.explain(when, host)["group"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_first_group_that_matches_takes_a_host() {
    let mut play = Play::default();
    let both = json!({ "name": "both", "agents": { "node_labels_expression": "labels[\"env\"] == \"staging\" || labels[\"env\"] == \"prod\"" } });
    play.groups("Mon 08:00", json!([labelled("staging"), both, labelled("prod"), { "name": "all" }]))
        .target("Mon 08:00", "2.0.0");
    for (host, env, group) in [("s", "staging", "staging"), ("p", "prod", "both"), ("o", "other", "all")] {
        report(&mut play, "Mon 08:01", host, json!({ "env": env }));
        assert_eq!(group_of(&mut play, "Mon 08:01", host), group, "{host}");
    }
}

#[test]
fn both_expressions_given_both_must_hold() {
    let mut play = Play::default();
    let agents = json!({ "node_labels_expression": "labels[\"env\"] == \"staging\"", "instance_labels_expression": "labels[\"tier\"] == \"web\"" });
    play.groups("Mon 08:00", json!([{ "name": "both", "agents": agents }])).target("Mon 08:00", "2.0.0");
    for (host, labels, group) in [
        ("a", json!({ "env": "staging", "tier": "web" }), "both"),
        ("b", json!({ "env": "staging" }), ""),
        ("c", json!({ "tier": "web" }), ""),
        ("d", json!({}), ""),
    ] {
        report(&mut play, "Mon 08:01", host, labels);
        assert_eq!(group_of(&mut play, "Mon 08:01", host), group, "{host}");
    }
}

#[test]
fn one_expression_alone_decides_and_none_is_all_connected_agents() {
    let mut play = Play::default();
    let instance =
        json!({ "name": "instance", "agents": { "instance_labels_expression": "labels[\"tier\"] == \"web\"" } });
    play.groups("Mon 08:00", json!([labelled("staging"), instance, { "name": "rest", "agents": {} }]))
        .target("Mon 08:00", "2.0.0");
    for (host, labels, group) in [
        ("a", json!({ "env": "staging" }), "staging"),
        ("b", json!({ "tier": "web" }), "instance"),
        ("c", json!({}), "rest"),
    ] {
        report(&mut play, "Mon 08:01", host, labels);
        assert_eq!(group_of(&mut play, "Mon 08:01", host), group, "{host}");
    }
}

#[test]
fn the_seeds_expression_without_blanks_is_understood() {
    let mut play = Play::default();
    let agents = json!({ "node_labels_expression": "labels[\"environment\"]==\"staging\"" });
    play.groups("Mon 08:00", json!([{ "name": "staging-group", "agents": agents }])).target("Mon 08:00", "2.0.0");
    report(&mut play, "Mon 08:01", "a", json!({ "environment": "staging" }));
    report(&mut play, "Mon 08:01", "b", json!({ "environment": "prod" }));
    assert_eq!([group_of(&mut play, "Mon 08:02", "a"), group_of(&mut play, "Mon 08:02", "b")], ["staging-group", ""]);
}

#[test]
fn the_name_that_a_host_declares_is_no_membership_in_a_group_by_label() {
    let mut play = Play::staging(json!({}));
    play.say("Mon 11:50", json!({ "report": { "host": "liar", "group": "staging", "version": "1.0.0" } }));
    assert!(!play.is_told("Mon 12:01", "liar"));
    play.say("Mon 12:02", json!({ "find": { "host": "stranger", "group": "staging" } }));
    assert_eq!(play.last()["find"]["agent_auto_update"], false);
    play.say("Mon 12:02", json!({ "find": { "group": "staging" } }));
    assert_eq!(play.last()["find"]["agent_auto_update"], false, "unknown hosts are in no group");
}

#[test]
fn hosts_that_match_no_group_are_held_where_no_other_schedule_is_written() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", &["other"], "other");
    let answer = play.ask("Mon 12:01", "other");
    assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("1.0.0"), &json!(false)]);
    assert!(answer["fleet"]["why"]["code"].is_string());
    for host in ["stranger", "other"] {
        assert!(!play.is_told("Wed 12:01", host));
    }
}

#[test]
fn unassigned_says_where_else_they_go() {
    for (unassigned, told) in [("hold", false), ("last", true), ("prod", true), ("staging", false)] {
        let mut play = Play::default();
        let groups = json!([with(labelled("staging"), json!({ "start_hour": 20 })), labelled("prod")]);
        let spec = json!({ "agents": { "unassigned": unassigned }, "agent_auto_update_groups": { "regular": groups } });
        play.put("Mon 08:00", "cluster_maintenance_config", spec).target("Mon 08:00", "2.0.0");
        play.hosts("Mon 11:50", &["other"], "other");
        assert_eq!(play.is_told("Mon 12:01", "other"), told, "{unassigned}");
    }
}

#[test]
fn a_change_of_labels_moves_a_host_that_is_not_let_go() {
    let order = order(0, names(4));
    let mut play = Play::default();
    let staging = with(labelled("staging"), json!({ "max_in_flight": "25%" }));
    play.groups("Mon 08:00", json!([staging, with(labelled("prod"), json!({ "requires": ["staging"] }))]))
        .target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(4), "staging");
    assert!(play.is_told("Mon 12:01", order[0]));
    play.hosts("Mon 12:02", &order[3..], "prod");
    assert_eq!(group_of(&mut play, "Mon 12:02", order[3]), "prod");
    for (minute, host) in order[..3].iter().enumerate() {
        play.all_update(&format!("Mon 12:{:02}", minute + 3), &[host]);
    }
    assert_eq!(play.state("Mon 12:10", "staging"), "done");
    assert!(play.is_told("Mon 12:11", order[3]), "it is one of prod now");
}

#[test]
fn who_was_let_go_or_told_stays_in_its_group_for_this_rollout() {
    let order = order(0, names(4));
    let mut play = Play::default();
    let staging = with(labelled("staging"), json!({ "max_in_flight": "50%" }));
    play.groups("Mon 08:00", json!([staging, with(labelled("prod"), json!({ "start_hour": 20 }))]))
        .target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(4), "staging");
    assert!(play.is_told("Mon 12:01", order[0]));
    play.hosts("Mon 12:02", &order[..2], "prod");
    for host in &order[..2] {
        assert_eq!(group_of(&mut play, "Mon 12:03", host), "staging", "{host}");
    }
    assert_eq!(play.count("Mon 12:03", "staging", "in_flight"), 2);
    play.updates("Mon 12:04", order[0]);
    assert_eq!(group_of(&mut play, "Mon 12:05", order[0]), "staging");
    play.target("Mon 12:10", "2.0.1");
    assert_eq!(group_of(&mut play, "Mon 12:11", order[0]), "prod", "in the next one it moves");
}

#[test]
fn a_host_does_not_escape_its_halt_by_another_label() {
    let order = order(0, names(4));
    let mut play = Play::default();
    let staging = with(labelled("staging"), json!({ "max_in_flight": "50%" }));
    play.groups("Mon 08:00", json!([staging, labelled("prod")])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(4), "staging");
    assert_eq!(play.told("Mon 12:01", names(4)).len(), 2);
    play.fails("Mon 12:02", order[0]);
    play.hosts("Mon 12:03", &order[..2], "prod");
    assert_eq!(play.told("Mon 12:04", &order[..2]), [""; 0]);
}

#[test]
fn an_operators_assignment_beats_labels() {
    let mut play = Play::default();
    play.groups("Mon 08:00", json!([labelled("staging"), with(labelled("prod"), json!({ "start_hour": 20 }))]))
        .target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["p"], "prod").say("Mon 11:51", json!({ "assign": { "host": "p", "group": "staging" } }));
    assert_eq!(group_of(&mut play, "Mon 11:52", "p"), "staging");
    play.hosts("Mon 11:53", &["p"], "prod");
    assert!(play.is_told("Mon 12:01", "p"));
}

#[test]
fn a_host_of_no_group_waits_for_nothing_by_the_clock() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", &["other"], "other");
    assert_eq!(play.ask("Mon 12:01", "other")["fleet"]["until"], Value::Null);
    assert_ne!(play.ask("Mon 12:01", "other")["fleet"]["until"], at("Mon 12:00"));
}

/// FLEET §2: both kinds of membership in one list. `group` is the name that the host declares.
#[test]
fn a_list_of_groups_by_label_has_members_by_name_as_well() {
    let mut play = Play::default();
    let named =
        json!({ "name": "named", "agents": { "node_labels_expression": "group == \"prod\"" }, "start_hour": 12 });
    play.groups("Mon 08:00", json!([labelled("staging"), named]));
    play.target("Mon 08:00", "2.0.0");
    let report = |host: &str, group: &str, env: &str| json!({ "report": { "host": host, "group": group, "version": "1.0.0", "labels": { "env": env } } });
    play.say("Mon 11:50", report("by-label", "prod", "staging"));
    play.say("Mon 11:50", report("by-name", "prod", "other"));
    play.say("Mon 11:50", report("neither", "dev", "other"));
    for (host, group) in [("by-label", "staging"), ("by-name", "named"), ("neither", "")] {
        assert_eq!(play.explain("Mon 11:51", host)["group"], group, "{host}");
    }
    // By name everybody is told who asks, known or not; by label nobody of whom no label is known.
    for (group, is_told) in [("prod", true), ("staging", false), ("dev", false)] {
        let answer = play.say("Mon 12:10", json!({ "find": { "group": group } })).last()["find"].clone();
        assert_eq!(answer["agent_auto_update"], is_told, "{group}: {answer}");
    }
}
