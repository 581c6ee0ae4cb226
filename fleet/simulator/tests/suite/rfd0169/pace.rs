//! How many at once, and who is next.

use serde_json::{Value, json};

use super::{Play, labelled, names, order, with};

/// So many hosts in a group that lets `percentage` of them go at once, ten past twelve hours on Monday.
fn capped(count: usize, percentage: &str) -> Play {
    let mut play = Play::staging(json!({
        "max_in_flight": percentage, "max_failed_before_halt": "100%", "max_timeout_before_halt": "100%",
    }));
    play.hosts("Mon 11:50", names(count), "staging");
    play
}

#[test]
fn the_cap_is_rounded_up_and_moves_at_least_one_host_above_zero() {
    for (count, percentage, told) in
        [(10, "10%", 1), (10, "25%", 3), (3, "10%", 1), (11, "10%", 2), (10, "50%", 5), (10, "99%", 10), (1, "1%", 1)]
    {
        let mut play = capped(count, percentage);
        let group = play.group("Mon 12:00", "staging");
        assert_eq!(group["in_flight_count"], told, "{count} hosts, {percentage}: {group}");
        assert_eq!(group["let_go_count"], told, "{count} hosts, {percentage}: {group}");
        assert_eq!(play.told("Mon 12:01", names(count)).len(), told, "{count} hosts, {percentage}");
        assert_eq!(play.count("Mon 12:30", "staging", "in_flight"), told as u64, "{count} hosts, {percentage}");
    }
}

#[test]
fn nobody_goes_at_zero_percent() {
    let mut play = capped(10, "0%");
    assert_eq!(play.told("Mon 12:01", names(10)), [""; 0]);
    assert_eq!(play.count("Mon 12:30", "staging", "let_go"), 0);
    let why = play.group("Mon 12:31", "staging")["why"].clone();
    assert!(why["code"].is_string(), "{why}");
}

#[test]
fn without_a_cap_all_go_at_once() {
    let mut play = Play::staging(json!({}));
    play.hosts("Mon 11:50", names(10), "staging");
    assert_eq!(play.told("Mon 11:59", names(10)), [""; 0]);
    assert_eq!(play.told("Mon 12:00", names(10)), names(10));
}

#[test]
fn a_slot_is_freed_by_who_updated() {
    let order = order(0, names(4));
    let mut play = capped(4, "25%");
    assert_eq!(play.told("Mon 12:01", names(4)), [order[0]]);
    assert_eq!(play.told("Mon 12:02", &order[1..]), [""; 0]);
    play.updates("Mon 12:03", order[0]);
    assert_eq!(play.told("Mon 12:04", &order[1..]), [order[1]]);
}

#[test]
fn a_slot_is_freed_by_who_failed_and_he_is_not_told_again() {
    let order = order(0, names(4));
    let mut play = capped(4, "25%");
    assert_eq!(play.told("Mon 12:01", names(4)), [order[0]]);
    play.fails("Mon 12:03", order[0]);
    assert_eq!(play.told("Mon 12:04", &order), [order[1]]);
}

#[test]
fn a_slot_is_freed_by_who_timed_out_and_he_is_not_told_again() {
    let order = order(0, names(4));
    let mut play = capped(4, "25%");
    assert_eq!(play.told("Mon 12:01", names(4)), [order[0]]);
    play.starts("Mon 12:02", order[0]);
    assert_eq!(play.told("Mon 12:03", &order[1..]), [""; 0]);
    assert_eq!(play.told("Mon 12:05", &order), [order[1]]);
}

