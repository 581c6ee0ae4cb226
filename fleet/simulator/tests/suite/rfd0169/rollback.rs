//! Back to the start version: by a command, or by a halt.

use serde_json::{Value, json};

use super::{Play, names, order};

/// Ten hosts in a group with a cap, of which the first two of the order updated and the third is on its way.
fn under_way(percentage: &str) -> (Play, Vec<&'static str>) {
    let order = order(0, names(10));
    let mut play = Play::staging(json!({ "max_in_flight": percentage, "max_failed_before_halt": "100%" }));
    play.hosts("Mon 11:50", names(10), "staging");
    play.all_update("Mon 12:01", &order[..1]).all_update("Mon 12:02", &order[1..2]);
    assert!(play.is_told("Mon 12:03", order[2]));
    (play, order)
}

fn roll_back(at_once: bool) -> Value {
    json!({ "rollback": { "groups": ["staging"], "at_once": at_once } })
}

#[test]
fn a_rollback_sends_back_who_was_told_or_has_the_target_at_the_groups_pace() {
    let (mut play, order) = under_way("10%");
    play.updates("Mon 12:04", order[2]);
    play.say("Mon 12:05", roll_back(false));
    assert_eq!(play.state("Mon 12:05", "staging"), "rolledback");
    let mut back: Vec<String> = Vec::new();
    for minute in 6..9 {
        let when = format!("Mon 12:{minute:02}");
        let open: Vec<&str> = order[..3].iter().copied().filter(|host| !back.iter().any(|back| back == host)).collect();
        let told = play.told(&when, &open);
        assert_eq!(told.len(), 1, "one at a time: {told:?}");
        assert_eq!(play.ask(&when, &told[0])["agent_version"], "1.0.0");
        assert_eq!(play.count(&when, "staging", "in_flight"), 1);
        let last = json!({ "outcome": "updated", "to": "1.0.0" });
        play.say(&when, json!({ "report": { "host": told[0], "version": "1.0.0", "last": last } }));
        back.push(told[0].clone());
    }
    assert_eq!(play.count("Mon 12:10", "staging", "in_flight"), 0);
}

#[test]
fn a_rollback_at_once_lifts_the_pace() {
    let (mut play, order) = under_way("10%");
    play.say("Mon 12:05", roll_back(true));
    assert_eq!(play.told("Mon 12:06", &order[..3]), &order[..3]);
}

#[test]
fn who_is_on_its_way_to_the_target_keeps_its_slot_in_a_rollback() {
    let (mut play, order) = under_way("10%");
    play.starts("Mon 12:04", order[2]);
    play.say("Mon 12:04:10", roll_back(false));
    assert_eq!(play.told("Mon 12:04:20", &order[..2]), [""; 0], "one of ten at once, and the third is not at an end");
}

/// Found by the property with further cases.
#[test]
fn a_switch_that_comes_after_time_out_and_rollback_takes_no_slot_again() {
    let (mut play, order) = under_way("10%");
    play.starts("Mon 12:04", order[2]);
    play.say("Mon 12:07", roll_back(false));
    assert_eq!(play.told("Mon 12:08", &order[..2]).len(), 1, "the third has timed out");
    play.reports("Mon 12:09", order[2], "1.0.0", "switched", "");
    assert_eq!(play.count("Mon 12:09", "staging", "in_flight"), 1);
}

#[test]
fn after_a_rollback_nobody_goes_up() {
    let (mut play, order) = under_way("10%");
    play.say("Mon 12:05", roll_back(false));
    play.heard("Mon 13:00", names(10));
    for host in &order[3..] {
        assert_eq!(play.ask("Mon 13:01", host)["agent_version"], "1.0.0");
    }
    play.heard("Tue 11:55", names(10));
    assert_eq!(play.state("Tue 12:01", "staging"), "rolledback");
}

#[test]
fn a_known_host_below_the_start_version_stays() {
    let mut play = Play::staging(json!({}));
    for (host, version) in [("below", "0.9.0"), ("start", "1.0.0")] {
        play.say(
            "Mon 11:50",
            json!({ "report": { "host": host, "version": version, "labels": { "env": "staging" } } }),
        );
    }
    assert!(play.is_told("Mon 12:01", "start"));
    play.updates("Mon 12:02", "start").say("Mon 12:03", roll_back(false));
    assert!(play.is_told("Mon 12:04", "start"));
    assert!(!play.is_told("Mon 12:04", "below"), "to go back is no reason to go up");
}

#[test]
fn a_known_host_below_the_start_version_that_was_told_and_did_not_update_stays() {
    let mut play = Play::staging(json!({ "max_failed_before_halt": "100%" }));
    for host in ["told", "failed"] {
        let labels = json!({ "env": "staging" });
        play.say("Mon 11:50", json!({ "report": { "host": host, "version": "0.9.0", "labels": labels } }));
    }
    assert_eq!(play.told("Mon 12:01", &["told", "failed"]), ["told", "failed"]);
    play.reports("Mon 12:02", "failed", "0.9.0", "rolled_back", "unhealthy");
    play.say("Mon 12:03", roll_back(false));
    for host in ["told", "failed"] {
        assert!(!play.is_told("Mon 12:04", host), "{host}: to go back is no reason to go up");
    }
}

