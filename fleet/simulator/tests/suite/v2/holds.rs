//! FLEET §3: a stop is never forgotten, also of a group that the rollout does not have any more.

use serde_json::{Value, json};

use super::{NEW, OLD, Steps, asks, halt, halting, is, rollout, run, start, version_of};
use crate::support::Script;

/// Version that is wanted after [`NEW`].
const NEXT: &str = "17.2.2";

fn groups(last: &str, cap: &str) -> Value {
    json!([
        { "name": "dev", "days": ["*"], "start_hour": 3 },
        { "name": last, "days": ["*"], "start_hour": 4, "max_in_flight": cap },
    ])
}

/// Hosts 1 to 4 declare `production`, which was halted, and is called `prod` in the next rollout, with a cap; 5 to 8 declare that.
fn renamed(cap: &str) -> Script {
    rollout(&groups("production", cap))
        .hosts("Mon 11:55", 1..=4, "production", OLD)
        .hosts("Mon 11:55", 5..=8, "prod", OLD)
        .on("Mon 11:56", halt(&["production"]))
        .on("Mon 11:57", halting(&groups("prod", cap)))
        .on("Mon 11:57", version_of(OLD, NEXT))
        .on("Mon 11:58", start(&["prod"]))
}

#[test]
fn hosts_of_a_held_group_that_is_called_otherwise_now_take_no_slot() {
    for (cap, slots) in [("25%", 1), ("50%", 2), ("100%", 4)] {
        let script = renamed(cap);
        let group = script.group("Mon 11:59", "prod");
        let counts = ["excluded_count", "let_go_count"].map(|key| group[key].as_u64());
        assert_eq!(counts, [Some(4), Some(slots)], "{cap}: {group:#}");
        let told = |numbers: std::ops::RangeInclusive<u32>| {
            numbers.filter(|number| script.find_host("Mon 12:00", *number, "prod") == is(NEXT, true)).count() as u64
        };
        assert_eq!((told(1..=4), told(5..=8)), (0, slots), "{cap}");
        let why = script.then("Mon 12:00", asks(1, "production"))["find"]["fleet"]["why"]["code"].clone();
        assert_eq!(why, "held", "{cap}");
        // Somebody unknown who declares it is held as well.
        assert_eq!(script.find("Mon 12:00", "production"), is(OLD, false), "{cap}");
    }
    assert_ne!(NEW, NEXT);
}

#[test]
fn hosts_of_a_held_group_that_is_called_otherwise_now_go_with_the_next_pass_after_run() {
    let script = renamed("25%").on("Mon 12:00", run(&["production"]));
    let group = script.group("Mon 12:01", "prod");
    assert_eq!((&group["excluded_count"], &group["pending_count"]), (&json!(0), &json!(6)), "{group:#}");
    // A quarter of eight. Who came back waits for the pass of the others.
    let told: Vec<u32> = (1..=8).filter(|number| script.find_host("Mon 12:02", *number, "prod").1).collect();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|number| *number > 4), "{told:?}");
}

/// A host that declares a held group while the rollout goes on has no part in it any more.
#[test]
fn a_host_that_declares_a_held_group_is_held_from_then_on() {
    let script = renamed("100%").hosts("Mon 12:00", 5..=5, "production", OLD);
    assert_eq!(script.group("Mon 12:00", "prod")["excluded_count"], 5);
    let script = script.hosts("Mon 12:01", 5..=5, "prod", OLD);
    assert_eq!(script.group("Mon 12:01", "prod")["excluded_count"], 4);
}
