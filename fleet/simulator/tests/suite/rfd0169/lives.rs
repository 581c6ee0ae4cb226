//! Hosts that leave, go silent, come back after long, or are copied, in a group with a cap.

use serde_json::{Value, json};

use super::{Play, names, order, with};

/// They ask and report at these times.
fn beat(play: &mut Play, times: &[&str], hosts: &[&str]) {
    for when in times {
        play.heard(when, hosts);
    }
}

#[test]
fn a_group_that_was_scaled_down_before_its_start_is_done_by_those_that_are_left() {
    let mut play = Play::staging(json!({}));
    let (gone, left) = names(10).split_at(5);
    // Half of them leave on Sunday: by Monday noon they are no members any more.
    play.hosts("Mon 08:01", gone, "staging");
    play.groups("Tue 08:00", json!([super::labelled("staging")])).target("Tue 08:00", "2.0.0");
    play.hosts("Tue 11:50", left, "staging");
    assert_eq!(play.count("Tue 12:01", "staging", "silent"), 0, "after a day they are in no count");
    play.all_update("Tue 12:02", left);
    assert_eq!(play.state("Tue 12:05", "staging"), "done");
}

#[test]
fn a_group_that_is_scaled_down_after_its_start_waits_a_day_for_those_that_were_not_told() {
    let order = order(0, names(10));
    let mut play = Play::staging(json!({ "max_in_flight": "50%" }));
    play.hosts("Mon 11:50", names(10), "staging");
    let (told, gone) = order.split_at(5);
    play.all_update("Mon 12:01", told);
    // The other half leaves before it is told. Silence is no failure: nothing halts, and nothing is done.
    beat(&mut play, &["Mon 12:30", "Mon 13:00", "Mon 13:30"], told);
    let group = play.group("Mon 13:31", "staging");
    assert_eq!([&group["state"], &group["silent_count"]], [&json!("active"), &json!(5)]);
    assert_eq!([&group["failed_count"], &group["timed_out_count"]], [&json!(0), &json!(0)]);
    play.heard("Tue 11:40", told);
    assert_eq!(play.state("Tue 11:45", "staging"), "active");
    assert_eq!(play.state("Tue 12:00", "staging"), "done", "they departed: {gone:?}");
}

#[test]
fn hosts_that_leave_after_they_were_told_time_out_and_halt_the_group() {
    let mut play = Play::staging(json!({ "max_timeout_before_halt": "20%" }));
    let hosts = names(10);
    play.hosts("Mon 11:50", hosts, "staging");
    assert_eq!(play.told("Mon 12:01", hosts).len(), 10);
    for host in &hosts[3..] {
        play.updates("Mon 12:05", host);
    }
    assert_eq!(play.state("Mon 13:00", "staging"), "active");
    // A jitter of none and an hour: three of ten are more than a fifth.
    let group = play.group("Mon 13:30", "staging");
    assert_eq!([&group["state"], &group["timed_out_count"]], [&json!("halted"), &json!(3)]);
    assert_eq!(group["why"]["rule"], "timeout_threshold", "{group}");
    assert_eq!(play.count("Wed 13:30", "staging", "timed_out"), 3, "who was told never departs");
}

