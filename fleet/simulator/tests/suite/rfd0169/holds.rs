//! An operator's halt is a hold: it survives everything but `run`.

use serde_json::{Value, json};

use super::{Play, labelled, names, put, with};

fn halt_group() -> Value {
    json!({ "halt": { "groups": ["staging"] } })
}

fn halt_all() -> Value {
    json!({ "halt": { "all": true } })
}

/// Two independent groups with two hosts each.
fn two() -> Play {
    let mut play = Play::default();
    play.groups("Mon 08:00", json!([labelled("staging"), labelled("prod")])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["s1", "s2"], "staging").hosts("Mon 11:50", &["p1", "p2"], "prod");
    play
}

const ALL: [&str; 4] = ["s1", "s2", "p1", "p2"];

#[test]
fn halt_of_a_group_stops_it_and_no_other() {
    let mut play = two();
    play.say("Mon 12:01", halt_group());
    let group = play.group("Mon 12:01", "staging");
    assert_eq!([&group["state"], &group["last_update_reason"]], ["halted", "manual_halt"]);
    assert_eq!(play.told("Mon 12:02", &ALL), ["p1", "p2"]);
}

#[test]
fn halt_of_an_unstarted_group_keeps_it_from_starting() {
    let mut play = two();
    play.say("Mon 11:51", halt_group());
    assert_eq!(play.state("Mon 12:01", "staging"), "halted");
    assert_eq!(play.told("Mon 12:02", &ALL), ["p1", "p2"]);
    play.say("Mon 12:03", json!({ "run": { "groups": ["staging"] } }));
    assert_eq!(play.told("Mon 12:04", &ALL), ALL);
}

#[test]
fn halt_all_stops_every_group() {
    let mut play = two();
    assert!(play.is_told("Mon 12:00", "s1"));
    play.say("Mon 12:01", halt_all());
    assert_eq!(play.told("Mon 12:01", &ALL), [""; 0]);
    assert_eq!([play.state("Mon 12:02", "staging"), play.state("Mon 12:02", "prod")], ["halted", "halted"]);
    assert_eq!(play.ask("Mon 12:02", "s1")["agent_version"], "2.0.0", "who was told is told the target");
    assert_eq!(play.ask("Mon 12:02", "s2")["agent_version"], "1.0.0");
    play.say("Mon 12:03", json!({ "run": { "all": true } }));
    assert_eq!(play.told("Mon 12:04", &ALL), ALL);
}

#[test]
fn a_hold_survives_a_new_target_and_a_reset() {
    for hold in [halt_group(), halt_all()] {
        let mut play = two();
        play.say("Mon 12:01", hold.clone());
        play.target("Mon 12:05", "2.0.1");
        assert_eq!(play.state("Mon 12:06", "staging"), "halted", "{hold}: a new target");
        play.put(
            "Mon 12:07",
            "autoupdate_version",
            json!({
                "agent_version": "2.0.1", "agent_start_version": "1.0.0", "agent_version_schedule": "critical",
            }),
        );
        assert_eq!(play.state("Mon 12:08", "staging"), "halted", "{hold}: another schedule");
        play.say("Mon 12:09", json!({ "rm": "autoupdate_version" })).target("Mon 12:10", "2.0.2");
        assert_eq!(play.state("Mon 12:10", "staging"), "halted", "{hold}: removed and written again");
        play.groups(
            "Mon 12:11",
            json!([labelled("staging"), with(labelled("prod"), json!({ "max_in_flight": "50%" }))]),
        );
        play.heard("Tue 11:59", &ALL);
        assert_eq!(play.told("Tue 12:01", &["s1", "s2"]), [""; 0], "{hold}");
        play.say("Tue 12:02", json!({ "run": { "groups": ["staging"] } }));
        assert_eq!(play.told("Tue 12:03", &["s1", "s2"]), ["s1", "s2"], "{hold}: run ends it");
    }
}

#[test]
fn a_hold_survives_another_policy_with_a_group_of_that_name() {
    let mut play = two();
    play.say("Mon 12:01", halt_group());
    play.groups("Mon 12:02", json!([labelled("other")])).target("Mon 12:02", "2.0.1");
    play.groups("Mon 12:03", json!([labelled("staging")])).target("Mon 12:03", "2.0.2");
    assert_eq!(play.state("Mon 12:04", "staging"), "halted");
}

#[test]
fn a_hold_of_all_without_a_rollout_holds_the_next() {
    let mut play = Play::default();
    play.say("Mon 07:00", halt_all());
    play.groups("Mon 08:00", json!([labelled("staging")])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["s1"], "staging");
    assert_eq!(play.state("Mon 12:01", "staging"), "halted");
    assert!(!play.is_told("Mon 12:02", "s1"));
}

#[test]
fn a_hold_survives_a_rollback_and_the_target_after_it() {
    let mut play = two();
    assert!(play.is_told("Mon 12:00", "s1"));
    play.say("Mon 12:01", halt_group()).say("Mon 12:02", json!({ "rollback": { "groups": ["staging"] } }));
    play.target("Mon 12:10", "2.0.1").heard("Tue 11:59", &ALL);
    assert_eq!(play.told("Tue 12:01", &["s1", "s2"]), [""; 0], "nobody has said run");
    assert_eq!(play.state("Tue 12:02", "staging"), "halted");
}

