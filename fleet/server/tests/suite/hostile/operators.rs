//! Operators at once, twice, and in a hurry.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{ID, admin, command, find, halt_all, host, records, started, until_known};

/// How many are published while three ask. Without a reader's second look the host was told after 4 to 106.
const DECISIONS: u32 = 800;

#[test]
fn of_many_writers_with_the_same_revision_one_writes() {
    let (dir, server) = started();
    let (_, kept) = admin(dir.path(), "GET", "/v1/fleet/resources/autoupdate_config", "").unwrap();
    let text = kept[0]["yaml"].as_str().unwrap().to_owned();
    assert!(text.contains("revision"), "{text}");
    let write = |number: u32| {
        let body = json!({ "id": host(number), "how": "update", "text": text }).to_string();
        admin(dir.path(), "POST", "/v1/fleet/resources", &body).unwrap()
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=24).map(|number| scope.spawn(move || write(number))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1, "{answers:?}");
    let is_stale = |answer: &&(u16, Value)| answer.1["error"]["code"] == "stale_revision";
    assert_eq!(answers.iter().filter(is_stale).count(), 23, "{answers:?}");
    drop(server);
}

#[test]
fn one_request_that_is_sent_by_many_at_once_acts_once() {
    let (dir, server) = started();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..16).map(|_| scope.spawn(|| command(dir.path(), ID, &halt_all()).unwrap())).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.0 == 200), "{answers:?}");
    assert_eq!(records(dir.path(), "halt"), 1);
    drop(server);
}

#[test]
fn a_held_host_is_never_told_also_while_decisions_are_published() {
    let (dir, server) = started();
    let question = format!("host={}&group=dev", host(1));
    find(&server, &question);
    until_known(&server, dir.path(), 1);
    server.ok(&["host", &host(1), "hold"]);
    assert!(!find(&server, &question).1);
    let (addr, is_told, is_over) = (server.addr, AtomicBool::new(false), AtomicBool::new(false));
    let ask = || {
        let mut stream = TcpStream::connect(addr).unwrap();
        let questions = format!("GET /v1/webapi/find?{question} HTTP/1.1\r\nhost: x\r\n\r\n").repeat(100);
        while !is_over.load(Ordering::Relaxed) {
            stream.write_all(questions.as_bytes()).unwrap();
            let (mut answers, mut part) = (String::new(), [0; 16 << 10]);
            while answers.matches("\"why\"").count() < 100 {
                let length = stream.read(&mut part).unwrap();
                answers.push_str(std::str::from_utf8(&part[..length]).unwrap());
            }
            if answers.contains("\"agent_auto_update\":true") {
                is_told.store(true, Ordering::Relaxed);
            }
        }
    };
    // A refused command is a decision on record: everything is published anew.
    let start = json!({ "start": { "groups": ["none"], "force": false } });
    let is_refused = |number| command(dir.path(), &host(10 + number), &start).is_some_and(|(status, _)| status == 404);
    let are_refused = std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(ask)));
        let are_refused = (0..DECISIONS).all(is_refused);
        is_over.store(true, Ordering::Relaxed);
        are_refused
    });
    assert!(are_refused);
    assert!(!is_told.into_inner(), "an operator holds it, and it was allowed to update");
}
