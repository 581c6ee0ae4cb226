//! Texts that nobody means well with: an error or a resource, and never a panic, a flood or a long wait.

use proptest::prelude::*;

use super::super::{read, read_json};
use super::seeds::{CONFIG, FLAT, GROUPS, NESTED, REPORT, UNGROUPED};
use super::{document, faults, rfd_text};

const OURS: &str = "kind: autoupdate_config
spec:
  agents:
    mode: enabled
    unassigned: hold
    schedules:
      regular:
      - {name: a, timezone: Europe/Berlin, window_duration: 90m, rate: {base: 10, factor: 1.5, maximum: 100}, approval: admin}
      - name: b
        soak_hours: 2
        requires: [a]
        gate: {url: \"https://a.b/c\", timeout_seconds: 5}
        blackout: [{from: 2026-12-20T00:00:00Z, to: 2027-01-02T00:00:00Z, reason: x}]
        <<: {min_failed_before_halt: 2, max_failed_of_ended: 20%, min_ended: 10, max_silent: 5%, on_halt: rollback}
---
kind: fleet_channel
metadata: {name: stable/cloud, revision: 7, labels: {a: b}}
spec: {forward_url: \"https://a.b/c\", critical: true}
---
kind: fleet_release
spec:
  version: 17.2.1
  channels: [a]
  blocked: {reason: x}
  requires_from: [17.2.0]
  rollout: {start: 2026-01-01T00:00:00Z, start_value: 0.1, duration_minutes: 60}
  digests: {oss/amd64: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881}
  image_digests: {teleport-distroless: 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881}
";

/// A fault is one line without control characters; what is accepted is printed and read back.
fn judge(text: &str) -> Result<(), TestCaseError> {
    match read(text) {
        Err(found) => {
            prop_assert!((1..=20).contains(&found.list().len()));
            for fault in found.list() {
                prop_assert!(fault.line >= 1);
                prop_assert!(!fault.to_string().chars().any(char::is_control), "{fault:?}");
                prop_assert!(fault.to_string().len() < 4000, "{fault}");
            }
        }
        Ok(resources) => {
            for resource in resources {
                let printed = resource.to_yaml();
                let again = read(&printed).map_err(|found| TestCaseError::fail(format!("{found}\n{printed}")))?;
                prop_assert_eq!(&again[..], std::slice::from_ref(&resource), "{}", printed);
                let json = read_json(&resource.to_json(), 1);
                let json = json.map_err(|found| TestCaseError::fail(format!("{found}\n{printed}")))?;
                prop_assert_eq!(json.to_json(), resource.to_json());
            }
        }
    }
    Ok(())
}

#[test]
fn the_documents_that_are_mutated_are_right() {
    for text in [CONFIG, NESTED, REPORT, GROUPS, UNGROUPED, FLAT, OURS] {
        judge(text).unwrap();
        assert!(read(text).is_ok(), "{}", faults(text));
    }
}

#[test]
fn towers_masses_and_bombs_are_refused() {
    let tower = |open: &str, close: &str| {
        document("autoupdate_config", &format!("a: {}{}", open.repeat(5000), close.repeat(5000)))
    };
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let refused = faults(&tower(open, close));
        assert!(["nested deeper than", "recursion limit"].iter().any(|why| refused.contains(why)), "{refused}");
    }
    assert!(faults(&"#".repeat(2 << 20)).contains("larger than"));
    let mut bomb = String::from("a0: &a0 {x: 1}\n");
    for level in 1..20 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{inner}]\n");
    }
    assert!(faults(&bomb).contains("too many"));
    let keys: String = (0..40_000).map(|key| format!("k{key}: 1\n")).collect();
    assert_eq!(faults(&document("autoupdate_config", &keys)).lines().count(), 20);
    let groups = vec!["{}"; 40_000];
    assert!(faults(&rfd_text(&groups)).contains("is missing; give the group's name"));
    let requires = format!("{{name: a, requires: [{}]}}", vec!["b"; 40_000].join(","));
    assert_eq!(faults(&rfd_text(&["{name: b}", &requires])).lines().count(), 20);
    let documents = "kind: x\nspec: {}\n---\n".repeat(10_000);
    assert_eq!(faults(&documents).lines().count(), 20);
}

#[test]
fn odd_characters_are_told_in_one_line() {
    for odd in ["\0", "\u{1b}[2J", "\u{202e}", "\r", "\u{85}", "\u{2028}", "\u{feff}", "\u{7f}"] {
        for text in [
            document("autoupdate_config", &format!("\"{odd}\": 1")),
            document("autoupdate_config", &format!("{odd}: 1")),
            document("autoupdate_config", &format!("agents: {{mode: \"{odd}\"}}")),
            rfd_text(&[&format!("{{name: \"a{odd}b\", start_hour: 24}}")]),
            rfd_text(&[&format!("{{name: a, requires: [\"x{odd}y\"]}}")]),
            format!("{odd}kind: autoupdate_config\nspec: {{}}"),
        ] {
            judge(&text).unwrap();
        }
    }
    let escaped = "agents: {mode: \"\\e[2J\\0\\u202e\"}";
    assert_eq!(
        faults(&document("autoupdate_config", escaped)),
        "line 3: spec.agents.mode: \"\\u{1b}[2J\\0\\u{202e}\" is not enabled, disabled or suspended"
    );
}

fn any_seed() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(CONFIG), Just(NESTED), Just(REPORT), Just(GROUPS), Just(UNGROUPED), Just(FLAT), Just(OURS)]
}

/// What is put into a text: signs of YAML, values at the edges, any text.
fn any_piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z:#'\"&*!|>?{},\\[\\]\\-\n \t]{0,6}",
        prop_oneof![
            Just("\0"),
            Just("\u{1b}"),
            Just("-1"),
            Just("99999999999999999999"),
            Just("~"),
            Just("<<"),
            Just("&a"),
            Just("*a"),
            Just("!!binary "),
            Just("[]"),
            Just("{}"),
            Just("\n---\n"),
            Just("101%"),
            Just("0.1"),
            Just("yes"),
        ]
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_document_is_read_or_refused(
        seed in any_seed(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..12, any_piece()), 1..4)
    ) {
        let mut text: Vec<char> = seed.chars().collect();
        for (place, taken, piece) in changes {
            let from = place.index(text.len() + 1);
            let to = (from + taken).min(text.len());
            text.splice(from..to, piece.chars());
        }
        judge(&text.into_iter().collect::<String>())?;
    }

    #[test]
    fn a_document_with_a_changed_value_is_read_or_refused(
        seed in any_seed(),
        line in any::<prop::sample::Index>(),
        value in prop_oneof!["[ -~]{0,10}", any_piece()]
    ) {
        let lines: Vec<&str> = seed.lines().collect();
        let with_value: Vec<usize> = (0..lines.len()).filter(|line| lines[*line].contains(": ")).collect();
        let changed = with_value[line.index(with_value.len())];
        let text: String = lines.iter().enumerate().map(|(index, line)| match line.split_once(": ") {
            Some((key, _)) if index == changed => format!("{key}: {value}\n"),
            _ => format!("{line}\n"),
        }).collect();
        judge(&text)?;
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        judge(&text)?;
    }
}
