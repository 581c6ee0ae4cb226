//! Logins that are good.

use serde_json::json;

use super::{CALLBACK, TRIP, arrive, come_back, cookie, depart, log_in, served, server, server_with, visitor};
use crate::support::issuer::{CLIENT, Issuer, Key};
use crate::support::visitor::Visitor;
use crate::support::{Server, authority, dir};

#[test]
fn a_login_with_each_algorithm_opens_a_session_that_the_audit_log_names() {
    for key in [Key::es256(), Key::eddsa(), Key::rs256()] {
        let (issuer, dir) = (Issuer::with(key, "127.0.0.1", None), dir());
        let server = server(dir.path(), &issuer);
        let answer = log_in(&server, &issuer);
        assert_eq!(answer.status, 200, "{answer:?}\n{}", server.log());
        let who = "oidc 1 (joe@example.com)";
        let visitor = visitor(&server, &answer);
        let page = visitor.get("/");
        assert!(page.body.contains(&format!("{who}, operator")), "{page:?}");
        assert_eq!(visitor.post("/logout", &[("csrf", &visitor.csrf())]).status, 303);
        assert_eq!(visitor.get("/").status, 303, "logged out");
        let records = server.records();
        for action in ["login", "logout"] {
            let record = records.iter().find(|record| record["action"] == action).unwrap();
            assert_eq!(
                (&record["who"], &record["from"], &record["done"]),
                (&json!(who), &json!("127.0.0.1"), &json!(true))
            );
        }
    }
}

#[test]
fn what_is_sent_to_the_provider_is_what_the_standards_want() {
    let (issuer, _dir, server) = served();
    let (one, other) = (depart(&server, &issuer, "/"), depart(&server, &issuer, "/"));
    let redirect = format!("http://localhost:1{CALLBACK}");
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", CLIENT.0),
        ("redirect_uri", &redirect),
        ("scope", "openid email"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(one.sent[name], value);
    }
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(one.sent[name].len(), 43, "256 bits: {name}");
        assert_ne!(one.sent[name], other.sent[name], "{name}");
        assert!(!one.cookie.contains(&one.sent[name]), "{name}");
    }
    assert_eq!(one.sent.len(), 8, "{:?}", one.sent);
    let server = server_with(crate::support::dir().path(), &issuer, &["--oidc-scopes", "groups profile"]);
    assert_eq!(depart(&server, &issuer, "/").sent["scope"], "openid groups profile");
}

#[test]
fn the_cookie_of_the_way_lives_ten_minutes_and_ends_with_it_and_the_session_has_another() {
    let (issuer, _dir, server) = served();
    let answer = Visitor::new(&server).get("/login/oidc");
    assert_eq!(cookie(&answer, TRIP).unwrap().1, "Path=/; HttpOnly; SameSite=Lax; Max-Age=600");
    let answer = come_back(&server, &issuer, &depart(&server, &issuer, "/hosts?state=failed"));
    assert_eq!(cookie(&answer, TRIP).unwrap(), ("fleet-login=", "Path=/; HttpOnly; SameSite=Lax; Max-Age=0"));
    assert_eq!(cookie(&answer, "fleet").unwrap().1, "Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
    assert_eq!(answer.header("refresh"), Some("0; url=/hosts?state=failed"));
    assert!(answer.body.contains("<a href=\"/hosts?state=failed\">"), "without a refresh too: {answer:?}");
}

#[test]
fn behind_tls_both_cookies_are_bound_to_it() {
    let (issuer, dir) = (Issuer::start(), dir());
    let server = server_with(dir.path(), &issuer, &["--behind-proxy"]);
    let answer = Visitor::new(&server).get("/login/oidc");
    let (trip, attributes) = cookie(&answer, "__Host-fleet-login").unwrap();
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure");
    let sent = crate::support::issuer::pairs(answer.header("location").unwrap().split_once('?').unwrap().1);
    assert_eq!(sent["redirect_uri"], format!("https://localhost:1{CALLBACK}"));
    let answer = arrive(&server, &[("code", &issuer.logs_in(&sent)), ("state", &sent["state"])], trip);
    assert!(cookie(&answer, "__Host-fleet").unwrap().1.ends_with("; Secure"), "{answer:?}");
}

#[test]
fn a_provider_that_wants_the_secret_in_the_form_gets_it_there() {
    let (issuer, dir) = (Issuer::start(), dir());
    issuer.says("token_endpoint_auth_methods_supported", json!(["client_secret_post"]));
    let server = server(dir.path(), &issuer);
    assert_eq!(log_in(&server, &issuer).status, 200, "{}", server.log());
}

#[test]
fn over_tls_only_a_provider_with_a_trusted_certificate_is_asked() {
    let (root, tls) = authority();
    let (issuer, dir) = (Issuer::with(Key::es256(), "127.0.0.1", Some(tls)), dir());
    let file = dir.path().join("root.pem");
    std::fs::write(&file, root).unwrap();
    let flags = super::flags(dir.path(), &issuer);
    let words: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::with(dir.path(), &words);
    assert_eq!(Visitor::new(&server).get("/login/oidc").status, 502);
    drop(server);
    let server = Server::with_env(dir.path(), &words, &[("SSL_CERT_FILE", file.to_str().unwrap())]);
    assert_eq!(log_in(&server, &issuer).status, 200, "{}", server.log());
}

#[test]
fn the_login_page_names_the_provider_beside_the_token_and_its_policy_stays_strict() {
    let (issuer, _dir, server) = served();
    let page = Visitor::new(&server).get("/login?next=/hosts");
    let host = issuer.url.split_once("://").unwrap().1;
    assert!(
        page.body
            .contains(&format!("<a class=\"main button\" href=\"/login/oidc?next=%2Fhosts\">Log in with {host}</a>")),
        "{page:?}"
    );
    assert!(page.body.contains("id=\"token\""), "{page:?}");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("form-action 'self';") && !policy.contains("127.0.0.1"), "{policy}");
    let dir = crate::support::dir();
    let without = Server::start(dir.path());
    assert!(!Visitor::new(&without).get("/login").body.contains("oidc"));
    for path in ["/login/oidc", CALLBACK] {
        assert_eq!(Visitor::new(&without).get(path).status, 404, "{path}");
    }
}
