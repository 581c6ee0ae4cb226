//! Thresholds, the halted state, and what ends it.

use serde_json::{Value, json};

use super::{Play, at, labelled, names, order, with};

/// Twenty hosts that are all told at once.
fn twenty(settings: Value) -> Play {
    let mut play = Play::staging(settings);
    play.hosts("Mon 11:50", names(20), "staging");
    assert_eq!(play.told("Mon 12:00", names(20)).len(), 20);
    play
}

fn fail(play: &mut Play, when: &str, hosts: &[&str]) {
    for host in hosts {
        play.fails(when, host);
    }
}

/// Ten hosts, of which h01, h02 and h03 are told and h01 failed: the group is halted.
fn halted() -> (Play, Vec<&'static str>) {
    let order = order(0, names(10));
    let mut play = Play::staging(json!({ "max_in_flight": "30%" }));
    play.hosts("Mon 11:50", names(10), "staging");
    assert_eq!(play.told("Mon 12:00", names(10)).len(), 3);
    play.fails("Mon 12:01", order[0]);
    (play, order)
}

#[test]
fn by_default_the_first_failure_halts() {
    let mut play = twenty(json!({}));
    play.fails("Mon 12:01", "h07");
    let group = play.group("Mon 12:01", "staging");
    assert_eq!([&group["state"], &group["last_update_reason"]], ["halted", "failed_threshold"]);
    assert_eq!(play.told("Mon 12:01", names(20)), [""; 0]);
}

#[test]
fn exactly_max_failed_does_not_halt_and_one_more_does() {
    for (percentage, allowed) in [("10%", 2), ("5%", 1), ("12%", 2), ("50%", 10), ("99%", 19)] {
        let mut play = twenty(json!({ "max_failed_before_halt": percentage }));
        fail(&mut play, "Mon 12:01", &names(20)[..allowed]);
        assert_eq!(play.state("Mon 12:02", "staging"), "active", "{percentage}");
        fail(&mut play, "Mon 12:03", &names(20)[allowed..=allowed]);
        assert_eq!(play.state("Mon 12:04", "staging"), "halted", "{percentage}");
    }
}

#[test]
fn max_failed_of_all_never_halts() {
    let mut play = twenty(json!({ "max_failed_before_halt": "100%" }));
    fail(&mut play, "Mon 12:01", names(20));
    assert_eq!(play.state("Mon 12:02", "staging"), "active");
}

#[test]
fn by_default_a_tenth_may_time_out_and_one_more_halts() {
    for (settings, allowed) in [
        (json!({}), 2),
        (json!({ "max_timeout_before_halt": "25%" }), 5),
        (json!({ "max_timeout_before_halt": "0%" }), 0),
    ] {
        let mut play = twenty(settings.clone());
        for host in &names(20)[..allowed] {
            play.starts("Mon 12:01", host);
        }
        assert_eq!(play.state("Mon 12:03", "staging"), "active", "{settings}");
        assert_eq!(play.count("Mon 12:03", "staging", "timed_out"), allowed as u64);
        play.starts("Mon 12:04", names(20)[allowed]);
        assert_eq!(play.state("Mon 12:04:59", "staging"), "active", "{settings}");
        let group = play.group("Mon 12:06", "staging");
        assert_eq!([&group["state"], &group["last_update_reason"]], ["halted", "timeout_threshold"], "{settings}");
    }
}

#[test]
fn fewer_failures_than_min_failed_before_halt_halt_nothing() {
    let mut play = twenty(json!({ "min_failed_before_halt": 3 }));
    fail(&mut play, "Mon 12:01", &["h01", "h02"]);
    assert_eq!(play.state("Mon 12:02", "staging"), "active");
    fail(&mut play, "Mon 12:03", &["h03"]);
    assert_eq!(play.state("Mon 12:04", "staging"), "halted");
}

