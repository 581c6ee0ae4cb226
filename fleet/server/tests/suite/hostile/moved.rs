//! Hosts stay where they were told, and held, whatever comes between.

use std::path::Path;

use super::{admin, find, host, places, until_known};
use crate::support::{Server, dir, done, groups, version};

/// A configuration whose groups let half of their hosts go at a time.
fn capped() -> String {
    groups(&["dev", "prod"]).replace("start_hour:", "max_in_flight: 50%, start_hour:")
}

/// A server with four hosts in a capped group, one of which was told and calls itself another group's since: that host.
fn moved(dir: &Path) -> (Server, String) {
    let server = Server::start(dir);
    server.create(&format!("{}---\n{}", capped(), version("1.0.0", "1.1.0", "regular")));
    for number in 1..=4 {
        find(&server, &format!("host={}&group=dev", host(number)));
    }
    until_known(&server, dir, 4);
    server.agents(&["start-update", "dev"]);
    let told = || (1..=4).map(host).find(|host| find(&server, &format!("host={host}&group=dev")).1);
    server.until("one is let go", || told().is_some());
    let told = told().unwrap();
    let state = || admin(dir, "GET", &format!("/v1/fleet/hosts/{told}"), "").unwrap().1["state"].clone();
    server.until("it is marked", || state() == "told");
    let known = || admin(dir, "GET", &format!("/v1/fleet/hosts/{told}"), "").unwrap().1["known"].clone();
    find(&server, &format!("host={told}&group=prod"));
    server.until("it says that it moved", || known()["declared_group"] == "prod");
    assert_eq!(places(dir)[&told], "dev", "it was told: it stays for this rollout");
    (server, told)
}

#[test]
fn a_restart_moves_no_host_that_was_told() {
    let dir = dir();
    let (server, told) = moved(dir.path());
    // What a host said is durable within a second; at an end in order all of it is.
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    assert_eq!(places(dir.path())[&told], "dev");
    drop(server);
}

#[test]
fn a_dry_run_moves_no_host_that_was_told() {
    let dir = dir();
    let (server, told) = moved(dir.path());
    let target = version("1.0.0", "1.2.0", "regular");
    done(&server.cli_with(&["create", "--force", "--dry-run", "-f", "-"], &target));
    assert_eq!(places(dir.path())[&told], "dev");
}
