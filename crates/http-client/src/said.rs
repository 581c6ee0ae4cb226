//! What a server says of its refusal: text of a stranger, for a line of ours.

use std::io::Read;

use serde_json::Value;

use super::redact::redact;

/// Most bytes of a body that are looked at.
const MAX_BODY: u64 = 8 << 10;
/// Longest message that is shown, characters: two lines of a terminal.
const SHOWN: usize = 240;

/// `error.message` of a body of JSON, as the rollout server and Teleport's proxies write it, or `value`, as servers of update
/// graphs do: one line, at most [`SHOWN`] characters, without control characters and without passwords of addresses. `None`:
/// there is none.
pub fn said(body: &[u8]) -> Option<String> {
    // A larger one is no refusal, and its tree would be forty times as large.
    let body = Some(body).filter(|body| body.len() as u64 <= MAX_BODY)?;
    let read: Value = serde_json::from_str(std::str::from_utf8(body).ok()?).ok()?;
    let message = read.pointer("/error/message").or_else(|| read.get("value"))?.as_str()?;
    let clean: String = message.chars().take(4 * SHOWN).map(|char| if is_unseen(char) { ' ' } else { char }).collect();
    let words: Vec<&str> = clean.split_whitespace().collect();
    let line = redact(&words.join(" "));
    let mut shown: String = line.chars().take(SHOWN).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    (!shown.is_empty()).then_some(shown)
}

/// The same of a body that is still to be read.
pub(super) fn said_by(body: impl Read) -> Option<String> {
    let mut read = Vec::new();
    body.take(MAX_BODY).read_to_end(&mut read).ok()?;
    said(&read)
}

/// What moves a terminal's cursor, or turns the direction of its text.
pub fn is_unseen(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(message: &str) -> Option<String> {
        said(serde_json::json!({ "error": { "code": "no_rollout", "message": message } }).to_string().as_bytes())
    }

    #[test]
    fn a_message_is_one_line_without_what_moves_a_terminal() {
        assert_eq!(of("there is no rollout").as_deref(), Some("there is no rollout"));
        assert_eq!(of("a\r\nb\u{1b}[31m\tc\u{202e}d\u{7}").as_deref(), Some("a b [31m c d"));
        assert_eq!(of("see https://me:secret@host/x").as_deref(), Some("see https://***@host/x"));
        assert_eq!(of(" \n"), None);
    }

    #[test]
    fn a_long_message_is_cut() {
        let shown = of(&"ä".repeat(1_000)).unwrap();
        assert_eq!(shown.chars().count(), SHOWN + 1);
        assert!(shown.ends_with('…'));
    }

    #[test]
    fn what_is_no_message_is_none() {
        for body in ["", "<html>", "{}", "[]", r#"{"error":"x"}"#, r#"{"error":{"message":1}}"#, r#"{"message":"x"}"#] {
            assert_eq!(said(body.as_bytes()), None, "{body}");
        }
    }
}
