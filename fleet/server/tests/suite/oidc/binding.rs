//! A login comes back to the browser that began it, once.

use serde_json::json;

use super::{CALLBACK, TRIP, Trip, arrive, assert_refused, come_back, cookie, depart, log_in, served, server, visitor};
use crate::dashboard::token;
use crate::nodes::Fleet;
use crate::support::dir;
use crate::support::issuer::{How, Issuer, TOKEN};
use crate::support::visitor::Visitor;

#[test]
fn without_the_browsers_own_cookie_and_state_the_provider_is_not_even_asked() {
    let (issuer, dir, elsewhere) = (Issuer::start(), dir(), crate::support::dir());
    let (server, other_server) = (server(dir.path(), &issuer), super::server(elsewhere.path(), &issuer));
    let (trip, other) = (depart(&server, &issuer, "/"), depart(&server, &issuer, "/"));
    let code = issuer.logs_in(&trip.sent);
    let (own, others) = (trip.sent["state"].as_str(), other.sent["state"].as_str());
    let planted = format!("{TRIP}={}", "0".repeat(64));
    let (nonce, twice) = (trip.sent["nonce"].as_str(), [("code", code.as_str()), ("state", own), ("state", own)]);
    for (query, cookie) in [
        (&[("code", code.as_str()), ("state", own)][..], ""),
        (&[("code", code.as_str()), ("state", own)], &*other.cookie),
        (&[("code", code.as_str()), ("state", own)], &planted),
        (&[("code", code.as_str()), ("state", others)], &trip.cookie),
        (&[("code", code.as_str()), ("state", nonce)], &trip.cookie),
        (&[("code", code.as_str()), ("state", "")], &trip.cookie),
        (&[("code", code.as_str())], &trip.cookie),
        (&twice, &trip.cookie),
    ] {
        assert_refused(&arrive(&server, query, cookie), 401, "was not begun in this browser");
    }
    assert_eq!(issuer.asked(TOKEN), 0);
    // Behind a balancer it may come back to another server.
    let answer = arrive(&other_server, &[("code", &code), ("state", own)], &trip.cookie);
    assert_eq!(answer.status, 200, "the login itself is still good: {answer:?}");
}

#[test]
fn a_code_is_good_once_and_only_for_the_login_that_it_was_given_to() {
    let (issuer, _dir, server) = served();
    let trip = depart(&server, &issuer, "/");
    let code = issuer.logs_in(&trip.sent);
    let back = [("code", code.as_str()), ("state", trip.sent["state"].as_str())];
    assert_eq!(arrive(&server, &back, &trip.cookie).status, 200);
    assert_refused(&arrive(&server, &back, &trip.cookie), 401, "is not good");
    assert!(server.log().contains("invalid_grant"));
    // A code of another browser's login, put in place of one's own.
    let (mine, victim) = (depart(&server, &issuer, "/"), depart(&server, &issuer, "/"));
    let code = issuer.logs_in(&mine.sent);
    assert_refused(
        &arrive(&server, &[("code", &code), ("state", &victim.sent["state"])], &victim.cookie),
        401,
        "is not good",
    );
    for code in ["", &"x".repeat(5000)] {
        let trip = depart(&server, &issuer, "/");
        assert_refused(
            &arrive(&server, &[("code", code), ("state", &trip.sent["state"])], &trip.cookie),
            401,
            "is not good",
        );
    }
}

#[test]
fn what_the_provider_says_in_place_of_a_code_is_told_and_another_provider_is_refused() {
    let (issuer, _dir, server) = served();
    let back = |query: &[(&str, &str)]| {
        let trip = depart(&server, &issuer, "/");
        let code = issuer.logs_in(&trip.sent);
        let own = [("state", trip.sent["state"].as_str()), ("code", &code)];
        arrive(&server, &[&own[..], query].concat(), &trip.cookie)
    };
    assert_refused(
        &back(&[("error", "access_denied"), ("error_description", "<b>no")]),
        401,
        "did not log you in: access_denied",
    );
    let answer = back(&[("error", "<script>\u{1b}[2J")]);
    assert_refused(&answer, 401, "did not log you in: an error");
    assert!(!answer.body.contains("[2J") && !server.log().contains("[2J"), "{answer:?}");
    assert_refused(&back(&[("iss", "https://evil.example")]), 401, "another provider");
    assert_eq!(back(&[("iss", &issuer.url)]).status, 200);
    assert_eq!(issuer.asked(TOKEN), 1);
}

#[test]
fn who_does_not_agree_there_is_shown_where_he_was_and_is_not_counted() {
    let (issuer, _dir, server) = served();
    for _ in 0..12 {
        let trip = depart(&server, &issuer, "/hosts?state=failed");
        let answer = arrive(&server, &[("state", &trip.sent["state"]), ("error", "access_denied")], &trip.cookie);
        assert_refused(&answer, 401, "did not log you in: access_denied");
        assert!(answer.body.contains("next=%2Fhosts%3Fstate%3Dfailed"), "{answer:?}");
    }
    assert_eq!(log_in(&server, &issuer).status, 200);
}

/// The second tab's cookie takes the place of the first one's.
#[test]
fn a_login_in_another_tab_is_not_ended_by_one_that_lost_its_cookie() {
    let (issuer, _dir, server) = served();
    let (first, second) = (depart(&server, &issuer, "/"), depart(&server, &issuer, "/"));
    let back = |trip: &Trip| {
        let code = issuer.logs_in(&trip.sent);
        arrive(&server, &[("code", &code), ("state", &trip.sent["state"])], &second.cookie)
    };
    let lost = back(&first);
    assert_refused(&lost, 401, "was not begun in this browser");
    assert!(cookie(&lost, TRIP).is_none(), "it stays: {lost:?}");
    let got = back(&second);
    assert_eq!(got.status, 200);
    assert_eq!(cookie(&got, TRIP).map(|(cookie, _)| cookie), Some("fleet-login="), "it is over: {got:?}");
}

