//! Each stop has a name, and ends by it; what failed in an attempt stays counted in it.

use serde_json::{Value, json};

use super::{Play, labelled, names, with};

/// What is done to a host after it failed, and lets it count no less.
fn ways(host: &str) -> Vec<(&'static str, Vec<Value>)> {
    let report = |more: Value| json!({ "report": with(json!({ "host": host }), more) });
    let (hold, release) = (json!({ "hold": { "host": host } }), json!({ "release": { "host": host } }));
    let other = json!({ "version": "1.0.0", "last": { "outcome": "failed", "to": "1.9.0", "code": "unhealthy" } });
    vec![
        ("nothing", vec![]),
        ("pinned", vec![report(json!({ "pinned": true }))]),
        ("disabled", vec![report(json!({ "disabled": true }))]),
        ("pinned and not any more", vec![report(json!({ "pinned": true })), report(json!({ "pinned": false }))]),
        ("held", vec![hold.clone()]),
        ("held and released", vec![hold, release]),
        ("another version fails", vec![report(other)]),
        ("its labels change", vec![report(json!({ "labels": { "env": "prod" } }))]),
        ("assigned elsewhere", vec![json!({ "assign": { "host": host, "group": "prod" } })]),
    ]
}

/// Whether the group halts at the third of twenty hosts that fails, of which each is dealt with in this way.
fn halts_at_the_third(way: usize, tells: bool) -> (&'static str, String) {
    let mut play = Play::default();
    let staging = with(labelled("staging"), json!({ "max_failed_before_halt": "10%" }));
    play.groups("Mon 08:00", json!([staging, labelled("prod")])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(20), "staging");
    let mut what = "";
    for (minute, host) in names(3).iter().enumerate() {
        assert_eq!(play.state(&format!("Mon 12:{:02}", 10 * minute + 1), "staging"), "active", "{what}");
        if tells {
            assert!(play.is_told(&format!("Mon 12:{:02}", 10 * minute + 1), host));
        }
        play.fails(&format!("Mon 12:{:02}", 10 * minute + 2), host);
        let (name, steps) = ways(host).swap_remove(way);
        what = name;
        for step in steps {
            play.say(&format!("Mon 12:{:02}", 10 * minute + 3), step);
        }
    }
    (what, play.group("Mon 12:24", "staging")["last_update_reason"].as_str().unwrap().to_owned())
}

#[test]
fn who_failed_stays_counted_whatever_is_done_to_him() {
    for way in 0..ways("").len() {
        for tells in [true, false] {
            let (what, reason) = halts_at_the_third(way, tells);
            assert_eq!(reason, "failed_threshold", "{what}, told: {tells}");
        }
    }
}

#[test]
fn who_failed_and_is_left_out_is_shown_as_failed_and_is_not_tried_again() {
    let mut play = Play::staging(json!({ "max_failed_before_halt": "50%" }));
    play.hosts("Mon 11:50", names(4), "staging");
    assert!(play.is_told("Mon 12:01", "h01"));
    play.fails("Mon 12:02", "h01").say("Mon 12:03", json!({ "hold": { "host": "h01" } }));
    assert_eq!(play.explain("Mon 12:04", "h01")["state"], "failed");
    assert!(!play.is_told("Mon 12:04", "h01"), "it is held");
    // Another attempt: what failed before counts no more.
    play.say("Mon 12:05", json!({ "halt": { "groups": ["staging"] } }));
    play.say("Mon 12:06", json!({ "run": { "groups": ["staging"] } }));
    assert_eq!(play.explain("Mon 12:07", "h01")["state"], "excluded");
}

#[test]
fn who_failed_and_is_gone_for_a_day_stays_counted() {
    let mut play = Play::staging(json!({ "max_failed_before_halt": "50%" }));
    play.hosts("Mon 11:50", names(4), "staging").fails("Mon 12:02", "h01");
    play.heard("Tue 12:30", &["h02", "h03", "h04"]);
    assert_eq!(play.count("Tue 12:31", "staging", "failed"), 1);
}

