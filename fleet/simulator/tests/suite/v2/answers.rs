//! FLEET §4: what a host is told.

use serde_json::json;

use super::{NEW, OLD, Steps, asks, dev_and_prod, host, is, rollout, told, updater};
use crate::support::Script;

/// Fifty hosts, of which five are canaries.
fn with_canaries() -> (Script, Vec<String>) {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12, "canary_count": 5 },
        { "name": "prod", "days": ["*"], "start_hour": 14 },
    ]))
    .hosts("Mon 11:58", 1..=50, "dev", OLD);
    let group = script.group("Mon 12:01", "dev");
    let ids =
        group["canaries"].as_array().unwrap().iter().map(|canary| canary["updater_id"].as_str().unwrap().to_owned());
    let ids: Vec<String> = ids.collect();
    assert_eq!(ids.len(), 5);
    (script, ids)
}

#[test]
fn thousands_of_questions_of_canaries_and_others_are_each_answered_for_themselves() {
    let (mut script, canaries) = with_canaries();
    let mut wanted = Vec::new();
    let mut lot = 12_345_u64;
    for number in 0_u64..6000 {
        lot = lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let host_number = u32::try_from((lot >> 33) % 50).unwrap() + 1;
        let is_canary = canaries.contains(&updater(host_number));
        let (find, answer) = match (lot >> 50) % 7 {
            0 | 1 => (asks(host_number, "dev"), is_canary),
            2 => (json!({ "find": { "group": "dev", "update_id": updater(host_number) } }), is_canary),
            3 => (json!({ "find": { "group": "dev" } }), false),
            4 => (json!({ "find": { "group": "dev", "update_id": updater(1000 + host_number) } }), false),
            5 => (json!({ "find": { "group": "prod" } }), false),
            _ => (json!({ "find": {} }), false),
        };
        wanted.push(if answer { is(NEW, true) } else { is(OLD, false) });
        let minute = 2 + number / 600;
        script = script.on(&format!("Mon 12:{minute:02}"), find);
    }
    let answers = script.run();
    assert_eq!(answers.len(), wanted.len());
    for (number, (answer, wanted)) in answers.iter().zip(&wanted).enumerate() {
        assert_eq!(told(answer), *wanted, "question {number}");
    }
    assert!(wanted.iter().filter(|wanted| wanted.1).count() > 100);
}

#[test]
fn what_explain_says_is_what_find_says() {
    let script = dev_and_prod().hosts("Mon 11:10", 1..=2, "dev", OLD);
    for when in ["Mon 11:30", "Mon 12:10"] {
        let explained = script.then(when, json!({ "explain": { "host": host(1) } }))["explain"].clone();
        let found = script.then(when, asks(1, "dev"))["find"].clone();
        assert_eq!(explained["group"], "dev");
        assert_eq!(explained["version"], found["agent_version"], "{when}");
        assert_eq!(explained["update"], found["agent_auto_update"], "{when}");
        assert_eq!(explained["why"]["code"], found["fleet"]["why"]["code"], "{when}");
        assert_eq!(explained["until"], found["fleet"]["until"], "{when}");
    }
}
