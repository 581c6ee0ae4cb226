//! What a rollout server answers to a report. Pure.

use std::time::Duration;

use protocol::report::{GoOn, MAX_NUMBER};
use serde::Deserialize;

use http_client::{Receipt, said};

/// Longest rest that a server may ask for: a day.
const LONGEST_REST: Duration = Duration::from_secs(86_400);

/// What becomes of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was taken.
    Taken,
    /// It waits until an operator approves of this host.
    Waits,
    /// Its number or its epoch is not what the server has: once more, from there.
    GoOn(GoOn),
    /// Another key is known for this host: not before the next interval.
    Conflict(String),
    /// The server wants no reports, or not any more.
    Unwanted,
    /// Not in this run, and not before so long has passed.
    Refused(String, Duration),
}

#[derive(Deserialize)]
struct Body {
    error: Wrong,
    epoch: Option<u64>,
    sequence: Option<u64>,
}

#[derive(Deserialize)]
struct Wrong {
    #[serde(default)]
    code: String,
}

/// Reads an answer. What it says goes into one line, without what moves a terminal.
pub(super) fn judge(receipt: &Receipt) -> Verdict {
    let body: Option<Body> = serde_json::from_slice(&receipt.body).ok();
    let code = body.as_ref().map_or("", |body| body.error.code.as_str());
    let code: String = code.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(40).collect();
    let go_on = body.and_then(|body| Some(GoOn { epoch: body.epoch?, sequence: body.sequence? }));
    let go_on = go_on.filter(|go_on| go_on.epoch <= MAX_NUMBER && go_on.sequence < MAX_NUMBER);
    let what = if code.is_empty() { format!("status {}", receipt.status) } else { code };
    let told = match said(&receipt.body) {
        Some(message) => format!("{what}: {message}"),
        None => what.clone(),
    };
    match (receipt.status, go_on) {
        (200, _) => Verdict::Taken,
        (202, _) => Verdict::Waits,
        (409, Some(go_on)) => Verdict::GoOn(go_on),
        (409, None) if what == "key_conflict" => Verdict::Conflict(told),
        (404, _) if what == "not_wanted" => Verdict::Unwanted,
        _ => Verdict::Refused(told, receipt.retry_after.unwrap_or_default().min(LONGEST_REST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Verdict {
        judge(&Receipt { status, retry_after: None, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn each_answer_has_its_consequence() {
        assert_eq!(of(200, "whatever"), Verdict::Taken);
        assert_eq!(of(202, ""), Verdict::Waits);
        let old = r#"{"error":{"code":"old_sequence","message":"m"},"epoch":7,"sequence":9}"#;
        assert_eq!(of(409, old), Verdict::GoOn(GoOn { epoch: 7, sequence: 9 }));
        let conflict = r#"{"error":{"code":"key_conflict","message":"another key"}}"#;
        assert_eq!(of(409, conflict), Verdict::Conflict("key_conflict: another key".into()));
        let unwanted = r#"{"error":{"code":"not_wanted","message":"this server takes no reports"}}"#;
        assert_eq!(of(404, unwanted), Verdict::Unwanted);
        let told = |what: &str| Verdict::Refused(what.into(), Duration::ZERO);
        assert_eq!(of(403, r#"{"error":{"code":"join_token_needed"}}"#), told("join_token_needed"));
        // A number without a successor, or one half of the pair, is nothing to go on from.
        for body in
            [r#"{"error":{"code":"x"},"epoch":7,"sequence":9007199254740991}"#, r#"{"error":{"code":"x"},"epoch":7}"#]
        {
            assert_eq!(of(409, body), told("x"));
        }
        for (status, body) in [(500, "<html>"), (302, ""), (404, "{}"), (204, "")] {
            assert_eq!(of(status, body), told(&format!("status {status}")));
        }
        let rest = Receipt { status: 429, retry_after: Some(Duration::MAX), body: Vec::new() };
        assert_eq!(judge(&rest), Verdict::Refused("status 429".into(), LONGEST_REST));
    }

    #[test]
    fn what_a_stranger_says_moves_no_terminal() {
        let odd = of(403, "{\"error\":{\"code\":\"a\\u001b[2J b\",\"message\":\"c\\u001b[31m\\nd\"}}");
        assert_eq!(odd, Verdict::Refused("a2Jb: c [31m d".into(), Duration::ZERO));
    }
}