#[test]
fn a_hold_of_a_host_on_its_way_forgets_nothing() {
    let mut play = Play::staging(json!({ "max_in_flight": "25%" }));
    play.hosts("Mon 11:50", names(4), "staging");
    let told = play.told("Mon 12:01", names(4));
    assert_eq!(told.len(), 1);
    let (hold, release) = (json!({ "hold": { "host": told[0] } }), json!({ "release": { "host": told[0] } }));
    play.say("Mon 12:02", hold);
    assert_eq!(play.explain("Mon 12:03", &told[0])["state"], "told", "it is on its way, and keeps its slot");
    assert_eq!(play.told("Mon 12:03", names(4)), [""; 0], "the one slot is taken, and who is held is told nothing");
    play.say("Mon 12:04", release);
    assert_eq!(play.told("Mon 12:05", names(4)), told);
    // Nothing came of it: it took too long, whoever held it meanwhile.
    assert_eq!(play.explain("Mon 13:30", &told[0])["state"], "timed_out");
}

#[test]
fn what_a_held_host_says_that_was_not_told_counts_nowhere() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", names(4), "staging").say("Mon 11:51", json!({ "hold": { "host": "h01" } }));
    play.fails("Mon 12:02", "h01");
    assert_eq!(play.state("Mon 12:03", "staging"), "active");
    play.say("Mon 12:04", json!({ "release": { "host": "h01" } }));
    assert_eq!(play.state("Mon 12:05", "staging"), "active");
}

/// The stops of a group, by name.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    /// An operator, by the group's name.
    Named,
    /// An operator, of everything.
    All,
    /// Its hosts failed.
    Failures,
}

fn stopped(stop: Stop) -> Play {
    let mut play = Play::default();
    let groups = json!([labelled("staging"), labelled("prod")]);
    play.groups("Mon 08:00", groups).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(4), "staging").hosts("Mon 11:50", &["p1"], "prod");
    assert!(play.is_told("Mon 12:00", "h01"));
    match stop {
        Stop::Named => play.say("Mon 12:01", json!({ "halt": { "groups": ["staging"] } })),
        Stop::All => play.say("Mon 12:01", json!({ "halt": { "all": true } })),
        Stop::Failures => play.fails("Mon 12:01", "h01"),
    };
    assert_eq!(play.state("Mon 12:02", "staging"), "halted", "{stop:?}");
    play
}

#[test]
fn each_stop_ends_by_its_name_and_by_nothing_else() {
    let policy = |groups: Value| put_groups(groups);
    let renamed = || with(labelled("other"), json!({ "agents": labelled("staging")["agents"] }));
    let wide = || with(labelled("staging"), json!({ "max_failed_before_halt": "100%" }));
    for stop in [Stop::Named, Stop::All, Stop::Failures] {
        let table = [
            (json!({ "run": { "groups": ["staging"] } }), true),
            (json!({ "run": { "all": true } }), stop == Stop::All),
            (json!({ "run": { "groups": ["prod"] } }), false),
            (json!({ "start": { "groups": ["staging"] } }), false),
            (json!({ "release": { "host": "h01" } }), false),
            (policy(json!([wide(), labelled("prod")])), false),
            (policy(json!([labelled("prod")])), false),
            (policy(json!([renamed(), labelled("prod")])), false),
            (
                json!({ "put": { "kind": "fleet_release", "version": "v1", "metadata": { "name": "r" }, "spec": {
                "version": "2.0.0", "channels": [] } } }),
                false,
            ),
        ];
        for (action, ends) in table {
            let mut play = stopped(stop);
            play.script = std::mem::take(&mut play.script).line(&super::at("Mon 12:03"), action.clone());
            // Whether it is accepted or refused is not asked here.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play.last()));
            play.refusals = play.answers.iter().filter(|answer| !answer["error"].is_null()).count();
            let goes = play.is_told("Mon 12:05", "h02");
            assert_eq!(goes, ends, "{stop:?} {action}");
        }
    }
}