#[test]
fn a_host_that_comes_back_after_weeks_is_told_the_rollout_of_now_in_its_turn() {
    let mut play = Play::staging(json!({ "max_in_flight": "50%" }));
    play.hosts("Mon 11:50", names(4), "staging");
    let told = play.told("Mon 12:01", names(4));
    assert_eq!(told.len(), 2);
    for host in &told {
        play.updates("Mon 12:02", host);
    }
    let waits: Vec<&str> = names(4).iter().copied().filter(|name| !told.iter().any(|told| told == name)).collect();
    let away = waits[0];
    play.all_update("Mon 12:04", &waits[1..]);
    // It is away for two weeks and a rollout.
    play.target("Mon+2 08:00", "3.0.0");
    let here: Vec<&str> = names(4).iter().copied().filter(|name| *name != away).collect();
    for host in &here {
        play.say("Mon+2 11:50", json!({ "report": { "host": host, "version": "2.0.0" } }));
    }
    assert_eq!(play.group("Mon+2 11:55", "staging")["silent_count"], 0, "it departed");
    play.say("Mon+2 11:58", json!({ "report": { "host": away, "version": "1.0.0" } }));
    let mut seen = Vec::new();
    for minute in 1..10 {
        let when = format!("Mon+2 12:{minute:02}");
        for host in play.told(&when, names(4)).into_iter().filter(|host| !seen.contains(host)).collect::<Vec<_>>() {
            assert_eq!(play.ask(&when, &host)["agent_version"], "3.0.0");
            play.say(&when, json!({ "report": { "host": host, "version": "3.0.0", "last": { "outcome": "updated", "to": "3.0.0" } } }));
            seen.push(host);
        }
    }
    assert!(seen.iter().any(|host| host == away), "{seen:?}");
    assert_eq!(play.state("Mon+2 12:20", "staging"), "done");
}

#[test]
fn a_host_that_comes_back_in_the_rollout_waits_for_the_next_pass() {
    let order = order(0, names(4));
    let mut play = Play::staging(json!({ "max_in_flight": "25%", "max_timeout_before_halt": "100%" }));
    play.hosts("Mon 11:00", &order[..1], "staging");
    play.hosts("Mon 11:50", &order[1..], "staging");
    // The first of the order was silent when its turn came; it comes back when the second is let go.
    assert_eq!(play.told("Mon 12:01", &order[1..2]), [order[1]]);
    assert!(!play.is_told("Mon 12:02", order[0]), "the slot is taken");
    for (minute, host) in order[1..].iter().enumerate() {
        play.all_update(&format!("Mon 12:{:02}", 3 + minute), &[host]);
    }
    play.all_update("Mon 12:10", &order[..1]);
    assert_eq!(play.state("Mon 12:15", "staging"), "done");
}

/// Two machines of one image: the updater's id is the first one's, and the copy is a host of its own.
#[test]
fn a_copy_with_another_host_id_takes_nothing_from_the_first() {
    let mut play = Play::staging(json!({ "max_in_flight": "100%" }));
    let id = "11111111-2222-4333-8444-555555555555";
    let report = |host: &str, update_id: &str| json!({ "report": { "host": host, "version": "1.0.0", "labels": { "env": "staging" }, "update_id": update_id } });
    play.say("Mon 11:50", report("first", id)).say("Mon 11:51", report("copy", id));
    let members = play.group("Mon 11:52", "staging");
    assert_eq!(members["pending_count"], 2, "{members}");
    let by_id = |play: &mut Play, when: &str| -> Value {
        play.say(when, json!({ "find": { "update_id": id } })).last()["find"].clone()
    };
    play.say("Mon 11:53", json!({ "hold": { "host": "first" } }));
    assert_eq!(by_id(&mut play, "Mon 12:01")["fleet"]["why"]["code"], "held", "the id is the first one's");
    assert!(play.is_told("Mon 12:01", "copy"));
}

#[test]
fn silence_before_the_turn_frees_the_slot_and_silence_after_it_does_not() {
    let order = order(0, names(4));
    let settings = json!({ "max_in_flight": "25%", "max_timeout_before_halt": "100%" });
    let mut play = Play::staging(with(settings.clone(), json!({})));
    play.hosts("Mon 11:50", names(4), "staging");
    // Nobody asks: the first of the order is let go, and silent after three quarters of an hour.
    assert_eq!(play.count("Mon 12:01", "staging", "in_flight"), 1);
    play.heard("Mon 12:30", &order[1..]);
    assert_eq!(play.count("Mon 12:40", "staging", "silent"), 1);
    assert_eq!(play.told("Mon 12:41", &order[1..]), [order[1]], "its slot is another's");
    let mut play = Play::staging(settings);
    play.hosts("Mon 11:50", names(4), "staging");
    assert!(play.is_told("Mon 12:01", order[0]));
    play.heard("Mon 12:30", &order[1..]);
    assert_eq!(play.told("Mon 12:41", &order[1..]), [""; 0], "it was told: it may be at work");
}
