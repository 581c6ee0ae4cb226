//! Every field of RFD 0169's resources: its name, range and default.

use serde_json::{Value, json};

use super::{Play, labelled, names, put, with};

fn regular(groups: Value) -> Value {
    put("cluster_maintenance_config", json!({ "agent_auto_update_groups": { "regular": groups } }))
}

/// The error that a group with these settings is answered with.
fn refused(settings: Value) -> String {
    let error = Play::default().refused("Mon 08:00", regular(json!([with(json!({ "name": "g" }), settings)])));
    error["message"].as_str().unwrap().to_owned()
}

/// RFD 0169's example with groups; `test-group`, which it requires, is beside it.
fn example() -> Value {
    json!({
        "kind": "cluster_maintenance_config",
        "spec": {
            "agent_auto_update": true,
            "agent_auto_update_groups": {
                "regular": [
                    {
                        "name": "staging-group",
                        "agents": {
                            "node_labels_expression": "labels[\"environment\"]==\"staging\"",
                            "instance_labels_expression": "labels[\"environment\"]==\"staging\"",
                        },
                        "days": ["Sun", "Mon"],
                        "start_hour": 12,
                        "jitter_seconds": 10,
                        "max_in_flight": "20%",
                        "timeout_seconds": 60,
                        "failure_seconds": 0,
                        "max_failed_before_halt": "0%",
                        "max_timeout_before_halt": "10%",
                        "requires": ["test-group"],
                    },
                    { "name": "test-group", "agents": { "node_labels_expression": "labels[\"environment\"]==\"test\"" }, "start_hour": 12 },
                ],
            },
        },
    })
}