fn put_groups(groups: Value) -> Value {
    super::put("cluster_maintenance_config", json!({ "agent_auto_update_groups": { "regular": groups } }))
}

#[test]
fn the_end_of_the_hold_of_everything_ends_no_other_stop_and_is_no_new_attempt() {
    let mut play = Play::default();
    let groups =
        ["staging", "prod", "third"].map(|name| with(labelled(name), json!({ "max_failed_before_halt": "50%" })));
    play.groups("Mon 08:00", json!(groups)).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(4), "staging").hosts("Mon 11:50", &["p1"], "prod").hosts(
        "Mon 11:50",
        &["t1", "t2", "t3"],
        "third",
    );
    play.fails("Mon 12:01", "p1")
        .fails("Mon 12:01", "t1")
        .say("Mon 12:02", json!({ "halt": { "groups": ["staging"] } }));
    play.say("Mon 12:03", json!({ "halt": { "all": true } }));
    play.say("Mon 12:04", json!({ "run": { "all": true } }));
    let because = |play: &mut Play, name: &str| play.group("Mon 12:05", name)["last_update_reason"].clone();
    assert_eq!(because(&mut play, "staging"), "manual_halt", "another operator's");
    assert_eq!(because(&mut play, "prod"), "failed_threshold", "the bad release");
    assert_eq!(play.state("Mon 12:05", "third"), "active");
    assert_eq!(play.count("Mon 12:05", "third", "failed"), 1, "what failed stays counted");
    play.fails("Mon 12:06", "t2");
    assert_eq!(because_at(&mut play, "Mon 12:07", "third"), "failed_threshold");
    let error = play.refused("Mon 12:08", json!({ "run": { "all": true } }));
    assert!(error["message"].as_str().unwrap().contains("run staging prod third"), "{error}");
}

fn because_at(play: &mut Play, when: &str, name: &str) -> String {
    play.group(when, name)["last_update_reason"].as_str().unwrap().to_owned()
}

#[test]
fn a_group_that_is_renamed_or_widened_in_the_policy_stays_stopped_in_the_next_rollout() {
    let renamed = with(labelled("other"), json!({ "agents": labelled("staging")["agents"] }));
    let mut play = stopped(Stop::Named);
    play.say("Mon 12:03", put_groups(json!([renamed, labelled("prod")]))).target("Mon 12:04", "2.0.1");
    play.heard("Tue 11:59", &["h01", "h02", "p1"]);
    assert_eq!(
        play.told("Tue 12:01", &["h01", "h02"]),
        [""; 0],
        "the hold is of these hosts, whatever their group is called"
    );
    let advice = play.explain("Tue 12:02", "h02")["why"]["advice"].clone();
    assert_eq!(advice["command"]["run"]["groups"], json!(["staging"]), "{advice}");
    play.say("Tue 12:03", json!({ "run": { "groups": ["staging"] } }));
    assert_eq!(play.told("Tue 12:04", &["h01", "h02"]), ["h01", "h02"]);
}

#[test]
fn an_approval_is_of_what_was_seen() {
    let group = |cap: &str| with(labelled("staging"), json!({ "approval": "operator", "max_in_flight": cap }));
    let mut play = Play::default();
    play.groups("Mon 08:00", json!([group("25%")])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(4), "staging").say("Mon 11:55", json!({ "approve": { "group": "staging" } }));
    assert_eq!(play.told("Mon 12:01", names(4)).len(), 1);
    play.groups("Mon 12:02", json!([group("100%")]));
    let group = play.group("Mon 12:03", "staging");
    assert_eq!((&group["approved"], &group["why"]["code"]), (&json!(false), &json!("approval")), "{group}");
    assert_eq!(play.told("Mon 12:03", names(4)).len(), 1, "who was told is on its way, and nobody else");
    play.say("Mon 12:04", json!({ "approve": { "group": "staging" } }));
    assert_eq!(play.told("Mon 12:05", names(4)).len(), 4);
}
