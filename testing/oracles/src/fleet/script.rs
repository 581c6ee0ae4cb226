//! `simulate --script`: each line is answered at most once, in a line, the same each time.

use jiff::Timestamp;
use serde_json::Value;

/// Longest script that is run, seconds from its first time to its last, and most hosts that it makes up: what a script asks
/// for is done, so what is tried is bounded here.
const BOUNDS: (i64, u64) = (2 * 86_400, 200);
/// What a line may say.
const ANSWERS: [&str; 5] = ["find", "status", "explain", "graph", "error"];

/// Any text as a script.
pub fn fleet_script(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if !is_small(text) {
        return;
    }
    let said = run(text);
    assert_eq!(run(text), said, "the same script and seed, another answer");
    assert!(said.len() <= text.lines().count());
    for line in &said {
        assert!(!line.chars().any(char::is_control), "{line:?}");
        let answer: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let keys: Vec<&str> = answer.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(matches!(keys[..], ["at", key] if ANSWERS.contains(&key)), "{line}");
        if let Some(version) = answer["find"]["agent_version"].as_str() {
            // `1.2.4` may be written with escapes.
            assert!(text.contains(version) || text.contains('\\'), "no rollout named {version}: {line}");
        }
    }
}

fn run(text: &str) -> Vec<String> {
    let mut said = Vec::new();
    let done: Result<(), ()> = fleet_simulator::run(text, 7, |line| {
        said.push(line.to_owned());
        Ok(())
    });
    done.unwrap();
    said
}

fn is_small(text: &str) -> bool {
    let (longest, most) = BOUNDS;
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    let mut made_up = 0_u64;
    for line in text.lines() {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        if let Some(at) = line["at"].as_str().and_then(|at| at.parse::<Timestamp>().ok()) {
            (first, last) = (first.min(at.as_second()), last.max(at.as_second()));
            if last - first > longest {
                return false;
            }
        }
        let hosts = &line["hosts"];
        made_up = made_up.saturating_add(hosts["count"].as_u64().unwrap_or(0));
        // Hosts that ask each second are a million questions a day each.
        let is_slow = hosts["every"].as_str().is_none_or(|every| every.ends_with(['m', 'h']));
        if made_up > most || !is_slow || hosts["every"].is_number() {
            return false;
        }
    }
    true
}
