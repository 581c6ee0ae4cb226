//! FLEET §4: what a host is told.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, agents, asks, dev_and_prod, host, immediate, is, mark_done, outcome, report, rollback, rollout,
    start, timed, told, updater, version, version_in, version_of,
};
use crate::support::Script;

const CANARY: u32 = 1;

/// A group of halt-on-error in this state at 12:05, and its only host is its canary.
fn in_state(state: &str) -> Script {
    let canaries = u32::from(state == "canary");
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 20, "canary_count": canaries },
        { "name": "prod", "days": ["*"], "start_hour": 21 },
    ]))
    .on("Mon 11:58", report(CANARY, "dev", OLD));
    match state {
        "unstarted" => script,
        "canary" | "active" => script.on("Mon 12:00", start(&["dev"])),
        "done" => script.on("Mon 12:00", mark_done(&["dev"])),
        "rolledback" => script.on("Mon 12:00", start(&["dev"])).on("Mon 12:01", rollback(&["dev"])),
        _ => panic!("{state}"),
    }
}

/// §3.2, row by row: state, who asks, version, update.
const ROWS: [(&str, bool, &str, bool); 6] = [
    ("unstarted", false, OLD, false),
    ("canary", false, OLD, false),
    ("canary", true, NEW, true),
    ("active", false, NEW, true),
    ("done", false, NEW, true),
    ("rolledback", false, OLD, true),
];

fn question(is_canary: bool) -> Value {
    let id = updater(if is_canary { CANARY } else { 99 });
    json!({ "find": { "group": "dev", "update_id": id } })
}

#[test]
fn every_row_of_the_table_holds_when_enabled() {
    for (state, is_canary, version, update) in ROWS {
        let script = in_state(state);
        assert_eq!(script.state("Mon 12:05", "dev"), state);
        assert_eq!(
            told(&script.then("Mon 12:05", question(is_canary))),
            is(version, update),
            "{state}, canary: {is_canary}"
        );
    }
}

#[test]
fn suspended_is_the_same_version_and_no_update() {
    for (state, is_canary, version, _) in ROWS {
        let script = in_state(state).on("Mon 12:05", version_in("suspended", "regular"));
        assert_eq!(
            told(&script.then("Mon 12:06", question(is_canary))),
            is(version, false),
            "{state}, canary: {is_canary}"
        );
    }
}

#[test]
fn disabled_is_the_target_and_no_update() {
    for (state, is_canary, ..) in ROWS {
        let script = in_state(state).on("Mon 12:05", version_in("disabled", "regular"));
        assert_eq!(
            told(&script.then("Mon 12:06", question(is_canary))),
            is(NEW, false),
            "{state}, canary: {is_canary}"
        );
    }
}

/// The same by the other resource.
#[test]
fn the_configurations_mode_does_the_same_as_the_versions() {
    let of = |mode: &str| {
        agents(&json!({ "mode": mode, "strategy": "halt-on-error", "schedules": { "regular": [
            { "name": "dev", "days": ["*"], "start_hour": 20 },
            { "name": "prod", "days": ["*"], "start_hour": 21 },
        ] } }))
    };
    for (state, is_canary, version, _) in ROWS {
        let script = in_state(state);
        let suspended = script.clone().on("Mon 12:05", of("suspended"));
        assert_eq!(told(&suspended.then("Mon 12:06", question(is_canary))), is(version, false), "{state}");
        let disabled = script.on("Mon 12:05", of("disabled"));
        assert_eq!(told(&disabled.then("Mon 12:06", question(is_canary))), is(NEW, false), "{state}");
    }
}

#[test]
fn immediate_is_the_target_at_once_if_enabled() {
    for (mode, update) in [("enabled", true), ("suspended", false), ("disabled", false)] {
        let script = Script::default().on("Mon 03:12", version_in(mode, "immediate"));
        for group in ["", "dev", "nope"] {
            assert_eq!(script.find("Mon 03:12", group), is(NEW, update), "{mode}");
        }
        assert_eq!(script.find_host("Sat 23:12", 1, "dev"), is(NEW, update), "{mode}");
    }
}

