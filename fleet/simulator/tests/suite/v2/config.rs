//! FLEET §2: `autoupdate_config`.

use serde_json::{Value, json};

use super::{NEW, OLD, Steps, agents, dev_and_prod, halting, is, resource, timed, version};
use crate::support::Script;

fn taken(put: &Value) {
    let answers = Script::default().on("Mon 11:00", put.clone()).run();
    assert_eq!(answers, Vec::<Value>::new(), "{put:#}");
}

/// Refused, and the message names the key.
fn refused(put: &Value, key: &str) {
    let (_, message) = Script::default().refusal("Mon 11:00", put.clone());
    assert!(message.contains(key), "{message:?} does not name {key}");
}

fn group(keys: &Value) -> Value {
    let mut group = json!({ "name": "dev" });
    group.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    group
}

/// A configuration whose only group has these keys.
fn with(keys: &Value) -> Value {
    halting(&json!([group(keys)]))
}

fn many(count: u32) -> Value {
    (0..count).map(|number| json!({ "name": format!("g{number}"), "start_hour": 4 })).collect()
}

#[test]
fn its_only_name_is_autoupdate_config() {
    let mut put = with(&json!({}));
    put["put"]["metadata"]["name"] = "another".into();
    refused(&put, "metadata.name");
}

#[test]
fn tools_are_enabled_or_disabled_and_never_suspended() {
    for mode in ["enabled", "disabled"] {
        taken(&resource("autoupdate_config", &json!({ "tools": { "mode": mode } })));
    }
    for mode in ["suspended", "on", ""] {
        refused(&resource("autoupdate_config", &json!({ "tools": { "mode": mode } })), "spec.tools.mode");
    }
}

#[test]
fn a_mode_is_one_of_three_words() {
    for mode in ["enabled", "disabled", "suspended"] {
        taken(&agents(&json!({ "mode": mode, "strategy": "halt-on-error" })));
    }
    for mode in [json!(""), json!("Enabled"), json!("on"), json!(true), json!(1), json!(["enabled"])] {
        refused(&agents(&json!({ "mode": mode, "strategy": "halt-on-error" })), "spec.agents.mode");
    }
}

#[test]
fn a_strategy_is_halt_on_error_or_time_based() {
    taken(&agents(&json!({ "mode": "enabled", "strategy": "halt-on-error" })));
    taken(&agents(&json!({ "mode": "enabled", "strategy": "time-based", "maintenance_window_duration": "1h" })));
    for strategy in ["", "time_based", "canary", "requires", "halt-on-failure"] {
        refused(&agents(&json!({ "mode": "enabled", "strategy": strategy })), "spec.agents.strategy");
    }
}

#[test]
fn halt_on_error_has_no_maintenance_window_duration() {
    let of = |length: &str| {
        agents(&json!({ "mode": "enabled", "strategy": "halt-on-error", "maintenance_window_duration": length }))
    };
    taken(&of("0s"));
    for length in ["1h", "10m", "1s"] {
        refused(&of(length), "spec.agents.maintenance_window_duration");
    }
}

#[test]
fn a_window_of_time_based_has_ten_minutes_or_more() {
    for length in ["10m", "600s", "10m1s", "1h", "2h30m", "24h"] {
        taken(&timed(length, &json!([{ "name": "dev" }])));
    }
    for length in ["9m59s", "599s", "1s", "0s", "-1h", "soon"] {
        refused(&timed(length, &json!([{ "name": "dev" }])), "spec.agents.maintenance_window_duration");
    }
}

#[test]
fn time_based_without_a_window_is_refused() {
    refused(
        &agents(&json!({ "mode": "enabled", "strategy": "time-based" })),
        "spec.agents.maintenance_window_duration",
    );
}

#[test]
fn names_of_groups_are_not_empty_and_unique() {
    taken(&halting(&json!([{ "name": "dev" }, { "name": "prod" }])));
    refused(&halting(&json!([{ "name": "" }])), "schedules.regular[0].name");
    refused(&halting(&json!([{ "start_hour": 4 }])), "schedules.regular[0].name");
    refused(&halting(&json!([{ "name": "dev" }, { "name": "prod" }, { "name": "dev" }])), "schedules.regular[2].name");
    refused(&timed("1h", &json!([{ "name": "dev" }, { "name": "dev" }])), "schedules.regular[1].name");
    refused(&halting(&json!([{ "name": 5 }])), "schedules.regular[0].name");
}

