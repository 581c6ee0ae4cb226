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