#[test]
fn unknown_hosts_are_answered_as_in_managed_updates() {
    // Of a group that holds everybody: the start version, and update.
    let mut play = Play::staging(json!({ "agents": {} }));
    play.hosts("Mon 11:50", &["h01"], "any");
    play.all_update("Mon 12:01", &["h01"]).say("Mon 12:03", roll_back(false));
    let answer = play.ask("Mon 12:04", "stranger");
    assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("1.0.0"), &json!(true)]);
}

#[test]
fn a_failure_to_go_back_is_shown() {
    let (mut play, order) = under_way("100%");
    play.say("Mon 12:05", roll_back(false));
    assert!(play.is_told("Mon 12:06", order[0]));
    let last = json!({ "outcome": "failed", "to": "1.0.0", "code": "no_snapshot" });
    play.say("Mon 12:07", json!({ "report": { "host": order[0], "version": "2.0.0", "last": last } }));
    assert_eq!(play.count("Mon 12:08", "staging", "failed"), 1);
}

#[test]
fn rollback_without_names_takes_all_started_groups() {
    let mut play = Play::default();
    let prod = super::with(super::labelled("prod"), json!({ "requires": ["staging"] }));
    play.groups("Mon 08:00", json!([super::labelled("staging"), prod])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", &["s"], "staging").hosts("Mon 11:50", &["p"], "prod");
    assert!(play.is_told("Mon 12:00", "s"));
    play.say("Mon 12:01", json!({ "rollback": { "all_started": true } }));
    assert_eq!([play.state("Mon 12:02", "staging"), play.state("Mon 12:02", "prod")], ["rolledback", "unstarted"]);
    assert!(!play.is_told("Mon 12:59", "p"), "its predecessor is not done");
}

#[test]
fn on_halt_rollback_goes_back_by_itself_after_reported_failures() {
    let mut play = Play::staging(json!({ "on_halt": "rollback", "max_failed_before_halt": "10%" }));
    play.hosts("Mon 11:50", names(10), "staging");
    play.all_update("Mon 12:01", &names(10)[..5]);
    play.fails("Mon 12:02", "h06").fails("Mon 12:03", "h07");
    assert_eq!(play.state("Mon 12:04", "staging"), "rolledback");
    for host in &names(10)[..5] {
        let answer = play.ask("Mon 12:05", host);
        assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("1.0.0"), &json!(true)], "{host}");
    }
}

#[test]
fn on_halt_stop_is_the_default() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", names(2), "staging");
    assert_eq!(play.told("Mon 12:01", names(2)).len(), 2);
    play.fails("Mon 12:02", "h01");
    assert_eq!(play.state("Mon 12:03", "staging"), "halted");
}

#[test]
fn on_halt_rollback_does_not_act_on_time_outs() {
    let mut play = Play::staging(
        json!({ "on_halt": "rollback", "max_failed_before_halt": "100%", "max_timeout_before_halt": "0%" }),
    );
    play.hosts("Mon 11:50", names(3), "staging");
    play.all_update("Mon 12:01", &["h01"]);
    assert!(play.is_told("Mon 12:01", "h02"));
    play.fails("Mon 12:01", "h03").starts("Mon 12:02", "h02");
    let group = play.group("Mon 12:04", "staging");
    assert_eq!([&group["state"], &group["last_update_reason"]], ["halted", "timeout_threshold"]);
}

#[test]
fn on_halt_rollback_does_not_act_on_silence() {
    let settings = json!({ "on_halt": "rollback", "failure_seconds": 60, "max_timeout_before_halt": "100%" });
    let mut play = Play::staging(settings);
    play.hosts("Mon 11:50", names(3), "staging");
    play.all_update("Mon 12:01", &["h01"]);
    assert!(play.is_told("Mon 12:01", "h02"));
    play.starts("Mon 12:02", "h02").switches("Mon 12:02:30", "h02");
    let group = play.group("Mon 12:30", "staging");
    assert_eq!([&group["failed_count"], &group["state"]], [&json!(1), &json!("halted")], "nobody reported a failure");
}

#[test]
fn a_manual_halt_does_not_roll_back() {
    let mut play = Play::staging(json!({ "on_halt": "rollback" }));
    play.hosts("Mon 11:50", names(2), "staging");
    play.say("Mon 12:01", json!({ "halt": { "groups": ["staging"] } }));
    assert_eq!(play.state("Mon 12:02", "staging"), "halted");
}

#[test]
fn mark_done_of_a_rolled_back_group_does_not_lift_the_cap() {
    // Whether nobody was told before, or three hosts were and two of them updated.
    for is_under_way in [false, true] {
        let mut play = Play::staging(json!({ "max_in_flight": "10%" }));
        play.hosts("Mon 11:50", names(10), "staging");
        if is_under_way {
            play = under_way("10%").0;
        }
        play.say("Mon 12:05", roll_back(false)).hosts("Mon 12:06", &["late"], "staging").heard("Mon 12:20", names(10));
        play.say("Mon 12:21", json!({ "mark_done": { "groups": ["staging"] } }));
        let in_flight = play.count("Mon 12:22", "staging", "in_flight");
        assert!(in_flight <= 1, "a tenth of ten hosts at once, and not {in_flight}; under way: {is_under_way}");
    }
}

