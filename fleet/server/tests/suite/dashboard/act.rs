//! What people do on pages.

use serde_json::Value;

use super::{started, token};
use crate::support::visitor::Visitor;

fn done<'a>(records: &'a [Value], action: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["action"] == action && record["done"] == true).collect()
}

#[test]
fn a_form_of_another_page_changes_nothing() {
    let (_dir, server) = started();
    let visitor = Visitor::with(&server, &token(&server, "operator"));
    let csrf = visitor.csrf();
    let id = "11111111-2222-4333-8444-555555555556";
    let with = |csrf: &str, headers: &str| {
        visitor.post_with("/act", &[("csrf", csrf), ("do", "halt"), ("id", id), ("rollout", "1")], headers)
    };
    let other = Visitor::with(&server, &token(&server, "admin")).csrf();
    for (csrf, headers) in [
        ("", ""),
        ("wrong", ""),
        (other.as_str(), ""),
        (&csrf[1..], ""),
        (&csrf, "origin: http://evil.example\r\n"),
        (&csrf, "origin: null\r\n"),
        (&csrf, "sec-fetch-site: cross-site\r\n"),
        (&csrf, "sec-fetch-site: same-site\r\n"),
        (&csrf, "origin: http://test\r\nsec-fetch-site: cross-site\r\n"),
    ] {
        let answer = with(csrf, headers);
        assert_eq!(answer.status, 403, "{headers:?}: {answer:?}");
        assert!(answer.body.contains("<code>forbidden</code>"), "{answer:?}");
    }
    let login = visitor.post_with("/login", &[("token", "x")], "origin: http://evil.example\r\n");
    assert_eq!(login.status, 403, "nobody is logged in as somebody else");
    assert!(done(&server.records(), "halt").is_empty());
    let answer = with(&csrf, "origin: http://test\r\n");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(done(&server.records(), "halt").len(), 1);
}
