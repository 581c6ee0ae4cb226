//! FLEET §6, §12: why a host is told what it is told, and until when at the earliest.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{OLD, Steps, asks, failed, halt, halting, mark_done, rollout, start, t, timed, version, version_in};
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

#[test]
fn halted_by_each_rule_is_one_code() {
    let by_hand = dev(&json!({})).on("Mon 12:10", halt(&["dev"])).why("Mon 12:20", "dev").0;
    let failing = dev(&json!({}))
        .hosts("Mon 11:58", 1..=3, "dev", OLD)
        .on("Mon 12:01", asks(1, "dev"))
        .on("Mon 12:05", failed(1, "dev"));
    assert_eq!(failing.state("Mon 12:20", "dev"), "halted");
    assert_eq!(failing.why("Mon 12:20", "dev"), (by_hand, None));
}

// `until` is kept: nothing starts before it, and then it does.

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

/// The group before is done a second after it started, as early as can be.
#[test]
fn a_group_behind_one_that_has_not_begun_starts_no_sooner_than_was_said() {
    for (dev_hour, keys, until) in [
        (12, json!({ "start_hour": 14 }), "Mon 14:00"),
        (12, json!({ "start_hour": 11 }), "Tue 11:00"),
        (12, json!({ "start_hour": 14, "wait_hours": 24 }), "Tue 14:00"),
        (12, json!({ "start_hour": 13, "wait_hours": 1 }), "Mon 13:00"),
        (12, json!({ "start_hour": 13, "wait_hours": 2 }), "Tue 13:00"),
        (12, json!({ "start_hour": 13, "days": ["Sat"] }), "Sat 13:00"),
        (12, json!({ "start_hour": 14, "blackout": freeze("Mon 14:00", "Mon 14:20") }), "Mon 14:20"),
        (23, json!({ "start_hour": 0 }), "Tue 00:00"),
    ] {
        let mut last = json!({ "name": "prod", "days": ["*"] });
        last.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let script = rollout(&json!([{ "name": "dev", "days": ["*"], "start_hour": dev_hour }, last]));
        let (_, said) = script.why("Mon 11:10", "prod");
        assert_eq!(said, Some(t(until)), "{keys}");
        let script = script.on(&format!("Mon {dev_hour}:00:01"), mark_done(&["dev"]));
        let state = |at: &str| {
            let answer = script.clone().line(at, json!({ "status": {} })).answer();
            group(&answer, "prod")["state"].clone()
        };
        let until: Timestamp = t(until).parse().unwrap();
        assert_eq!(state(&(until - SignedDuration::from_secs(1)).to_string()), "unstarted", "{keys}");
        assert_ne!(state(&until.to_string()), "unstarted", "{keys}");
    }
}

/// What only a person can end has no time.
#[test]
fn behind_a_halted_or_rolled_back_group_there_is_no_time() {
    let two = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 14 },
    ]));
    assert_eq!(two.clone().on("Mon 11:10", halt(&["dev"])).why("Mon 11:30", "prod").1, None);
    assert_eq!(two.clone().on("Mon 11:10", super::rollback(&["dev"])).why("Mon 11:30", "prod").1, None);
    let (code, _) = two.on("Mon 11:10", halt(&["dev"])).why("Mon 11:30", "prod");
    let (plain, _) = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 14 },
    ]))
    .why("Mon 11:30", "prod");
    assert_eq!(code, plain, "it waits for its predecessor");
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

/// A time-based group that is done, and frozen in its next window.
#[test]
fn a_done_time_based_group_that_is_frozen_in_its_window_says_blackout() {
    let script = Script::default()
        .on(
            "Mon 11:00",
            timed("2h", &json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "blackout": freeze("Tue 10:00", "Tue 13:00") }])),
        )
        .on("Mon 11:00", version());
    assert_eq!(script.state("Mon 14:00", "dev"), "done");
    assert_eq!(script.why("Mon 15:00", "dev").1, Some(t("Tue 13:00")));
    let (code, until) = script.why("Tue 12:30", "dev");
    assert_eq!(code, dev(&json!({ "blackout": freeze("Mon 10:00", "Mon 12:40") })).why("Mon 12:20", "dev").0);
    assert_eq!(until, Some(t("Tue 13:00")));
}

