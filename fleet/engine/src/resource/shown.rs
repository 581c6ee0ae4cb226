//! Values and words as a fault repeats them: short, and in one line on any terminal.

use yaml::{Node, Value};

/// Most characters of a value that a fault repeats.
const SHOWN: usize = 60;

/// `a, b or c`.
pub(super) fn alternatives(names: &[&str]) -> String {
    match names {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.join(""),
    }
}

/// What stands there, short and in one line.
pub(super) fn shown(node: &Node) -> String {
    match &node.value {
        Value::Scalar { text, plain: true } if node.tag.is_none() => escaped(text),
        Value::Scalar { text, .. } => match &node.tag {
            Some(tag) => format!("{tag} \"{}\"", escaped(text)),
            None => format!("\"{}\"", escaped(text)),
        },
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a mapping".to_owned(),
    }
}

/// A text that a terminal can show in one line, cut where it is long.
pub(super) fn escaped(text: &str) -> String {
    let mut short = String::new();
    for char in text.chars().take(SHOWN) {
        match char {
            '"' | '\'' => short.push(char),
            _ => short.extend(char.escape_debug()),
        }
    }
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}
