//! The schedule without groups; critical and immediate versions.

use serde_json::{Value, json};

use super::{Play, at, labelled, names, with};

fn flat(version: &str, schedule: &str) -> Value {
    json!({ "agent_version": version, "agent_start_version": "1.0.0", "agent_version_schedule": schedule })
}

/// A configuration with these keys, and a version of this schedule, from Monday at 8 on.
fn play(spec: Value, schedule: &str) -> Play {
    play_of(&[], spec, schedule)
}

/// The same with these hosts, of the env `staging` but for `p`, which are there before.
fn play_of(hosts: &[&str], spec: Value, schedule: &str) -> Play {
    let mut play = Play::default();
    for host in hosts {
        play.hosts("Mon 07:50", &[host], if *host == "p" { "prod" } else { "staging" });
    }
    play.put("Mon 08:00", "cluster_maintenance_config", spec).put(
        "Mon 08:00",
        "autoupdate_version",
        flat("2.0.0", schedule),
    );
    play
}

fn without_groups() -> Value {
    json!({ "agent_auto_update": {
        "immediate": { "jitter_seconds": 7 },
        "regular": { "days": ["Tue", "Wed"], "start_hour": 12, "jitter_seconds": 30 },
        "critical": { "days": ["*"], "start_hour": 10, "jitter_seconds": 5 },
    } })
}

#[test]
fn the_schedule_without_groups_lets_all_hosts_update_in_its_hour() {
    let mut play = play(without_groups(), "regular");
    play.hosts("Tue 11:50", &["known"], "any");
    let answer = play.ask("Tue 11:59", "known");
    assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("1.0.0"), &json!(false)]);
    assert_eq!(answer["fleet"]["until"], at("Tue 12:00"));
    let answer = play.ask("Tue 12:00", "known");
    assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("2.0.0"), &json!(true)]);
    assert_eq!(answer["agent_update_jitter_seconds"], 30);
    assert!(play.is_told("Tue 12:30", "stranger"));
    assert_eq!(play.say("Tue 12:30", json!({ "find": {} })).last()["find"]["agent_auto_update"], true);
    assert!(play.is_told("Tue 12:59:59", "known"));
    assert!(!play.is_told("Tue 13:00", "known"));
    assert_eq!(play.ask("Wed 13:00", "known")["fleet"]["until"], at("Tue+1 12:00"));
}

#[test]
fn the_schedule_without_groups_has_one_of_its_own_for_critical_versions() {
    let mut play = play(without_groups(), "critical");
    assert!(!play.is_told("Mon 09:59", "a"));
    let answer = play.ask("Mon 10:00", "a");
    assert_eq!([&answer["agent_auto_update"], &answer["agent_update_jitter_seconds"]], [&json!(true), &json!(5)]);
    assert!(!play.is_told("Tue 12:30", "a"), "the regular one does not count");
}

#[test]
fn a_critical_version_goes_by_the_regular_one_without_its_window_where_there_is_none_of_its_own() {
    let mut play =
        play(json!({ "agent_auto_update": { "regular": { "days": ["Tue"], "start_hour": 12 } } }), "critical");
    assert!(play.is_told("Mon 09:00", "a"));
}

#[test]
fn defaults_of_the_schedule_without_groups_are_all_days_at_midnight_without_jitter() {
    let mut play = Play::default();
    play.put("Sat 08:00", "cluster_maintenance_config", json!({ "agent_auto_update": { "regular": {} } }));
    play.put("Sat 08:00", "autoupdate_version", flat("2.0.0", "regular"));
    assert_eq!(play.ask("Sat 23:59", "a")["fleet"]["until"], at("Sun 00:00"));
    let answer = play.ask("Sun 00:30", "a");
    assert_eq!([&answer["agent_auto_update"], &answer["agent_update_jitter_seconds"]], [&json!(true), &json!(0)]);
}

#[test]
fn without_that_schedule_hosts_without_a_group_are_held() {
    for (spec, schedule) in [
        (json!({ "agent_auto_update": {} }), "regular"),
        (json!({ "agent_auto_update": {} }), "critical"),
        (json!({ "agent_auto_update": { "critical": {} } }), "regular"),
        (json!({ "agent_auto_update": true }), "regular"),
        (json!({ "agent_auto_update": true }), "critical"),
        (json!({}), "critical"),
    ] {
        let mut play = play(
            with(spec.clone(), json!({ "agent_auto_update_groups": { "regular": [labelled("staging")] } })),
            schedule,
        );
        play.hosts("Mon 11:50", &["a"], "any");
        assert_eq!(play.told("Tue 00:30", &["a", "stranger"]), [""; 0], "{spec} {schedule}");
        assert_eq!(play.told("Tue 12:30", &["a", "stranger"]), [""; 0], "{spec} {schedule}");
    }
}

