//! What was decided is not lost, is not half there, and does not happen twice.

use crate::support::{Server, refused, request, rolling, version};

const ID: &str = "6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1a01";

fn state(server: &Server, group: &str) -> String {
    let status = server.parsed(&["autoupdate", "agents", "status"]);
    let groups = status["groups"].as_array().unwrap();
    groups.iter().find(|found| found["name"] == group).unwrap()["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_command_that_is_sent_twice_acts_once() {
    let (_dir, server) = rolling(&["dev"]);
    let secret = server.token("ci", "operator");
    let bearer = format!("authorization: Bearer {secret}\r\ncontent-type: application/json\r\n");
    let body = format!("{{\"id\":\"{ID}\",\"command\":{{\"start\":{{\"groups\":[\"dev\"],\"force\":false}}}}}}");
    let post = || request(server.addr, "POST", "/v1/fleet/commands", &bearer, &body);
    let (first, second) = (post(), post());
    assert_eq!(first.0, 200, "{}", first.1);
    assert_eq!(first, second);
    let started = server.ok(&["events"]).lines().filter(|line| line.contains("start") && line.contains("ci")).count();
    assert_eq!(started, 1, "{}", server.ok(&["events"]));
}

#[test]
fn a_restored_backup_comes_up_held_and_does_not_go_over_newer_data_unasked() {
    let (dir, server) = rolling(&["dev"]);
    server.agents(&["start-update", "dev"]);
    let backup = dir.path().join("backup.db");
    server.ok(&["backup", backup.to_str().unwrap()]);
    server.create(&version("1.0.0", "1.2.0", "regular"));
    let data = dir.path().join("data");
    let restore = |words: &[&str]| {
        let mut command = crate::support::program(&["restore", backup.to_str().unwrap(), "--config", "/dev/null"]);
        command.arg("--data").arg(&data).args(words).output().unwrap()
    };
    let line = refused(&restore(&[]));
    assert!(!line.is_empty(), "the server runs");
    assert_eq!(server.stop(), Some(0));
    let line = refused(&restore(&[]));
    assert!(line.contains("--force"), "{line}");
    crate::support::done(&restore(&["--force"]));
    let server = Server::start(dir.path());
    assert_eq!(state(&server, "dev"), "halted");
    let find = server.json("/webapi/find");
    assert_eq!(find["auto_update"]["agent_auto_update"], false);
    server.agents(&["run", "--all"]);
    assert_eq!(server.json("/webapi/find")["auto_update"]["agent_version"], "1.1.0");
}