#[test]
fn an_active_group_outside_its_window_duration_says_when_it_opens_again() {
    let script = dev(&json!({ "window_duration": "2h", "days": ["Mon", "Thu"] })).hosts("Mon 11:58", 1..=3, "dev", OLD);
    let (code, until) = script.why("Mon 14:00", "dev");
    assert_eq!(until, Some(t("Thu 12:00")));
    assert_eq!(code, dev(&json!({})).why("Mon 11:30", "dev").0, "the window is closed");
}

#[test]
fn a_done_group_outside_its_window_duration_says_when_late_comers_may_go() {
    let script = dev(&json!({ "window_duration": "2h" })).on("Mon 12:30", mark_done(&["dev"]));
    let (code, until) = script.why("Mon 15:00", "dev");
    assert_eq!(code, dev(&json!({})).why("Mon 11:30", "dev").0, "the window is closed");
    assert_eq!(until, Some(t("Tue 12:00")));
}

#[test]
fn a_frozen_done_group_says_until_when() {
    let script = dev(&json!({ "blackout": freeze("Mon 13:00", "Mon 14:00") })).on("Mon 12:30", mark_done(&["dev"]));
    let (code, until) = script.why("Mon 13:30", "dev");
    assert_eq!(code, dev(&json!({ "blackout": freeze("Mon 10:00", "Mon 12:40") })).why("Mon 12:20", "dev").0);
    assert_eq!(until, Some(t("Mon 14:00")));
}

#[test]
fn a_frozen_group_with_canaries_says_until_when() {
    let script = dev(&json!({ "canary_count": 1, "blackout": freeze("Mon 12:05", "Mon 13:00") })).hosts(
        "Mon 11:58",
        1..=2,
        "dev",
        OLD,
    );
    assert_eq!(script.state("Mon 12:10", "dev"), "canary");
    let (code, until) = script.why("Mon 12:10", "dev");
    assert_eq!(code, dev(&json!({ "blackout": freeze("Mon 10:00", "Mon 12:40") })).why("Mon 12:20", "dev").0);
    assert_eq!(until, Some(t("Mon 13:00")));
}

/// The freeze of a started group ends at its end, and hosts go on then.
#[test]
fn a_frozen_active_group_says_until_when() {
    let script = dev(&json!({ "blackout": freeze("Mon 10:00", "Mon 15:00") })).on("Mon 11:30", start(&["dev"]));
    let (_, until) = script.why("Mon 11:40", "dev");
    assert_eq!(until, Some(t("Mon 15:00")));
    assert!(!script.find("Mon 14:59:59", "dev").1);
    assert!(script.find("Mon 15:00", "dev").1);
}

/// Reasons of waiting: the same again does not move `since`; another does.
#[test]
fn since_is_when_the_reason_began() {
    let script = dev(&json!({ "blackout": freeze("Mon 12:00", "Mon 12:40") }));
    let since = |when: &str| script.group(when, "dev")["why"]["since"].as_str().unwrap().to_owned();
    assert_eq!(since("Mon 11:30"), t("Mon 11:00"));
    assert_eq!(since("Mon 12:30"), t("Mon 12:00"));
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

/// What is still to come before a group can start: the hours count from the earliest end of the one before, which is not past.
#[test]
fn until_never_lies_before_what_the_group_before_has_still_to_do() {
    // Active since 12:00; soaked for two hours at 15:30 at the earliest, when the window is over.
    let active = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 14, "soak_hours": 2 },
    ]))
    .counts("Mon 11:59:30", &[("dev", OLD, 10)]);
    assert_eq!(active.why("Mon 13:30", "prod").1, Some(t("Tue 14:00")));
    let done = active.on("Mon 13:30:01", mark_done(&["dev"]));
    assert_eq!(done.state("Mon 14:59:59", "prod"), "unstarted");
    assert_eq!(done.state("Tue 14:00", "prod"), "active");
    // In canary since 12:00: hours count from its entry into active.
    let canary = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12, "canary_count": 1 },
        { "name": "prod", "days": ["*"], "start_hour": 14, "wait_hours": 2 },
    ]))
    .hosts("Mon 11:58", 1..=2, "dev", OLD);
    assert_eq!(canary.why("Mon 12:30", "prod").1, Some(t("Mon 14:30")));
    assert_eq!(canary.why("Mon 13:30", "prod").1, Some(t("Tue 14:00")));
}

/// An empty group is done after an hour, not before.
#[test]
fn until_behind_an_empty_group_is_not_before_its_hour_is_over() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 12 },
    ]));
    assert_eq!(script.why("Mon 12:30", "prod").1, Some(t("Tue 12:00")));
    assert_eq!(script.state("Mon 12:59:59", "prod"), "unstarted");
    assert_eq!(script.state("Tue 12:00", "prod"), "active");
}