#[test]
fn a_done_group_of_time_based_is_the_target_without_update() {
    let script = Script::default()
        .on("Mon 11:00", timed("1h", &json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }])))
        .on("Mon 11:00", version());
    for (when, version, update) in
        [("Mon 11:30", OLD, false), ("Mon 12:30", NEW, true), ("Mon 13:30", NEW, false), ("Tue 12:30", NEW, true)]
    {
        assert_eq!(script.find(when, "dev"), is(version, update), "{when}");
        let suspended = script.clone().on(when, version_in("suspended", "regular"));
        assert_eq!(suspended.find(when, "dev"), is(version, false), "{when}");
        let disabled = script.clone().on(when, version_in("disabled", "regular"));
        assert_eq!(disabled.find(when, "dev"), is(NEW, false), "{when}");
    }
}

#[test]
fn the_jitter_is_a_minute() {
    let script = dev_and_prod();
    for when in ["Mon 11:30", "Mon 12:30"] {
        let answer = script.then(when, json!({ "find": { "group": "dev" } }));
        assert_eq!(answer["find"]["agent_update_jitter_seconds"], 60, "{when}");
    }
    let answer = Script::default().on("Mon 11:00", immediate()).then("Mon 11:00", json!({ "find": {} }));
    assert_eq!(answer["find"]["agent_update_jitter_seconds"], 60);
}

#[test]
fn a_missing_or_unknown_group_is_the_last_one() {
    let script = dev_and_prod().on("Mon 11:30", start(&["prod"]));
    for question in [
        json!({ "find": {} }),
        json!({ "find": { "group": "" } }),
        json!({ "find": { "group": "nope" } }),
        json!({ "find": { "group": "DEV" } }),
        json!({ "find": { "group": "dev " } }),
        json!({ "find": { "host": host(7) } }),
        json!({ "find": { "host": host(8), "group": "nope" } }),
    ] {
        assert_eq!(told(&script.then("Mon 11:40", question.clone())), is(NEW, true), "{question}");
    }
    assert_eq!(script.find("Mon 11:40", "dev"), is(OLD, false));
    let script = dev_and_prod().on("Mon 11:30", start(&["dev"]));
    assert_eq!(script.find("Mon 11:40", ""), is(OLD, false));
    assert_eq!(script.find("Mon 11:40", "nope"), is(OLD, false));
    assert_eq!(script.find("Mon 11:40", "dev"), is(NEW, true));
}

/// FLEET §4: version removed: the last target that was done, no update; never one: `no_rollout`.
#[test]
fn without_a_rollout_there_is_no_answer() {
    let script = Script::default();
    assert_eq!(script.refusal("Mon 11:00", json!({ "find": { "group": "dev" } })).0, "no_rollout");
    assert_eq!(script.refusal("Mon 11:00", asks(1, "dev")).0, "no_rollout");
    // One that was never done is no answer either.
    for state in ["unstarted", "active", "rolledback"] {
        let script = in_state(state).on("Mon 12:10", json!({ "rm": "autoupdate_version" }));
        assert_eq!(script.refusal("Mon 12:10", json!({ "find": { "group": "dev" } })).0, "no_rollout", "{state}");
    }
}

#[test]
fn after_the_version_is_removed_the_last_done_target_is_answered() {
    let done = dev_and_prod().on("Mon 11:30", mark_done(&["dev", "prod"]));
    let removed = done.clone().on("Mon 11:40", json!({ "rm": "autoupdate_version" }));
    for group in ["dev", "prod", "nope", ""] {
        assert_eq!(removed.find("Mon 11:41", group), is(NEW, false), "{group}");
        assert_eq!(removed.find("Sun 11:41", group), is(NEW, false), "{group}");
    }
    // A later one that was not done leaves it.
    let later = done
        .on("Mon 11:40", version_of(NEW, "17.2.2"))
        .on("Mon 11:45", start(&["dev"]))
        .on("Mon 11:50", json!({ "rm": "autoupdate_version" }));
    assert_eq!(later.find("Mon 11:51", "dev"), is(NEW, false));
    // And one that is done is the next answer.
    let done = later.on("Mon 12:10", version_of(NEW, "17.2.3")).on("Mon 12:10", mark_done(&["dev", "prod"]));
    let removed = done.on("Mon 12:11", json!({ "rm": "autoupdate_version" }));
    assert_eq!(removed.find("Mon 12:11", "dev"), is("17.2.3", false));
}

#[test]
fn a_part_of_the_groups_done_is_not_a_target_that_was_done() {
    let script =
        dev_and_prod().on("Mon 11:30", mark_done(&["dev"])).on("Mon 11:40", json!({ "rm": "autoupdate_version" }));
    assert_eq!(script.refusal("Mon 11:41", json!({ "find": { "group": "dev" } })).0, "no_rollout");
}