/// Found by the property with further cases: its slot was another's by then.
#[test]
fn a_switch_that_comes_after_the_time_out_takes_no_slot_again() {
    let order = order(0, names(4));
    let mut play = capped(4, "25%");
    assert_eq!(play.told("Mon 12:01", names(4)), [order[0]]);
    play.starts("Mon 12:02", order[0]);
    assert_eq!(play.told("Mon 12:05", &order), [order[1]]);
    play.switches("Mon 12:06", order[0]);
    let group = play.group("Mon 12:06", "staging");
    assert_eq!([&group["in_flight_count"], &group["timed_out_count"]], [1, 1]);
    play.updates("Mon 12:07", order[0]);
    let group = play.group("Mon 12:07", "staging");
    assert_eq!([&group["in_flight_count"], &group["timed_out_count"], &group["updated_count"]], [1, 0, 1]);
}

#[test]
fn who_was_let_go_takes_a_slot_before_he_asks_and_while_he_waits_watches_and_is_silent() {
    let order = order(0, names(4));
    let mut play = capped(4, "25%");
    assert_eq!(play.told("Mon 12:02", &order[1..]), [""; 0], "the first has not asked yet");
    assert!(play.is_told("Mon 12:03", order[0]));
    play.starts("Mon 12:04", order[0]).switches("Mon 12:04:30", order[0]);
    assert_eq!(play.told("Mon 12:20", &order[1..]), [""; 0], "it watches");
    assert_eq!(play.told("Mon 13:02", &order[1..]), [""; 0], "it is not heard of, and was told");
    assert_eq!(play.count("Mon 13:02", "staging", "in_flight"), 1);
}

#[test]
fn less_pace_takes_back_nobody_who_was_told_and_nobody_new_goes() {
    let mut play = capped(10, "50%");
    let told = play.told("Mon 12:01", names(10));
    assert_eq!(told.len(), 5);
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let settings = json!({ "max_in_flight": "10%", "max_failed_before_halt": "100%" });
    play.groups("Mon 12:02", json!([with(labelled("staging"), settings)]));
    assert_eq!(play.told("Mon 12:03", names(10)), told, "they go on");
    for (number, host) in told.iter().enumerate() {
        assert_eq!(play.count("Mon 12:04", "staging", "in_flight"), 5 - number as u64);
        play.updates("Mon 12:04", host);
    }
    assert_eq!(play.count("Mon 12:05", "staging", "in_flight"), 1, "as many as are allowed now");
    assert_eq!(play.count("Mon 12:05", "staging", "let_go"), 6);
}

#[test]
fn more_pace_acts_with_the_next_step() {
    let mut play = capped(10, "10%");
    assert_eq!(play.told("Mon 12:01", names(10)).len(), 1);
    play.groups("Mon 12:02", json!([with(labelled("staging"), json!({ "max_in_flight": "30%" }))]));
    assert_eq!(play.told("Mon 12:02", names(10)).len(), 3);
}

#[test]
fn hosts_on_the_target_already_count_as_updated_and_take_no_slot() {
    let mut play = capped(4, "25%");
    for host in ["h01", "h02"] {
        play.say("Mon 11:55", json!({ "report": { "host": host, "version": "2.0.0" } }));
    }
    let group = play.group("Mon 12:00", "staging");
    let counts = [&group["updated_count"], &group["in_flight_count"], &group["pending_count"]];
    assert_eq!(counts, [2, 1, 1], "{group}");
    let told = play.told("Mon 12:01", &["h03", "h04"]);
    assert_eq!(told.len(), 1);
}

#[test]
fn the_order_is_the_same_whatever_the_order_of_arrival_and_another_with_another_seed() {
    let mut backwards = names(10).to_vec();
    backwards.reverse();
    assert_eq!(order(0, names(10)), order(0, &backwards));
    assert_ne!(order(0, names(10)), order(1, names(10)));
    assert_ne!(order(0, names(10)), names(10), "by hash, and not by name");
}

#[test]
fn another_rollout_has_another_order() {
    let first = order(0, names(10));
    let mut play = Play::staging(json!({ "max_in_flight": "1%" }));
    play.target("Mon 09:00", "2.0.1").hosts("Mon 11:50", names(10), "staging");
    let mut second = Vec::new();
    for minute in 1..=10 {
        let when = format!("Mon 12:{minute:02}");
        let told = play.told(&when, names(10));
        let host =
            *names(10).iter().find(|host| told.iter().any(|told| told == **host) && !second.contains(*host)).unwrap();
        play.say(&when, json!({ "report": { "host": host, "version": "2.0.1" } }));
        second.push(host);
    }
    assert_ne!(first, second, "nobody is always first");
}