#[test]
fn hosts_of_a_group_do_not_go_by_the_schedule_without_groups() {
    let spec = with(
        without_groups(),
        json!({ "agent_auto_update_groups": { "regular": [with(labelled("staging"), json!({ "start_hour": 20, "days": ["Tue"] }))] } }),
    );
    let mut play = play(spec, "regular");
    play.hosts("Tue 11:50", &["s"], "staging").hosts("Tue 11:50", &["o"], "other");
    assert_eq!(play.told("Tue 12:30", &["s", "o"]), ["o"]);
}

#[test]
fn any_halted_group_stops_the_schedule_without_groups() {
    let spec = with(
        without_groups(),
        json!({ "agent_auto_update_groups": { "regular": [with(labelled("staging"), json!({ "start_hour": 11, "days": ["Tue"] }))] } }),
    );
    let mut play = play(spec, "regular");
    play.hosts("Tue 10:50", &["s"], "staging").hosts("Tue 10:50", &["o"], "other");
    assert!(play.is_told("Tue 11:01", "s"));
    assert!(play.is_told("Tue 12:01", "o"));
    play.fails("Tue 12:10", "s");
    assert_eq!(play.told("Tue 12:11", &["o", "stranger"]), [""; 0]);
    play.say("Tue 12:12", json!({ "run": { "groups": ["staging"] } }));
    assert_eq!(play.told("Tue 12:13", &["o", "stranger"]), ["o", "stranger"]);
}

#[test]
fn halt_all_stops_the_schedule_without_groups_until_run() {
    let mut play = play(without_groups(), "regular");
    play.say("Tue 12:01", json!({ "halt": { "all": true } }));
    assert!(!play.is_told("Tue 12:02", "a"));
    play.put("Tue 12:03", "autoupdate_version", flat("2.0.1", "regular"));
    assert!(!play.is_told("Wed 12:02", "a"));
    play.say("Wed 12:03", json!({ "run": { "all": true } }));
    assert!(play.is_told("Wed 12:04", "a"));
}

#[test]
fn a_rollout_without_groups_is_not_done_before_anybody_updated() {
    let mut play = play(without_groups(), "regular");
    play.hosts("Mon 08:10", &["a"], "any");
    assert_ne!(play.status("Mon 08:11")["status"]["status"]["state"], "done");
    // A target that nobody was ever told is not the last one that was done.
    play.say("Mon 08:12", json!({ "rm": "autoupdate_version" }));
    play.refusals += 1;
    let answer = play.say("Mon 08:13", json!({ "find": { "host": "a" } })).last();
    assert_eq!(answer["error"]["code"], "no_rollout", "{answer}");
}

#[test]
fn agent_auto_update_off_is_disabled() {
    let mut play = play(
        json!({ "agent_auto_update": false, "agent_auto_update_groups": { "regular": [labelled("staging")] } }),
        "regular",
    );
    play.hosts("Mon 11:50", &["s"], "staging");
    for host in ["s", "stranger"] {
        let answer = play.ask("Mon 12:30", host);
        assert_eq!(
            [&answer["agent_version"], &answer["agent_auto_update"]],
            [&json!("2.0.0"), &json!(false)],
            "{host}"
        );
    }
    assert_eq!(play.status("Mon 12:31")["status"]["spec"]["autoupdate_mode"], "disabled");
    assert_eq!(play.state("Mon 12:31", "staging"), "unstarted");
}

#[test]
fn agent_auto_update_on_is_enabled() {
    let mut play = play(
        json!({ "agent_auto_update": true, "agent_auto_update_groups": { "regular": [labelled("staging")] } }),
        "regular",
    );
    play.hosts("Mon 11:50", &["s"], "staging");
    assert!(play.is_told("Mon 12:30", "s"));
    assert_eq!(play.status("Mon 12:31")["status"]["spec"]["autoupdate_mode"], "enabled");
}

#[test]
fn a_critical_version_goes_by_the_critical_groups() {
    let groups = json!({ "regular": [labelled("staging")], "critical": [with(labelled("staging"), json!({ "start_hour": 9, "jitter_seconds": 3 }))] });
    let mut play = play(json!({ "agent_auto_update_groups": groups }), "critical");
    play.hosts("Mon 08:50", &["s"], "staging");
    assert!(!play.is_told("Mon 08:59", "s"), "critical groups have windows of their own");
    let answer = play.ask("Mon 09:00", "s");
    assert_eq!([&answer["agent_auto_update"], &answer["agent_update_jitter_seconds"]], [&json!(true), &json!(3)]);
    assert_eq!(play.status("Mon 09:01")["status"]["spec"]["schedule"], "critical");
}