#[test]
fn a_provider_that_names_itself_must_do_so() {
    let (issuer, dir) = (Issuer::start(), dir());
    issuer.says("authorization_response_iss_parameter_supported", json!(true));
    let server = server(dir.path(), &issuer);
    assert_refused(&log_in(&server, &issuer), 401, "another provider");
    let trip = depart(&server, &issuer, "/");
    let code = issuer.logs_in(&trip.sent);
    let back = [("code", code.as_str()), ("state", &trip.sent["state"]), ("iss", &issuer.url)];
    assert_eq!(arrive(&server, &back, &trip.cookie).status, 200);
}

#[test]
fn a_session_that_somebody_planted_is_not_taken_up() {
    let (issuer, _dir, server) = served();
    let first = log_in(&server, &issuer);
    let (known, _) = cookie(&first, "fleet").unwrap();
    for planted in [known.to_owned(), format!("fleet={}", "0".repeat(64))] {
        let trip = depart(&server, &issuer, "/");
        let code = issuer.logs_in(&trip.sent);
        let cookies = format!("{planted}; {}", trip.cookie);
        let answer = arrive(&server, &[("code", &code), ("state", &trip.sent["state"])], &cookies);
        assert_ne!(cookie(&answer, "fleet").unwrap().0, planted);
        assert_eq!(visitor(&server, &answer).get("/").status, 200);
    }
    let mut planted = Visitor::new(&server);
    planted.cookie = Some(format!("fleet={}", "0".repeat(64)));
    assert_eq!(planted.get("/").status, 303);
}

#[test]
fn a_login_leads_to_pages_of_this_server_alone() {
    let (issuer, _dir, server) = served();
    for (next, leads) in [
        ("/audit?before=9", "/audit?before=9"),
        ("//evil.example/", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/\r\nset-cookie: fleet=x", "/"),
        (&format!("/{}", "x".repeat(2000)), "/"),
    ] {
        let answer = come_back(&server, &issuer, &depart(&server, &issuer, next));
        assert_eq!(answer.header("refresh"), Some(format!("0; url={leads}").as_str()), "{next:?}");
        assert!(answer.body.contains(&format!("<a href=\"{leads}\">")), "{next:?}: {answer:?}");
    }
}

#[test]
fn logins_that_fail_are_counted_apart_from_those_of_tokens_and_then_the_provider_is_not_asked() {
    let (issuer, _dir, server) = served();
    let right = token(&server, "viewer");
    issuer.forges(|draft, _| {
        draft.claims["nonce"] = json!("x");
        None
    });
    let mut guess = Visitor::new(&server);
    for number in 0..10 {
        assert_eq!(log_in(&server, &issuer).status, 401, "{number}");
        assert_eq!(guess.login("tfleet_guess").status, 401, "{number}");
    }
    issuer.forges(|_, _| None);
    let answer = log_in(&server, &issuer);
    assert_refused(&answer, 429, "too many logins failed");
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(issuer.asked(TOKEN), 10);
    assert_eq!(guess.login(&right).status, 303, "the right token still gets in");
    let metrics = server.metrics();
    assert!(metrics.contains("\nteleport_fleet_strangers_refused_total 21\n"), "{metrics}");
}

#[test]
fn a_way_back_that_nobody_began_is_refused_and_keeps_nobody_out() {
    let (issuer, _dir, server) = served();
    let mut guess = Visitor::new(&server);
    for number in 0..20 {
        let answer = Visitor::new(&server).get(&format!("{CALLBACK}?code=x&state=y"));
        assert_refused(&answer, 401, "was not begun in this browser");
        assert_eq!(guess.login("tfleet_guess").status, if number < 10 { 401 } else { 429 });
    }
    assert_eq!(issuer.asked(TOKEN), 0);
    assert_eq!(log_in(&server, &issuer).status, 200, "others at the same address");
}

#[test]
fn a_provider_that_refuses_codes_in_its_own_way_is_not_asked_without_end() {
    let (issuer, _dir, server) = served();
    issuer.answers(TOKEN, How::Status(403));
    let statuses: Vec<u16> = (0..14).map(|_| log_in(&server, &issuer).status).collect();
    assert_eq!(statuses, [vec![502; 10], vec![429; 4]].concat());
    assert_eq!(issuer.asked(TOKEN), 10);
}

/// Servers that share a database know each other's people, as long as the same settings say what these may do.
#[test]
fn a_person_is_logged_in_at_each_server_that_names_people_alike() {
    let (issuer, dir) = (Issuer::start(), dir());
    let flags = super::flags(dir.path(), &issuer);
    let words: Vec<&str> = flags.iter().map(String::as_str).filter(|flag| *flag != "--plain").collect();
    let Some(mut fleet) = Fleet::start(2, &words) else { return };
    let answer = log_in(fleet.node(0), &issuer);
    let person = visitor(fleet.node(0), &answer);
    assert_eq!(person.at(fleet.node(1).addr).get("/").status, 200);
    // Others mean something else by now, also after a restart.
    fleet.words.iter_mut().filter(|word| word.starts_with("sre=")).for_each(|word| "all=viewer".clone_into(word));
    fleet.nodes[1].1.take().unwrap().stop();
    fleet.begin(1);
    assert_eq!(person.at(fleet.node(1).addr).get("/").status, 303);
    assert_eq!(person.get("/").status, 200, "the settings here are as they were");
}