#[test]
fn the_same_script_and_seed_give_the_same_bytes() {
    let mut play = capped(10, "30%");
    play.say(
        "Mon 12:00",
        json!({ "hosts": { "count": 50, "version": "1.0.0", "labels": { "env": "staging" }, "breaks": "10%" } }),
    );
    for when in ["Mon 12:30", "Mon 13:30", "Mon 18:00"] {
        play.status(when);
    }
    let bytes = |seed| play.script.run_with(seed).iter().map(Value::to_string).collect::<String>();
    assert_eq!(bytes(0), bytes(0));
    assert_ne!(bytes(0), bytes(7));
}

#[test]
fn late_comers_wait_for_the_next_pass_which_begins_at_the_cursors_end() {
    let order = order(0, names(4));
    let mut play = capped(4, "25%");
    let late = ["l1", "l2", "l3", "l4", "l5", "l6"];
    assert!(play.is_told("Mon 12:01", order[0]));
    play.hosts("Mon 12:02", &late, "staging");
    for (number, host) in order.iter().enumerate() {
        let when = format!("Mon 12:{:02}", number + 3);
        assert_eq!(play.told(&when, &late), [""; 0], "while {host} is let go");
        assert!(play.is_told(&when, host));
        if number < 3 {
            play.updates(&when, host);
        }
    }
    // The last of the pass is let go, and holds the only slot: four are counted.
    assert_eq!(play.told("Mon 12:08", &late), [""; 0]);
    play.updates("Mon 12:09", order[3]);
    assert_ne!(play.state("Mon 12:09", "staging"), "done", "late-comers are pending");
    let mut gone = Vec::new();
    for minute in 10..16 {
        let when = format!("Mon 12:{minute}");
        let told = play.told(&when, &late);
        let new: Vec<&String> = told.iter().filter(|host| !gone.contains(*host)).collect();
        assert_eq!(new.len(), 1, "one at a time: {told:?}");
        gone.push(new[0].clone());
        play.updates(&when, gone.last().unwrap());
    }
    assert_eq!(play.state("Mon 12:17", "staging"), "done");
}

#[test]
fn who_comes_back_from_silence_waits_for_the_next_pass() {
    let order = order(0, names(3));
    let mut play = capped(3, "1%");
    // The second of the order was last heard of at 11:15: silent from 12:00 on, when the group starts.
    let mut quiet = Play::staging(json!({ "max_in_flight": "1%", "max_failed_before_halt": "100%" }));
    quiet.hosts("Mon 11:10", &[order[1]], "staging").hosts("Mon 11:50", &[order[0], order[2]], "staging");
    assert_eq!(quiet.count("Mon 12:00", "staging", "silent"), 1);
    assert!(quiet.is_told("Mon 12:01", order[0]));
    quiet.heard("Mon 12:02", &[order[1]]);
    quiet.updates("Mon 12:03", order[0]);
    assert_eq!(quiet.told("Mon 12:04", &order[1..]), [order[2]], "the pass goes on with its members");
    quiet.updates("Mon 12:05", order[2]);
    assert_eq!(quiet.told("Mon 12:06", &order[1..2]), [order[1]], "then the next one begins");
    // Without silence it is the second.
    assert!(play.is_told("Mon 12:01", order[0]));
    play.updates("Mon 12:03", order[0]);
    assert_eq!(play.told("Mon 12:04", &order[1..]), [order[1]]);
}

