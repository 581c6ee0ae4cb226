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

/// Hosts 1 to 4 declare `production`, which was halted, and is none but `prod` in the next rollout, with a cap; 5 to 8 declare that.
fn renamed(cap: &str) -> Script {
    let mut before = groups("production", cap);
    before.as_array_mut().unwrap().extend(groups("prod", cap).as_array_mut().unwrap().pop());
    rollout(&before)
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

/// A group, at 3 o'clock of every day; with `group`, of those who declare that, whatever it is called.
fn named(name: &str, group: Option<&str>) -> Value {
    let mut made = json!({ "name": name, "days": ["*"], "start_hour": 3 });
    if let Some(group) = group {
        made["agents"] = json!({ "node_labels_expression": format!("group == \"{group}\"") });
    }
    made
}

/// `prod`, which takes hosts of no group as well, is held; what is written then says otherwise of its hosts 3 to 6.
#[test]
fn no_change_of_the_policy_or_the_schedule_ends_a_hold_of_its_hosts() {
    let [dev, fast, other, prod] = ["dev", "fast", "other", "prod"].map(|name| named(name, None));
    let moved = [("prod", "fast"), ("other", "fast")].map(|(group, name)| named(name, Some(group)));
    let new = |lines: Vec<Value>| [lines, vec![version_of(OLD, NEXT)]].concat();
    let regular = |groups: Value| new(vec![halting(&groups)]);
    let by_assignment = json!({
        "mode": "enabled", "strategy": "halt-on-error", "unassigned": "dev", "schedules": { "regular": [dev, prod] },
    });
    let changes = [
        ("immediate", vec![super::immediate()]),
        ("a group by name", regular(json!([dev, other, prod]))),
        ("another for those of no group", regular(json!([dev, prod, fast]))),
        ("a group by label", regular(json!([moved[0], dev, prod]))),
        ("a group by label for those of no group", regular(json!([moved[1], dev, prod]))),
        ("called otherwise", regular(json!([dev, fast]))),
        ("those of no group to dev", new(vec![super::agents(&by_assignment)])),
        ("no policy", new(vec![json!({ "rm": "autoupdate_config" })])),
        ("time-based", new(vec![super::timed("4h", &json!([dev, other, fast]))])),
        ("immediate, called otherwise", vec![halting(&json!([dev, fast])), super::immediate()]),
    ];
    for (what, lines) in changes {
        let script = rollout(&json!([dev, prod])).hosts("Mon 11:50", 1..=2, "dev", OLD);
        let script = script.hosts("Mon 11:50", 3..=4, "prod", OLD).hosts("Mon 11:50", 5..=6, "other", OLD);
        let script = script.on("Mon 11:51", halt(&["prod"]));
        let script = lines.into_iter().fold(script, |script, line| script.on("Mon 11:52", line));
        let all = |script: Script, when: &str| {
            let script = script.hosts(when, 1..=2, "dev", OLD).hosts(when, 3..=4, "prod", OLD);
            script.hosts(when, 5..=6, "other", OLD)
        };
        let groups = script.status("Mon 11:53")["status"]["status"]["groups"].clone();
        let names = groups.as_array().into_iter().flatten().map(|group| group["name"].clone());
        let unheld: Vec<Value> = names.filter(|name| name != "prod" && name != "").collect();
        let starts = what != "time-based" && !what.starts_with("immediate");
        let begun = unheld.iter().filter(|_| starts).fold(script, |script, name| {
            script.on("Mon 11:54", json!({ "start": { "groups": [name], "force": true } }))
        });
        let when = if starts { "Mon 11:55" } else { "Tue 03:05" };
        let begun = all(begun, when);
        let told = |script: &Script, when: &str| -> Vec<u32> {
            let group = |number: u32| ["dev", "prod", "other"][(number as usize - 1) / 2];
            (1..=6).filter(|number| script.find_host(when, *number, group(*number)).1).collect()
        };
        assert_eq!(told(&begun, when), [1, 2], "{what}");
        for group in ["prod", "other"] {
            assert!(!begun.find(when, group).1, "{what}: somebody unknown who declares {group}");
        }
        let late = begun.clone().hosts(when, 7..=7, "prod", OLD).hosts(when, 8..=8, "other", OLD);
        assert!(![7, 8].map(|number| late.find_host(when, number, "").1).contains(&true), "{what}: who comes later");
        let free = begun.on(when, run(&["prod"]));
        let why = |number: u32| free.then(when, asks(number, ""))["find"]["fleet"]["why"]["code"].clone();
        let stops = ["held", "halted"].map(Value::from);
        assert!((3..=6).all(|number| !stops.contains(&why(number))), "{what}: stopped after run");
    }
}