#[test]
fn max_failed_of_ended_is_of_those_that_ended_from_min_ended_on() {
    let settings = json!({ "max_failed_before_halt": "100%", "max_failed_of_ended": "50%", "min_ended": 4 });
    let mut play = twenty(settings.clone());
    fail(&mut play, "Mon 12:01", &["h01", "h02", "h03"]);
    assert_eq!(play.state("Mon 12:02", "staging"), "active", "three ended, four are needed");
    fail(&mut play, "Mon 12:03", &["h04"]);
    let group = play.group("Mon 12:03", "staging");
    assert_eq!([&group["state"], &group["last_update_reason"]], ["halted", "failed_threshold"]);
    let mut play = twenty(settings);
    fail(&mut play, "Mon 12:01", &["h01", "h02"]);
    play.updates("Mon 12:01", "h03").updates("Mon 12:01", "h04");
    assert_eq!(play.state("Mon 12:02", "staging"), "active", "two of four are half of them, and not more");
    fail(&mut play, "Mon 12:03", &["h05"]);
    assert_eq!(play.state("Mon 12:03", "staging"), "halted");
}

#[test]
fn max_failed_of_ended_judges_from_twenty_on_where_min_ended_is_not_given() {
    let mut play = twenty(json!({ "max_failed_before_halt": "100%", "max_failed_of_ended": "50%" }));
    fail(&mut play, "Mon 12:01", &names(20)[..19]);
    assert_eq!(play.state("Mon 12:02", "staging"), "active");
    fail(&mut play, "Mon 12:03", &["h20"]);
    assert_eq!(play.state("Mon 12:03", "staging"), "halted");
}

#[test]
fn a_failure_after_the_group_was_done_is_a_soak_failure_and_halts() {
    let cases = [("outcome", "100%"), ("version", "100%"), ("outcome", "50%"), ("version", "50%")];
    for (how, cap) in cases {
        let mut play = Play::staging(json!({ "max_in_flight": cap }));
        play.hosts("Mon 11:50", names(2), "staging");
        play.all_update("Mon 12:01", names(2));
        assert_eq!(play.state("Mon 12:02", "staging"), "done");
        match how {
            "outcome" => play.fails("Mon 12:30", "h01"),
            _ => play.say("Mon 12:30", json!({ "report": { "host": "h01", "version": "1.0.0" } })),
        };
        let group = play.group("Mon 12:31", "staging");
        assert_eq!([&group["state"], &group["last_update_reason"]], ["halted", "soak_failed"], "{how}, at most {cap}");
    }
}

#[test]
fn soak_failures_of_a_capped_group_are_not_told_again_and_add_up() {
    let mut play = Play::staging(json!({ "max_in_flight": "50%", "max_failed_before_halt": "10%" }));
    play.hosts("Mon 11:50", names(20), "staging");
    play.heard("Mon 12:01", names(20));
    for host in names(20) {
        play.reports("Mon 12:02", host, "2.0.0", "updated", "");
    }
    assert_eq!(play.state("Mon 12:03", "staging"), "done");
    for (minute, host) in [(10, "h01"), (12, "h02"), (14, "h03")] {
        assert_eq!(play.state(&format!("Mon 12:{minute}"), "staging"), "done", "{host} is within a tenth");
        play.fails(&format!("Mon 12:{minute}"), host);
    }
    let group = play.group("Mon 12:15", "staging");
    assert_eq!([&group["state"], &group["last_update_reason"]], ["halted", "soak_failed"]);
    assert_eq!(group["failed_count"], 3);
}