#[test]
fn who_was_let_go_and_goes_silent_before_he_asked_loses_his_place() {
    let order = order(0, names(3));
    let mut play = capped(3, "1%");
    play.heard("Mon 12:20", &order[1..]);
    // Heard of at 11:50 for the last time: silent after 12:35.
    assert_eq!(play.count("Mon 12:34", "staging", "in_flight"), 1);
    assert_eq!(play.count("Mon 12:34", "staging", "silent"), 0);
    assert_eq!(play.told("Mon 12:37", &order[1..]), [order[1]]);
    assert_eq!(play.count("Mon 12:37", "staging", "silent"), 1);
    assert!(!play.is_told("Mon 12:38", order[0]), "he arrives anew");
    assert_eq!(play.count("Mon 12:38", "staging", "in_flight"), 1);
    play.updates("Mon 12:39", order[1]);
    assert_eq!(play.told("Mon 12:40", &[order[0], order[2]]), [order[2]], "the pass goes on with its members");
    play.updates("Mon 12:41", order[2]);
    assert!(play.is_told("Mon 12:42", order[0]));
}

#[test]
fn who_moved_in_waits_for_the_next_pass() {
    let order = order(0, names(3));
    let mut play = capped(3, "1%");
    let movers = ["m1", "m2", "m3", "m4"];
    play.hosts("Mon 11:50", &movers, "elsewhere");
    assert!(play.is_told("Mon 12:01", order[0]));
    play.hosts("Mon 12:02", &movers, "staging");
    play.updates("Mon 12:03", order[0]);
    assert_eq!(play.told("Mon 12:04", &movers), [""; 0]);
    assert!(play.is_told("Mon 12:04", order[1]));
    play.updates("Mon 12:05", order[1]);
    assert_eq!(play.told("Mon 12:06", &movers), [""; 0]);
    play.all_update("Mon 12:06", &order[2..]);
    assert_eq!(play.told("Mon 12:07", &movers).len(), 1);
}

#[test]
fn a_done_group_goes_on_with_late_comers_under_its_cap() {
    let mut play = capped(4, "25%");
    for (number, host) in order(0, names(4)).iter().enumerate() {
        play.all_update(&format!("Mon 12:{:02}", number + 1), &[host]);
    }
    assert_eq!(play.state("Mon 12:05", "staging"), "done");
    let late = ["l1", "l2", "l3"];
    play.hosts("Mon 12:06", &late, "staging");
    let told = play.told("Mon 12:07", &late);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(play.told("Mon 12:08", &late), told);
    play.updates("Mon 12:09", &told[0]);
    let others: Vec<&str> = late.into_iter().filter(|host| *host != told[0]).collect();
    assert_eq!(play.told("Mon 12:10", &others).len(), 1);
}

#[test]
fn who_failed_is_told_again_once_the_group_is_done_but_under_its_cap() {
    let order = order(0, names(10));
    let mut play = capped(10, "10%");
    for (number, host) in order.iter().enumerate() {
        let when = format!("Mon 12:{:02}", number + 1);
        assert!(play.is_told(&when, host));
        if number < 3 {
            play.fails(&when, host);
        } else {
            play.updates(&when, host);
        }
    }
    assert_eq!(play.state("Mon 12:20", "staging"), "done");
    let told = play.told("Mon 12:21", &order[..3]);
    assert!(told.len() <= 1, "a tenth of ten hosts at once, retries included: {told:?}");
}

#[test]
fn a_failed_host_that_begins_by_itself_again_does_not_exceed_the_cap() {
    let order = order(0, names(4));
    let mut play = capped(4, "25%");
    assert!(play.is_told("Mon 12:01", order[0]));
    play.fails("Mon 12:02", order[0]);
    assert!(play.is_told("Mon 12:03", order[1]));
    play.starts("Mon 12:04", order[0]);
    assert_eq!(play.count("Mon 12:04", "staging", "in_flight"), 1);
    assert_eq!(play.count("Mon 12:04", "staging", "failed"), 1, "it failed in this attempt");
}

