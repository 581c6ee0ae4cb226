//! Whoever can write the server's data can change its audit log, and `audit verify` finds each change.

use crate::support::{Server, dir, groups, refused, version};
use std::path::Path;

use rusqlite::Connection;

/// What is done to the log, and what is said of it. The store finds every other change as well (`fleet/store/tests/suite/audit.rs`).
const CHANGES: [(&str, &str, &str); 4] = [
    ("one is removed", "DELETE FROM audit WHERE seq = 3", "record 3"),
    ("the last is removed", "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)", "is missing"),
    ("who did it", "UPDATE audit SET who = 'uid 0 (nobody)' WHERE seq = 2", "record 2"),
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

#[test]
fn a_log_that_was_changed_is_told_and_the_server_goes_on() {
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
