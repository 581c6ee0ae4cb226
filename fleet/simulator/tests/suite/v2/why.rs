//! FLEET §6, §12: why a host is told what it is told, and until when at the earliest.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{OLD, Steps, halt, halting, mark_done, rollout, t, timed, version, version_in};
use crate::support::{Script, group};

fn freeze(from: &str, to: &str) -> Value {
    json!([{ "from": t(from), "to": t(to), "reason": "sale" }])
}

/// One group at 12 o'clock with these keys.
fn dev(keys: &Value) -> Script {
    let mut dev = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
    dev.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    rollout(&json!([dev]))
}

/// `dev` at 12, done at 12:20, and `prod` at 13 with these keys.
fn prod(keys: &Value) -> Script {
    let mut prod = json!({ "name": "prod", "days": ["*"], "start_hour": 13 });
    prod.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    rollout(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }, prod])).on("Mon 12:20", mark_done(&["dev"]))
}

/// Name, script, when, the group that is asked for, and until when.
fn cases() -> Vec<(&'static str, Script, &'static str, &'static str, Option<&'static str>)> {
    let two = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 14 },
    ]));
    let in_window = Script::default()
        .on("Mon 12:10", halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])))
        .on("Mon 12:10", version());
    vec![
        ("window", dev(&json!({})), "Mon 11:30", "dev", Some("Mon 12:00")),
        ("predecessor", two.clone(), "Mon 11:30", "prod", Some("Mon 14:00")),
        ("created in the window", in_window, "Mon 12:20", "dev", Some("Tue 12:00")),
        ("suspended", two.clone().on("Mon 11:20", version_in("suspended", "regular")), "Mon 11:30", "dev", None),
        ("wait_hours", prod(&json!({ "start_hour": 13, "wait_hours": 24 })), "Mon 13:30", "prod", Some("Tue 13:00")),
        (
            "canaries",
            dev(&json!({ "canary_count": 1 })).hosts("Mon 11:58", 1..=2, "dev", OLD),
            "Mon 12:10",
            "dev",
            None,
        ),
        ("halted", two.clone().on("Mon 12:10", halt(&["dev"])), "Mon 12:20", "dev", None),
        (
            "blackout",
            dev(&json!({ "blackout": freeze("Mon 10:00", "Mon 12:40") })),
            "Mon 12:20",
            "dev",
            Some("Mon 12:40"),
        ),
        ("disabled", two.on("Mon 11:20", version_in("disabled", "regular")), "Mon 11:30", "dev", None),
        ("approval", dev(&json!({ "approval": "operator" })), "Mon 12:20", "dev", None),
        (
            "gate",
            dev(&json!({ "gate": { "url": "https://gate.example/", "timeout_seconds": 5 } })),
            "Mon 12:20",
            "dev",
            None,
        ),
        ("soak_hours", prod(&json!({ "soak_hours": 1 })), "Mon 13:10", "prod", Some("Mon 13:20")),
    ]
}

#[test]
fn every_reason_has_a_code_of_its_own() {
    let mut codes: BTreeMap<String, &str> = BTreeMap::new();
    for (name, script, when, group, _) in cases() {
        assert!(!script.find(when, group).1, "{name}");
        let (code, _) = script.why(when, group);
        if let Some(other) = codes.insert(code.clone(), name) {
            panic!("{name} and {other} are both {code}");
        }
    }
    let (active, _) = dev(&json!({})).why("Mon 12:10", "dev");
    assert!(!codes.contains_key(&active), "{active} is told to those that are let go");
}

#[test]
fn until_is_when_it_could_really_happen() {
    for (name, script, when, group, until) in cases() {
        assert_eq!(script.why(when, group).1, until.map(t), "{name}");
    }
}

#[test]
fn the_group_says_the_same_as_its_hosts_are_told() {
    for (name, script, when, group, _) in cases() {
        let (code, until) = script.why(when, group);
        let why = script.group(when, group)["why"].clone();
        assert_eq!(why["code"].as_str(), Some(code.as_str()), "{name}");
        assert_eq!(why["until"].as_str().map(str::to_owned), until, "{name}");
        assert!(why["since"].as_str().is_some_and(|since| since <= t(when).as_str()), "{name}: {why:#}");
    }
}

