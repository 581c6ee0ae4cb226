//! What somebody may do: by a claim, and the configuration.

use serde_json::{Value, json};

use super::{assert_refused, cookie, log_in, server, server_with, visitor};
use crate::support::dir;
use crate::support::issuer::{How, Issuer, USERINFO};

/// The role on the page of who logs in with these claims.
fn role(further: &[&str], claims: Value) -> Option<String> {
    let (issuer, dir) = (Issuer::start(), dir());
    issuer.claims(claims);
    let server = server_with(dir.path(), &issuer, further);
    let answer = log_in(&server, &issuer);
    cookie(&answer, "fleet")?;
    let page = visitor(&server, &answer).get("/").body;
    let (_, rest) = page.split_once("<span>oidc 1 (joe@example.com), ").unwrap();
    Some(rest.split('<').next().unwrap().to_owned())
}

#[test]
fn the_highest_role_of_somebodys_groups_counts_and_without_one_nobody_is_let_in() {
    let role_of = |groups: Value| role(&[], json!({ "groups": groups }));
    assert_eq!(role_of(json!(["all", "sre"])).as_deref(), Some("operator"));
    assert_eq!(role_of(json!(["all", "sres", "SRE"])).as_deref(), Some("viewer"));
    assert_eq!(role_of(json!("sre")).as_deref(), Some("operator"), "one that is no list");
    for none in [json!([]), json!(["other"]), json!(null), json!({"sre": true}), json!("sre all")] {
        assert_eq!(role_of(none.clone()), None, "{none}");
    }
}

#[test]
fn another_claim_may_say_it_and_an_address_only_if_it_was_checked() {
    let further = ["--oidc-claim", "https://example.com/roles", "--oidc-roles", "a=b=admin"];
    // clap takes each value that a flag was given: the pairs of both are known.
    assert_eq!(role(&further, json!({"https://example.com/roles": ["a=b"]})).as_deref(), Some("admin"));
    let further = ["--oidc-claim", "email", "--oidc-roles", "joe@example.com=admin"];
    assert_eq!(role(&further, json!({})).as_deref(), Some("admin"));
    for unchecked in
        [json!({"email_verified": false}), json!({"email_verified": null}), json!({"email_verified": "true"})]
    {
        assert_eq!(role(&further, unchecked.clone()), None, "{unchecked}");
    }
}

/// Many providers tell groups at userinfo alone (OpenID Connect Core 1.0 §5.4).
#[test]
fn userinfo_is_asked_for_what_the_token_does_not_say() {
    let (issuer, dir) = (Issuer::start(), dir());
    issuer.claims(json!({"groups": null, "email": null, "email_verified": null}));
    issuer.forges(|draft, _| {
        draft.claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        None
    });
    let server = server(dir.path(), &issuer);
    let none = log_in(&server, &issuer);
    assert_refused(&none, 403, "neither the ID token nor userinfo has the claim &#34;groups&#34;");
    assert!(server.log().contains("somebody who logged in by OpenID Connect has no role"), "{}", server.log());
    issuer.tells(json!({"sub": "1", "groups": ["sre"], "email": "joe@example.com", "email_verified": true}));
    // What the provider says of itself is kept for an hour.
    let dir = crate::support::dir();
    let server = super::server(dir.path(), &issuer);
    let one = visitor(&server, &log_in(&server, &issuer));
    assert!(one.get("/").body.contains("<span>oidc 1 (joe@example.com), operator"));
    assert_eq!(issuer.asked(USERINFO), 1);
    issuer.tells(json!({"sub": "2", "groups": ["sre"]}));
    assert_refused(&log_in(&server, &issuer), 401, "is not good");
    assert!(server.log().contains("userinfo is of somebody else"), "{}", server.log());
    for (how, says) in
        [(How::Status(403), "answers 403"), (How::Text("[]".to_owned()), "/me: "), (How::Huge, "longer than")]
    {
        issuer.answers(USERINFO, how);
        assert_refused(&log_in(&server, &issuer), 502, "does not answer as it should");
        assert!(server.log().contains(says), "{says}: {}", server.log());
    }
    issuer.claims(json!({"groups": ["all"]}));
    let asked = issuer.asked(USERINFO);
    assert_eq!(log_in(&server, &issuer).status, 200, "who is told in the token is not asked for");
    assert_eq!(issuer.asked(USERINFO), asked);
}

#[test]
fn who_has_no_role_is_told_so_on_record_and_counted() {
    let (issuer, dir) = (Issuer::start(), dir());
    issuer.claims(json!({"groups": ["others"], "sub": "joe\u{1b}[2J\n\u{202e}", "email": "j\u{7}@example.com"}));
    let server = server(dir.path(), &issuer);
    let who = "oidc joe\\u001b[2J\\u000a\\u202e (j\\u0007@example.com)";
    for _ in 0..10 {
        let answer = log_in(&server, &issuer);
        assert_refused(&answer, 403, "has no role here");
        assert!(answer.body.contains(who), "{answer:?}");
    }
    let records = server.records();
    let refused: Vec<_> = records.iter().filter(|record| record["action"] == "login").collect();
    assert_eq!(refused.len(), 10);
    for record in refused {
        assert_eq!((&record["who"], &record["done"]), (&json!(who), &json!(false)), "{record}");
        assert_eq!(record["detail"]["code"], "forbidden", "{record}");
    }
    assert_refused(&log_in(&server, &issuer), 429, "too many logins failed");
    let text = server.ok(&["audit"]);
    assert!(text.contains(who) && !text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
    assert!(!server.log().contains(['\u{1b}', '\u{7}', '\u{202e}']));
}

#[test]
fn a_viewer_changes_nothing_and_another_login_has_the_role_of_then() {
    let (issuer, dir) = (Issuer::start(), dir());
    issuer.claims(json!({"groups": ["all"]}));
    let server = server(dir.path(), &issuer);
    let one = visitor(&server, &log_in(&server, &issuer));
    let halt = |visitor: &super::Visitor| visitor.post("/confirm", &[("csrf", &visitor.csrf()), ("do", "halt")]);
    let answer = halt(&one);
    assert_eq!(answer.status, 403, "{answer:?}");
    let says = "oidc 1 (joe@example.com) has the role viewer; this needs the role operator";
    assert!(answer.body.contains(says), "{answer:?}");
    issuer.claims(json!({"groups": ["sre"]}));
    let other = visitor(&server, &log_in(&server, &issuer));
    assert_eq!(halt(&other).status, 200);
    assert_eq!(halt(&one).status, 403, "a session keeps the role that it began with");
    // An operator's decision has his name.
    let form = halt(&other).form("/act");
    let fields: Vec<(&str, &str)> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(other.post("/act", &fields).status, 200);
    let last = server.records();
    assert!(
        last.iter().any(|record| record["who"] == "oidc 1 (joe@example.com)" && record["action"] == "halt"),
        "{last:?}"
    );
}