#[test]
fn who_is_not_counted_takes_a_slot_all_the_same() {
    let order = order(0, names(4));
    let mut play = capped(4, "50%");
    play.hosts("Mon 12:00:30", &["l1", "l2", "l3"], "staging");
    for (number, pair) in order.chunks(2).enumerate() {
        play.all_update(&format!("Mon 12:0{}", number + 1), pair);
    }
    // Four are counted, so two go at once, also of those that are not.
    assert_eq!(play.told("Mon 12:10", &["l1", "l2", "l3"]).len(), 2);
    assert_eq!(play.count("Mon 12:11", "staging", "in_flight"), 2);
}

#[test]
fn a_start_by_hand_lifts_the_gate_and_not_the_cap() {
    for command in [
        json!({ "start": { "groups": ["staging"] } }),
        json!({ "start": { "groups": ["staging"], "force": true } }),
        json!({ "run": { "groups": ["staging"] } }),
    ] {
        let mut play = capped(10, "20%");
        play.say("Mon 11:51", command.clone());
        assert_eq!(play.told("Mon 11:52", names(10)).len(), 2, "{command}");
        assert_eq!(play.count("Mon 11:53", "staging", "in_flight"), 2, "{command}");
    }
}

#[test]
fn hosts_are_let_go_only_on_the_groups_days() {
    let mut play = Play::staging(json!({ "days": ["Mon"], "start_hour": 23, "max_in_flight": "25%" }));
    play.hosts("Mon 22:50", names(4), "staging");
    let order = order(0, names(4));
    assert!(play.is_told("Mon 23:01", order[0]));
    play.updates("Mon 23:02", order[0]);
    assert!(play.is_told("Mon 23:50", order[1]));
    play.heard("Mon 23:55", &order[2..]);
    play.updates("Tue 00:10", order[1]);
    assert_eq!(play.told("Tue 00:11", &order[2..]), [""; 0], "it is Tuesday");
    let why = play.group("Tue 00:12", "staging")["why"].clone();
    assert_eq!(why["until"], super::at("Mon+1 00:00"), "{why}");
    play.heard("Mon+1 00:00", &order[2..]);
    assert_eq!(play.told("Mon+1 00:01", &order[2..]).len(), 1, "on Monday it goes on");
}

#[test]
fn who_was_told_on_the_groups_day_is_told_so_on_the_next() {
    let mut play = Play::staging(json!({ "days": ["Mon"], "start_hour": 23 }));
    play.hosts("Mon 22:50", &["h01", "h02"], "staging");
    assert!(play.is_told("Mon 23:40", "h01"));
    assert!(play.is_told("Tue 00:10", "h01"), "who was told is not taken back");
    assert!(!play.is_told("Tue 00:10", "h02"), "nobody new is told");
}

#[test]
fn a_rate_lets_so_many_hosts_go_an_hour_and_grows_with_success_alone() {
    let rate = json!({ "rate": { "base": 2, "factor": 2, "maximum": 5 }, "max_failed_before_halt": "100%" });
    for is_good in [true, false] {
        let mut play = Play::staging(rate.clone());
        let mut gone: Vec<String> = Vec::new();
        for (hour, allowed) in [(12, 2), (13, 4), (14, 5), (15, 5)] {
            let allowed = if is_good { allowed } else { 2 };
            let asked: Vec<&str> =
                names(20).iter().copied().filter(|host| !gone.iter().any(|gone| gone == host)).collect();
            if hour == 12 {
                play.hosts("Mon 11:59", names(20), "staging");
            }
            let mut told = Vec::new();
            for minute in [1, 30, 58] {
                let when = format!("Mon {hour}:{minute:02}");
                let new = play.told(&when, &asked);
                for host in new.iter().filter(|host| !told.contains(*host)).cloned().collect::<Vec<_>>() {
                    if is_good {
                        play.updates(&when, &host)
                    } else {
                        play.fails(&when, &host)
                    };
                    told.push(host);
                }
            }
            assert_eq!(told.len(), allowed, "at {hour}, good: {is_good}");
            gone.extend(told);
        }
    }
}