#[test]
fn days_are_weekdays_short_or_long_or_a_star() {
    for day in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "*", "Monday", "Tuesday", "Sunday"] {
        taken(&with(&json!({ "days": [day] })));
    }
    taken(&with(&json!({ "days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] })));
    for day in [json!(""), json!("Mo"), json!("Montag"), json!("Mon-Fri"), json!(1), json!(null), json!("**")] {
        refused(&with(&json!({ "days": [day] })), "regular[0].days[0]");
    }
    refused(&with(&json!({ "days": "Mon" })), "regular[0].days");
}

#[test]
fn a_window_without_a_day_is_impossible_and_refused() {
    refused(&with(&json!({ "days": [] })), "regular[0].days");
}

#[test]
fn a_start_hour_is_from_0_to_23() {
    for hour in [0, 1, 12, 23] {
        taken(&with(&json!({ "start_hour": hour })));
    }
    for hour in [json!(24), json!(-1), json!(3.5), json!("noon"), json!([4]), json!(1_000_000_000_000_u64)] {
        refused(&with(&json!({ "start_hour": hour })), "regular[0].start_hour");
    }
}

#[test]
fn wait_hours_are_never_negative() {
    let of = |hours: Value| halting(&json!([{ "name": "dev" }, { "name": "prod", "wait_hours": hours }]));
    for hours in [0, 1, 24, 168] {
        taken(&of(json!(hours)));
    }
    for hours in [json!(-1), json!(0.5), json!("1h"), json!("a day")] {
        refused(&of(hours), "regular[1].wait_hours");
    }
}

#[test]
fn the_first_group_of_halt_on_error_waits_for_none() {
    taken(&halting(&json!([{ "name": "dev", "wait_hours": 0 }, { "name": "prod", "wait_hours": 1 }])));
    refused(&halting(&json!([{ "name": "dev", "wait_hours": 1 }])), "regular[0].wait_hours");
}

#[test]
fn time_based_has_no_wait_hours() {
    taken(&timed("1h", &json!([{ "name": "dev" }, { "name": "prod", "wait_hours": 0 }])));
    refused(&timed("1h", &json!([{ "name": "dev" }, { "name": "prod", "wait_hours": 1 }])), "regular[1].wait_hours");
}

#[test]
fn canaries_are_none_to_five() {
    for count in 0..=5 {
        taken(&with(&json!({ "canary_count": count })));
    }
    for count in [json!(6), json!(10), json!(-1), json!(1.5), json!("some")] {
        refused(&with(&json!({ "canary_count": count })), "regular[0].canary_count");
    }
}

#[test]
fn time_based_has_no_canaries() {
    taken(&timed("1h", &json!([{ "name": "dev", "canary_count": 0 }])));
    refused(&timed("1h", &json!([{ "name": "dev", "canary_count": 1 }])), "regular[0].canary_count");
}

#[test]
fn halt_on_error_has_at_most_ten_groups() {
    taken(&halting(&many(10)));
    refused(&halting(&many(11)), "schedules.regular");
}

#[test]
fn time_based_has_at_most_twenty_groups() {
    taken(&timed("1h", &many(20)));
    refused(&timed("1h", &many(21)), "schedules.regular");
}

#[test]
fn unknown_keys_are_refused_wherever_they_stand() {
    refused(&resource("autoupdate_config", &json!({ "agent": {} })), "spec.agent");
    refused(&agents(&json!({ "mode": "enabled", "strategi": "time-based" })), "spec.agents.strategi");
    refused(&agents(&json!({ "mode": "enabled", "schedules": { "nightly": [] } })), "spec.agents.schedules.nightly");
    refused(&with(&json!({ "wait_days": 1 })), "regular[0].wait_days");
    refused(&with(&json!({ "alert_after_hours": 4 })), "regular[0].alert_after_hours");
}

#[test]
fn what_is_refused_changes_nothing() {
    let bad = halting(&json!([{ "name": "dev", "start_hour": 24 }]));
    let answers = dev_and_prod()
        .on("Mon 11:10", bad)
        .on("Mon 12:00", json!({ "find": { "group": "dev" } }))
        .on("Mon 12:00", json!({ "status": {} }))
        .run();
    assert!(answers[0].get("error").is_some());
    assert_eq!(super::told(&answers[1]), is(NEW, true));
    assert_eq!(answers[2]["status"]["status"]["groups"].as_array().unwrap().len(), 2);
}

/// §1.1, days: Monday to Thursday by default.
#[test]
fn a_group_without_days_starts_from_monday_to_thursday() {
    let groups = json!([{ "name": "dev", "start_hour": 12 }]);
    for (created, wanted) in [("Mon 11:00", true), ("Tue 11:00", true), ("Wed 11:00", true), ("Thu 11:00", true)] {
        let script = Script::default().on(created, halting(&groups)).on(created, version());
        let day = &created[..3];
        assert_eq!(script.find(&format!("{day} 12:30"), "dev"), is(NEW, wanted), "{day}");
    }
    for day in ["Fri", "Sat", "Sun"] {
        let created = format!("{day} 11:00");
        let script = Script::default().on(&created, halting(&groups)).on(&created, version());
        assert_eq!(script.find(&format!("{day} 12:30"), "dev"), is(OLD, false), "{day}");
        assert_eq!(script.find("next Mon 11:59:59", "dev"), is(OLD, false), "{day}");
        assert_eq!(script.find("next Mon 12:00", "dev"), is(NEW, true), "{day}");
    }
}

/// §1.1, start_hour: 0 by default.
#[test]
fn a_group_without_an_hour_starts_at_midnight() {
    let script = super::rollout(&json!([{ "name": "dev", "days": ["*"] }]));
    assert_eq!(script.find("Mon 23:59:59", "dev"), is(OLD, false));
    assert_eq!(script.find("Tue 00:00", "dev"), is(NEW, true));
}
