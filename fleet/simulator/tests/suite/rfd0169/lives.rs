//! Hosts that leave, go silent, come back after long, or are copied, in a group with a cap.

use serde_json::json;

use super::{Play, names};

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