#[test]
fn the_seeds_example_is_taken_and_rolled_out() {
    let mut play = Play::default();
    play.say("Mon 08:00", json!({ "put": example() }));
    let version =
        json!({ "agent_version": "15.1.1", "agent_start_version": "15.1.0", "agent_version_schedule": "regular" });
    play.say("Mon 08:00", json!({ "put": { "kind": "autoupdate_version", "spec": version } }));
    for host in names(10) {
        let labels = json!({ "environment": "staging" });
        play.say("Mon 11:50", json!({ "report": { "host": host, "version": "15.1.0", "labels": labels } }));
    }
    play.say(
        "Mon 11:50",
        json!({ "report": { "host": "t", "version": "15.1.0", "labels": { "environment": "test" } } }),
    );
    let group = play.group("Mon 11:51", "staging-group");
    let mut days: Vec<&str> = group["config_days"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    days.sort_unstable();
    assert_eq!((days, &group["config_start_hour"]), (vec!["Mon", "Sun"], &json!(12)));
    let answer = play.ask("Mon 12:00", "h01");
    assert_eq!(answer["agent_version"], "15.1.0");
    assert_eq!(answer["agent_auto_update"], false);
    assert_eq!(answer["agent_update_jitter_seconds"], 10);
    assert!(play.is_told("Mon 12:00", "t"));
    let last = json!({ "outcome": "updated", "to": "15.1.1" });
    play.say("Mon 12:05", json!({ "report": { "host": "t", "version": "15.1.1", "last": last } }));
    let told = play.told("Mon 12:06", names(10));
    assert_eq!(told.len(), 2, "20 % of ten");
    let last = json!({ "outcome": "rolled_back", "to": "15.1.1", "code": "unhealthy" });
    play.say("Mon 12:07", json!({ "report": { "host": told[0], "version": "15.1.0", "last": last } }));
    assert_eq!(play.state("Mon 12:07", "staging-group"), "halted", "max_failed_before_halt is 0 %");
}

#[test]
fn the_seeds_example_without_groups_is_taken() {
    let spec = json!({ "agent_auto_update": {
        "immediate": { "jitter_seconds": 60 },
        "regular": { "days": ["Sun", "Mon"], "start_hour": 23, "jitter_seconds": 60 },
        "critical": { "days": ["*"], "start_hour": 0, "jitter_seconds": 0 },
    } });
    let mut play = Play::default();
    play.put("Mon 08:00", "cluster_maintenance_config", spec).target("Mon 08:00", "2.0.0");
    assert!(!play.is_told("Mon 22:59", "a"));
    assert!(play.is_told("Mon 23:00", "a"));
}

#[test]
fn the_requirements_of_the_example_alone_name_no_group() {
    let mut alone = example();
    let groups = alone["spec"]["agent_auto_update_groups"]["regular"].as_array_mut().unwrap();
    groups.pop();
    let error = Play::default().refused("Mon 08:00", json!({ "put": alone }));
    assert!(error["message"].as_str().unwrap().contains("test-group"), "{error}");
}

#[test]
fn values_at_the_ends_of_their_ranges_are_taken() {
    for settings in [
        json!({ "start_hour": 0 }),
        json!({ "start_hour": 23 }),
        json!({ "jitter_seconds": 0 }),
        json!({ "jitter_seconds": 60 }),
        json!({ "max_in_flight": "0%" }),
        json!({ "max_in_flight": "100%" }),
        json!({ "timeout_seconds": 30 }),
        json!({ "timeout_seconds": 900 }),
        json!({ "failure_seconds": 0 }),
        json!({ "failure_seconds": 900 }),
        json!({ "max_failed_before_halt": "0%" }),
        json!({ "max_failed_before_halt": "100%" }),
        json!({ "max_timeout_before_halt": "0%" }),
        json!({ "max_timeout_before_halt": "100%" }),
        json!({ "requires": [] }),
        json!({ "days": ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"] }),
        json!({ "days": ["*"] }),
        json!({ "min_failed_before_halt": 1 }),
        json!({ "max_silent": "0%" }),
        json!({ "min_ended": 1 }),
        json!({ "on_halt": "stop" }),
        json!({ "on_halt": "rollback" }),
        json!({ "max_failed_of_ended": "50%" }),
        json!({ "rate": { "base": 1, "factor": 2, "maximum": 10 } }),
        json!({ "timezone": "Europe/Berlin" }),
    ] {
        let mut play = Play::default();
        play.groups("Mon 08:00", json!([with(json!({ "name": "g" }), settings.clone())])).target("Mon 08:00", "2.0.0");
        assert_eq!(play.state("Mon 08:01", "g"), "unstarted", "{settings}");
    }
}

#[test]
fn values_out_of_their_ranges_are_refused_with_the_key() {
    for (key, value) in [
        ("start_hour", json!(24)),
        ("start_hour", json!(-1)),
        ("start_hour", json!("noon")),
        ("jitter_seconds", json!(61)),
        ("jitter_seconds", json!(-1)),
        ("max_in_flight", json!("101%")),
        ("max_in_flight", json!("-1%")),
        ("max_in_flight", json!("many")),
        ("timeout_seconds", json!(29)),
        ("timeout_seconds", json!(901)),
        ("failure_seconds", json!(901)),
        ("failure_seconds", json!(-1)),
        ("max_failed_before_halt", json!("101%")),
        ("max_timeout_before_halt", json!("101%")),
        ("days", json!(["Someday"])),
        ("days", json!("Mon")),
        ("days", json!([])),
        ("requires", json!("g2")),
        ("requires", json!(["g2"])),
        ("on_halt", json!("cry")),
        ("max_silent", json!("200%")),
        ("min_failed_before_halt", json!(0)),
        ("timezone", json!("Nowhere/Land")),
        ("max_inflight", json!("10%")),
        ("jitter", json!(1)),
    ] {
        let message = refused(json!({ key: value }));
        assert!(message.contains(key), "{key} {value}: {message}");
    }
}

#[test]
fn a_group_has_a_name_that_no_other_has() {
    for groups in [json!([{ "start_hour": 1 }]), json!([{ "name": "" }]), json!([{ "name": "a" }, { "name": "a" }])] {
        let error = Play::default().refused("Mon 08:00", regular(groups.clone()));
        assert!(error["message"].as_str().unwrap().contains("name"), "{groups}: {error}");
    }
}

#[test]
fn a_label_expression_that_is_none_is_refused_when_it_is_written() {
    for expression in ["labels[", "labels[\"a\"] = \"b\"", "true false", "labels[\"a\"] ==", "", "exec(\"id\")"] {
        for key in ["node_labels_expression", "instance_labels_expression"] {
            let message = refused(json!({ "agents": { key: expression } }));
            assert!(message.contains(key), "{expression}: {message}");
        }
    }
}

#[test]
fn cycles_are_refused() {
    let group = |name: &str, requires: &str| json!({ "name": name, "requires": [requires] });
    for groups in [
        json!([group("a", "a")]),
        json!([group("a", "b"), group("b", "a")]),
        json!([group("a", "b"), group("b", "c"), group("c", "a")]),
        json!([{ "name": "free" }, group("a", "b"), group("b", "a")]),
    ] {
        let error = Play::default().refused("Mon 08:00", regular(groups.clone()));
        assert!(error["message"].as_str().unwrap().contains("requires"), "{groups}: {error}");
    }
}

#[test]
fn a_chain_of_seven_daily_groups_is_taken_and_one_of_eight_is_longer_than_a_week() {
    let chain = |count: usize| -> Value {
        let group = |index: usize| match index {
            0 => json!({ "name": "g0", "start_hour": 5 }),
            _ => json!({ "name": format!("g{index}"), "start_hour": 5, "requires": [format!("g{}", index - 1)] }),
        };
        (0..count).map(group).collect()
    };
    let mut play = Play::default();
    play.groups("Mon 08:00", chain(7)).target("Mon 08:00", "2.0.0");
    assert_eq!(play.state("Mon 08:01", "g6"), "unstarted");
    // An hour, and seven times a day: 169 hours.
    let error = Play::default().refused("Mon 08:00", regular(chain(8)));
    assert!(error["message"].as_str().unwrap().contains("requires"), "{error}");
}

#[test]
fn a_refused_configuration_changes_nothing() {
    let mut play = Play::staging(json!({}));
    play.refused("Mon 09:00", regular(json!([with(labelled("staging"), json!({ "start_hour": 99 }))])));
    play.hosts("Mon 11:50", &["s"], "staging");
    assert!(play.is_told("Mon 12:01", "s"));
}

#[test]
fn the_critical_schedule_has_groups_of_its_own_that_require_only_one_another() {
    let groups = json!({ "regular": [{ "name": "a" }], "critical": [{ "name": "b", "requires": ["a"] }] });
    let spec = json!({ "agent_auto_update_groups": groups });
    let error = Play::default().refused("Mon 08:00", put("cluster_maintenance_config", spec));
    assert!(error["message"].as_str().unwrap().contains("critical"), "{error}");
}

#[test]
fn groups_are_not_configurable_with_the_immediate_schedule() {
    let spec = json!({ "agent_auto_update_groups": { "immediate": [{ "name": "a" }] } });
    let error = Play::default().refused("Mon 08:00", put("cluster_maintenance_config", spec));
    assert!(error["message"].as_str().unwrap().contains("immediate"), "{error}");
}

#[test]
fn a_percentage_is_written_with_and_without_its_sign() {
    for percentage in [json!("20%"), json!(20), json!("20")] {
        let mut play = Play::staging(json!({ "max_in_flight": percentage }));
        play.hosts("Mon 11:50", names(10), "staging");
        assert_eq!(play.told("Mon 12:01", names(10)).len(), 2, "{percentage}");
    }
}