#[test]
fn a_rate_counts_canaries_as_well() {
    let mut play = Play::staging(json!({ "rate": { "base": 3 }, "canary_count": 2 }));
    for host in names(10) {
        let labels = json!({ "env": "staging" });
        play.say("Mon 11:59", json!({ "report": { "host": host, "version": "1.0.0", "labels": labels, "update_id": format!("id of {host}") } }));
    }
    let mut gone: Vec<String> = Vec::new();
    for minute in [1, 10, 20, 30, 40, 50, 58] {
        let when = format!("Mon 12:{minute:02}");
        for host in play.told(&when, names(10)) {
            if !gone.contains(&host) {
                play.updates(&when, &host);
                gone.push(host);
            }
        }
    }
    assert_eq!(gone.len(), 3, "three an hour: {gone:?}");
}

#[test]
fn the_cap_holds_for_canaries() {
    let mut play = Play::staging(json!({ "max_in_flight": "10%", "canary_count": 3 }));
    for host in names(10) {
        let labels = json!({ "env": "staging" });
        play.say("Mon 11:59", json!({ "report": { "host": host, "version": "1.0.0", "labels": labels, "update_id": format!("id of {host}") } }));
    }
    assert_eq!(play.told("Mon 12:01", names(10)).len(), 1);
    assert_eq!(play.count("Mon 12:02", "staging", "in_flight"), 1);
    assert_eq!(play.state("Mon 12:02", "staging"), "canary");
}

#[test]
fn canaries_go_back_under_the_cap_as_well() {
    let mut play = Play::staging(json!({ "max_in_flight": "10%", "canary_count": 2 }));
    for host in names(10) {
        let labels = json!({ "env": "staging" });
        let id = format!("id of {host}");
        play.say(
            "Mon 11:59",
            json!({ "report": { "host": host, "version": "1.0.0", "labels": labels, "update_id": id } }),
        );
    }
    for minute in [1, 2, 3, 4] {
        let when = format!("Mon 12:{minute:02}");
        for host in play.told(&when, names(10)) {
            play.updates(&when, &host);
        }
    }
    assert!(play.count("Mon 12:05", "staging", "updated") > 2);
    play.say("Mon 12:06", json!({ "rollback": { "groups": ["staging"] } }));
    assert_eq!(play.count("Mon 12:07", "staging", "in_flight"), 1);
}

#[test]
fn who_was_silent_and_comes_back_during_a_halt_does_not_exceed_the_cap_after_run() {
    let order = order(0, names(10));
    let mut play = Play::staging(json!({ "max_in_flight": "10%" }));
    // Six are silent when the group starts, and the pass goes by them; a late-comer begins another one.
    play.hosts("Mon 11:10", &order[..6], "staging").hosts("Mon 11:55", &order[6..], "staging");
    for (minute, host) in order[6..].iter().enumerate() {
        play.all_update(&format!("Mon 12:{:02}", minute + 1), &[host]);
    }
    play.hosts("Mon 12:06", &["late"], "staging");
    assert!(play.is_told("Mon 12:07", "late"));
    play.say("Mon 12:08", json!({ "halt": { "groups": ["staging"] } }));
    play.heard("Mon 12:09", &order[..6]);
    play.say("Mon 12:10", json!({ "run": { "groups": ["staging"] } }));
    assert_eq!(play.told("Mon 12:11", &order[..6]), [""; 0], "the late-comer has the only slot");
    assert_eq!(play.count("Mon 12:11", "staging", "in_flight"), 1);
}

#[test]
fn who_moves_in_after_the_start_does_not_raise_the_cap() {
    let mut play = Play::staging(json!({ "max_in_flight": "10%" }));
    play.hosts("Mon 11:50", names(10), "staging").hosts("Mon 11:50", &names(20)[10..], "elsewhere");
    assert_eq!(play.told("Mon 12:01", names(20)).len(), 1);
    play.hosts("Mon 12:02", &names(20)[10..], "staging");
    assert_eq!(play.told("Mon 12:03", names(20)).len(), 1, "ten were counted when it started");
    assert_eq!(play.count("Mon 12:04", "staging", "in_flight"), 1);
}

