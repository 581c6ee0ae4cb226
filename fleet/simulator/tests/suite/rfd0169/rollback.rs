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
