//! Which policy rules, and the start version of a flat version.

use serde_json::{Value, json};

use super::{Play, labelled, put};

fn flat(version: &str) -> Value {
    json!({ "agent_version": version, "agent_version_schedule": "regular" })
}

fn nested(mode: &str) -> Value {
    json!({ "agents": { "start_version": "1.0.0", "target_version": "2.0.0", "schedule": "regular", "mode": mode } })
}

fn v2_groups() -> Value {
    let group = json!({ "name": "v2", "start_hour": 12, "days": ["*"] });
    json!({ "agents": { "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": [group] } } })
}

fn rfd_groups() -> Value {
    json!({ "agent_auto_update_groups": { "regular": [labelled("staging")] } })
}

fn group_names(play: &mut Play, when: &str) -> Vec<String> {
    let status = play.status(when);
    let groups = status["status"]["status"]["groups"].as_array().unwrap();
    groups.iter().map(|group| group["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_flat_version_goes_with_the_groups_of_its_seed_and_a_nested_one_with_its_own() {
    for (version, config, spec, names) in [
        (flat("2.0.0"), "cluster_maintenance_config", rfd_groups(), ["staging"]),
        (nested("enabled"), "autoupdate_config", v2_groups(), ["v2"]),
        (flat("2.0.0"), "autoupdate_config", v2_groups(), ["v2"]),
        (nested("enabled"), "cluster_maintenance_config", rfd_groups(), ["staging"]),
    ] {
        let mut play = Play::default();
        play.put("Mon 08:00", config, spec).put("Mon 08:00", "autoupdate_version", version.clone());
        assert_eq!(group_names(&mut play, "Mon 08:01"), names, "{version} with {config}");
    }
}

#[test]
fn where_only_the_other_dialect_has_groups_it_rules() {
    let bare_v2 = json!({ "agents": { "mode": "enabled", "strategy": "halt-on-error" } });
    for (version, rfd, v2, names) in [
        (flat("2.0.0"), json!({ "agent_auto_update": true }), v2_groups(), ["v2"]),
        (nested("enabled"), rfd_groups(), bare_v2, ["staging"]),
    ] {
        let mut play = Play::default();
        play.put("Mon 08:00", "cluster_maintenance_config", rfd).put("Mon 08:00", "autoupdate_config", v2);
        play.put("Mon 08:00", "autoupdate_version", version.clone());
        assert_eq!(group_names(&mut play, "Mon 08:01"), names, "{version}");
    }
}

#[test]
fn groups_in_both_are_refused_and_nothing_changes() {
    let mut play = Play::default();
    play.put("Mon 08:00", "cluster_maintenance_config", rfd_groups()).put(
        "Mon 08:00",
        "autoupdate_version",
        flat("2.0.0"),
    );
    play.refused("Mon 08:01", put("autoupdate_config", v2_groups()));
    assert_eq!(group_names(&mut play, "Mon 08:02"), ["staging"]);
    let mut play = Play::default();
    play.put("Mon 08:00", "autoupdate_config", v2_groups()).put("Mon 08:00", "autoupdate_version", flat("2.0.0"));
    play.refused("Mon 08:01", put("cluster_maintenance_config", rfd_groups()));
    assert_eq!(group_names(&mut play, "Mon 08:02"), ["v2"]);
}

#[test]
fn off_in_either_configuration_is_off() {
    let off = json!({ "agent_auto_update": false });
    let disabled = json!({ "agents": { "mode": "disabled", "strategy": "halt-on-error" } });
    for (version, rfd, v2) in [
        (flat("2.0.0"), off.clone(), v2_groups()),
        (nested("enabled"), off, v2_groups()),
        (flat("2.0.0"), rfd_groups(), disabled),
    ] {
        let mut play = Play::default();
        play.put("Mon 08:00", "cluster_maintenance_config", rfd.clone()).put("Mon 08:00", "autoupdate_config", v2);
        play.put("Mon 08:00", "autoupdate_version", version.clone());
        assert_eq!(play.status("Mon 08:01")["status"]["spec"]["autoupdate_mode"], "disabled", "{version} {rfd}");
        play.hosts("Mon 11:50", &["s"], "staging");
        assert!(!play.is_told("Mon 12:01", "s"));
    }
}

#[test]
fn a_version_in_both_dialects_is_refused() {
    let mut both = nested("enabled");
    both["agent_version"] = "2.0.0".into();
    Play::default().refused("Mon 08:00", put("autoupdate_version", both));
}

fn versions(play: &mut Play, when: &str) -> [String; 2] {
    let status = play.status(when);
    ["start_version", "target_version"].map(|key| status["status"]["spec"][key].as_str().unwrap().to_owned())
}

#[test]
fn a_flat_versions_start_is_what_is_written() {
    let mut play = Play::default();
    play.put("Mon 08:00", "cluster_maintenance_config", rfd_groups()).target("Mon 08:00", "2.0.0");
    assert_eq!(versions(&mut play, "Mon 08:01"), ["1.0.0", "2.0.0"]);
}

#[test]
fn a_flat_versions_start_is_the_last_target_that_was_done() {
    let mut play = Play::default();
    play.put("Mon 08:00", "cluster_maintenance_config", rfd_groups()).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["s"], "staging");
    play.all_update("Mon 12:01", &["s"]);
    assert_eq!(play.state("Mon 12:01", "staging"), "done");
    play.put("Mon 13:00", "autoupdate_version", flat("3.0.0"));
    assert_eq!(versions(&mut play, "Mon 13:01"), ["2.0.0", "3.0.0"]);
    play.put("Mon 13:30", "autoupdate_version", flat("4.0.0"));
    assert_eq!(versions(&mut play, "Mon 13:31"), ["2.0.0", "4.0.0"], "3.0.0 was not done");
}

#[test]
fn a_flat_versions_start_is_what_it_replaces_where_none_was_done() {
    let mut play = Play::default();
    play.put("Mon 08:00", "cluster_maintenance_config", rfd_groups()).put(
        "Mon 08:00",
        "autoupdate_version",
        flat("1.5.0"),
    );
    play.put("Mon 08:30", "autoupdate_version", flat("2.0.0"));
    assert_eq!(versions(&mut play, "Mon 08:31"), ["1.5.0", "2.0.0"]);
    play.put("Mon 08:40", "autoupdate_version", flat("2.0.0"));
    assert_eq!(versions(&mut play, "Mon 08:41"), ["1.5.0", "2.0.0"], "written twice");
}

#[test]
fn another_resource_that_is_written_for_the_first_time_leaves_the_start_version_alone() {
    for done in [false, true] {
        for (kind, spec) in [
            ("fleet_release", json!({ "version": "9.9.9", "channels": ["stable"] })),
            ("autoupdate_config", json!({ "tools": { "mode": "enabled" } })),
        ] {
            let mut play = Play::default();
            play.put("Mon 08:00", "cluster_maintenance_config", rfd_groups());
            play.put("Mon 08:00", "autoupdate_version", flat("1.5.0")).put(
                "Mon 08:30",
                "autoupdate_version",
                flat("2.0.0"),
            );
            play.hosts("Mon 11:50", &["s"], "staging");
            if done {
                play.all_update("Mon 12:01", &["s"]);
            } else {
                assert!(play.is_told("Mon 12:01", "s"));
            }
            let rollout = |play: &mut Play, when: &str| play.ask(when, "s")["fleet"]["rollout"].clone();
            let before = rollout(&mut play, "Mon 12:02");
            play.put("Mon 12:03", kind, spec);
            assert_eq!(versions(&mut play, "Mon 12:04"), ["1.5.0", "2.0.0"], "{kind}, done: {done}");
            assert_eq!(rollout(&mut play, "Mon 12:05"), before, "{kind}: the rollout goes on");
            assert_ne!(play.state("Mon 12:05", "staging"), "unstarted", "{kind}");
        }
    }
}

#[test]
fn the_policy_that_comes_after_the_version_leaves_its_start_version_alone() {
    let mut play = Play::default();
    play.put("Mon 08:00", "autoupdate_version", flat("1.5.0")).put("Mon 08:30", "autoupdate_version", flat("2.0.0"));
    play.put("Mon 08:40", "cluster_maintenance_config", rfd_groups());
    assert_eq!(versions(&mut play, "Mon 08:41"), ["1.5.0", "2.0.0"]);
    assert_eq!(play.ask("Mon 08:42", "s")["agent_version"], "1.5.0", "nobody is let go");
}

#[test]
fn a_removed_version_answers_the_last_target_that_was_done_and_never_one_nobody_ran() {
    let mut play = Play::default();
    play.put("Mon 08:00", "cluster_maintenance_config", rfd_groups()).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["s"], "staging");
    play.say("Mon 11:51", json!({ "rm": "autoupdate_version" }));
    let error = play.refused("Mon 11:52", json!({ "find": { "host": "s" } }));
    assert_eq!(error["code"], "no_rollout");
    play.target("Mon 11:53", "2.0.0");
    play.all_update("Mon 12:01", &["s"]).say("Mon 12:02", json!({ "rm": "autoupdate_version" }));
    let answer = play.ask("Mon 12:03", "s");
    assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("2.0.0"), &json!(false)]);
}

#[test]
fn a_start_version_may_be_the_target() {
    let mut play = Play::default();
    play.put("Mon 08:00", "cluster_maintenance_config", rfd_groups()).target("Mon 08:00", "1.0.0");
    play.hosts("Mon 11:50", &["s"], "staging");
    assert_eq!(versions(&mut play, "Mon 12:01"), ["1.0.0", "1.0.0"]);
    assert_eq!(play.ask("Mon 12:02", "s")["agent_version"], "1.0.0");
    assert_eq!(play.state("Mon 12:02", "staging"), "done");
}

#[test]
fn an_unknown_schedule_and_a_version_that_is_none_are_refused() {
    for spec in [
        json!({ "agent_version": "2.0.0", "agent_version_schedule": "soon" }),
        json!({ "agent_version": "X.Y.Z", "agent_version_schedule": "regular" }),
        json!({ "agent_version": "latest" }),
        json!({ "agent_version_schedule": "regular" }),
        json!({ "agent_version": "2.0.0", "agent_versions": "regular" }),
    ] {
        Play::default().refused("Mon 08:00", put("autoupdate_version", spec));
    }
}