#[test]
fn made_up_hosts_that_are_well_come_through_a_group_of_defaults() {
    let mut play = Play::staging(json!({}));
    play.say("Mon 11:30", json!({ "hosts": { "count": 7, "version": "1.0.0", "labels": { "env": "staging" } } }));
    let group = play.group("Mon 14:00", "staging");
    assert_eq!([&group["state"], &group["updated_count"]], [&json!("done"), &json!(7)], "{group}");
}

#[test]
fn who_is_released_during_a_halt_does_not_exceed_the_cap_after_run() {
    let order = order(0, names(10));
    let mut play = Play::staging(json!({ "max_in_flight": "10%" }));
    play.hosts("Mon 11:50", names(10), "staging");
    for host in &order[..6] {
        play.say("Mon 11:51", json!({ "hold": { "host": host } }));
    }
    for (minute, host) in order[6..].iter().enumerate() {
        play.all_update(&format!("Mon 12:{:02}", minute + 1), &[host]);
    }
    play.hosts("Mon 12:06", &["late"], "staging");
    assert!(play.is_told("Mon 12:07", "late"));
    play.say("Mon 12:08", json!({ "halt": { "groups": ["staging"] } }));
    for host in &order[..6] {
        play.say("Mon 12:09", json!({ "release": { "host": host } }));
    }
    play.say("Mon 12:10", json!({ "run": { "groups": ["staging"] } }));
    assert_eq!(play.count("Mon 12:11", "staging", "in_flight"), 1, "the late-comer has the only slot");
}

#[test]
fn who_failed_before_a_run_and_is_back_from_a_pin_waits_for_a_slot() {
    let order = order(0, names(10));
    let settings = json!({ "max_in_flight": "10%", "min_failed_before_halt": 2 });
    let mut play = Play::staging(settings);
    play.hosts("Mon 11:50", names(10), "staging");
    for (minute, host) in order[..2].iter().enumerate() {
        let when = format!("Mon 12:{:02}", minute + 1);
        assert!(play.is_told(&when, host));
        play.fails(&when, host);
    }
    assert_eq!(play.state("Mon 12:03", "staging"), "halted");
    play.say("Mon 12:04", json!({ "report": { "host": order[0], "pinned": true } }));
    play.say("Mon 12:05", json!({ "run": { "groups": ["staging"] } }));
    assert!(play.is_told("Mon 12:06", order[1]), "it is tried again");
    play.say("Mon 12:07", json!({ "report": { "host": order[0], "pinned": false } }));
    assert!(!play.is_told("Mon 12:08", order[0]), "the other has the only slot");
    assert_eq!(play.count("Mon 12:08", "staging", "in_flight"), 1);
}

#[test]
fn a_canary_that_comes_back_from_silence_does_not_exceed_the_cap() {
    let order = order(0, names(10));
    let mut play = Play::staging(json!({ "max_in_flight": "30%", "canary_count": 3 }));
    for host in names(10) {
        let labels = json!({ "env": "staging" });
        let id = format!("id of {host}");
        play.say(
            "Mon 11:50",
            json!({ "report": { "host": host, "version": "1.0.0", "labels": labels, "update_id": id } }),
        );
    }
    assert_eq!(play.count("Mon 12:00", "staging", "in_flight"), 3);
    play.say("Mon 12:01", json!({ "start": { "groups": ["staging"], "force": true } }));
    // The canaries, which never asked, are silent from 12:35 on, and three others have their slots.
    play.heard("Mon 12:20", &order[3..]);
    assert_eq!(play.told("Mon 12:37", &order[3..]).len(), 3);
    play.heard("Mon 12:38", &order[..3]);
    assert_eq!(play.count("Mon 12:38", "staging", "in_flight"), 3);
    assert_eq!(play.told("Mon 12:39", &order[..3]), [""; 0]);
}
