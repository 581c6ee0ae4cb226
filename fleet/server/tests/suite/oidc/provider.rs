//! A provider that rotates its keys, is down, slow, huge, or leads elsewhere.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{arrive, assert_refused, depart, log_in, served, server};
use crate::dashboard::token;
use crate::support::dir;
use crate::support::issuer::{DISCOVERY, How, Issuer, KEYS, Key, TOKEN};
use crate::support::visitor::Visitor;

/// A question to the provider ends after 5 s; a login has two of them, and this machine may be busy.
const BOUND: Duration = Duration::from_secs(25);

#[test]
fn new_keys_are_asked_for_when_a_token_names_one_and_at_most_once_a_minute() {
    let (issuer, _dir, server) = served();
    for _ in 0..3 {
        assert_eq!(log_in(&server, &issuer).status, 200);
    }
    assert_eq!((issuer.asked(KEYS), issuer.asked(DISCOVERY)), (1, 1), "they are kept");
    issuer.rotates("second", Key::eddsa(), true);
    assert_eq!(log_in(&server, &issuer).status, 200, "{}", server.log());
    assert_eq!(issuer.asked(KEYS), 2);
    issuer.rotates("third", Key::es256(), false);
    for _ in 0..5 {
        assert_refused(&log_in(&server, &issuer), 401, "is not good");
    }
    assert_eq!(issuer.asked(KEYS), 2, "a token that names unknown keys has none asked for");
}

fn misbehaviours() -> [How; 5] {
    [How::Redirected, How::Huge, How::Text("<html>".to_owned()), How::Status(500), How::Text("{}".to_owned())]
}

#[test]
fn a_provider_that_redirects_floods_or_talks_nonsense_lets_nobody_in_and_tokens_still_do() {
    for path in [DISCOVERY, KEYS, TOKEN] {
        for how in misbehaviours() {
            let (issuer, _dir, server) = served();
            issuer.answers(path, how.clone());
            let begun = Instant::now();
            let answer = match path {
                DISCOVERY => Visitor::new(&server).get("/login/oidc"),
                _ => log_in(&server, &issuer),
            };
            assert!(begun.elapsed() < BOUND, "{path} {how:?}");
            assert_refused(&answer, 502, "does not answer as it should");
            assert_eq!(issuer.asked(&format!("/elsewhere{path}")), 0, "a redirect was followed");
            assert!(server.log().contains("provider cannot be used"), "{path} {how:?}: {}", server.log());
            assert_eq!(Visitor::new(&server).login(&token(&server, "viewer")).status, 303);
        }
    }
}

#[test]
fn a_provider_that_hangs_holds_up_a_login_for_seconds_and_nobody_else() {
    let (issuer, _dir, server) = served();
    issuer.answers(DISCOVERY, How::Hanging);
    let begun = Instant::now();
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..40).map(|_| scope.spawn(|| Visitor::new(&server).get("/login/oidc").status)).collect();
        server.until("it is asked", || issuer.asked(DISCOVERY) > 0);
        let asked = Instant::now();
        assert_eq!(Visitor::new(&server).get("/login").status, 200);
        assert_eq!(server.get("/healthz").0, 200);
        assert!(asked.elapsed() < Duration::from_secs(4), "others wait for the provider");
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    assert!(begun.elapsed() < BOUND);
    assert!(answers.iter().all(|status| [502, 503].contains(status)), "{answers:?}");
    assert!(
        answers.contains(&502) && answers.contains(&503),
        "only some wait, the others are told to come again: {answers:?}"
    );
    // All of them, and who comes just after, share one question.
    assert_eq!(issuer.asked(DISCOVERY), 1);
    issuer.answers(DISCOVERY, How::Well);
    server.until("it is asked again", || Visitor::new(&server).get("/login/oidc").status == 303);
    issuer.answers(TOKEN, How::Hanging);
    let begun = Instant::now();
    assert_refused(&log_in(&server, &issuer), 502, "does not answer");
    assert!(begun.elapsed() < BOUND);
}

#[test]
fn who_asks_and_leaves_has_a_provider_that_hangs_asked_once() {
    let (issuer, _dir, server) = served();
    issuer.answers(DISCOVERY, How::Hanging);
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.addr).unwrap();
        write!(stream, "GET /login/oidc HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        server.until("it is asked", || issuer.asked(DISCOVERY) > 0);
    }
    let status = Visitor::new(&server).get("/login/oidc").status;
    assert!([502, 503].contains(&status), "{status}");
    assert_eq!(issuer.asked(DISCOVERY), 1);
}

#[test]
fn a_document_of_another_issuer_is_not_used() {
    let (issuer, dir) = (Issuer::start(), dir());
    issuer.says("issuer", "https://evil.example".into());
    let server = server(dir.path(), &issuer);
    assert_refused(&Visitor::new(&server).get("/login/oidc"), 502, "does not answer as it should");
    assert!(server.log().contains("of another issuer"), "{}", server.log());
}

#[test]
fn keys_that_cannot_be_asked_for_end_no_session_and_the_next_login_asks_again() {
    let (issuer, _dir, server) = served();
    let inside = super::visitor(&server, &log_in(&server, &issuer));
    issuer.rotates("second", Key::es256(), true);
    issuer.answers(KEYS, How::Status(503));
    assert_refused(&log_in(&server, &issuer), 502, "does not answer");
    assert_eq!(inside.get("/").status, 200);
    let trip = depart(&server, &issuer, "/");
    issuer.answers(KEYS, How::Well);
    let code = issuer.logs_in(&trip.sent);
    let answer = arrive(&server, &[("code", &code), ("state", &trip.sent["state"])], &trip.cookie);
    // Within a minute of the failed question nobody asks again: strangers could have it asked as often as they like.
    assert_refused(&answer, 401, "is not good");
}