/// Hosts that can only go one after the other: how long each takes, nobody knows. So sure is that nothing comes before the group
/// may go. Where nobody may, there is no time.
#[test]
fn behind_a_capped_group_the_time_is_what_the_clock_says_at_least() {
    let script = |pace: Value, hosts: u32| {
        let mut dev = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
        dev.as_object_mut().unwrap().extend(pace.as_object().unwrap().clone());
        rollout(&json!([dev, { "name": "prod", "days": ["*"], "start_hour": 14 }])).hosts(
            "Mon 11:58",
            1..=hosts,
            "dev",
            OLD,
        )
    };
    for when in ["Mon 11:59", "Mon 12:10"] {
        assert_eq!(script(json!({}), 10).why(when, "prod").1, Some(t("Mon 14:00")), "{when}");
        assert_eq!(script(json!({ "max_in_flight": "90%" }), 10).why(when, "prod").1, Some(t("Mon 14:00")), "{when}");
        assert_eq!(script(json!({ "max_in_flight": "10%" }), 10).why(when, "prod").1, Some(t("Mon 14:00")), "{when}");
        let slow = script(json!({ "max_in_flight": "10%", "rate": { "base": 3 } }), 10);
        assert_eq!(slow.why(when, "prod").1, Some(t("Mon 14:00")), "{when}: three hours from 12:00 on begin at 14:00");
        assert_eq!(script(json!({ "max_in_flight": "10%" }), 1).why(when, "prod").1, Some(t("Mon 14:00")), "{when}");
        assert_eq!(script(json!({ "max_in_flight": "0%" }), 1).why(when, "prod").1, None, "{when}");
    }
    let held = script(json!({ "max_in_flight": "10%", "window_duration": "10m" }), 10);
    assert_eq!(held.why("Mon 12:11", "prod").1, Some(t("Tue 14:00")), "its own hours are over");
    // Nine of ten are updated: the cap is in nobody's way any more.
    let script = script(json!({ "max_in_flight": "10%" }), 10);
    let nearly = (1..=8).fold(script, |script, number| script.on("Mon 12:10", super::updated(number, "dev")));
    assert_eq!(nearly.why("Mon 12:20", "prod").1, Some(t("Mon 14:00")));
}

/// A rate says how many hours its group takes at least.
#[test]
fn behind_a_group_with_a_rate_the_hours_of_the_rate_count() {
    let script = |rate: Value| {
        rollout(&json!([
            { "name": "dev", "days": ["*"], "start_hour": 12, "rate": rate },
            { "name": "prod", "days": ["*"], "start_hour": 14 },
        ]))
        .hosts("Mon 11:58", 1..=20, "dev", OLD)
    };
    // Eighteen of twenty: two an hour are nine hours, 12:00 to 20:00.
    assert_eq!(script(json!({ "base": 2 })).why("Mon 12:10", "prod").1, Some(t("Tue 14:00")));
    assert_eq!(script(json!({ "base": 6 })).why("Mon 12:10", "prod").1, Some(t("Mon 14:00")));
    assert_eq!(script(json!({ "base": 5 })).why("Mon 12:10", "prod").1, Some(t("Tue 14:00")));
    // 4 and 8 and 6 of 16: 14:00.
    let growing = json!({ "base": 4, "factor": 2, "maximum": 100 });
    assert_eq!(script(growing).why("Mon 12:10", "prod").1, Some(t("Mon 14:00")));
}

/// Hosts that were not let go wait for the group's hours.
#[test]
fn behind_a_group_outside_its_hours_these_come_first() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["Mon", "Wed"], "start_hour": 12, "window_duration": "1h" },
        { "name": "prod", "days": ["*"], "start_hour": 14 },
    ]))
    .hosts("Mon 11:58", 1..=5, "dev", OLD);
    assert_eq!(script.why("Mon 12:30", "prod").1, Some(t("Mon 14:00")));
    let script = script.hosts("Mon 13:20", 1..=5, "dev", OLD);
    assert_eq!(script.why("Mon 13:30", "prod").1, Some(t("Wed 14:00")));
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

