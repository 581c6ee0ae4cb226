//! Sends a signed report to a rollout server, and reads what it answers (SPEC §11, FLEET §5).

use std::time::Duration;

use error::Code;
use http_client::{Cancelled, Client, Receipt, Request, said};
use protocol::report::{
    GoOn, JOIN_HEADER, MAX_BODY, MAX_NUMBER, PATH, Report, SIGNATURE_HEADER, SignedReport, report_message,
};
use serde::Deserialize;

use super::HostKey;

/// Longest rest that a server may ask for: a day.
const LONGEST_REST: Duration = Duration::from_secs(86_400);

/// What becomes of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportVerdict {
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

/// Sends `report` to the server at `origin`, signed by `key`. `token`: with which a host enrols; `deadline`: longest time of all.
/// `None`: a signal has ended the run. What the server says, or that it is away, is no error.
pub fn send_report(
    client: &Client,
    origin: &str,
    key: &HostKey,
    report: &Report,
    token: Option<String>,
    deadline: Duration,
    cancelled: Cancelled<'_>,
) -> Option<ReportVerdict> {
    let body = serde_json::to_vec(report).unwrap_or_default();
    if body.len() > MAX_BODY {
        return Some(ReportVerdict::Refused(format!("the report has more than {MAX_BODY} bytes"), Duration::ZERO));
    }
    let signed = SignedReport { key: key.public(), signature: key.sign(&report_message(&body)) };
    let mut post = Request::post(format!("{origin}{PATH}"), body).within(Some(deadline));
    post.headers.push((SIGNATURE_HEADER, signed.to_string()));
    post.headers.extend(token.map(|token| (JOIN_HEADER, token)));
    match client.send(&post, cancelled) {
        Ok(receipt) => Some(judge(&receipt)),
        Err(error) if error.code == Code::Interrupted => None,
        Err(error) => Some(ReportVerdict::Refused(error.what, Duration::ZERO)),
    }
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
fn judge(receipt: &Receipt) -> ReportVerdict {
    let body: Option<Body> = serde_json::from_slice(&receipt.body).ok();
    let code = body.as_ref().map_or("", |body| body.error.code.as_str());
    let code: String = code.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').take(40).collect();
    let go_on = body.and_then(|body| Some(GoOn { epoch: body.epoch?, sequence: body.sequence? }));
    let go_on = go_on.filter(|go_on| go_on.epoch <= MAX_NUMBER && go_on.sequence < MAX_NUMBER);
    let what = if code.is_empty() { format!("status {}", receipt.status) } else { code };
    let told = said(&receipt.body).map_or_else(|| what.clone(), |message| format!("{what}: {message}"));
    match (receipt.status, go_on) {
        (200, _) => ReportVerdict::Taken,
        (202, _) => ReportVerdict::Waits,
        (409, Some(go_on)) => ReportVerdict::GoOn(go_on),
        (409, None) if what == "key_conflict" => ReportVerdict::Conflict(told),
        (404, _) if what == "not_wanted" => ReportVerdict::Unwanted,
        _ => ReportVerdict::Refused(told, receipt.retry_after.unwrap_or_default().min(LONGEST_REST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> ReportVerdict {
        judge(&Receipt { status, retry_after: None, body: body.as_bytes().to_vec() })
    }

    #[test]
    fn each_answer_has_its_consequence() {
        assert_eq!(of(200, "whatever"), ReportVerdict::Taken);
        assert_eq!(of(202, ""), ReportVerdict::Waits);
        let old = r#"{"error":{"code":"old_sequence","message":"m"},"epoch":7,"sequence":9}"#;
        assert_eq!(of(409, old), ReportVerdict::GoOn(GoOn { epoch: 7, sequence: 9 }));
        let conflict = r#"{"error":{"code":"key_conflict","message":"another key"}}"#;
        assert_eq!(of(409, conflict), ReportVerdict::Conflict("key_conflict: another key".into()));
        let unwanted = r#"{"error":{"code":"not_wanted","message":"this server takes no reports"}}"#;
        assert_eq!(of(404, unwanted), ReportVerdict::Unwanted);
        let told = |what: &str| ReportVerdict::Refused(what.into(), Duration::ZERO);
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
        assert_eq!(judge(&rest), ReportVerdict::Refused("status 429".into(), LONGEST_REST));
    }

    #[test]
    fn what_a_stranger_says_moves_no_terminal() {
        let odd = of(403, "{\"error\":{\"code\":\"a\\u001b[2J b\",\"message\":\"c\\u001b[31m\\nd\"}}");
        assert_eq!(odd, ReportVerdict::Refused("a2Jb: c [31m d".into(), Duration::ZERO));
    }
}
