//! When a group may start.

use serde_json::{Value, json};

use super::{Play, at, labelled, names, with};

/// Groups that require one another, each with one host of its own name.
fn chain(groups: &[(&str, &[&str])]) -> Play {
    let group = |(name, requires): &(&str, &[&str])| with(labelled(name), json!({ "requires": requires }));
    let mut play = Play::default();
    play.groups("Mon 08:00", groups.iter().map(group).collect::<Value>()).target("Mon 08:00", "2.0.0");
    for (name, _) in groups {
        play.hosts("Mon 11:50", &[name], name);
    }
    play
}

#[test]
fn a_group_starts_at_its_hour_and_not_before() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", &["h01"], "staging");
    let group = play.group("Mon 11:59:59", "staging");
    assert_eq!([&group["state"], &group["why"]["until"]], [&json!("unstarted"), &json!(at("Mon 12:00"))]);
    assert!(!play.is_told("Mon 11:59:59", "h01"));
    let group = play.group("Mon 12:00", "staging");
    assert_eq!([&group["state"], &group["start_time"]], [&json!("active"), &json!(at("Mon 12:00"))]);
    assert!(play.is_told("Mon 12:00", "h01"));
}

#[test]
fn before_its_start_a_host_is_answered_the_start_version_and_until_when_it_waits() {
    let mut play = Play::staging(json!({ "jitter_seconds": 17 }));
    play.hosts("Mon 09:00", &["h01"], "staging");
    let answer = play.ask("Mon 09:01", "h01");
    assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("1.0.0"), &json!(false)]);
    assert_eq!(answer["agent_update_jitter_seconds"], 17);
    assert_eq!(answer["fleet"]["until"], at("Mon 12:00"));
    assert!(answer["fleet"]["why"]["code"].is_string());
}

#[test]
fn its_window_to_start_is_open_for_an_hour_on_its_days() {
    let mut play = Play::staging(json!({ "days": ["Wed", "Fri"] }));
    assert_eq!(play.group("Mon 12:30", "staging")["why"]["until"], at("Wed 12:00"));
    assert_eq!(play.state("Tue 12:30", "staging"), "unstarted");
    play.hosts("Wed 11:50", &["h01"], "staging");
    assert!(!play.is_told("Wed 11:59", "h01"));
    assert!(play.is_told("Wed 12:01", "h01"));
}

#[test]
fn a_rollout_that_comes_after_the_hour_waits_for_the_next_day() {
    for (written, starts) in [("Mon 13:00", "Tue 12:00"), ("Mon 12:30", "Tue 12:00"), ("Mon 11:59", "Mon 12:00")] {
        let mut play = Play::default();
        play.groups("Mon 08:00", json!([labelled("staging")])).target(written, "2.0.0");
        let group = play.group(written, "staging");
        assert_eq!([&group["state"], &group["why"]["until"]], [&json!("unstarted"), &json!(at(starts))], "{written}");
        assert_eq!(play.group("Tue 12:00", "staging")["start_time"], at(starts), "{written}");
    }
}

#[test]
fn no_days_are_all_days_and_no_hour_is_midnight() {
    let mut play = Play::default();
    play.groups("Sat 20:00", json!([{ "name": "all" }])).target("Sat 20:00", "2.0.0").hosts("Sat 23:50", &["h01"], "x");
    assert_eq!(play.group("Sat 23:59", "all")["why"]["until"], at("Sun 00:00"));
    assert!(play.is_told("Sun 00:00", "h01"), "on a Sunday");
}

#[test]
fn a_star_is_every_day() {
    let mut play = Play::default();
    play.groups("Sat 20:00", json!([{ "name": "all", "days": ["*"], "start_hour": 3 }])).target("Sat 20:00", "2.0.0");
    assert_eq!(play.group("Sun 03:00", "all")["start_time"], at("Sun 03:00"));
}