/// FLEET §6: all have failed, and the thresholds allow it. Nothing goes on: it says so, and what to do.
#[test]
fn a_group_of_which_all_failed_says_that_nobody_is_on_the_way() {
    let group = json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "max_failed_before_halt": "100%",
        "max_failed_of_ended": "100%" }]);
    let mut script = rollout(&group).hosts("Mon 11:58", 1..=20, "dev", OLD);
    for number in 1..=20 {
        script = script.on("Mon 12:01", asks(number, "dev"));
    }
    for number in 1..=20 {
        script = script.on("Mon 12:05", failed(number, "dev"));
    }
    let why = script.group("Mon 12:06", "dev")["why"].clone();
    assert_eq!(
        [&why["code"], &why["failed"], &why["of"]],
        [&json!("nobody_on_the_way"), &json!(20), &json!(20)],
        "{why:#}"
    );
    assert_eq!(why["advice"], json!({ "command": { "run": { "groups": ["dev"], "all": false } } }), "{why:#}");
    // The advice is good: those that failed are let go again.
    let again = script.clone().on("Mon 12:07", super::run(&["dev"]));
    let group = again.group("Mon 12:07", "dev");
    assert_eq!([&group["attempt"], &group["failed_count"], &group["let_go_count"]], [&json!(2), &json!(0), &json!(20)]);
    assert_eq!(again.group("Mon 12:08", "dev")["why"]["code"], "update_in_progress");
    // While somebody is on the way there is nothing to run.
    let some = rollout(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "max_failed_before_halt": "100%" }]));
    let some = some.hosts("Mon 11:58", 1..=3, "dev", OLD).on("Mon 12:01", asks(1, "dev"));
    let some = some.on("Mon 12:05", failed(1, "dev"));
    assert_eq!(some.group("Mon 12:06", "dev")["why"]["code"], "update_in_progress");
    assert_eq!(some.refusal("Mon 12:06", super::run(&["dev"])).0, "already_exists");
}

/// A group that shrank because an operator held a host names that.
#[test]
fn a_group_that_shrank_names_who_is_held() {
    let hold = json!({ "hold": { "host": super::host(1) } });
    let script = rollout(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }]))
        .hosts("Mon 11:58", 1..=3, "dev", OLD)
        .on("Mon 12:01", hold);
    let why = script.group("Mon 12:02", "dev")["why"].clone();
    let counts = ["present", "initial", "excluded"].map(|key| why[key].as_u64());
    assert_eq!((&why["code"], counts), (&json!("shrunk"), [Some(2), Some(3), Some(1)]), "{why:#}");
}

/// The clock ends whatever a time-based group does.
#[test]
fn an_active_time_based_group_lasts_to_the_end_of_its_window() {
    let script = |keys: Value, hours: &str| {
        let mut dev = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
        dev.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        Script::default().on("Mon 11:00", timed(hours, &json!([dev]))).on("Mon 11:00", version())
    };
    let empty = script(json!({}), "3h");
    for when in ["Mon 12:20", "Mon 13:20"] {
        let why = empty.group(when, "dev")["why"].clone();
        assert_eq!([&why["code"], &why["until"]], [&json!("empty"), &json!(t("Mon 15:00"))], "{when}");
    }
    let asking = script(json!({}), "3h").on("Mon 11:58", asks(1, "dev"));
    let full = script(json!({ "max_in_flight": "10%" }), "3h").hosts("Mon 11:58", 1..=20, "dev", OLD);
    let nobody = script(json!({ "max_in_flight": "0%" }), "3h").hosts("Mon 11:58", 1..=20, "dev", OLD);
    let all = script(json!({}), "3h").hosts("Mon 11:58", 1..=20, "dev", OLD);
    for (script, code) in
        [(asking, "no_reports"), (full, "max_in_flight"), (nobody, "max_in_flight"), (all, "update_in_progress")]
    {
        let answers = script.on("Mon 12:10", json!({ "status": {} })).run();
        let why = group(answers.last().unwrap(), "dev")["why"].clone();
        assert_eq!([&why["code"], &why["until"]], [&json!(code), &json!(t("Mon 15:00"))]);
    }
    // The rate's hour ends after the window, and before it.
    for (hours, until) in [("30m", "Mon 12:30"), ("3h", "Mon 13:00")] {
        let slow = script(json!({ "rate": { "base": 1 } }), hours).hosts("Mon 11:58", 1..=20, "dev", OLD);
        let why = slow.group("Mon 12:10", "dev")["why"].clone();
        assert_eq!([&why["code"], &why["until"]], [&json!("rate"), &json!(t(until))]);
    }
}
