//! What was decided is not lost, is not half there, and does not happen twice.

use crate::support::{Server, refused, restore, rolling, version};

fn state(server: &Server, group: &str) -> String {
    let status = server.parsed(&["autoupdate", "agents", "status"]);
    let groups = status["groups"].as_array().unwrap();
    groups.iter().find(|found| found["name"] == group).unwrap()["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_restored_backup_comes_up_held_and_does_not_go_over_newer_data_unasked() {
    let (dir, server) = rolling(&["dev"]);
    server.agents(&["start-update", "dev"]);
    let backup = dir.path().join("backup.db");
    server.ok(&["backup", backup.to_str().unwrap()]);
    server.create(&version("1.0.0", "1.2.0", "regular"));
    let restore = |words: &[&str]| restore(dir.path(), &backup, words);
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
