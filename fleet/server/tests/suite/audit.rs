//! Whoever can write the server's data can change its audit log, and `audit verify` finds each change.

use crate::support::{Server, dir, groups, refused, rolling, version};
use std::path::Path;

use rusqlite::Connection;

/// What is done to the log, and what is said of it.
const CHANGES: [(&str, &str, &str); 12] = [
    ("the first is removed", "DELETE FROM audit WHERE seq = 1", "record 1"),
    ("one is removed", "DELETE FROM audit WHERE seq = 3", "record 3"),
    (
        "one is removed and the others move up",
        "DELETE FROM audit WHERE seq = 3; UPDATE audit SET seq = seq - 1 WHERE seq > 3",
        "record 3",
    ),
    ("the last is removed", "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)", "is missing"),
    ("who did it", "UPDATE audit SET who = 'uid 0 (nobody)' WHERE seq = 2", "record 2"),
    ("a refusal was done", "UPDATE audit SET done = 1 - done WHERE seq = 2", "record 2"),
    ("when it was", "UPDATE audit SET at = '2026-01-01T00:00:00Z' WHERE seq = 2", "record 2"),
    ("what it was about", "UPDATE audit SET subject = subject || ' ' WHERE seq = 2", "record 2"),
    (
        "two change places",
        "UPDATE audit SET seq = 1000 WHERE seq = 2; UPDATE audit SET seq = 2 WHERE seq = 3; UPDATE audit SET seq = 3 WHERE \
         seq = 1000",
        "record 2",
    ),
    (
        "one is inserted",
        "UPDATE audit SET seq = seq + 1000 WHERE seq >= 3; UPDATE audit SET seq = seq - 999 WHERE seq >= 1000; INSERT INTO \
         audit SELECT 3, at, who, origin, action, subject, done, detail, before, after, previous, hash FROM audit WHERE seq \
         = 2",
        "record 3",
    ),
    (
        "one is added",
        "INSERT INTO audit SELECT max(seq) + 1, at, who, origin, action, subject, done, detail, before, after, previous, \
         hash FROM audit",
        "",
    ),
    ("all are removed", "DELETE FROM audit", ""),
];

/// Runs statements on the data of a server that does not run, as its owner can.
fn forge(data: &Path, sql: &str) {
    let raw = Connection::open(data.join("fleet.db")).unwrap();
    let without = "PRAGMA ignore_check_constraints = 1; DROP TRIGGER audit_is_not_changed; DROP TRIGGER \
                   audit_is_not_removed; DROP TRIGGER audit_goes_on;";
    raw.execute_batch(&format!("{without} {sql}")).unwrap();
    raw.close().unwrap();
}

/// The hash of the newest record, as `audit verify` says it.
fn head(server: &Server) -> String {
    let verified = server.parsed(&["audit", "verify"]);
    verified["head"]["hash"].as_str().unwrap().to_owned()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("data")).unwrap();
    for entry in std::fs::read_dir(from.join("data")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join("data").join(entry.file_name())).unwrap();
    }
}

/// Data with a log of several decisions and a refusal, and its head.
fn written(dir: &Path) -> String {
    let server = Server::start(dir);
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    refused(&server.cli(&["autoupdate", "agents", "start-update", "nobody"]));
    server.agents(&["start-update", "dev"]);
    server.agents(&["halt", "--all"]);
    server.ok(&["tokens", "create", "t", "--role", "viewer"]);
    let head = head(&server);
    assert_eq!(server.stop(), Some(0));
    head
}

/// Who reads the log years later sees which hosts it was.
#[test]
fn the_record_of_a_halt_names_some_of_the_hosts() {
    let (_dir, server) = rolling(&["dev", "prod"]);
    let failed = crate::reports::first_fails(&server);
    let halts = || -> Vec<serde_json::Value> {
        let told = server.ok(&["audit", "--format", "json"]);
        let records = told.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        records.filter(|record| record["action"] == "group_halted").collect()
    };
    server.until("the halt", || !halts().is_empty());
    let detail = halts()[0]["detail"].clone();
    assert_eq!((&detail["rule"], &detail["error"]), (&"failed_threshold".into(), &"unhealthy".into()), "{detail}");
    assert_eq!(detail["sample"], serde_json::json!([failed.id]), "{detail}");
    server.agents(&["halt", "prod"]);
    assert_eq!(halts()[1]["detail"]["sample"], serde_json::json!([]), "no host did it");
}

#[test]
fn each_record_that_is_removed_changed_moved_or_inserted_is_found() {
    let whole = dir();
    let known = written(whole.path());
    for (what, sql, says) in CHANGES {
        let dir = dir();
        copy(whole.path(), dir.path());
        forge(&dir.path().join("data"), sql);
        let server = Server::start(dir.path());
        let line = refused(&server.cli(&["audit", "verify"]));
        assert!(line.contains("the audit log was changed") && line.contains(says), "{what}: {line}");
        refused(&server.cli(&["audit", "verify", "--head", &known]));
        // The server still works, and the fault stays. Where the last record is not there, everything is held.
        server.agents(&["run", "--all"]);
        refused(&server.cli(&["audit", "verify"]));
    }
}

#[test]
fn a_cut_that_hides_itself_is_found_by_the_head_that_was_kept_elsewhere() {
    let dir = dir();
    let known = written(dir.path());
    let sql = "DELETE FROM audit WHERE seq > 3; UPDATE store SET head_seq = 3, head_hash = (SELECT hash FROM audit WHERE seq \
               = 3)";
    forge(&dir.path().join("data"), sql);
    let server = Server::start(dir.path());
    server.ok(&["audit", "verify"]);
    let line = refused(&server.cli(&["audit", "verify", "--head", &known]));
    assert!(line.contains(&known), "{line}");
}

#[test]
fn what_nobody_changed_verifies_also_after_a_kill_and_with_each_head_that_it_had() {
    let dir = dir();
    let known = written(dir.path());
    let server = Server::start(dir.path());
    server.agents(&["run", "--all"]);
    server.kill();
    let server = Server::start(dir.path());
    for words in [&["audit", "verify"][..], &["audit", "verify", "--head", &known]] {
        let told = server.ok(words);
        assert!(told.contains("records"), "{told}");
    }
    refused(&server.cli(&["audit", "verify", "--head", &"0".repeat(64).replace('0', "a")]));
}
