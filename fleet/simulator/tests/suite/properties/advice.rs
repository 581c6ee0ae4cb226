//! FLEET §6: a reason names the one command that would change it. Whatever is advised is accepted now, and changes something.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::scenario::{Kind, Rendered, gated, render};
use super::{bytes, config, groups, play};

/// The line of a script that carries an advised command out.
fn line(command: &Value) -> Value {
    let (verb, options) = command.as_object().unwrap().iter().next().unwrap();
    // A line approves one group.
    if verb == "approve" { json!({ verb: { "group": options["groups"][0] } }) } else { json!({ verb: options }) }
}

/// The script up to line `at`, and behind it this action and a look.
fn up_to(rendered: &Rendered, at: usize, action: Value) -> Rendered {
    let lines: Vec<&str> = rendered.text.lines().take(at + 1).collect();
    let now = serde_json::from_str::<Value>(lines[at]).unwrap()["at"].as_str().unwrap().parse().unwrap();
    let mut cut = Rendered { text: lines.join("\n") + "\n", kinds: Vec::new() };
    cut.line(now, action, Kind::Act);
    cut.line(now, json!({ "status": {} }), Kind::Status);
    cut
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_advised_command_is_accepted_and_changes_something(scenario in gated(), places in prop::array::uniform3(any::<Index>())) {
        let rendered = render(&scenario);
        let told = play(&rendered);
        let looks: Vec<usize> = (0..told.len()).filter(|at| told[*at].kind == Kind::Status).collect();
        for place in places {
            let at = looks[place.index(looks.len())];
            let before = &told[at].answer["status"];
            let reasons = groups(&told[at].answer).iter().map(|group| &group["why"]).chain([&before["status"]["why"]]);
            for why in reasons.filter(|why| !why["advice"]["command"].is_null()) {
                let cut = up_to(&rendered, at, line(&why["advice"]["command"]));
                let answers = bytes(&cut.text, 0);
                let mut answers = answers.lines().rev().map(|line| serde_json::from_str::<Value>(line).unwrap());
                let (after, last) = (answers.next().unwrap(), answers.next().unwrap());
                hold!(last["error"].is_null() || last == told[at].answer, cut, "refused: {last} {why}");
                hold!(after["status"] != *before, cut, "nothing changed: {why}");
            }
        }
    }

    #[test]
    fn who_waits_for_an_operator_is_told_what_to_do(scenario in gated()) {
        let rendered = render(&scenario);
        for line in play(&rendered).iter().filter(|line| line.kind == Kind::Status) {
            let is_time_based = line.answer["status"]["spec"]["strategy"] == "time-based";
            for group in groups(&line.answer) {
                let why = &group["why"];
                // A time-based group has no command of its own: its window ends it.
                let is_of_time = is_time_based && ["gate", "shrunk"].contains(&why["code"].as_str().unwrap());
                hold!(why["who"] != "operator" || !why["advice"].is_null() || is_of_time, rendered, "no advice: {group}");
            }
        }
    }
}