#[test]
fn groups_that_require_nothing_start_at_their_own_hour() {
    let mut play = Play::default();
    let late = with(labelled("prod"), json!({ "start_hour": 10 }));
    play.groups("Mon 08:00", json!([labelled("staging"), late])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 09:50", &["p"], "prod").hosts("Mon 09:50", &["s"], "staging");
    assert_eq!(play.told("Mon 10:01", &["s", "p"]), ["p"], "the order of the list is none");
}

#[test]
fn a_group_waits_for_what_it_requires_and_starts_with_its_end() {
    let mut play = chain(&[("test", &[]), ("staging", &["test"])]);
    assert_eq!(play.told("Mon 12:01", &["test", "staging"]), ["test"]);
    let group = play.group("Mon 12:02", "staging");
    assert_eq!([&group["why"]["code"], &group["why"]["group"]], ["previous_groups_not_done", "test"]);
    play.updates("Mon 12:10", "test");
    assert_eq!(play.state("Mon 12:10", "test"), "done");
    assert!(play.is_told("Mon 12:11", "staging"), "its window is open");
}

#[test]
fn a_group_whose_predecessor_is_done_after_its_window_waits_for_the_next() {
    let mut play = chain(&[("test", &[]), ("staging", &["test"])]);
    assert!(play.is_told("Mon 12:01", "test"));
    play.updates("Mon 13:00", "test").heard("Mon 13:00", &["staging"]);
    assert!(!play.is_told("Mon 13:01", "staging"));
    assert_eq!(play.group("Mon 13:02", "staging")["why"]["until"], at("Tue 12:00"));
    let mut play = chain(&[("test", &[]), ("staging", &["test"])]);
    assert!(play.is_told("Mon 12:01", "test"));
    play.updates("Mon 12:59", "test");
    assert!(play.is_told("Mon 12:59", "staging"));
    assert!(play.is_told("Mon 13:30", "staging"), "the hour is to start");
}

#[test]
fn the_end_of_a_diamond_waits_for_both_of_its_sides() {
    let mut play = chain(&[("end", &["left", "right"]), ("left", &["top"]), ("right", &["top"]), ("top", &[])]);
    let all = ["end", "left", "right", "top"];
    assert_eq!(play.told("Mon 12:01", &all), ["top"]);
    play.updates("Mon 12:02", "top");
    assert_eq!(play.told("Mon 12:03", &all[..3]), ["left", "right"]);
    play.updates("Mon 12:04", "left");
    assert_eq!(play.told("Mon 12:05", &all[..1]), [""; 0]);
    play.updates("Mon 12:06", "right");
    assert_eq!(play.told("Mon 12:07", &all[..1]), ["end"]);
}

#[test]
fn a_chain_goes_one_after_the_other() {
    let mut play = chain(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["c"])]);
    for (number, host) in ["a", "b", "c", "d"].iter().enumerate() {
        let when = format!("Mon 12:{:02}", number * 2 + 1);
        let open: Vec<&str> = ["a", "b", "c", "d"].into_iter().skip(number).collect();
        assert_eq!(play.told(&when, &open), [*host]);
        play.updates(&format!("Mon 12:{:02}", number * 2 + 2), host);
    }
}

#[test]
fn a_halted_group_stops_all_that_follow_it_and_nothing_else() {
    let mut play = chain(&[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("free", &[])]);
    assert_eq!(play.told("Mon 12:01", &["a", "b", "c", "free"]), ["a", "free"]);
    play.fails("Mon 12:02", "a");
    for when in ["Mon 12:03", "Tue 12:03", "Thu 12:03"] {
        for name in ["b", "c"] {
            let group = play.group(when, name);
            assert_eq!(
                [&group["state"], &group["why"]["code"]],
                ["unstarted", "previous_groups_not_done"],
                "{when} {name}"
            );
        }
    }
    assert_eq!(play.state("Thu 12:03", "a"), "halted");
}

#[test]
fn a_soak_failure_of_a_required_group_keeps_those_from_starting_that_have_not() {
    let mut play = Play::default();
    let prod = with(labelled("prod"), json!({ "requires": ["staging"], "start_hour": 18 }));
    play.groups("Mon 08:00", json!([labelled("staging"), prod])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["s"], "staging");
    play.all_update("Mon 12:01", &["s"]);
    play.fails("Mon 16:00", "s").hosts("Mon 17:55", &["p"], "prod");
    assert!(!play.is_told("Mon 18:01", "p"));
    assert_eq!([play.state("Mon 18:02", "staging"), play.state("Mon 18:02", "prod")], ["halted", "unstarted"]);
}

#[test]
fn what_is_required_passes_with_this_very_version() {
    let mut play = chain(&[("test", &[]), ("staging", &["test"])]);
    play.all_update("Mon 12:01", &["test"]);
    assert_eq!(play.state("Mon 12:02", "test"), "done");
    play.target("Mon 12:03", "2.0.1");
    assert_eq!([play.state("Mon 12:04", "test"), play.state("Mon 12:04", "staging")], ["unstarted", "unstarted"]);
    play.heard("Tue 11:50", &["test", "staging"]);
    assert_eq!(play.told("Tue 12:01", &["test", "staging"]), ["test"]);
}

