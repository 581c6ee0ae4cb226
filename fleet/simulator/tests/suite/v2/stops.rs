//! What failed in an attempt stays counted in it, in Managed Updates v2's dialect too; names that commands and addresses take for
//! something else.

use serde_json::{Value, json};

use super::{Steps, asks, failed, halting, host, outcome, report, rollout, start_by_force, version};
use crate::support::Script;

/// Twenty hosts of `prod`, of which a tenth may fail; the first is told from 11:10 on.
fn twenty() -> Script {
    rollout(&json!([{ "name": "prod", "days": ["*"], "start_hour": 12, "max_failed_before_halt": "10%" }]))
        .hosts("Mon 11:05", 1..=20, "prod", super::OLD)
        .on("Mon 11:06", start_by_force(&["prod"]))
}

#[test]
fn who_failed_stays_counted_whatever_is_done_to_him() {
    let with = |number: u32, key: &str| {
        let mut line = report(number, "prod", super::OLD);
        line["report"][key] = json!(true);
        vec![line]
    };
    type Way<'a> = &'a dyn Fn(u32) -> Vec<Value>;
    let ways: [(&str, Way<'_>); 4] = [
        ("pinned", &|number| with(number, "pinned")),
        ("disabled", &|number| with(number, "disabled")),
        ("held", &|number| vec![json!({ "hold": { "host": host(number) } })]),
        ("another version fails", &|number| {
            let mut line = outcome(number, "prod", super::OLD, "failed", "unhealthy");
            line["report"]["last"]["to"] = json!("17.1.0");
            vec![line]
        }),
    ];
    for (what, way) in ways {
        let mut script = twenty();
        for number in 1..=3 {
            assert_eq!(script.state(&format!("Mon 11:{number}0"), "prod"), "active", "{what}");
            script = script.on(&format!("Mon 11:{number}0"), asks(number, "prod"));
            script = script.on(&format!("Mon 11:{number}2"), failed(number, "prod"));
            script = way(number).into_iter().fold(script, |script, step| script.on(&format!("Mon 11:{number}3"), step));
        }
        let because = script.because("Mon 11:40", "prod");
        assert_eq!(because, super::state_and_reason("halted", "failed_threshold"), "{what}");
    }
}

#[test]
fn a_change_of_the_strategy_ends_no_halt() {
    let script = (1..=3).fold(twenty(), |script, number| script.on("Mon 11:12", failed(number, "prod")));
    assert_eq!(script.state("Mon 11:13", "prod"), "halted");
    let groups = json!([{ "name": "prod", "days": ["*"], "start_hour": 12 }]);
    let script = script.on("Mon 11:14", super::timed("2h", &groups));
    assert_eq!(script.because("Mon 12:30", "prod"), super::state_and_reason("halted", "failed_threshold"));
}

#[test]
fn names_that_stand_for_something_else_are_refused() {
    for name in ["--all", "-x", ".", "..", "pr\u{202e}od", "a\u{200b}b"] {
        let groups = json!([{ "name": name, "days": ["*"], "start_hour": 12 }]);
        let (code, message) = Script::default().refusal("Mon 11:00", halting(&groups));
        assert_eq!(code, "bad_resource", "{name:?}: {message}");
        assert!(!message.contains('\u{202e}'), "{message:?}");
    }
    for name in ["a-x", "...", ".a", "prod.", "a b"] {
        let groups = json!([{ "name": name, "days": ["*"], "start_hour": 12 }]);
        assert_eq!(
            Script::default().on("Mon 11:00", halting(&groups)).on("Mon 11:00", version()).state("Mon 11:01", name),
            "unstarted"
        );
    }
}
