//! Hosts that somebody invents: what they can move by the way in which hosts enrol.

use serde_json::json;

use super::host::{Host, epoch, together};
use super::known;
use crate::support::{Server, dir, groups, version};

/// Real hosts.
const REAL: u8 = 10;

/// A server with ten hosts that enrolled with a token, and a rollout that goes back where too many fail.
fn with_hosts(dir: &std::path::Path, enrolment: &str) -> (Server, Vec<Host>, u64) {
    let server = Server::with(dir, &["--plain", "--enrolment", enrolment]);
    let on_halt = if enrolment == "open" { "" } else { "on_halt: rollback, " };
    let config = groups(&["dev"]).replace("name: dev,", &format!("name: dev, {on_halt}max_failed_before_halt: 20%,"));
    server.create(&format!("{config}---\n{}", version("1.0.0", "1.1.0", "regular")));
    let (secret, epoch) = (server.ok(&["tokens", "join", "create", "real"]).trim().to_owned(), epoch(&server));
    let hosts: Vec<Host> = (1..=REAL).map(|number| Host::new(number, "dev")).collect();
    let joins = |host: &Host| host.joins(server.addr, &host.says(epoch, "1.0.0", None), &secret).0;
    assert_eq!(together(&hosts, joins), [200; REAL as usize]);
    (server, hosts, epoch)
}

/// They fail, and say so; the statuses of their reports.
fn fail(server: &Server, hosts: &[Host], epoch: u64) -> Vec<u16> {
    fail_with(server, hosts, epoch, "lie")
}

fn fail_with(server: &Server, hosts: &[Host], epoch: u64, code: &str) -> Vec<u16> {
    let failed = Some(("rolled_back", "1.1.0", code));
    together(hosts, |host| host.sends(server.addr, &host.says(epoch, "1.0.0", failed)).0)
}

fn invented(numbers: std::ops::Range<u8>) -> Vec<Host> {
    numbers.map(|number| Host::new(number, "dev")).collect()
}

#[test]
fn under_token_and_approve_invented_hosts_move_nothing_before_and_after_the_start() {
    for (enrolment, status) in [("token", 403), ("approve", 202)] {
        let dir = dir();
        let (server, hosts, epoch) = with_hosts(dir.path(), enrolment);
        let [early, late] = [100..120, 120..140].map(invented);
        assert_eq!(fail(&server, &early, epoch), [status; 20], "{enrolment}");
        server.agents(&["start-update", "dev"]);
        assert_eq!(fail(&server, &late, epoch), [status; 20], "{enrolment}");
        assert_eq!(fail(&server, &early, epoch), [status; 20], "{enrolment}");
        // Nor do their successes: who is invented is present nowhere.
        let succeeds = |host: &Host| host.sends(server.addr, &host.says(epoch, "1.1.0", None)).0;
        assert_eq!(together(&early, succeeds), [status; 20], "{enrolment}");
        let before = server.group("dev");
        assert_eq!(before["state"], "active", "{enrolment}: {before}");
        let counts =
            ["initial_count", "present_count", "up_to_date_count", "failed_count"].map(|count| before[count].clone());
        assert_eq!(counts, [json!(REAL), json!(REAL), json!(0), json!(0)], "{enrolment}");
        // Two of ten real ones are no more than a fifth; the third is.
        assert_eq!(fail(&server, &hosts[..2], epoch), [200; 2]);
        assert_eq!(server.group("dev")["state"], "active", "{enrolment}");
        assert_eq!(fail(&server, &hosts[2..3], epoch), [200]);
        server.until("the group goes back", || {
            server.steps();
            server.group("dev")["state"] == "rolledback"
        });
        let report = server.agents(&["report"]);
        assert!(!report.contains("110"), "{enrolment}: {report}");
    }
}

/// What is wrong with an archive is no reason to leave a version that runs (DIRECTIVES §5.3).
#[test]
fn hosts_that_find_other_bytes_than_their_signers_mean_halt_a_group_and_send_nobody_back() {
    let dir = dir();
    let (server, hosts, epoch) = with_hosts(dir.path(), "token");
    server.agents(&["start-update", "dev"]);
    assert_eq!(fail_with(&server, &hosts[..3], epoch, "tuf_mismatch"), [200; 3]);
    server.until("the group halts", || {
        server.steps();
        server.group("dev")["state"] == "halted"
    });
    // A second kind of failure, of two hosts, would.
    assert_eq!(fail_with(&server, &hosts[3..6], epoch, "unhealthy"), [200; 3]);
    server.until("the group goes back", || {
        server.steps();
        server.group("dev")["state"] == "rolledback"
    });
}

/// Whoever comes first is trusted: so it is the default, and `doctor` says so. But nobody is sent back by it.
#[test]
fn under_open_invented_hosts_count_that_were_there_before_the_start_and_no_others() {
    let dir = dir();
    let (server, hosts, epoch) = with_hosts(dir.path(), "open");
    let early = invented(100..105);
    assert_eq!(together(&early, |host| host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0), [200; 5]);
    server.agents(&["start-update", "dev"]);
    let late = invented(120..150);
    assert_eq!(fail(&server, &late, epoch), [200; 30]);
    assert_eq!(fail(&server, &early[..3], epoch), [200; 3]);
    assert_eq!(known(&server, &late[0])["state"], "failed", "it is shown beside");
    assert_eq!(server.group("dev")["state"], "active", "three of fifteen are a fifth");
    assert_eq!(fail(&server, &early[3..4], epoch), [200]);
    server.steps();
    server.until("the group halts", || server.group("dev")["state"] == "halted");
    assert_eq!((&server.group("dev")["why"]["count"], &server.group("dev")["why"]["of"]), (&json!(4), &json!(15)));
    assert_ne!(known(&server, &hosts[0])["state"], "failed");
    // What would let them decide more is refused where it is written.
    let config = groups(&["dev"]).replace("name: dev,", "name: dev, on_halt: rollback,");
    let output = server.cli_with(&["create", "--force", "-f", "-"], &config);
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("on_halt") || !output.status.success(), "{told}");
}
