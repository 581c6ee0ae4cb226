//! FLEET §2, the gate: `timezone` and windows across midnight.

use serde_json::{Value, json};

use super::{Steps, halting, mark_done, rollout, state_and_reason, t, timed, version};
use crate::support::Script;

/// A rollout of one group with these keys that begins then.
fn begun(when: &str, keys: &Value) -> Script {
    let mut group = json!({ "name": "dev" });
    group.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    Script::default().on(when, halting(&json!([group]))).on(when, version())
}

/// The same, with times in RFC 3339.
fn begun_at(at: &str, keys: &Value) -> Script {
    let mut group = json!({ "name": "dev" });
    group.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    Script::default().line(at, halting(&json!([group]))).line(at, version())
}

fn state_at(script: &Script, at: &str) -> String {
    let status = script.clone().line(at, json!({ "status": {} })).answer();
    crate::support::group(&status, "dev")["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_group_starts_on_its_days_only() {
    let script = begun("Mon 08:00", &json!({ "days": ["Wed", "Sat"], "start_hour": 9 }));
    for when in ["Mon 09:30", "Tue 09:30", "Wed 08:59:59"] {
        assert_eq!(script.state(when, "dev"), "unstarted", "{when}");
    }
    assert_eq!(script.state("Wed 09:00", "dev"), "active");
    let script = begun("Wed 10:00", &json!({ "days": ["Wed", "Sat"], "start_hour": 9 }));
    for when in ["Wed 10:00", "Thu 09:30", "Fri 09:30", "Sat 08:59:59"] {
        assert_eq!(script.state(when, "dev"), "unstarted", "{when}");
    }
    assert_eq!(script.state("Sat 09:00", "dev"), "active");
}

#[test]
fn a_star_is_every_day() {
    for day in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] {
        let script = begun(&format!("{day} 08:00"), &json!({ "days": ["*"], "start_hour": 9 }));
        assert_eq!(script.state(&format!("{day} 08:59:59"), "dev"), "unstarted", "{day}");
        assert_eq!(script.state(&format!("{day} 09:00"), "dev"), "active", "{day}");
    }
}

#[test]
fn long_names_of_days_mean_the_same() {
    let script = begun("Mon 08:00", &json!({ "days": ["Wednesday"], "start_hour": 9 }));
    assert_eq!(script.state("Tue 09:30", "dev"), "unstarted");
    assert_eq!(script.state("Wed 09:00", "dev"), "active");
}

/// Half-open: the first second belongs to it, the end does not.
#[test]
fn a_rollout_that_begins_with_the_window_or_in_it_waits_for_the_next_one() {
    let keys = json!({ "days": ["*"], "start_hour": 9 });
    for when in ["Mon 09:00", "Mon 09:00:01", "Mon 09:30", "Mon 09:59:59"] {
        let script = begun(when, &keys);
        assert_eq!(
            script.because(when, "dev"),
            state_and_reason("unstarted", "rollout_changed_during_window"),
            "{when}"
        );
        assert_eq!(script.because("Mon 09:59:59", "dev").1, "rollout_changed_during_window", "{when}");
        assert_eq!(script.because("Mon 10:00", "dev"), state_and_reason("unstarted", "cannot_start"), "{when}");
        assert_eq!(script.state("Tue 08:59:59", "dev"), "unstarted", "{when}");
    }
    // One that began before it, or after it, does not.
    assert_eq!(begun("Mon 08:59:59", &keys).state("Mon 09:00", "dev"), "active");
    assert_eq!(begun("Mon 10:00", &keys).state("Tue 09:00", "dev"), "active");
}

/// By the formula it may last until the rollout is a day old; by the prose the next window will do. Here they agree.
#[test]
fn a_rollout_that_began_in_a_window_starts_in_the_next_one() {
    let script = begun("Mon 09:30", &json!({ "days": ["*"], "start_hour": 9 }));
    assert_eq!(script.state("Tue 09:59:59", "dev"), "active");
    let script = begun("Mon 09:30", &json!({ "days": ["Mon", "Wed"], "start_hour": 9 }));
    assert_eq!(script.state("Tue 09:30", "dev"), "unstarted");
    assert_eq!(script.state("Wed 09:00", "dev"), "active");
    let script = begun("Mon 09:30", &json!({ "days": ["Mon"], "start_hour": 9 }));
    assert_eq!(script.state("next Mon 08:59:59", "dev"), "unstarted");
    assert_eq!(script.state("next Mon 09:00", "dev"), "active");
}

/// FLEET §2: "makes the group wait for its *next* window".
#[test]
fn the_next_window_begins_with_its_first_second_for_a_rollout_that_began_in_the_one_before() {
    let script = begun("Mon 09:30", &json!({ "days": ["*"], "start_hour": 9 }));
    assert_eq!(script.state("Tue 09:00", "dev"), "active");
}

