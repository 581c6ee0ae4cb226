//! Every refusal has one shape, whichever route it is of and whatever is wrong.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::docs::DOCUMENT;
use crate::support::visitor::Answer;
use crate::support::{SOON, Server, dir, exchange, groups, program, refused, start, version};

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
/// More than any body may have.
const HUGE: usize = 3 << 20;

/// The code of a refusal, which has the one shape.
#[track_caller]
fn code(answer: &Answer, what: &str) -> String {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{what}: {:?}", answer.body));
    assert_eq!(answer.header("content-type"), Some("application/json"), "{what}: {}", answer.head);
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}: {}", answer.head);
    assert_eq!(body.as_object().unwrap().len(), 1, "{what}: {body}");
    let error = body["error"].as_object().unwrap_or_else(|| panic!("{what}: {body}"));
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{what}: {body}");
    error["code"].as_str().unwrap_or_else(|| panic!("{what}: {body}")).to_owned()
}

fn ask(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let (status, head, body) = exchange(addr, method, path, headers, body);
    Answer { status, head, body }
}

/// Each path of the document with the methods that it has.
fn paths(server: &Server) -> Vec<(String, BTreeSet<String>)> {
    let api = server.json(DOCUMENT);
    let of = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        (path.clone(), methods)
    };
    api["paths"].as_object().unwrap().iter().map(of).collect()
}

/// A path with `name` wherever it takes a name.
fn with(path: &str, name: &str) -> String {
    ["{kind}", "{name}", "{id}", "{from}", "{channel}"]
        .iter()
        .fold(path.to_owned(), |path, place| path.replace(place, name))
}

fn started(server: &Server) -> String {
    server.create(&format!("{}---\n{}", groups(&["dev"]), version("1.0.0", "1.1.0", "regular")));
    let secret = &server.token("t", "admin");
    format!("authorization: Bearer {secret}\r\n")
}

#[test]
fn every_route_refuses_the_methods_that_it_has_not_and_names_those_that_it_has() {
    let (_dir, server) = start();
    let token = started(&server);
    let mut asked = 0;
    for (path, methods) in paths(&server) {
        let addr = if path == "/metrics" { server.metrics } else { server.addr };
        for method in METHODS.into_iter().filter(|method| !methods.contains(*method)) {
            let answer = ask(addr, method, &with(&path, "dev"), &token, "");
            let what = format!("{method} {path}");
            assert_eq!((answer.status, code(&answer, &what).as_str()), (405, "method_not_allowed"), "{what}");
            let allow = answer.header("allow").unwrap_or_default();
            let allow: BTreeSet<String> = allow.split(',').map(|method| method.trim().to_uppercase()).collect();
            assert!(methods.is_subset(&allow) && !allow.contains(method), "{what}: {allow:?}");
            asked += 1;
        }
    }
    assert!(asked > 100, "only {asked} were asked");
}

#[test]
fn every_body_that_is_too_large_or_no_json_is_refused() {
    let (_dir, server) = start();
    let token = started(&server);
    let huge = "x".repeat(HUGE);
    // Reports are signed, and nobody's by a token: they have tests of their own.
    let is_of_tokens = |path: &str| path != protocol::report::PATH;
    let posts = paths(&server).into_iter().filter(|(path, methods)| methods.contains("POST") && is_of_tokens(path));
    let id = "00000000-0000-4000-8000-000000000001";
    let mut asked = 0;
    for (path, _) in posts {
        let path = with(&path, id);
        for (body, status, wanted) in [
            (huge.as_str(), 413, "too_large"),
            ("{", 400, "bad_request"),
            ("\u{0}", 400, "bad_request"),
            ("[]", 400, "bad_request"),
        ] {
            let answer = ask(server.addr, "POST", &path, &token, body);
            assert_eq!((answer.status, code(&answer, &path).as_str()), (status, wanted), "{path}: {}", answer.body);
        }
        // Who he is comes before what he sends.
        let answer = ask(server.addr, "POST", &path, "", &huge);
        assert_eq!((answer.status, code(&answer, &path).as_str()), (401, "unauthenticated"), "{path}");
        assert!(answer.header("www-authenticate").is_some_and(|how| how.starts_with("Bearer")), "{path}: {answer:?}");
        asked += 1;
    }
    assert_eq!(asked, 10);
}