#[test]
fn the_reason_names_rule_count_and_commonest_error() {
    let mut play = twenty(json!({ "max_failed_before_halt": "10%" }));
    play.fails("Mon 12:01", "h01");
    play.reports("Mon 12:01", "h02", "1.0.0", "failed", "disk_full");
    play.reports("Mon 12:01", "h03", "1.0.0", "failed", "disk_full");
    let group = play.group("Mon 12:01", "staging");
    let why = &group["why"];
    assert_eq!(why["code"], "halted");
    assert_eq!([&why["rule"], &why["error"]], ["failed_threshold", "disk_full"]);
    assert_eq!([&why["count"], &why["of"]], [3, 20]);
    assert_eq!(why["who"], "operator");
    let told = play.ask("Mon 12:02", "h01");
    assert_eq!(told["fleet"]["why"], json!({ "code": "halted" }), "to strangers a code");
}

#[test]
fn what_another_version_did_before_is_no_error_of_this_one() {
    let mut play = Play::staging(json!({ "max_failed_before_halt": "10%" }));
    play.hosts("Mon 11:50", names(20), "staging");
    let last = json!({ "outcome": "rolled_back", "to": "1.9.0", "code": "disk_full" });
    for host in names(3) {
        play.say("Mon 11:55", json!({ "report": { "host": host, "version": "1.0.0", "last": last } }));
    }
    play.told("Mon 12:00", names(20));
    for host in names(3) {
        play.updates("Mon 12:01", host);
    }
    for host in names(3) {
        play.say("Mon 12:02", json!({ "report": { "host": host, "version": "1.0.0" } }));
    }
    let why = play.group("Mon 12:02", "staging")["why"].clone();
    assert_eq!([&why["rule"], &why["count"]], [&json!("failed_threshold"), &json!(3)], "they left the target again");
    assert_eq!(why["error"], Value::Null, "{why}");
}

#[test]
fn a_halted_group_answers_the_target_to_who_was_told_and_the_start_to_others() {
    let (mut play, order) = halted();
    for (number, host) in order.iter().enumerate() {
        let answer = play.ask("Mon 12:02", host);
        let version = if number < 3 { "2.0.0" } else { "1.0.0" };
        assert_eq!(
            [&answer["agent_version"], &answer["agent_auto_update"]],
            [&json!(version), &json!(false)],
            "{host}"
        );
    }
    let answer = play.ask("Mon 12:02", "stranger");
    assert_eq!([&answer["agent_version"], &answer["agent_auto_update"]], [&json!("1.0.0"), &json!(false)]);
}

#[test]
fn a_halt_is_not_ended_by_time_by_success_or_by_another_threshold() {
    let (mut play, order) = halted();
    play.updates("Mon 12:05", order[0]).updates("Mon 12:05", order[1]).updates("Mon 12:05", order[2]);
    assert_eq!(play.state("Mon 12:06", "staging"), "halted", "all that were told updated");
    let settings = json!({ "max_in_flight": "30%", "max_failed_before_halt": "100%" });
    play.groups("Mon 12:07", json!([with(labelled("staging"), settings)]));
    assert_eq!(play.state("Mon 12:08", "staging"), "halted", "a threshold is no run");
    play.heard("Tue 11:59", names(10));
    assert_eq!(play.told("Tue 12:00", names(10)), [""; 0]);
    assert_eq!(play.state("Thu 12:00", "staging"), "halted");
}

#[test]
fn a_new_target_ends_a_halt_by_a_threshold() {
    let (mut play, _) = halted();
    play.target("Mon 12:05", "2.0.1");
    assert_eq!(play.state("Mon 12:06", "staging"), "unstarted");
    play.heard("Tue 11:50", names(10));
    assert_eq!(play.told("Tue 12:00", names(10)).len(), 3);
}

#[test]
fn start_of_a_halted_group_is_refused_and_names_run() {
    let (mut play, _) = halted();
    for force in [false, true] {
        let error = play.refused("Mon 12:02", json!({ "start": { "groups": ["staging"], "force": force } }));
        assert!(error["message"].as_str().unwrap().contains("run"), "{error}");
    }
    assert_eq!(play.state("Mon 12:03", "staging"), "halted");
    assert_eq!(play.told("Mon 12:03", names(10)), [""; 0]);
}