#[test]
fn a_critical_version_goes_by_the_regular_groups_without_their_windows_where_there_are_no_critical_ones() {
    let prod = with(labelled("prod"), json!({ "requires": ["staging"] }));
    let groups = json!([with(labelled("staging"), json!({ "days": ["Fri"], "max_in_flight": "50%" })), prod]);
    let hosts = ["h01", "h02", "h03", "h04", "p"];
    let mut play = play_of(&hosts, json!({ "agent_auto_update_groups": { "regular": groups } }), "critical");
    let told = play.told("Mon 08:11", names(4));
    assert_eq!(told.len(), 2, "without windows, not without the cap");
    assert!(!play.is_told("Mon 08:11", "p"), "not without what it requires");
    for host in &told {
        play.updates("Mon 08:12", host);
    }
    let others: Vec<&str> = names(4).iter().copied().filter(|host| !told.iter().any(|told| told == host)).collect();
    play.all_update("Mon 08:13", &others);
    assert!(play.is_told("Mon 08:14", "p"));
}

#[test]
fn a_critical_version_halts_as_others_do() {
    let mut play =
        play_of(names(4), json!({ "agent_auto_update_groups": { "regular": [labelled("staging")] } }), "critical");
    assert_eq!(play.told("Mon 08:11", names(4)).len(), 4);
    play.fails("Mon 08:12", "h01");
    assert_eq!(play.told("Mon 08:13", names(4)), [""; 0]);
}

#[test]
fn an_immediate_version_goes_to_everybody_at_once_with_its_jitter() {
    let spec = with(
        without_groups(),
        json!({ "agent_auto_update_groups": { "regular": [with(labelled("staging"), json!({ "max_in_flight": "0%" }))] } }),
    );
    let mut play = play(spec, "immediate");
    play.hosts("Mon 08:10", &["s"], "staging");
    for host in ["s", "stranger"] {
        let answer = play.ask("Mon 08:11", host);
        assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("2.0.0"), &json!(true)], "{host}");
        assert_eq!(answer["agent_update_jitter_seconds"], 7);
    }
    assert_eq!(play.status("Mon 08:12")["status"]["status"]["groups"], json!([]));
}

#[test]
fn an_immediate_version_stops_when_more_than_a_tenth_failed() {
    let mut play = play(json!({ "agent_auto_update_groups": { "regular": [labelled("staging")] } }), "immediate");
    play.hosts("Mon 08:10", names(20), "staging");
    assert_eq!(play.told("Mon 08:11", names(20)).len(), 20);
    play.fails("Mon 08:12", "h01").fails("Mon 08:12", "h02");
    assert!(play.is_told("Mon 08:13", "h03"), "two of twenty");
    play.fails("Mon 08:14", "h03");
    assert_eq!(play.told("Mon 08:15", names(20)), [""; 0]);
    assert!(!play.is_told("Mon 08:15", "stranger"));
    assert_eq!(play.status("Mon 08:15")["status"]["status"]["state"], "halted");
    play.say("Mon 08:16", json!({ "run": { "all": true } }));
    let answer = play.ask("Mon 08:17", "h04");
    assert_eq!([&answer["agent_auto_update"], &answer["fleet"]["attempt"]], [&json!(true), &json!(2)]);
}

#[test]
fn an_immediate_version_is_stopped_by_halt_all_and_the_next_stays_so() {
    let mut play = play(without_groups(), "immediate");
    play.say("Mon 08:10", json!({ "halt": { "all": true } }));
    assert!(!play.is_told("Mon 08:11", "a"));
    play.put("Mon 08:12", "autoupdate_version", flat("2.0.1", "immediate"));
    assert!(!play.is_told("Mon 08:13", "a"));
    play.say("Mon 08:14", json!({ "run": { "all": true } }));
    assert!(play.is_told("Mon 08:15", "a"));
}

#[test]
fn an_immediate_version_is_off_where_updates_are() {
    let mut play = play(json!({ "agent_auto_update": false }), "immediate");
    let answer = play.ask("Mon 08:11", "a");
    assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("2.0.0"), &json!(false)]);
}

#[test]
fn commands_on_groups_of_an_immediate_rollout_are_refused() {
    let mut play = play(json!({ "agent_auto_update_groups": { "regular": [labelled("staging")] } }), "immediate");
    for command in ["start", "mark_done", "rollback"] {
        play.refused("Mon 08:10", json!({ command: { "groups": ["staging"] } }));
    }
}