#[test]
fn a_hold_survives_a_mark_done_and_the_target_after_it() {
    let mut play = two();
    play.say("Mon 12:01", halt_group()).say("Mon 12:02", json!({ "mark_done": { "groups": ["staging"] } }));
    assert_eq!(play.told("Mon 12:03", &["s1", "s2"]), [""; 0], "its other hosts stay");
    play.target("Mon 12:10", "2.0.1").heard("Tue 11:59", &ALL);
    assert_eq!(play.told("Tue 12:01", &["s1", "s2"]), [""; 0], "nobody has said run");
}

#[test]
fn a_halt_of_a_done_group_stops_late_comers() {
    let mut play = two();
    play.all_update("Mon 12:01", &["s1", "s2"]);
    assert_eq!(play.state("Mon 12:01", "staging"), "done");
    play.say("Mon 12:02", halt_group()).hosts("Mon 12:03", &["late"], "staging");
    assert!(!play.is_told("Mon 12:04", "late"));
    play.say("Mon 12:05", json!({ "run": { "groups": ["staging"] } }));
    assert!(play.is_told("Mon 12:06", "late"));
}

#[test]
fn a_halt_beside_a_broken_threshold_needs_but_one_run() {
    let mut play = two();
    assert!(play.is_told("Mon 12:00", "s1"));
    play.fails("Mon 12:01", "s1").say("Mon 12:02", halt_group());
    assert_eq!(play.state("Mon 12:02", "staging"), "halted");
    play.say("Mon 12:03", json!({ "run": { "groups": ["staging"] } }));
    assert_eq!(play.told("Mon 12:04", &["s1", "s2"]), ["s1", "s2"]);
}

#[test]
fn a_run_of_one_group_leaves_the_others_held() {
    let mut play = two();
    play.say("Mon 12:01", halt_all()).say("Mon 12:02", json!({ "run": { "groups": ["prod"] } }));
    assert_eq!(play.told("Mon 12:03", &ALL), ["p1", "p2"]);
    assert_eq!(play.state("Mon 12:04", "staging"), "halted");
}

#[test]
fn dependents_of_a_held_group_do_not_start() {
    let mut play = Play::default();
    let prod = with(labelled("prod"), json!({ "requires": ["staging"] }));
    play.groups("Mon 08:00", json!([labelled("staging"), prod])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(2), "staging").hosts("Mon 11:50", &["p"], "prod");
    assert_eq!(play.told("Mon 12:00", names(2)).len(), 2);
    play.say("Mon 12:01", halt_group());
    play.updates("Mon 12:02", "h01").updates("Mon 12:02", "h02");
    assert!(!play.is_told("Mon 12:03", "p"), "all of it updated, and it is held");
    assert_eq!(play.state("Mon 12:04", "prod"), "unstarted");
}

#[test]
fn a_command_that_names_groups_and_all_or_neither_is_refused() {
    let mut play = two();
    for command in ["halt", "run"] {
        play.refused("Mon 11:51", json!({ command: { "groups": ["staging"], "all": true } }));
        play.refused("Mon 11:51", json!({ command: {} }));
    }
    assert_eq!(play.state("Mon 11:52", "staging"), "unstarted");
}

/// `staging` is of other hosts in the next rollout, is held there as well, and is called otherwise after that: all that it ever was
/// is held.
#[test]
fn a_second_halt_of_a_name_takes_nothing_from_the_first() {
    let named = |name: &str, env: &str| with(labelled(name), json!({ "agents": labelled(env)["agents"] }));
    for halts_again in [true, false] {
        let mut play = two();
        play.hosts("Mon 11:50", &["d1"], "dr").say("Mon 11:51", halt_group());
        play.groups("Mon 11:52", json!([named("staging", "dr"), labelled("prod")])).target("Mon 11:52", "2.0.1");
        play.status("Mon 11:53");
        if halts_again {
            play.say("Mon 11:54", halt_group());
        }
        play.groups("Mon 11:55", json!([named("live", "staging"), named("rest", "dr"), labelled("prod")]));
        play.target("Mon 11:55", "2.0.2");
        let all = ["s1", "s2", "p1", "p2", "d1"];
        assert_eq!(play.told("Mon 12:01", &all), ["p1", "p2"], "halted again: {halts_again}");
        play.say("Mon 12:02", json!({ "run": { "groups": ["staging"] } }));
        assert_eq!(play.told("Mon 12:03", &all), all);
    }
}

/// Hosts of a group without labels in an immediate rollout, and in RFD 0169's schedule without groups.
#[test]
fn a_hold_of_a_group_lasts_where_there_are_no_groups() {
    let hours = json!({ "regular": { "start_hour": 12 }, "immediate": { "jitter_seconds": 0 } });
    for schedule in ["immediate", "regular"] {
        let mut play = two();
        play.say("Mon 11:51", halt_group());
        let spec =
            json!({ "agent_version": "2.0.1", "agent_start_version": "1.0.0", "agent_version_schedule": schedule });
        play.say("Mon 11:52", put("cluster_maintenance_config", json!({ "agent_auto_update": hours })));
        play.put("Mon 11:52", "autoupdate_version", spec);
        assert_eq!(play.told("Mon 12:01", &ALL), ["p1", "p2"], "{schedule}");
        play.say("Mon 12:02", json!({ "run": { "groups": ["staging"] } }));
        assert_eq!(play.told("Mon 12:03", &ALL), ALL, "{schedule}");
    }
}
