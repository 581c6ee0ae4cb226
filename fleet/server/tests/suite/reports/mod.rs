//! Hosts report: who is believed, what a report moves, and what it does not (FLEET §5).

pub(crate) mod host;
mod hostile;
mod invented;
mod kubernetes;
mod needs;
mod rollout;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Server, dir, rolling};
use host::{Host, epoch, together};

/// Two groups, the first of which was started by hand, from 1.0.0 to 1.1.0.
fn started() -> (TempDir, Server) {
    started_with(&["--plain"])
}

/// The same with these words on the command line.
fn started_with(words: &[&str]) -> (TempDir, Server) {
    let dir = dir();
    let server = Server::with(dir.path(), words);
    server.rolls(&["dev", "prod"]);
    server.agents(&["start-update", "dev"]);
    (dir, server)
}

/// Hosts that report that they run the start version, in a group that starts then, so that each is told to update.
fn told_by(server: &Server, count: u8) -> (Vec<Host>, u64) {
    let epoch = epoch(server);
    let hosts: Vec<Host> = (1..=count).map(|number| Host::new(number, "dev")).collect();
    together(&hosts, |host| assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200));
    server.agents(&["start-update", "dev"]);
    for host in &hosts {
        server.until("its turn has come", || host.asks(server, Some(epoch)).1);
    }
    server.until("all were told", || hosts.iter().all(|host| state(server, host) == "told"));
    (hosts, epoch)
}

/// A server whose group `dev` goes on, and its hosts: all were told to update.
fn told(count: u8) -> (TempDir, Server, Vec<Host>, u64) {
    let (dir, server) = rolling(&["dev", "prod"]);
    let (hosts, epoch) = told_by(&server, count);
    (dir, server, hosts, epoch)
}

/// Group `dev` begins with two hosts, and the first comes to the end that halts it.
pub(crate) fn first_fails(server: &Server) -> Host {
    let (mut hosts, epoch) = told_by(server, 2);
    let first = hosts.swap_remove(0);
    let failed = first.says(epoch, "1.0.0", Some(("rolled_back", "1.1.0", "unhealthy")));
    assert_eq!(first.sends(server.addr, &failed).0, 200);
    first
}

/// What the server knows of a host.
fn known(server: &Server, host: &Host) -> Value {
    server.parsed(&["host", &host.id])
}

/// Its state in the rollout.
fn state(server: &Server, host: &Host) -> String {
    known(server, host)["state"].as_str().unwrap().to_owned()
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["code"].as_str().unwrap_or_default())
}

#[test]
fn of_a_hosts_changes_the_last_fifty_are_kept_and_each_counts_once() {
    let (_dir, server) = started();
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
fn a_host_that_reports_too_often_is_told_when_to_come_again_and_no_other_host_is() {
    let (_dir, server) = started();
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
