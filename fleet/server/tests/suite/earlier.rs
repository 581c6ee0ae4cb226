//! Data of an earlier version that could more than this one: `golden/imported.sql` is the database of a server that knew hosts by
//! `import`, as it wrote it while a group of them went through a rollout. It stays as it is.

use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Server, dir, done, program};

/// Data as the earlier version left them.
fn earlier(dir: &Path) {
    let data = dir.join("data");
    std::fs::create_dir(&data).unwrap();
    let raw = Connection::open(data.join("fleet.db")).unwrap();
    raw.execute_batch(include_str!("../golden/imported.sql")).unwrap();
    let head = "SELECT head_seq, head_hash FROM store";
    let head: (i64, String) = raw.query_row(head, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    raw.close().unwrap();
    std::fs::write(data.join("fleet.db.witness"), json!({ "seq": head.0, "hash": head.1 }).to_string()).unwrap();
    let place = json!({ "seq": head.0, "hash": head.1, "at": "2026-11-27T22:05:28Z" });
    std::fs::write(data.join("told-command.json"), place.to_string()).unwrap();
}

/// The ids of the hosts that the database has.
fn kept(data: &Path) -> Vec<String> {
    let raw = Connection::open(data.join("fleet.db")).unwrap();
    let mut query = raw.prepare("SELECT hex(id) FROM host ORDER BY id").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn hosts_that_only_an_import_knew_are_forgotten_and_what_was_decided_stays() {
    let dir = dir();
    let data = dir.path().join("data");
    earlier(dir.path());
    assert_eq!(kept(&data).len(), 6);
    let server = Server::start(dir.path());
    // An operator held the second one. Nobody says what runs there, and it counts nowhere.
    let hosts = server.parsed(&["hosts"]);
    let hosts = hosts.as_array().unwrap();
    let of = |key: &str| hosts.iter().map(|host| host[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("host"), [json!("00000000-0000-4000-8000-000000000002")]);
    assert_eq!((of("held"), of("version"), of("last_seen")), (vec![json!(true)], vec![json!("")], vec![Value::Null]));
    assert_eq!(server.group("dev")["state"], "active");
    assert_eq!((&server.group("dev")["failed_count"], &server.group("dev")["timed_out_count"]), (&json!(0), &json!(0)));
    assert_eq!(
        server.json("/v1/webapi/find?group=dev&host=00000000-0000-4000-8000-000000000001")["agent_version"],
        "1.1.0"
    );
    // What was done is on record, and the record holds.
    let audit = server.ok(&["audit"]);
    assert!(audit.contains("import 6 instances") && audit.contains("agent has no updater"), "{audit}");
    server.ok(&["audit", "verify"]);
    assert_eq!(server.stop(), Some(0));
    let of_decisions = |id: &String| id.ends_with("02") || id.ends_with("01");
    assert!(kept(&data).iter().all(of_decisions), "{:?}", kept(&data));
    done(&program(&["doctor", "--config", "/dev/null", "--data", data.to_str().unwrap()]).output().unwrap());
}