#[test]
fn a_rollout_that_began_in_the_window_of_a_later_group_lets_that_group_wait_too() {
    let script = Script::default()
        .on(
            "Mon 14:10",
            halting(&json!([
                { "name": "dev", "days": ["*"], "start_hour": 12 },
                { "name": "prod", "days": ["*"], "start_hour": 14 },
            ])),
        )
        .on("Mon 14:10", version())
        .on("Mon 14:20", mark_done(&["dev"]));
    assert_eq!(script.because("Mon 14:30", "prod"), state_and_reason("unstarted", "rollout_changed_during_window"));
    assert_eq!(script.state("Tue 14:30", "prod"), "active");
}

/// §2.3: a reset makes a new rollout.
#[test]
fn a_new_target_within_the_window_makes_the_group_wait_for_the_next_one() {
    let script = begun("Mon 08:00", &json!({ "days": ["*"], "start_hour": 9 }))
        .on("Mon 09:30", super::version_of(super::OLD, "17.2.2"));
    assert_eq!(script.because("Mon 09:31", "dev"), state_and_reason("unstarted", "rollout_changed_during_window"));
    assert_eq!(script.state("Tue 09:59", "dev"), "active");
}

#[test]
fn a_mode_that_is_enabled_within_the_window_starts_the_group() {
    let script = Script::default()
        .on("Mon 08:00", halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 9 }])))
        .on("Mon 08:00", super::version_in("suspended", "regular"))
        .on("Mon 09:59:59", super::version_in("enabled", "regular"));
    assert_eq!(script.state("Mon 09:59:59", "dev"), "active");
    let script = Script::default()
        .on("Mon 08:00", halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 9 }])))
        .on("Mon 08:00", super::version_in("suspended", "regular"))
        .on("Mon 10:00", super::version_in("enabled", "regular"));
    assert_eq!(script.state("Mon 10:00", "dev"), "unstarted");
}

#[test]
fn the_last_hour_of_the_day_is_a_window_like_others() {
    let script = begun("Mon 20:00", &json!({ "days": ["Mon"], "start_hour": 23 }));
    assert_eq!(script.state("Mon 22:59:59", "dev"), "unstarted");
    assert_eq!(script.state("Mon 23:00", "dev"), "active");
    let of_late = |done: &str| {
        rollout(&json!([
            { "name": "first", "days": ["Sun"], "start_hour": 12 },
            { "name": "dev", "days": ["Mon"], "start_hour": 23 },
        ]))
        .on(done, mark_done(&["first"]))
        .state(done, "dev")
    };
    assert_eq!(of_late("Mon 23:59:59"), "active");
    assert_eq!(of_late("Tue 00:00"), "unstarted");
    assert_eq!(of_late("Tue 23:30"), "unstarted");
}

/// v2 cuts a window off at midnight: a fault, not a rule (FLEET §2).
#[test]
fn a_window_across_midnight_belongs_to_the_day_of_its_beginning() {
    let script = Script::default()
        .on("Mon 08:00", timed("2h", &json!([{ "name": "dev", "days": ["Mon"], "start_hour": 23 }])))
        .on("Mon 08:00", version());
    for (when, state) in [
        ("Mon 22:59:59", "unstarted"),
        ("Mon 23:00", "active"),
        ("Tue 00:00", "active"),
        ("Tue 00:59:59", "active"),
        ("Tue 01:00", "done"),
        ("Tue 23:30", "done"),
        ("next Mon 00:30", "done"),
        ("next Mon 23:00", "active"),
    ] {
        assert_eq!(script.state(when, "dev"), state, "{when}");
    }
}

#[test]
fn a_rollout_that_begins_after_midnight_in_a_window_from_before_it_waits_for_the_next_one() {
    let script = Script::default()
        .on("Tue 00:30", timed("2h", &json!([{ "name": "dev", "days": ["*"], "start_hour": 23 }])))
        .on("Tue 00:30", version());
    assert_eq!(script.because("Tue 00:45", "dev"), state_and_reason("unstarted", "rollout_changed_during_window"));
    assert_eq!(script.state("Tue 22:59:59", "dev"), "unstarted");
    assert_eq!(script.state("Tue 23:59", "dev"), "active");
}

#[test]
fn the_hour_is_that_of_the_zone() {
    // 12:00 in Berlin is 11:00 UTC in winter and 10:00 in summer.
    let keys = json!({ "days": ["*"], "start_hour": 12, "timezone": "Europe/Berlin" });
    let winter = begun_at("2026-01-05T08:00:00Z", &keys);
    assert_eq!(state_at(&winter, "2026-01-05T10:59:59Z"), "unstarted");
    assert_eq!(state_at(&winter, "2026-01-05T11:00:00Z"), "active");
    let summer = begun_at("2026-07-06T08:00:00Z", &keys);
    assert_eq!(state_at(&summer, "2026-07-06T09:59:59Z"), "unstarted");
    assert_eq!(state_at(&summer, "2026-07-06T10:00:00Z"), "active");
}

