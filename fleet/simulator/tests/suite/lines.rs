//! Lines of scripts that nobody means so.

use serde_json::Value;

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

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_line_with_a_mistyped_year_is_refused_and_costs_nothing() {
    let lines = ["2026", "9026", "2027"].map(|year| format!("{{\"at\":\"{year}-01-05T03:00:00Z\",\"status\":{{}}}}\n"));
    let said: Vec<Value> = raw(&lines.concat()).iter().map(|line| parsed(line)).collect();
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
        let message = parsed(&said[0])["error"]["message"].clone();
        assert!(message.as_str().unwrap().contains("unknown field"), "{message}");
    }
}
