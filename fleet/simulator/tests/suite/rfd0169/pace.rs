//! How many at once, and who is next.

use serde_json::{Value, json};

use super::{Play, names, order};

/// So many hosts in a group that lets `percentage` of them go at once, ten past twelve hours on Monday.
fn capped(count: usize, percentage: &str) -> Play {
    let mut play = Play::staging(json!({
        "max_in_flight": percentage, "max_failed_before_halt": "100%", "max_timeout_before_halt": "100%",
    }));
    play.hosts("Mon 11:50", names(count), "staging");
    play
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