#[test]
fn the_weekday_is_that_of_the_zone() {
    // Monday in Tokyo begins on Sunday at 15:00 UTC; Sunday in Los Angeles ends on Monday at 08:00.
    let tokyo =
        begun_at("2026-01-10T15:30:00Z", &json!({ "days": ["Mon"], "start_hour": 0, "timezone": "Asia/Tokyo" }));
    assert_eq!(state_at(&tokyo, "2026-01-11T14:59:59Z"), "unstarted");
    assert_eq!(state_at(&tokyo, "2026-01-11T15:00:00Z"), "active");
    let angeles = begun_at(
        "2026-01-11T12:00:00Z",
        &json!({ "days": ["Sun"], "start_hour": 23, "timezone": "America/Los_Angeles" }),
    );
    assert_eq!(state_at(&angeles, "2026-01-12T06:59:59Z"), "unstarted");
    assert_eq!(state_at(&angeles, "2026-01-12T07:00:00Z"), "active");
}

#[test]
fn an_hour_that_does_not_exist_begins_at_the_next_that_does() {
    // On 29 March 2026, Berlin's clocks go from 02:00 to 03:00, at 01:00 UTC.
    let script =
        begun_at("2026-03-28T12:00:00Z", &json!({ "days": ["Sun"], "start_hour": 2, "timezone": "Europe/Berlin" }));
    assert_eq!(state_at(&script, "2026-03-29T00:59:59Z"), "unstarted");
    assert_eq!(state_at(&script, "2026-03-29T01:00:00Z"), "active");
}

#[test]
fn an_hour_that_comes_twice_counts_once() {
    // On 25 October 2026, Berlin's clocks show 02:00 at 00:00 UTC and again at 01:00 UTC.
    let groups = json!([
        { "name": "first", "days": ["Mon"], "start_hour": 12 },
        { "name": "dev", "days": ["Sun"], "start_hour": 2, "timezone": "Europe/Berlin" },
    ]);
    let done_at = |at: &str| {
        Script::default()
            .line("2026-10-24T12:00:00Z", halting(&groups))
            .line("2026-10-24T12:00:00Z", version())
            .line(at, mark_done(&["first"]))
    };
    assert_eq!(state_at(&done_at("2026-10-24T23:59:58Z"), "2026-10-24T23:59:59Z"), "unstarted");
    assert_eq!(state_at(&done_at("2026-10-25T00:00:00Z"), "2026-10-25T00:00:00Z"), "active");
    assert_eq!(state_at(&done_at("2026-10-25T00:59:59Z"), "2026-10-25T00:59:59Z"), "active");
    assert_eq!(state_at(&done_at("2026-10-25T01:00:00Z"), "2026-10-25T01:30:00Z"), "unstarted");
}

#[test]
fn an_hour_that_comes_twice_opens_a_time_based_window_once() {
    let script = Script::default()
        .line(
            "2026-10-24T12:00:00Z",
            timed("1h", &json!([{ "name": "dev", "days": ["*"], "start_hour": 2, "timezone": "Europe/Berlin" }])),
        )
        .line("2026-10-24T12:00:00Z", version());
    for (at, state) in [
        ("2026-10-24T23:59:59Z", "unstarted"),
        ("2026-10-25T00:00:00Z", "active"),
        ("2026-10-25T00:59:59Z", "active"),
        ("2026-10-25T01:00:00Z", "done"),
        ("2026-10-25T01:30:00Z", "done"),
        ("2026-10-26T00:59:59Z", "done"),
        ("2026-10-26T01:00:00Z", "active"),
    ] {
        assert_eq!(state_at(&script, at), state, "{at}");
    }
}

#[test]
fn a_zone_is_one_of_the_iana_database() {
    let of = |zone: &str| halting(&json!([{ "name": "dev", "timezone": zone }]));
    for zone in ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"] {
        assert!(Script::default().on("Mon 08:00", of(zone)).run().is_empty(), "{zone}");
    }
    for zone in ["", "Berlin", "Europe/Atlantis", "+01:00"] {
        let (_, message) = Script::default().refusal("Mon 08:00", of(zone));
        assert!(message.contains("timezone"), "{message}");
    }
}

/// §2.4: a window that no hour lies outside of.
#[test]
fn windows_of_a_whole_day_never_close() {
    let script = Script::default()
        .on("Mon 08:00", timed("24h", &json!([{ "name": "dev", "days": ["*"], "start_hour": 9 }])))
        .on("Mon 08:00", version());
    // It began on Monday at 08:00, in Sunday's window.
    assert_eq!(script.state("Mon 08:59:59", "dev"), "unstarted");
    for when in ["Tue 09:00", "Tue 12:00", "Wed 08:59:59", "Wed 09:00", "Sun 23:00"] {
        assert_eq!(script.state(when, "dev"), "active", "{when}");
    }
    assert_eq!(script.group("Sun 23:00", "dev")["last_update_reason"], "in_window");
    assert!(script.group("Sun 23:00", "dev")["start_time"].as_str().unwrap() <= t("Tue 09:00").as_str());
}