#[test]
fn every_change_of_version_or_schedule_resets_all_progress() {
    let flat = |version: &str, schedule: &str| json!({ "agent_version": version, "agent_start_version": "1.0.0", "agent_version_schedule": schedule });
    for (version, schedule) in [("2.0.1", "regular"), ("2.0.0", "critical")] {
        let mut play = chain(&[("test", &[]), ("staging", &["test"])]);
        assert!(play.is_told("Mon 12:01", "test"));
        play.say("Mon 12:02", json!({ "find": {} }));
        let before = play.last()["find"]["fleet"]["rollout"].as_u64().unwrap();
        play.heard("Mon 13:59", &["test"]).put("Mon 14:00", "autoupdate_version", flat(version, schedule));
        let after = play.say("Mon 14:00", json!({ "find": {} })).last()["find"]["fleet"]["rollout"].as_u64().unwrap();
        assert!(after > before, "rollouts are numbered");
        assert_eq!(
            play.count("Mon 14:00", "test", "let_go"),
            u64::from(schedule == "critical"),
            "{version} {schedule}"
        );
    }
}

#[test]
fn a_policy_is_followed_by_the_next_rollout_where_it_is_about_groups_members_and_windows() {
    let mut play = Play::staging(json!({}));
    play.groups("Mon 09:00", json!([with(labelled("staging"), json!({ "start_hour": 10 })), labelled("new")]));
    let status = play.status("Mon 10:30");
    assert_eq!(status["status"]["status"]["groups"].as_array().unwrap().len(), 1);
    assert_eq!(play.state("Mon 10:30", "staging"), "unstarted");
    assert_eq!(play.state("Mon 12:00", "staging"), "active");
    play.target("Mon 12:30", "2.0.1");
    let status = play.status("Mon 12:30");
    assert_eq!(status["status"]["status"]["groups"].as_array().unwrap().len(), 2);
    assert_eq!(play.group("Mon 12:31", "staging")["why"]["until"], at("Tue 10:00"));
}

#[test]
fn writing_what_is_there_already_changes_nothing() {
    let mut play = Play::staging(json!({ "max_in_flight": "50%" }));
    play.hosts("Mon 11:50", names(4), "staging");
    assert_eq!(play.told("Mon 12:01", names(4)).len(), 2);
    let before = play.group("Mon 12:02", "staging");
    play.groups("Mon 12:02", json!([with(labelled("staging"), json!({ "max_in_flight": "50%" }))]))
        .target("Mon 12:02", "2.0.0");
    assert_eq!(play.group("Mon 12:02", "staging"), before);
}

#[test]
fn start_lifts_requirements_and_windows() {
    let mut play = chain(&[("test", &[]), ("staging", &["test"])]);
    play.say("Mon 11:55", json!({ "start": { "groups": ["staging"] } }));
    assert_eq!(play.told("Mon 11:56", &["test", "staging"]), ["staging"]);
    play.refused("Mon 11:57", json!({ "start": { "groups": ["staging"] } }));
}

#[test]
fn mark_done_lets_dependents_start() {
    let mut play = chain(&[("test", &[]), ("staging", &["test"])]);
    play.say("Mon 12:01", json!({ "mark_done": { "groups": ["test"] } }));
    assert!(play.is_told("Mon 12:02", "staging"));
}

#[test]
fn soak_hours_count_from_when_the_required_groups_were_done() {
    let mut play = Play::default();
    let prod = with(labelled("prod"), json!({ "requires": ["staging"], "soak_hours": 24 }));
    play.groups("Mon 08:00", json!([labelled("staging"), prod])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["s"], "staging");
    play.all_update("Mon 12:20", &["s"]);
    assert_eq!(play.group("Mon 12:21", "prod")["why"]["until"], at("Tue 12:20"));
    play.hosts("Tue 12:10", &["p"], "prod");
    assert!(!play.is_told("Tue 12:19", "p"));
    assert!(play.is_told("Tue 12:20", "p"));
}

/// `days` name the day on which a window opens: with a length of its own it goes on over midnight. Without one the day ends it.
#[test]
fn a_window_that_opens_late_on_its_day_lasts_over_midnight() {
    let late = |more: Value| {
        let mut play = Play::default();
        let group = with(labelled("staging"), json!({ "days": ["Mon"], "start_hour": 23 }));
        play.groups("Mon 08:00", json!([with(group, more)])).target("Mon 08:00", "2.0.0");
        play.hosts("Mon 22:50", &["h01"], "staging");
        play
    };
    let mut play = late(json!({ "window_duration": "4h" }));
    play.hosts("Mon 23:55", names(5), "staging");
    play.all_update("Mon 23:59", &["h01"]).heard("Tue 02:55", names(5));
    assert!(play.is_told("Tue 02:59", "h02"), "three hours after midnight");
    assert!(!play.is_told("Tue 03:00", "h03"));
    assert_eq!(play.group("Tue 03:01", "staging")["why"]["until"], at("Mon+1 23:00"));
    let mut play = late(json!({}));
    play.hosts("Mon 23:55", names(5), "staging");
    assert!(play.is_told("Mon 23:59", "h01"));
    assert!(!play.is_told("Tue 00:00", "h02"), "another day");
    assert_eq!(play.group("Tue 00:01", "staging")["why"]["until"], at("Mon+1 00:00"));
}