#[test]
fn names_that_are_none_are_refused_on_every_route_that_takes_one() {
    let (_dir, server) = start();
    let token = started(&server);
    let mut asked = 0;
    for (path, methods) in paths(&server).into_iter().filter(|(path, _)| path.contains('{')) {
        for name in ["%ff", "%zz", "%", "%00", "..", "%2e%2e%2f%2e%2e%2fetc", "%E2%80%AE", "a%0d%0ab", &"x".repeat(600)]
        {
            for method in methods.iter() {
                let path = format!("{}?id=00000000-0000-4000-8000-000000000009", with(&path, name));
                let body = if method == "POST" { "{}" } else { "" };
                let answer = ask(server.addr, method, &path, &token, body);
                let what = format!("{method} {path}");
                // A group that nobody has is answered as none.
                let is_group = path.contains("/version?") || path.contains("/critical?");
                assert!(is_group || (400..500).contains(&answer.status), "{what}: {} {}", answer.status, answer.body);
                if answer.status >= 400 {
                    code(&answer, &what);
                }
                let is_printable = |char: char| char == '\n' || !char.is_control();
                assert!(answer.body.chars().all(is_printable), "{what}: {:?}", answer.body);
                asked += 1;
            }
        }
    }
    assert!(asked > 80, "only {asked} were asked");
}

#[test]
fn questions_that_contradict_themselves_are_refused() {
    let (_dir, server) = start();
    let token = started(&server);
    for path in [
        "/v1/fleet/hosts?limit=1&limit=2",
        "/v1/fleet/hosts?limt=1",
        "/v1/fleet/hosts?limit=%zz",
        "/v1/fleet/hosts?limit=4294967296",
        "/v1/fleet/hosts?after=x",
        "/v1/fleet/hosts?state=well",
        "/v1/fleet/rollouts?before=-1",
        "/v1/fleet/audit?after=1&after=2",
        "/v1/fleet/audit?after=x",
        "/v1/fleet/audit?limit=-1",
        "/v1/fleet/audit/verify?head=a&head=b",
        "/v1/fleet/audit/verify?head=95c4",
        "/v1/fleet/events?follow=perhaps",
        "/v1/maintenance-schedule?kind=systemd_timer&kind=kube_controller",
        "/v1/maintenance-schedule?kind=cron",
        "/v1/maintenance-schedule?kind=systemd_timer&group=%ff",
    ] {
        let answer = ask(server.addr, "GET", path, &token, "");
        assert_eq!((answer.status, code(&answer, path).as_str()), (400, "bad_request"), "{path}: {}", answer.body);
    }
    // Cincinnati's own shape.
    let answer = ask(server.addr, "GET", "/v1/graph?channel=a&channel=b", "", "");
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!((answer.status, &body["kind"]), (400, &"invalid_params".into()), "{body}");
    // A host is answered whatever it asks.
    for query in ["host=%ff&host=x", "group=a&group=b", "dry_run=maybe", "%", "&&&", "update_id=%zz"] {
        let answer = ask(server.addr, "GET", &format!("/v1/webapi/find?{query}"), "", "");
        assert_eq!(answer.status, 200, "{query}");
    }
}

#[test]
fn a_body_that_does_not_come_is_waited_for_half_a_minute() {
    let (_dir, server) = start();
    let token = started(&server);
    let mut stream = TcpStream::connect(server.addr).unwrap();
    stream.set_read_timeout(Some(3 * SOON)).unwrap();
    write!(stream, "POST /v1/fleet/commands HTTP/1.1\r\nhost: x\r\n{token}content-length: 100\r\n\r\n{{").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"too_slow\""), "{answer}");
}

#[test]
fn a_path_of_a_stranger_is_cut_in_the_log() {
    let (_dir, server) = start();
    let path = format!("/v1/fleet/{}", "a".repeat(20_000));
    assert_eq!(ask(server.addr, "GET", &path, "", "").status, 404);
    server.until("the line", || server.log().contains("aaaaaaaa"));
    let log = server.log();
    let line = log.lines().find(|line| line.contains("aaaaaaaa")).unwrap();
    assert!(line.len() < 1000, "{} bytes", line.len());
    assert!(line.contains(&format!("/v1/fleet/{}…", "a".repeat(246))), "{line}");
    assert!(!line.contains(&"a".repeat(247)), "{line}");
}

#[test]
fn a_restore_of_what_is_no_backup_leaves_nothing_behind() {
    let dir = dir();
    let (data, foreign) = (dir.path().join("zz"), dir.path().join("foreign"));
    std::fs::write(&foreign, "no backup").unwrap();
    let restore = |from: &std::path::Path| {
        let words = ["restore", from.to_str().unwrap(), "--data", data.to_str().unwrap(), "--config", "/dev/null"];
        refused(&program(&words).output().unwrap())
    };
    let line = restore(&dir.path().join("nope"));
    assert!(line.contains("cannot read") && line.contains("name a backup that is there"), "{line}");
    let line = restore(&foreign);
    assert!(line.contains("is not a backup of teleport-fleet"), "{line}");
    assert!(!data.exists());
    // One whose beginning alone is right is found out in the directory.
    let server = Server::start(dir.path());
    let backup = dir.path().join("backup");
    server.ok(&["backup", backup.to_str().unwrap()]);
    let bytes = std::fs::read(&backup).unwrap();
    std::fs::write(&backup, &bytes[..bytes.len() / 2]).unwrap();
    restore(&backup);
    assert!(!data.exists());
}