/// A group with a cap of one host, of which three hosts updated and have gone back.
fn gone_back(settings: Value) -> (Play, Vec<&'static str>) {
    let order = order(0, names(10));
    let always = json!({ "max_in_flight": "10%", "max_failed_before_halt": "100%" });
    let mut play = Play::staging(super::with(always, settings));
    play.hosts("Mon 11:50", names(10), "staging");
    for (minute, host) in (1..).zip(&order[..3]) {
        play.all_update(&format!("Mon 12:{minute:02}"), &[host]);
    }
    play.say("Mon 12:05", roll_back(true));
    assert_eq!(play.told("Mon 12:06", &order[..3]), &order[..3]);
    for host in &order[..3] {
        let last = json!({ "outcome": "updated", "to": "1.0.0" });
        play.say("Mon 12:07", json!({ "report": { "host": host, "version": "1.0.0", "last": last } }));
    }
    assert_eq!(play.count("Mon 12:09", "staging", "up_to_date"), 0, "all went back");
    (play, order)
}

#[test]
fn start_after_a_rollback_goes_up_again_at_the_groups_pace() {
    for verb in ["start", "run"] {
        let (mut play, order) = gone_back(json!({}));
        play.say("Mon 12:10", json!({ verb: { "groups": ["staging"] } }));
        for (minute, next) in (11..).zip(&order) {
            let when = format!("Mon 12:{minute}");
            assert_eq!(play.count(&when, "staging", "in_flight"), 1, "{verb}");
            let open: Vec<&str> = order.iter().copied().skip(minute - 11).collect();
            assert_eq!(play.told(&when, &open), [*next], "{verb}: the first of the order, and nobody else");
            play.updates(&when, next);
        }
        assert_eq!(play.state("Mon 12:22", "staging"), "done", "{verb}");
    }
}

#[test]
fn mark_done_after_a_rollback_lets_nobody_go_beyond_the_cap_who_went_back() {
    let (mut play, order) = gone_back(json!({}));
    play.say("Mon 12:10", json!({ "mark_done": { "groups": ["staging"] } }));
    assert_eq!(play.count("Mon 12:11", "staging", "in_flight"), 1);
    assert_eq!(play.count("Mon 12:11", "staging", "failed"), 0, "to go back as told is no failure");
    assert_eq!(play.told("Mon 12:11", &order).len(), 1);
}

#[test]
fn start_after_a_rollback_tests_the_canaries_again() {
    let order = order(0, names(10));
    let mut play = Play::staging(json!({ "max_in_flight": "50%", "canary_count": 2 }));
    for (number, host) in (0..).zip(names(10)) {
        let update_id = format!("{number:08}-0000-4000-8000-000000000000");
        let labels = json!({ "env": "staging" });
        let report = json!({ "host": host, "version": "1.0.0", "labels": labels, "update_id": update_id });
        play.say("Mon 11:50", json!({ "report": report }));
    }
    play.all_update("Mon 12:01", &order[..2]);
    assert_eq!(play.state("Mon 12:02", "staging"), "active");
    play.say("Mon 12:03", roll_back(true));
    for host in &order[..2] {
        assert!(play.is_told("Mon 12:04", host));
        let last = json!({ "outcome": "updated", "to": "1.0.0" });
        play.say("Mon 12:04", json!({ "report": { "host": host, "version": "1.0.0", "last": last } }));
    }
    play.say("Mon 12:05", json!({ "start": { "groups": ["staging"] } }));
    assert_eq!(play.state("Mon 12:06", "staging"), "canary", "what they proved is taken back");
    assert_eq!(play.told("Mon 12:06", &order), &order[..2]);
}

#[test]
fn who_is_on_its_way_back_keeps_its_slot_when_the_group_starts_again() {
    let (mut play, order) = under_way("10%");
    play.updates("Mon 12:04", order[2]);
    play.say("Mon 12:05", roll_back(false));
    let back = play.told("Mon 12:06", &order[..3]);
    assert_eq!(back.len(), 1, "one at a time");
    play.say("Mon 12:07", json!({ "start": { "groups": ["staging"] } }));
    assert_eq!(play.count("Mon 12:07", "staging", "in_flight"), 1);
    let others: Vec<&str> = order.iter().copied().filter(|host| *host != back[0]).collect();
    let up: Vec<String> = play.told("Mon 12:08", &others);
    let up: Vec<&String> = up.iter().filter(|host| !order[..3].contains(&host.as_str())).collect();
    assert!(up.is_empty(), "{up:?}: the one slot is taken");
    // Told the target again, it is where it shall be.
    assert_eq!(play.ask("Mon 12:09", &back[0])["agent_version"], "2.0.0");
    play.say("Mon 12:10", json!({ "report": { "host": back[0] } }));
    assert_eq!(play.told("Mon 12:11", &order[3..]), [order[3]]);
}