/// The `until` of the unstarted group `name` at `at`; a second before it has not started, and then it has.
fn keeps_its_word(script: &Script, at: &str, name: &str) -> String {
    let now = group(&script.clone().line(at, json!({ "status": {} })).answer(), name).clone();
    assert_eq!(now["state"], "unstarted", "{now:#}");
    let until = now["why"]["until"].as_str().unwrap_or_else(|| panic!("no until: {now:#}")).to_owned();
    let instant: Timestamp = until.parse().unwrap();
    let before = (instant - SignedDuration::from_secs(1)).to_string();
    assert!(instant > at.parse::<Timestamp>().unwrap(), "{until} is not after {at}");
    let status = json!({ "status": {} });
    let before = if before.as_str() < at { at.to_owned() } else { before };
    let answers = script.clone().line(&before, status.clone()).line(&until, status).run();
    assert_eq!(group(&answers[0], name)["state"], "unstarted", "before {until}");
    assert_ne!(group(&answers[1], name)["state"], "unstarted", "at {until}: {:#}", group(&answers[1], name)["why"]);
    until
}

#[test]
fn a_group_starts_when_its_window_was_said_to_open() {
    for (begun, days, hour, until) in [
        ("Mon 11:00", json!(["*"]), 12, "Mon 12:00"),
        ("Mon 13:00", json!(["*"]), 12, "Tue 12:00"),
        ("Thu 13:00", json!(["Mon", "Tue", "Wed", "Thu"]), 12, "next Mon 12:00"),
        ("Mon 12:00", json!(["Mon"]), 11, "next Mon 11:00"),
        ("Mon 12:00", json!(["Sat"]), 0, "Sat 00:00"),
        ("Mon 12:00", json!(["Mon"]), 23, "Mon 23:00"),
    ] {
        let script = Script::default()
            .on(begun, halting(&json!([{ "name": "dev", "days": days, "start_hour": hour }])))
            .on(begun, version());
        assert_eq!(keeps_its_word(&script, &t(begun), "dev"), t(until), "{begun}");
    }
}

#[test]
fn a_group_whose_rollout_began_in_its_window_starts_when_it_was_said_to() {
    for (begun, days) in [
        ("Mon 12:00", json!(["*"])),
        ("Mon 12:00:01", json!(["*"])),
        ("Mon 12:30", json!(["*"])),
        ("Mon 12:59:59", json!(["*"])),
        ("Mon 12:30", json!(["Mon"])),
        ("Mon 12:30", json!(["Mon", "Wed"])),
    ] {
        let script = Script::default()
            .on(begun, halting(&json!([{ "name": "dev", "days": days, "start_hour": 12 }])))
            .on(begun, version());
        assert_eq!(script.group(begun, "dev")["last_update_reason"], "rollout_changed_during_window");
        keeps_its_word(&script, &t(begun), "dev");
    }
}

#[test]
fn a_group_of_another_zone_starts_when_it_was_said_to() {
    for (begun, days, hour, zone, until) in [
        ("2026-01-05T08:00:00Z", json!(["*"]), 12, "Europe/Berlin", "2026-01-05T11:00:00Z"),
        ("2026-03-28T12:00:00Z", json!(["Sun"]), 2, "Europe/Berlin", "2026-03-29T01:00:00Z"),
        ("2026-10-24T12:00:00Z", json!(["Sun"]), 2, "Europe/Berlin", "2026-10-25T00:00:00Z"),
        ("2026-10-25T00:30:00Z", json!(["*"]), 2, "Europe/Berlin", "2026-10-26T01:00:00Z"),
        ("2026-10-25T01:00:00Z", json!(["*"]), 2, "Europe/Berlin", "2026-10-26T01:00:00Z"),
        ("2026-01-10T12:00:00Z", json!(["Mon"]), 0, "Asia/Tokyo", "2026-01-11T15:00:00Z"),
        ("2026-01-10T12:00:00Z", json!(["Sun"]), 23, "America/Los_Angeles", "2026-01-12T07:00:00Z"),
        ("2026-01-10T12:00:00Z", json!(["*"]), 5, "Asia/Kolkata", "2026-01-10T23:30:00Z"),
    ] {
        let groups = json!([{ "name": "dev", "days": days, "start_hour": hour, "timezone": zone }]);
        let script = Script::default().line(begun, halting(&groups)).line(begun, version());
        assert_eq!(keeps_its_word(&script, begun, "dev"), until, "{zone}");
    }
}

