//! Lines of scripts that nobody means so.

use serde_json::{Value, json};

use crate::support::Script;

/// Every line of the answer as it is written.
fn raw(text: &str) -> Vec<String> {
    let mut said = Vec::new();
    let done: Result<(), ()> = fleet_simulator::run(text, 0, |line| {
        said.push(line.to_owned());
        Ok(())
    });
    done.unwrap();
    said
}

#[test]
fn a_line_with_a_mistyped_year_is_refused_and_costs_nothing() {
    let status = || json!({ "status": {} });
    let said = Script::default()
        .line("2026-01-05T03:00:00Z", status())
        .line("9026-01-05T03:00:00Z", status())
        .line("2027-01-05T03:00:00Z", status())
        .run();
    let codes: Vec<&Value> = said.iter().map(|line| &line["error"]["code"]).collect();
    assert_eq!(codes, ["no_rollout", "bad_line", "no_rollout"]);
    assert!(said[1]["error"]["message"].as_str().unwrap().contains("line 2: 9026"), "{}", said[1]);
}

#[test]
fn no_text_of_a_script_controls_a_terminal() {
    for odd in ["\u{7f}", "\u{9b}2J", "\\u001b[2J"] {
        let line = format!("{{\"at\":\"2026-01-05T03:00:00Z\",\"hosts\":{{\"a{odd}b\":1}}}}\n");
        let said = raw(&line);
        assert!(said.len() == 1 && !said[0].chars().any(char::is_control), "{said:?}");
        let message = serde_json::from_str::<Value>(&said[0]).unwrap()["error"]["message"].clone();
        assert!(message.as_str().unwrap().contains("unknown field"), "{message}");
    }
}

#[test]
fn counts_that_no_fleet_has_are_refused() {
    let count = |count: u64| json!([{ "group": "dev", "version": "1.0.0", "count": count }]);
    let said = Script::default()
        .line("2026-01-05T03:00:00Z", json!({ "counts": count(u64::MAX) }))
        .line("2026-01-05T03:00:00Z", json!({ "counts": count(u64::from(u32::MAX)) }))
        .run();
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["error"]["code"], "bad_line");
}

#[test]
fn a_line_about_a_group_or_a_version_that_is_none_is_an_error_with_its_line() {
    let at = "2026-01-05T03:00:00Z";
    let config = json!({ "put": { "kind": "autoupdate_config", "version": "v1", "spec": { "agents": {
        "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": [{ "name": "dev" }] } } } } });
    let version = json!({ "put": { "kind": "autoupdate_version", "version": "v1", "spec": { "agents": {
        "mode": "enabled", "schedule": "regular", "start_version": "1.0.0", "target_version": "1.0.1" } } } });
    let assign = |group: &str| json!({ "assign": { "host": "a", "group": group } });
    let counts = |group: &str, version: &str| json!({ "counts": [{ "group": group, "version": version, "count": 1 }] });
    let said = Script::default()
        .line(at, config)
        .line(at, version)
        .line(at, json!({ "report": { "host": "a", "group": "dev", "version": "1.0.0" } }))
        .line(at, assign("dve"))
        .line(at, counts("dev", "x"))
        .line(at, counts("", "1.0.0"))
        .line(at, assign("dev"))
        .line(at, counts("else", "v1.0.0"))
        .line(at, json!({ "explain": { "host": "a" } }))
        .run();
    let errors: Vec<String> = said
        .iter()
        .filter(|line| line["error"].is_object())
        .map(|line| {
            format!("{}: {}", line["error"]["code"].as_str().unwrap(), line["error"]["message"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        errors,
        [
            "not_found: line 4: there is no group \"dve\"; known are dev",
            "bad_request: line 5: counts[0].version: \"x\" is not a version; give one like 15.1.1 or 16.0.0-rc.1",
            "bad_request: line 6: counts[0].group: is empty",
        ]
    );
    assert_eq!(said.last().unwrap()["explain"]["group"], "dev");
}