#[test]
fn removing_the_version_stops_an_active_group() {
    let script = dev_and_prod()
        .on("Mon 11:30", mark_done(&["dev", "prod"]))
        .on("Mon 11:40", version_of(NEW, "17.2.2"))
        .on("Mon 11:45", start(&["dev"]));
    assert_eq!(script.find("Mon 11:46", "dev"), is("17.2.2", true));
    assert!(!script.on("Mon 11:47", json!({ "rm": "autoupdate_version" })).find("Mon 11:47", "dev").1);
}

// A canary's question never changes what others are answered (FLEET §4, §8).

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
fn who_names_another_group_with_a_canarys_id_changes_nothing_for_others() {
    let (script, canaries) = with_canaries();
    let script = canaries
        .iter()
        .fold(script, |script, id| script.on("Mon 12:02", json!({ "find": { "group": "prod", "update_id": id } })));
    assert_eq!(script.find("Mon 12:03", "prod"), is(OLD, false));
    assert_eq!(script.find("Mon 12:03", "dev"), is(OLD, false));
    assert_eq!(script.state("Mon 12:03", "dev"), "canary");
}

#[test]
fn a_question_alone_makes_no_canary_succeed() {
    let (script, canaries) = with_canaries();
    let script = (0..20).fold(script, |script, minute| {
        canaries.iter().fold(script, |script, id| {
            script.on(&format!("Mon 12:{:02}", 2 + minute), json!({ "find": { "group": "dev", "update_id": id } }))
        })
    });
    assert_eq!(script.state("Mon 12:30", "dev"), "canary");
    assert_eq!(script.find("Mon 12:30", "dev"), is(OLD, false));
}

/// A host that failed is told by its state alone; that of its neighbours does not change.
#[test]
fn one_hosts_report_changes_no_other_hosts_answer() {
    let script = dev_and_prod().hosts("Mon 11:58", 1..=20, "dev", OLD);
    let script = script.on("Mon 12:01", asks(1, "dev")).on("Mon 12:05", outcome(1, "dev", OLD, "failed", "x"));
    for number in 2..=20 {
        assert_eq!(script.find_host("Mon 12:06", number, "dev"), is(NEW, true));
    }
    assert_eq!(script.find("Mon 12:06", "dev"), is(NEW, true));
}

/// FLEET §3: hosts beyond the target are told the target like all.
#[test]
fn hosts_beyond_the_target_are_told_the_target() {
    let script = dev_and_prod().on("Mon 11:58", report(1, "dev", "18.0.0"));
    assert_eq!(script.find_host("Mon 12:01", 1, "dev"), is(NEW, true));
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

/// FLEET §4: `why` to strangers is a code and a time: no names, no counts.
#[test]
fn strangers_are_told_a_code_and_a_time_alone() {
    let script = dev_and_prod().hosts("Mon 11:10", 1..=2, "dev", OLD);
    for group in ["dev", "prod"] {
        let fleet = script.then("Mon 11:30", json!({ "find": { "group": group } }))["find"]["fleet"].clone();
        let keys: Vec<&String> = fleet["why"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["code"]);
    }
}

/// Two hosts with one updater's id (a clone): the stranger's question does not take the canary's answer away.
#[test]
fn a_stranger_with_a_canarys_id_changes_no_answer_of_the_canary() {
    let (script, canaries) = with_canaries();
    let stranger = json!({ "find": { "host": host(99), "group": "dev", "update_id": canaries[0] } });
    let question = json!({ "find": { "group": "dev", "update_id": canaries[0] } });
    assert_eq!(told(&script.then("Mon 12:03", question.clone())), is(NEW, true));
    let script = script.on("Mon 12:02", stranger);
    assert_eq!(told(&script.then("Mon 12:03", question)), is(NEW, true));
}

#[test]
fn a_rolled_back_target_is_not_what_is_left_when_the_version_is_removed() {
    let script = dev_and_prod()
        .on("Mon 11:10", mark_done(&["dev", "prod"]))
        .on("Mon 11:20", version_of(NEW, "17.2.2"))
        .on("Mon 11:30", mark_done(&["dev", "prod"]))
        .on("Mon 11:40", json!({ "rollback": { "all_started": true } }))
        .on("Mon 11:50", json!({ "rm": "autoupdate_version" }));
    assert_eq!(script.find("Mon 11:51", "dev"), is(NEW, false), "17.2.2 was taken back");
}
