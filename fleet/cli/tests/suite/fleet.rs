//! Hosts, events, audit, tokens, backup.

use crate::support::{Done, Reply, Server, group, rollout};
use proptest::prelude::*;
use serde_json::{Value, json};

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn host(id: &str) -> Value {
    json!({
        "host": id, "update_id": "u1", "group": "prod", "declared_group": "dev", "assigned_group": "prod",
        "labels": { "env": "staging", "arch": "x86_64" }, "version": "1.2.3", "state": "failed", "held": false,
        "pinned": true, "disabled": false, "last_seen": "2025-01-15T02:00:00Z", "last_outcome": "rolled_back",
        "last_target": "1.2.4", "error_code": "unhealthy", "failed_with": "unhealthy", "enrolled": true, "not_counted": "",
        "waiting_key": "",
    })
}

fn explained() -> Value {
    json!({
        "known": host(ID), "host": ID, "group": "prod", "state": "failed", "version": "1.2.3", "update": false,
        "why": { "code": "failed_here", "error": "unhealthy", "since": "2025-01-15T02:00:00Z",
                 "who": "operator", "advice": { "agent": "update_now" } },
        "until": null,
    })
}

fn entry(seq: u64) -> Value {
    json!({
        "seq": seq, "at": "2025-01-15T02:00:00Z", "who": "uid 0 (root)", "from": "admin socket", "action": "halt",
        "subject": "group prod", "done": seq != 2, "detail": {}, "before": "r1", "after": "r2", "previous": "p",
        "hash": "h",
    })
}

fn line(seq: u64) -> String {
    let refused = if seq == 2 { " REFUSED" } else { "" };
    format!("{seq} 2025-01-15 02:00:00 uid 0 (root) from admin socket: halt group prod{refused}; revision r1 -> r2\n")
}

fn page(seqs: &[u64], more: bool) -> Reply {
    Reply::json(&json!({ "entries": seqs.iter().map(|seq| entry(*seq)).collect::<Vec<_>>(), "more": more }))
}

fn stream(seqs: &[u64]) -> Vec<u8> {
    let lines: Vec<String> = seqs.iter().map(|seq| format!("{}\n", entry(*seq))).collect();
    lines.concat().into_bytes()
}

#[test]
fn events_are_followed_over_a_broken_connection_without_gap_or_repetition() {
    let server = Server::new([
        page(&[1], false),
        Reply::Cut(stream(&[2, 3])),
        Reply::Answer(200, stream(&[4])),
        Reply::refused(401, "unauthenticated", "the token has expired"),
    ]);
    let done = server.run(&["events", "--follow"]);
    assert_eq!(done.out, [line(1), line(2), line(3), line(4)].concat());
    assert_eq!((done.status, done.err.as_str()), (1, "error: the token has expired\n"));
    let paths: Vec<String> = server.asked().iter().skip(1).map(|asked| asked.path.clone()).collect();
    let follow = |after| format!("/v1/fleet/events?after={after}&follow=true");
    assert_eq!(paths, [follow(1), follow(3), follow(4)]);
}

#[test]
fn a_backup_is_written_here_once_and_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let copy = b"SQLite format 3\0and so on".to_vec();
    let server = Server::new([Reply::Answer(200, copy.clone())]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fleet.db");
    let name = file.to_str().unwrap();
    assert_eq!(server.run(&["backup", name]), Done::ok(&format!("backed up to {name}: {} bytes\n", copy.len())));
    let asked = server.asked().remove(0);
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/v1/fleet/backup"));
    assert_eq!(std::fs::read(&file).unwrap(), copy);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // It is there now, and stays.
    let again = server.run(&["backup", name]);
    assert!(again.err.contains("already"), "{again:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn what_is_no_copy_is_not_kept() {
    let server = Server::new([Reply::Answer(200, b"<html>".to_vec())]);
    let directory = tempfile::tempdir().unwrap();
    let done = server.run(&["backup", directory.path().join("fleet.db").to_str().unwrap()]);
    assert!(done.err.contains("no copy"), "{done:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Text as a hostile host sends it.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[\\x00-\\x1f\\x7f-\\x9fa\u{202e}\u{200b}]{0,12}"]
}

fn is_fit_for_a_terminal(text: &str) -> bool {
    !text.chars().any(|char| char.is_control() && char != '\n')
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_a_host_says_reaches_the_terminal_as_a_command(text in hostile(), other in hostile()) {
        let mut it = explained();
        for key in ["group", "declared_group", "assigned_group", "version", "state", "last_outcome", "last_target",
            "error_code", "failed_with", "update_id", "host"]
        {
            it["known"][key] = text.clone().into();
        }
        it["known"]["labels"] = json!({ text.clone(): other.clone() });
        for key in ["group", "state", "version", "host", "until"] {
            it[key] = other.clone().into();
        }
        it["why"]["error"] = text.clone().into();
        let hosts = json!({ "hosts": [it["known"].clone()], "more": false });
        let mut record = entry(1);
        for key in ["who", "from", "action", "subject", "before", "after"] {
            record[key] = text.clone().into();
        }
        record["detail"] = json!({ text.clone(): other.clone() });
        let records = json!({ "entries": [record], "more": false });
        let why = json!({ "code": "halted", "rule": "failed_threshold", "count": 1, "of": 2, "error": text.clone() });
        let more = json!({ "present_count": 1, "why": why });
        let rollout = rollout("halt-on-error", &other, vec![group(&text, &other, Some(&text), &other, &more)]);
        let counts = json!({ "at": null, "reports": 1, "expired": 0,
            "counts": [{ "group": text.clone(), "version": other.clone(), "count": 1 }],
            "omitted": [{ "count": 1, "reason": text.clone() }] });
        let refusal = Reply::refused(400, "bad_request", &text);
        for (reply, words) in [
            (Reply::json(&it), vec!["host", "x"]),
            (Reply::json(&it), vec!["explain", "--host", "x"]),
            (Reply::json(&hosts), vec!["hosts"]),
            (Reply::json(&records), vec!["audit"]),
            (Reply::json(&records), vec!["events"]),
            (Reply::json(&rollout), vec!["autoupdate", "agents", "status"]),
            (Reply::json(&rollout), vec!["autoupdate", "status"]),
            (Reply::json(&counts), vec!["autoupdate", "agents", "report"]),
            (refusal, vec!["approve", "x"]),
        ] {
            for format in ["text", "json", "yaml"] {
                let server = Server::new([reply.clone()]);
                let done = server.run(&[words.clone(), vec!["--format", format]].concat());
                // A tab commands nothing, and a block of YAML has no other way to write one.
                let out = if format == "yaml" { done.out.replace('\t', "") } else { done.out.clone() };
                prop_assert!(is_fit_for_a_terminal(&out), "{words:?} {format}: {out:?}");
                prop_assert!(is_fit_for_a_terminal(&done.err), "{words:?} {format}: {:?}", done.err);
                if format == "json" && words != ["audit"] && words != ["events"] {
                    prop_assert!(serde_json::from_str::<Value>(&done.out).is_ok(), "{words:?}: {}", done.out);
                }
            }
        }
    }
}
