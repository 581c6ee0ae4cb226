//! Who is logged in, and for how long.

use serde_json::{Value, json};

use super::{PAGES, started, token};
use crate::support::visitor::Visitor;
use crate::support::{Server, dir, request};

#[test]
fn who_is_not_logged_in_is_led_to_the_login_from_every_page_and_form() {
    let (_dir, server) = started();
    let stranger = Visitor::new(&server);
    let mut guess = Visitor::new(&server);
    guess.cookie = Some(format!("fleet={}", "0".repeat(64)));
    for visitor in [&stranger, &guess] {
        for page in PAGES.into_iter().chain(["/events"]) {
            let answer = visitor.get(page);
            assert_eq!(answer.status, 303, "{page}: {answer:?}");
            assert!(answer.header("location").unwrap().starts_with("/login"), "{page}: {answer:?}");
            assert!(answer.body.is_empty(), "{page}: {answer:?}");
        }
        for form in ["/confirm", "/act", "/logout"] {
            let answer = visitor.post(form, &[("do", "halt"), ("csrf", "")]);
            assert_eq!((answer.status, answer.header("location")), (303, Some("/login")), "{form}: {answer:?}");
        }
    }
    assert_eq!(stranger.get("/hosts?state=failed").header("location"), Some("/login?next=%2Fhosts%3Fstate%3Dfailed"));
    for open in ["/login", "/style.css", "/live.js"] {
        assert_eq!(stranger.get(open).status, 200, "{open}");
    }
}

#[test]
fn a_token_opens_a_session_and_its_cookie_is_for_this_server_alone() {
    let (dir, server) = started();
    let mut visitor = Visitor::new(&server);
    let answer = visitor.login(&token(&server, "viewer"));
    assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{answer:?}");
    let cookie = answer.header("set-cookie").unwrap();
    let (secret, rest) = cookie.strip_prefix("fleet=").unwrap().split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()), "256 bits: {secret}");
    for page in PAGES {
        let answer = visitor.get(page);
        assert_eq!(answer.status, 200, "{page}: {answer:?}");
        assert!(answer.body.contains("token viewer, viewer"), "{page}: {answer:?}");
    }
    let other = Visitor::with(&server, &token(&server, "operator"));
    assert_ne!(other.cookie, visitor.cookie);
    // Neither the store nor the log has it.
    let data = std::fs::read(dir.path().join("data/fleet.db")).unwrap();
    assert!(!data.windows(secret.len()).any(|part| part == secret.as_bytes()));
    assert!(!server.log().contains(secret));
}

#[test]
fn behind_tls_the_cookie_is_bound_to_it() {
    let dir = dir();
    let server = Server::with(dir.path(), &["--plain", "--behind-proxy"]);
    let token = token(&server, "viewer");
    let mut visitor = Visitor::new(&server);
    let answer = visitor.login(&token);
    let cookie = answer.header("set-cookie").unwrap().to_owned();
    assert!(cookie.starts_with("__Host-fleet=") && cookie.ends_with("; Secure"), "{cookie}");
    assert_eq!(visitor.get("/").status, 200);
    visitor.cookie = visitor.cookie.map(|cookie| cookie.replace("__Host-", ""));
    assert_eq!(visitor.get("/").status, 303, "without the prefix anybody on the way could have set it");
}

#[test]
fn a_logout_ends_the_session_and_no_other() {
    let (_dir, server) = started();
    let secret = token(&server, "viewer");
    let (one, other) = (Visitor::with(&server, &secret), Visitor::with(&server, &secret));
    let answer = one.post("/logout", &[("csrf", &one.csrf())]);
    assert_eq!((answer.status, answer.header("location")), (303, Some("/login")), "{answer:?}");
    assert!(answer.header("set-cookie").unwrap().contains("Max-Age=0"), "{answer:?}");
    assert_eq!(one.get("/").status, 303);
    assert_eq!(other.get("/").status, 200);
    let audit = server.ok(&["audit", "--format", "json"]);
    assert!(audit.contains("\"login\"") && audit.contains("\"logout\""), "{audit}");
}

#[test]
fn a_session_ends_when_its_token_expires() {
    let (_dir, server) = started();
    let admin = token(&server, "admin");
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    let id = "11111111-2222-4333-8444-555555555556";
    let new = json!({"id": id, "name": "short", "role": "viewer", "expires": expires}).to_string();
    let (status, made) =
        request(server.addr, "POST", "/v1/fleet/tokens", &format!("authorization: Bearer {admin}\r\n"), &new);
    assert_eq!(status, 200, "{made}");
    let made: Value = serde_json::from_str(&made).unwrap();
    let visitor = Visitor::with(&server, made["secret"].as_str().unwrap());
    server.until("the token has expired", || visitor.get("/").status == 303);
    assert!(jiff::Timestamp::now() >= expires);
}

#[test]
fn logins_that_fail_are_refused_and_limited_and_the_right_token_still_gets_in() {
    let (_dir, server) = started();
    let right = token(&server, "viewer");
    let mut visitor = Visitor::new(&server);
    let answers: Vec<_> = (0..12).map(|_| visitor.login("tfleet_guess")).collect();
    assert!(answers.iter().all(|answer| answer.header("set-cookie").is_none()));
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    let wait: u64 = answers[11].header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert!(answers[0].body.contains("the token is not known, or has expired"), "{answers:?}");
    assert_eq!(visitor.login(&right).status, 303);
    for bad in ["", " ", "a\u{0}b", "\u{1b}[2J"] {
        assert!(matches!(visitor.login(bad).status, 401 | 429), "{bad:?}");
    }
}

#[test]
fn the_admin_api_takes_no_cookie() {
    let (_dir, server) = started();
    let visitor = Visitor::with(&server, &token(&server, "admin"));
    let command =
        json!({"id": "11111111-2222-4333-8444-555555555556", "command": {"halt": {"groups": [], "all": true}}});
    for (method, path, body) in [
        ("GET", "/v1/fleet/rollout", String::new()),
        ("GET", "/v1/fleet/tokens", String::new()),
        ("POST", "/v1/fleet/commands", command.to_string()),
    ] {
        let csrf = format!("x-csrf-token: {}\r\n", visitor.csrf());
        assert_eq!(visitor.ask(method, path, &csrf, &body).status, 401, "{method} {path}");
    }
}

#[test]
fn a_body_that_is_no_form_or_too_large_is_refused_on_a_page() {
    let (_dir, server) = started();
    let visitor = Visitor::new(&server);
    let large = "x".repeat(20_000);
    assert_eq!(visitor.post("/login", &[("token", &large)]).status, 413);
    let answer = visitor.ask("POST", "/login", "content-type: application/json\r\n", "{}");
    assert_eq!(answer.status, 400);
    assert!(answer.header("content-type").unwrap().starts_with("text/html"), "{answer:?}");
}
