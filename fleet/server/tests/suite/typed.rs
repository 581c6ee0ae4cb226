//! What an operator typed: names that there are not, kinds that nobody writes, and where a copy goes.

use std::os::unix::fs::PermissionsExt;

use crate::support::{misused, program, refused, rolling};

#[test]
fn a_backup_goes_to_standard_output_whole_and_alone() {
    let (dir, server) = rolling(&["dev", "prod"]);
    let mut command = program(&["backup", "-", "--admin-socket"]);
    let output = command.arg(dir.path().join("admin.sock")).current_dir(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!dir.path().join("-").exists());
    let copy = dir.path().join("copy");
    std::fs::write(&copy, &output.stdout).unwrap();
    let count: i64 = rusqlite::Connection::open(&copy)
        .unwrap()
        .query_row("SELECT count(*) FROM resource", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 2);
    drop(server);
}

#[test]
fn what_the_server_makes_is_neither_removed_nor_edited_and_kinds_that_there_are_not_are_told() {
    let (dir, server) = rolling(&["dev", "prod"]);
    let editor = dir.path().join("editor");
    std::fs::write(&editor, format!("#!/bin/sh\ntouch {}\n", dir.path().join("opened").display())).unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |words: &[&str]| {
        let mut command = program(words);
        command.arg("--admin-socket").arg(dir.path().join("admin.sock")).env("EDITOR", &editor);
        refused(&command.output().unwrap())
    };
    for verb in ["rm", "edit"] {
        let line = run(&[verb, "autoupdate_agent_rollout"]);
        assert!(line.contains("is made by the server and cannot be written"), "{verb}: {line}");
        for what in ["nope", "nope/x"] {
            let line = run(&[verb, what]);
            assert!(line.contains("there is no kind \"nope\": kinds are autoupdate_config"), "{verb} {what}: {line}");
        }
    }
    assert!(!dir.path().join("opened").exists(), "the editor was opened");
    assert!(server.ok(&["get", "autoupdate_agent_rollout"]).contains("1.1.0"));
}

#[test]
fn a_name_that_cannot_be_one_is_not_said_again() {
    let (_dir, server) = rolling(&["dev", "prod"]);
    let long = "a".repeat(100_000);
    let line = misused(&server.cli(&["explain", "--host", &long]));
    assert!(line.contains("a text of 100000 bytes is no host's name") && line.len() < 200, "{line}");
    let line = refused(&server.cli(&["autoupdate", "agents", "halt", &long]));
    assert!(line.contains("a text of 100000 characters is no group's name") && line.len() < 200, "{line}");
    let line = refused(&server.cli(&["autoupdate", "agents", "halt", &"ä".repeat(255)]));
    assert!(!line.contains("no group's name"), "255 characters, as the document of the API says: {line}");
    let records = server.ok(&["audit", "--format", "json"]);
    assert!(records.contains("no group's name") && records.len() < 20_000, "{} bytes", records.len());
    let line = misused(&server.cli(&["hosts", "--version", "nope"]));
    assert!(line.contains("\"nope\" is not a version"), "{line}");
    assert!(server.ok(&["hosts", "--version", "1.0.0"]).contains("No host"));
}
