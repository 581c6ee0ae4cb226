//! What was decided is not lost, is not half there, and does not happen twice.

use std::time::Instant;

use serde_json::Value;

use crate::support::{Server, dir, groups, refused, request, signal, version};

const ID: &str = "6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1a01";

fn state(server: &Server, group: &str) -> String {
    let status: Value =
        serde_json::from_str(&server.ok(&["autoupdate", "agents", "status", "--format", "json"])).unwrap();
    let groups = status["groups"].as_array().unwrap();
    groups.iter().find(|found| found["name"] == group).unwrap()["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_hold_survives_kill_9_a_new_target_and_a_restart_and_run_ends_it() {
    let dir = dir();
    let server = Server::start(dir.path());
    server.create(&format!("{}---\n{}", groups(&["dev"]), version("1.0.0", "1.1.0", "regular")));
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    server.ok(&["autoupdate", "agents", "halt", "--all"]);
    server.kill();
    let server = Server::start(dir.path());
    assert_eq!(state(&server, "dev"), "halted");
    assert_eq!(server.json("/webapi/find")["auto_update"]["agent_auto_update"], false);
    server.create(&version("1.0.0", "1.2.0", "regular"));
    let line = refused(&server.cli(&["autoupdate", "agents", "start-update", "dev"]));
    assert!(line.contains("halted") && line.contains("run"), "{line}");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    assert_eq!(server.json("/webapi/find")["auto_update"]["agent_auto_update"], false);
    server.ok(&["autoupdate", "agents", "run", "--all"]);
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    assert_eq!(server.json("/webapi/find")["auto_update"]["agent_version"], "1.2.0");
    assert_eq!(server.json("/webapi/find")["auto_update"]["agent_auto_update"], true);
    let past = server.ok(&["rollouts"]);
    let row: Vec<_> = past.lines().nth(3).unwrap().split_whitespace().collect();
    assert_eq!((&row[..4], &row[6..]), (&["1", "1.0.0", "1.1.0", "regular"][..], &["halted", "dev", "halted"][..]));
}

/// Kills at many moments of many decisions: each that was answered is there, none is half there, the audit is whole.
#[test]
fn kill_9_between_decisions_loses_none_that_was_answered() {
    let dir = dir();
    let mut answered = 0_u32;
    let server = Server::start(dir.path());
    server.create(&format!("{}---\n{}", groups(&["dev"]), version("1.0.0", "1.1.0", "regular")));
    drop(server);
    for round in 0..12_u32 {
        let server = Server::start(dir.path());
        let known: u32 =
            server.json("/webapi/find")["auto_update"]["agent_version"].as_str().unwrap()[2..3].parse().unwrap();
        assert!(known == 0 || known == 1, "only versions that a rollout named");
        let pid = server.pid();
        let socket = dir.path().join("admin.sock");
        let killer = std::thread::spawn(move || {
            let end = Instant::now() + std::time::Duration::from_millis(u64::from(round) * 37);
            while Instant::now() < end {
                std::thread::yield_now();
            }
            signal(pid, "KILL");
        });
        // Until it is killed.
        loop {
            let next = answered + 1;
            let channel = format!(
                "kind: fleet_channel\nversion: v1\nmetadata: {{name: c{next}}}\nspec: {{static_version: 1.0.{next}}}\n"
            );
            let mut create =
                crate::support::program(&["create", "-f", "-", "--admin-socket", socket.to_str().unwrap()]);
            let mut child = create
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), channel.as_bytes()).ok();
            if !child.wait().unwrap().success() {
                break;
            }
            answered = next;
        }
        killer.join().unwrap();
        drop(server);
        let server = Server::start(dir.path());
        for number in 1..=answered {
            assert_eq!(
                server.get(&format!("/v1/c{number}/version")),
                (200, format!("1.0.{number}\n")),
                "round {round}"
            );
        }
        // One may have been decided and not answered.
        let next = answered + 1;
        if server.get(&format!("/v1/c{next}/version")).1 == format!("1.0.{next}\n") {
            answered += 1;
        }
        let verified: Value = serde_json::from_str(&server.ok(&["audit", "verify", "--format", "json"])).unwrap();
        assert_eq!(verified["fault"], Value::Null, "{verified}");
    }
    assert!(answered > 3, "{answered} decisions");
}

#[test]
fn a_command_that_is_sent_twice_acts_once() {
    let dir = dir();
    let server = Server::start(dir.path());
    server.create(&format!("{}---\n{}", groups(&["dev"]), version("1.0.0", "1.1.0", "regular")));
    let token = server.ok(&["tokens", "create", "ci", "--role", "operator"]);
    let secret = token.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap().to_owned();
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
    let dir = dir();
    let server = Server::start(dir.path());
    server.create(&format!("{}---\n{}", groups(&["dev"]), version("1.0.0", "1.1.0", "regular")));
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
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
    server.ok(&["autoupdate", "agents", "run", "--all"]);
    assert_eq!(server.json("/webapi/find")["auto_update"]["agent_version"], "1.1.0");
}