#[test]
fn a_run_is_another_attempt_what_failed_before_counts_no_more_and_the_answer_says_its_number() {
    let (mut play, order) = halted();
    assert_eq!(play.ask("Mon 12:02", order[1])["fleet"]["attempt"], 1);
    play.say("Mon 12:03", json!({ "run": { "groups": ["staging"] } }));
    let group = play.group("Mon 12:03:30", "staging");
    assert_eq!([&group["state"], &group["failed_count"], &group["attempt"]], [&json!("active"), &json!(0), &json!(2)]);
    assert_eq!(play.ask("Mon 12:04", order[1])["fleet"]["attempt"], 2);
    play.fails("Mon 12:05", order[1]);
    assert_eq!(play.count("Mon 12:05", "staging", "failed"), 1);
    assert_eq!(play.state("Mon 12:05", "staging"), "halted", "the first failure of this attempt halts again");
}

#[test]
fn a_run_takes_those_that_failed_or_timed_out_first_within_the_cap() {
    let order = order(0, names(10));
    let settings =
        json!({ "max_in_flight": "10%", "max_failed_before_halt": "20%", "max_timeout_before_halt": "100%" });
    let mut play = Play::staging(settings);
    play.hosts("Mon 11:50", names(10), "staging");
    for (minute, host) in [(1, order[0]), (2, order[1]), (5, order[3])] {
        let when = format!("Mon 12:{minute:02}");
        if minute == 5 {
            // One that updates between them.
            play.all_update("Mon 12:04", &[order[2]]);
        }
        assert!(play.is_told(&when, host), "{host}");
        play.fails(&when, host);
    }
    assert_eq!(play.state("Mon 12:06", "staging"), "halted", "three of ten failed");
    play.say("Mon 12:10", json!({ "run": { "groups": ["staging"] } }));
    let mut next = Vec::new();
    for minute in 11..18 {
        let when = format!("Mon 12:{minute}");
        let open: Vec<&str> = order.iter().copied().filter(|host| *host != order[2] && !next.contains(host)).collect();
        let told = play.told(&when, &open);
        assert_eq!(told.len(), 1, "one slot, retries included: {told:?}");
        let host = *order.iter().find(|host| **host == told[0]).unwrap();
        play.updates(&when, host);
        next.push(host);
    }
    assert_eq!(next, [order[0], order[1], order[3], order[4], order[5], order[6], order[7]]);
}

#[test]
fn who_was_told_before_a_run_and_has_not_ended_keeps_its_slot() {
    let (mut play, order) = halted();
    play.say("Mon 12:03", json!({ "run": { "groups": ["staging"] } }));
    // Two of the three slots are theirs; the third goes to the one that failed.
    assert_eq!(play.told("Mon 12:04", names(10)).len(), 3);
    assert!(play.is_told("Mon 12:04", order[0]));
    assert!(!play.is_told("Mon 12:04", order[3]));
    assert_eq!(play.count("Mon 12:05", "staging", "in_flight"), 3);
}

#[test]
fn run_of_an_unstarted_group_starts_it() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 09:00", names(2), "staging");
    assert_eq!(play.told("Mon 09:01", names(2)), [""; 0]);
    play.say("Mon 09:02", json!({ "run": { "groups": ["staging"] } }));
    assert_eq!(play.state("Mon 09:02", "staging"), "active");
    assert_eq!(play.told("Mon 09:03", names(2)).len(), 2);
}

