//! A log or an output that cannot be written: its reader is gone, or its disk is full.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{SOON, Server, dir, done, groups, program, rolling, start, version};

/// The end of a pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A device on which no room is left.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

fn is_halted(server: &Server) -> bool {
    let status = server.parsed(&["autoupdate", "agents", "status"]);
    status["groups"].as_array().unwrap().iter().all(|group| group["state"] == "halted")
}

#[test]
fn a_server_whose_log_cannot_be_written_goes_on() {
    for log in [unread as fn() -> Stdio, full] {
        let dir = dir();
        std::fs::File::create(dir.path().join("log")).unwrap();
        let server = Server::with_log(dir.path(), &["--plain"], &[("RUST_LOG", "debug")], log());
        server.create(&format!("{}---\n{}", groups(&["dev"]), version("1.0.0", "1.1.0", "regular")));
        server.agents(&["halt", "--all"]);
        assert!(is_halted(&server));
        assert_eq!(server.stop(), Some(0));
    }
}

/// The status of a program whose output and errors nobody reads.
fn status_unread(mut command: Command) -> Option<i32> {
    command.stdout(unread()).stderr(unread()).status().unwrap().code()
}

#[test]
fn a_verb_whose_output_nobody_reads_ends_as_it_would() {
    let dir = dir();
    let bad = dir.path().join("bad.yaml");
    std::fs::write(&bad, "kind: autoupdate_config\nspec: {agents: {mode: maybe}}\n").unwrap();
    assert_eq!(status_unread(program(&["lint", "-f", bad.to_str().unwrap()])), Some(1));
    assert_eq!(status_unread(program(&["serve", "--plain", "--listen", "nowhere"])), Some(2));
    let backup = a_backup(dir.path());
    let data = dir.path().join("data");
    let words = ["restore", backup.to_str().unwrap(), "--force", "--config", "/dev/null", "--data"];
    let restore = || {
        let mut command = program(&words);
        command.arg(&data);
        command
    };
    assert_eq!(status_unread(restore()), Some(0));
    let output = restore().stdout(full()).stderr(Stdio::piped()).output().unwrap();
    assert!(said(&output).contains("was restored, and everything is held; cannot write the output"), "{output:?}");
    let mut doctor = program(&["doctor", "--config", "/dev/null", "--data"]);
    doctor.arg(&data);
    assert_eq!(status_unread(doctor), Some(0), "what it found is no problem");
    for words in [&["completion", "bash"][..], &["--help"], &["--version"], &["serve", "--help"]] {
        assert_eq!(status_unread(program(words)), Some(0), "{words:?}");
        let output = program(words).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        assert!(said(&output).contains("cannot write"), "{words:?}: {output:?}");
    }
}

fn a_backup(dir: &Path) -> std::path::PathBuf {
    let server = Server::start(dir);
    server.create(&groups(&["dev"]));
    let backup = dir.join("backup");
    server.ok(&["backup", backup.to_str().unwrap()]);
    assert_eq!(server.stop(), Some(0));
    backup
}

/// The line of something that failed.
fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The command line of a server, with an output on which no room is left.
fn on_full(dir: &Path, words: &[&str]) -> String {
    let mut command = program(words);
    command.arg("--admin-socket").arg(dir.join("admin.sock")).stdout(full()).stderr(Stdio::piped());
    said(&command.output().unwrap())
}

#[test]
fn what_was_done_is_said_where_the_output_cannot_be_written() {
    let (dir, server) = rolling(&["dev"]);
    let line = on_full(dir.path(), &["autoupdate", "agents", "halt", "--all"]);
    assert!(line.contains("the server has done it") && line.contains("cannot write the output"), "{line}");
    assert!(is_halted(&server));
    let line = on_full(dir.path(), &["autoupdate", "agents", "status"]);
    assert!(!line.contains("has done it"), "a look changes nothing: {line}");
    let line = on_full(dir.path(), &["autoupdate", "agents", "run", "--all", "--dry-run"]);
    assert!(!line.contains("has done it") && is_halted(&server), "a dry run changes nothing: {line}");
}

#[test]
fn a_token_whose_secret_cannot_be_written_is_removed() {
    let (dir, server) = start();
    for words in [&["tokens", "create", "ci", "--role", "viewer"][..], &["tokens", "join", "create", "new"]] {
        let line = on_full(dir.path(), words);
        assert!(line.contains("it was removed") && line.contains("cannot write the output"), "{words:?}: {line}");
    }
    for list in [&["tokens", "--format", "json"][..], &["tokens", "join", "--format", "json"]] {
        assert_eq!(done(&server.cli(list)).trim(), "[]", "{list:?}");
    }
}

#[test]
fn who_follows_from_a_number_that_is_not_there_yet_hears_what_comes() {
    let (_dir, server) = rolling(&["dev"]);
    let token = server.token("ci", "viewer");
    let mut stream = TcpStream::connect(server.addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let path = format!("/v1/fleet/events?after={}&follow=true", i64::MAX);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line.is_empty()), "no head");
    server.agents(&["halt", "dev"]);
    let first = lines.find(|line| line.contains("\"action\"")).expect("a record");
    assert!(first.contains("\"halt\"") && first.contains("group dev"), "{first}");
}