#[test]
fn a_frozen_group_starts_when_it_was_said_to() {
    for (when, blackout, until) in [
        ("Mon 11:00", freeze("Mon 12:00", "Mon 12:30"), "Mon 12:30"),
        ("Mon 11:00", freeze("Mon 11:00", "Mon 13:00"), "Tue 12:00"),
        ("Mon 11:00", freeze("Mon 10:00", "Mon 11:30"), "Mon 12:00"),
        ("Mon 11:00", freeze("Mon 12:00", "Thu 12:59"), "Thu 12:59"),
        ("Mon 11:00", freeze("Mon 12:00", "Thu 13:00"), "Fri 12:00"),
        (
            "Mon 11:00",
            json!([
                { "from": t("Mon 12:00"), "to": t("Mon 12:30"), "reason": "a" },
                { "from": t("Mon 12:30"), "to": t("Mon 12:45"), "reason": "b" },
            ]),
            "Mon 12:45",
        ),
        (
            "Mon 11:00",
            json!([
                { "from": t("Mon 12:00"), "to": t("Mon 23:00"), "reason": "a" },
                { "from": t("Tue 12:00"), "to": t("Tue 12:10"), "reason": "b" },
            ]),
            "Tue 12:10",
        ),
        ("Mon 12:10", freeze("Mon 12:00", "Mon 12:30"), "Mon 12:30"),
        ("Mon 12:59", freeze("Mon 12:00", "Mon 12:59:30"), "Mon 12:59:30"),
    ] {
        let script = dev(&json!({ "blackout": blackout }));
        assert_eq!(keeps_its_word(&script, &t(when), "dev"), t(until), "{blackout}");
    }
}

#[test]
fn a_freeze_and_a_rollout_that_began_in_the_window_are_told_together() {
    let begun = |blackout: Value| {
        Script::default()
            .on(
                "Mon 12:10",
                halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "blackout": blackout }])),
            )
            .on("Mon 12:10", version())
    };
    assert_eq!(keeps_its_word(&begun(freeze("Mon 12:00", "Mon 12:30")), &t("Mon 12:10"), "dev"), t("Tue 12:00"));
    assert_eq!(keeps_its_word(&begun(freeze("Mon 12:00", "Tue 12:30")), &t("Mon 12:10"), "dev"), t("Tue 12:30"));
}

#[test]
fn a_group_behind_hours_starts_when_it_was_said_to() {
    for (keys, at, until) in [
        (json!({ "start_hour": 13, "wait_hours": 1 }), "Mon 12:30", "Mon 13:00"),
        (json!({ "start_hour": 13, "wait_hours": 2 }), "Mon 12:30", "Tue 13:00"),
        (json!({ "start_hour": 13, "wait_hours": 24 }), "Mon 13:30", "Tue 13:00"),
        (json!({ "start_hour": 13, "wait_hours": 26 }), "Mon 13:30", "Wed 13:00"),
        (json!({ "start_hour": 13, "soak_hours": 1 }), "Mon 12:30", "Mon 13:20"),
        (json!({ "start_hour": 13, "soak_hours": 2 }), "Mon 12:30", "Tue 13:00"),
        (json!({ "start_hour": 13, "soak_hours": 1, "wait_hours": 24 }), "Mon 12:30", "Tue 13:00"),
        (json!({ "start_hour": 13, "soak_hours": 25, "wait_hours": 24 }), "Mon 12:30", "Tue 13:20"),
        (
            json!({ "start_hour": 13, "wait_hours": 24, "blackout": freeze("Tue 13:00", "Tue 13:30") }),
            "Mon 12:30",
            "Tue 13:30",
        ),
        (
            json!({ "start_hour": 13, "wait_hours": 24, "blackout": freeze("Tue 09:00", "Tue 14:00") }),
            "Mon 12:30",
            "Wed 13:00",
        ),
        (json!({ "start_hour": 13, "days": ["Thu"], "wait_hours": 24 }), "Mon 12:30", "Thu 13:00"),
    ] {
        assert_eq!(keeps_its_word(&prod(&keys), &t(at), "prod"), t(until), "{keys}");
    }
}

