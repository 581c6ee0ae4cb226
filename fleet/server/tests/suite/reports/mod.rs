//! Hosts report: who is believed, what a report moves, and what it does not (FLEET §5).

mod enrolment;
pub(crate) mod host;
mod hostile;
mod invented;
mod lives;
mod rollout;

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Server, dir, groups, request, version};
use host::{Host, epoch, post};

/// Two groups, the first of which was started by hand, from 1.0.0 to 1.1.0.
fn started(dir: &Path, words: &[&str]) -> Server {
    let server = Server::with(dir, words);
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    server
}

/// Group `dev` begins with two hosts, and the first comes to the end that halts it.
pub(crate) fn first_fails(server: &Server) -> Host {
    let epoch = epoch(server);
    let [first, second] = [Host::new(1, "dev"), Host::new(2, "dev")];
    for host in [&first, &second] {
        assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    }
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    for host in [&first, &second] {
        server.until("its turn has come", || host.asks(server, Some(epoch)).1);
        server.until("it was told", || state(server, host) == "told");
    }
    let failed = first.says(epoch, "1.0.0", Some(("rolled_back", "1.1.0", "unhealthy")));
    assert_eq!(first.sends(server.addr, &failed).0, 200);
    first
}

/// What the server knows of a host.
fn known(server: &Server, host: &Host) -> Value {
    serde_json::from_str(&server.ok(&["host", &host.id, "--format", "json"])).unwrap()
}

/// Its state in the rollout.
fn state(server: &Server, host: &Host) -> String {
    known(server, host)["state"].as_str().unwrap().to_owned()
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["code"].as_str().unwrap_or_default())
}

#[test]
fn a_report_is_shown_once_it_was_answered_also_after_a_kill() {
    let dir = dir();
    let server = started(dir.path(), &["--plain"]);
    let host = Host::new(1, "dev");
    let epoch = epoch(&server);
    let report = host.says(epoch, "1.0.0", Some(("rolled_back", "0.9.0", "unhealthy")));
    assert_eq!(host.sends(server.addr, &report), (200, json!({ "state": "taken" })));
    let shown = |server: &Server| {
        let known = known(server, &host);
        assert_eq!(known["known"]["version"], "1.0.0", "{known}");
        assert_eq!(known["known"]["enrolled"], true);
        assert_eq!(known["history"]["enrolled"], "open");
        assert_eq!(known["history"]["report"]["kernel"], "6.1.0");
        assert_eq!(known["history"]["changes"][0]["code"], "unhealthy");
        assert_eq!(known["history"]["changes"].as_array().unwrap().len(), 1);
    };
    shown(&server);
    server.kill();
    let server = Server::start(dir.path());
    shown(&server);
    // The same epoch and key go on, and the last number is known.
    assert_eq!(host::epoch(&server), epoch);
    assert_eq!(code(&host.sends(server.addr, &report)), (409, "old_sequence"));
    assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    let text = server.ok(&["host", &host.id]);
    assert!(text.contains("Kernel: 6.1.0") && text.contains("1.0.0 -> 0.9.0  rolled_back (unhealthy)"), "{text}");
}

#[test]
fn of_a_hosts_changes_the_last_fifty_are_kept_and_each_counts_once() {
    let dir = dir();
    let server = started(dir.path(), &["--plain"]);
    let epoch = epoch(&server);
    // A key reports six times at once: nine hosts have one change more than that.
    let host = Host::new(1, "dev");
    for number in 0..3 {
        let mut report = host.says(epoch, "1.0.0", Some(("failed", "0.9.0", "no_space")));
        report["last"]["at"] = format!("2026-01-05T12:00:0{}Z", number / 2).into();
        assert_eq!(host.sends(server.addr, &report).0, 200);
    }
    let changes = known(&server, &host)["history"]["changes"].as_array().unwrap().len();
    assert_eq!(changes, 2, "the first two reports have the same change");
}