#[test]
fn mark_done_of_a_halted_group_opens_the_way_for_dependents_and_its_other_hosts_stay() {
    let order = order(0, names(10));
    let mut play = Play::default();
    let staging = with(labelled("staging"), json!({ "max_in_flight": "30%" }));
    let prod = with(labelled("prod"), json!({ "requires": ["staging"] }));
    play.groups("Mon 08:00", json!([staging, prod])).target("Mon 08:00", "2.0.0");
    play.hosts("Mon 11:50", names(10), "staging").hosts("Mon 11:50", &["p"], "prod");
    assert_eq!(play.told("Mon 12:00", names(10)).len(), 3);
    play.fails("Mon 12:01", order[0]);
    assert!(!play.is_told("Mon 12:02", "p"));
    play.say("Mon 12:03", json!({ "mark_done": { "groups": ["staging"] } }));
    assert_eq!(play.state("Mon 12:03", "staging"), "done");
    assert!(play.is_told("Mon 12:04", "p"));
    play.heard("Mon 13:00", names(10));
    assert_eq!(play.told("Mon 13:01", names(10)), [""; 0], "the target failed there");
    assert_eq!(play.ask("Mon 13:01", order[5])["agent_version"], "1.0.0");
}

#[test]
fn a_halted_group_has_no_end_by_the_clock_and_its_dependents_wait_for_it() {
    let (mut play, order) = halted();
    let group = play.group("Mon 12:02", "staging");
    assert_eq!(group["why"]["until"], Value::Null);
    assert_eq!(group["why"]["since"], at("Mon 12:01"));
    assert_eq!(play.ask("Mon 12:02", order[9])["fleet"]["until"], Value::Null);
}

#[test]
fn thresholds_act_with_the_next_step() {
    let mut play = twenty(json!({ "max_failed_before_halt": "50%" }));
    fail(&mut play, "Mon 12:01", &["h01", "h02", "h03"]);
    assert_eq!(play.state("Mon 12:02", "staging"), "active");
    play.groups("Mon 12:03", json!([with(labelled("staging"), json!({ "max_failed_before_halt": "10%" }))]));
    assert_eq!(play.state("Mon 12:03", "staging"), "halted");
}

#[test]
fn counts_and_halts_go_on_while_updates_are_off() {
    let mut play = twenty(json!({}));
    let spec = json!({ "agent_auto_update": false, "agent_auto_update_groups": { "regular": [labelled("staging")] } });
    play.put("Mon 12:01", "cluster_maintenance_config", spec);
    assert_eq!(play.told("Mon 12:01", names(20)), [""; 0]);
    play.fails("Mon 12:02", "h01");
    assert_eq!(play.state("Mon 12:02", "staging"), "halted");
    play.groups("Mon 12:03", json!([labelled("staging")]));
    assert_eq!(play.state("Mon 12:04", "staging"), "halted");
    assert_eq!(play.told("Mon 12:04", names(20)), [""; 0]);
}

#[test]
fn commands_for_unknown_groups_change_nothing() {
    let mut play = Play::staging(json!({}));
    for command in ["start", "mark_done", "run", "halt", "rollback"] {
        let error = play.refused("Mon 08:01", json!({ command: { "groups": ["staging", "nowhere"] } }));
        assert!(error["message"].as_str().unwrap().contains("nowhere"), "{command}: {error}");
        assert_eq!(play.state("Mon 08:01", "staging"), "unstarted", "{command}");
    }
}

/// FLEET §6: since when is about the host, not about what happened to its group later.
#[test]
fn explain_says_since_when_of_the_host_itself() {
    let (mut play, order) = halted();
    play.updates("Mon 12:02", order[1]);
    play.say("Mon 12:30", json!({ "halt": { "groups": ["staging"] } }));
    let since = |play: &mut Play, host: &str| play.explain("Mon 12:40", host)["why"]["since"].clone();
    assert_eq!(play.explain("Mon 12:40", order[1])["why"]["code"], "updated");
    assert_eq!(since(&mut play, order[1]), at("Mon 12:02"), "when it updated");
    // Of who is pinned nobody noted when that began.
    play.say("Mon 12:41", json!({ "report": { "host": "alone", "version": "1.0.0", "labels": { "env": "none" } } }));
    let alone = play.explain("Mon 12:42", "alone")["why"].clone();
    assert_eq!((&alone["code"], &alone["since"]), (&json!("unassigned"), &Value::Null), "{alone}");
}