#[test]
fn time_based_groups_say_when_their_window_opens() {
    let script = |when: &str, days: Value| {
        Script::default()
            .on(when, timed("2h", &json!([{ "name": "dev", "days": days, "start_hour": 12 }])))
            .on(when, version())
    };
    assert_eq!(keeps_its_word(&script("Mon 11:00", json!(["*"])), &t("Mon 11:00"), "dev"), t("Mon 12:00"));
    assert_eq!(keeps_its_word(&script("Mon 15:00", json!(["Mon"])), &t("Mon 15:00"), "dev"), t("next Mon 12:00"));
    // Created in the window.
    let begun = script("Mon 13:30", json!(["*"]));
    let (code, until) = begun.why("Mon 13:30", "dev");
    assert_eq!(until, Some(t("Tue 12:00")));
    assert_ne!(code, script("Mon 11:00", json!(["*"])).why("Mon 11:00", "dev").0);
    assert_eq!(keeps_its_word(&begun, &t("Mon 13:30"), "dev"), t("Tue 12:00"));
    // Done: the next window is said, too.
    let (_, until) = script("Mon 11:00", json!(["Mon", "Thu"])).why("Mon 14:00", "dev");
    assert_eq!(until, Some(t("Thu 12:00")));
}

#[test]
fn time_based_groups_that_are_frozen_say_so_and_until_when() {
    let script = |blackout: Value| {
        Script::default()
            .on(
                "Mon 11:00",
                timed("2h", &json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "blackout": blackout }])),
            )
            .on("Mon 11:00", version())
    };
    let frozen = script(freeze("Mon 10:00", "Mon 13:00"));
    let (code, until) = frozen.why("Mon 12:30", "dev");
    assert_eq!(until, Some(t("Mon 13:00")));
    assert_eq!(code, dev(&json!({ "blackout": freeze("Mon 10:00", "Mon 12:40") })).why("Mon 12:20", "dev").0);
    assert_eq!(keeps_its_word(&frozen, &t("Mon 11:00"), "dev"), t("Mon 13:00"));
    assert_eq!(keeps_its_word(&script(freeze("Mon 10:00", "Mon 14:00")), &t("Mon 11:00"), "dev"), t("Tue 12:00"));
}

/// Many settings of one group: the time that is said is the time of the start.
#[test]
fn whatever_the_settings_a_group_starts_when_it_was_said_to() {
    let all_days = [json!(["*"]), json!(["Tue", "Sat"])];
    let freezes = [
        json!([]),
        freeze("Mon 00:00", "Tue 04:30"),
        freeze("Tue 03:00", "Fri 04:15"),
        freeze("Mon 12:00", "Sat 05:00"),
    ];
    for days in &all_days {
        for blackout in &freezes {
            for hour in [4, 20] {
                for begun in ["Mon 04:00", "Tue 20:59:59"] {
                    let groups = json!([{ "name": "dev", "days": days, "start_hour": hour, "blackout": blackout }]);
                    let script = Script::default().on(begun, halting(&groups)).on(begun, version());
                    keeps_its_word(&script, &t(begun), "dev");
                }
            }
        }
    }
}

/// A group of time-based is done when its window closes, and not before.
#[test]
fn behind_a_time_based_group_its_window_counts_and_a_stopped_one_leaves_no_time() {
    let script = Script::default()
        .on(
            "Mon 11:00",
            timed(
                "2h",
                &json!([
                    { "name": "dev", "days": ["*"], "start_hour": 12 },
                    { "name": "prod", "days": ["*"], "start_hour": 13, "requires": ["dev"] },
                ]),
            ),
        )
        .on("Mon 11:00", version());
    for when in ["Mon 11:30", "Mon 12:30"] {
        assert_eq!(script.why(when, "prod"), ("previous_groups_not_done".to_owned(), Some(t("Mon 14:00"))), "{when}");
    }
    assert_eq!(keeps_its_word(&script, &t("Mon 11:30"), "prod"), t("Mon 14:00"));
    let halted = script.on("Mon 11:10", halt(&["dev"]));
    assert_eq!(halted.why("Mon 11:30", "prod"), ("previous_groups_not_done".to_owned(), None));
}