#[test]
fn what_is_forged_replayed_reordered_or_out_of_bounds_is_refused_and_changes_nothing() {
    let dir = dir();
    let server = started(dir.path(), &["--plain"]);
    let (host, epoch) = (Host::new(1, "dev"), epoch(&server));
    let first = host.says(epoch, "1.0.0", None);
    let second = host.says(epoch, "1.0.0", None);
    assert_eq!(host.sends(server.addr, &second).0, 200);
    let before = known(&server, &host);
    let last = second["sequence"].as_u64().unwrap();
    let lie = host.says(epoch, "9.9.9", Some(("failed", "1.1.0", "lie")));
    let text = lie.to_string();
    let of_another = Host::new(2, "dev").signature(text.as_bytes());
    let signature = host.signature(text.as_bytes());
    let header = |value: &str| format!("teleport-fleet-signature: {value}\r\n");
    let other = lie.to_string().replace("9.9.9", "9.9.8");
    let large = format!("{text}{}", " ".repeat(16 << 10));
    for (what, headers, body, expected) in [
        ("no signature", String::new(), text.as_str(), (401, "bad_signature")),
        ("half a signature", header("v1 00"), &text, (401, "bad_signature")),
        ("another version of it", header(&signature.replace("v1", "v2")), &text, (401, "bad_signature")),
        ("another body", header(&signature), &other, (401, "bad_signature")),
        ("another key", header(&of_another), &text, (409, "key_conflict")),
        ("too large", header(&host.signature(large.as_bytes())), &large, (413, "too_large")),
        ("no JSON", header(&host.signature(b"{")), "{", (400, "bad_request")),
        ("no object", header(&host.signature(b"7")), "7", (400, "bad_request")),
    ] {
        assert_eq!(code(&post(server.addr, &headers, body)), expected, "{what}");
    }
    let replayed = host.sends(server.addr, &second);
    assert_eq!(code(&replayed), (409, "old_sequence"));
    assert_eq!((&replayed.1["epoch"], &replayed.1["sequence"]), (&json!(epoch), &json!(last)));
    assert_eq!(code(&host.sends(server.addr, &first)), (409, "old_sequence"), "it was sent earlier");
    let elsewhere = host.sends(server.addr, &host.says(epoch + 1, "9.9.9", None));
    assert_eq!(code(&elsewhere), (409, "other_epoch"));
    assert_eq!((&elsewhere.1["epoch"], &elsewhere.1["sequence"]), (&json!(epoch), &json!(last)));
    let mut after = known(&server, &host);
    // The second key is shown, and believed in nothing.
    assert_eq!(after["known"]["waiting_key"], Host::new(2, "dev").key().to_string());
    after["known"]["waiting_key"] = "".into();
    after["known"]["last_seen"] = before["known"]["last_seen"].clone();
    // The first look may come before the server's first step.
    after["why"]["since"] = before["why"]["since"].clone();
    assert_eq!(after, before);
    let (status, _) = request(server.addr, "GET", "/v1/webapi/agents/report", "", "");
    assert_eq!(status, 405);
}

#[test]
fn a_host_that_reports_too_often_is_told_when_to_come_again_and_no_other_host_is() {
    let dir = dir();
    let server = started(dir.path(), &["--plain"]);
    let (host, epoch) = (Host::new(1, "dev"), epoch(&server));
    let mut answers: Vec<(u16, String)> = Vec::new();
    for _ in 0..20 {
        let answer = host.sends(server.addr, &host.says(epoch, "1.0.0", None));
        let (status, code) = code(&answer);
        answers.push((status, code.to_owned()));
    }
    let refused = answers.iter().filter(|(status, code)| *status == 429 && code == "too_often").count();
    let taken = answers.iter().filter(|(status, _)| *status == 200).count();
    assert_eq!(taken + refused, 20, "{answers:?}");
    // Six at once, and one more for each ten seconds that this took.
    assert!(taken >= 6 && refused >= 1, "{answers:?}");
    let other = Host::new(2, "dev");
    assert_eq!(other.sends(server.addr, &other.says(epoch, "1.0.0", None)).0, 200);
}

#[test]
fn a_server_that_takes_no_reports_asks_for_none() {
    let dir = dir();
    let server = started(dir.path(), &["--plain", "--report-interval-seconds", "0"]);
    assert_eq!(server.json("/v1/webapi/find?group=dev")["fleet"]["report"], Value::Null);
    let host = Host::new(1, "dev");
    assert_eq!(code(&host.sends(server.addr, &host.says(1, "1.0.0", None))), (404, "not_wanted"));
}
