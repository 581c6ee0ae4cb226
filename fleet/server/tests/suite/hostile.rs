//! What strangers, broken disks and unlucky moments do to the server.
//!
//! Faults of the disk are injected by `strace`, the state of the data is changed by `sqlite3`, a full disk is a small tmpfs: where
//! this machine does not have one of them, or does not allow it, the test says so and ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{SOON, Server, dir, groups, refused, request, signal, version};

/// Requests that the tests send, in two spellings.
const ID: &str = "6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1ae1";
const ID_IN_CAPITALS: &str = "6C1F2A4E-4B0D-4D0E-9A53-0A7D0D1A1AE1";
/// Idle connections of a flood; fewer where the test may not have as many descriptors.
const IDLE: usize = 10_000;
/// Descriptors that the test, and the server, need for something else.
const OTHER_DESCRIPTORS: usize = 300;

/// Two groups, the first of which was started by hand.
fn started(dir: &Path) -> Server {
    let server = Server::start(dir);
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    server
}

/// One request on the admin socket; `None` where the server ended before its answer was whole.
fn admin(dir: &Path, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = UnixStream::connect(dir.join("admin.sock")).ok()?;
    stream.set_read_timeout(Some(SOON)).unwrap();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

fn command(dir: &Path, id: &str, command: &Value) -> Option<(u16, Value)> {
    admin(dir, "POST", "/v1/fleet/commands", &json!({ "id": id, "command": command }).to_string())
}

fn halt_all() -> Value {
    json!({ "halt": { "groups": [], "all": true } })
}

/// The states of the groups.
fn states(dir: &Path) -> Vec<String> {
    let (status, rollout) = admin(dir, "GET", "/v1/fleet/rollout", "").unwrap();
    assert_eq!(status, 200, "{rollout}");
    let groups = rollout["status"]["groups"].as_array().unwrap();
    groups.iter().map(|group| group["state"].as_str().unwrap().to_owned()).collect()
}

/// Version and update of a flat find.
fn find(server: &Server, query: &str) -> (String, bool) {
    let answer = server.json(&format!("/v1/webapi/find?{query}"));
    (answer["agent_version"].as_str().unwrap().to_owned(), answer["agent_auto_update"].as_bool().unwrap())
}

/// The groups of the hosts that are known, by their ids.
fn places(dir: &Path) -> BTreeMap<String, String> {
    let (_, hosts) = admin(dir, "GET", "/v1/fleet/hosts?limit=1000", "").unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    hosts["hosts"].as_array().unwrap().iter().map(|host| (text(&host["host"]), text(&host["group"]))).collect()
}

/// Waits until the server knows so many hosts.
fn until_known(server: &Server, dir: &Path, count: usize) {
    server.until("hosts are known", || places(dir).len() == count);
}

/// Waits until it is on record that this host is known in this group.
fn until_in(server: &Server, dir: &Path, host: &str, group: &str) {
    server.until("the host is placed", || places(dir).get(host).is_some_and(|found| found == group));
}

fn host(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Records of what was done under this name.
fn records(dir: &Path, action: &str) -> usize {
    let (_, page) = admin(dir, "GET", "/v1/fleet/audit?limit=1000", "").unwrap();
    let entries = page["entries"].as_array().unwrap();
    entries.iter().filter(|entry| entry["action"] == action && entry["done"] == true).count()
}

fn assert_audit_is_whole(dir: &Path) {
    let (status, verified) = admin(dir, "GET", "/v1/fleet/audit/verify", "").unwrap();
    assert_eq!((status, &verified["fault"]), (200, &Value::Null), "{verified}");
}

/// Whether a program is there; the test says what it does not do.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("not tested: there is no {program}");
    }
    found
}

/// System calls of a running server that fail. Kills are the injector's (`crash.rs`).
struct Fault(Child);

impl Fault {
    /// `None` where this machine does not allow it.
    fn inject(pid: u32, inject: &str) -> Option<Self> {
        if !has("strace") {
            return None;
        }
        let mut child = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-e", "trace=pwrite64,fsync,fdatasync,ftruncate", "-e"])
            .arg(format!("inject={inject}"))
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.contains("attached") {
            return Some(Self(child));
        }
        eprintln!("not tested: strace cannot attach: {line}");
        child.kill().ok();
        child.wait().ok();
        None
    }

    /// From now on everything works again.
    fn end(self) {
        drop(self);
    }

    /// Whether it has ended, within this time.
    fn ends_by_itself(&mut self, within: Duration) -> bool {
        let end = Instant::now() + within;
        loop {
            let has_ended = self.0.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || Instant::now() >= end {
                return has_ended;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        // Killed, it would leave its tracee stopped; one whose tracee dies while INT reaches it may wait for ever.
        if !self.ends_by_itself(Duration::ZERO) {
            signal(self.0.id(), "INT");
        }
        if !self.ends_by_itself(SOON) {
            self.0.kill().ok();
        }
        self.0.wait().ok();
    }
}

#[test]
fn a_halt_whose_sync_fails_is_refused_and_the_same_request_makes_it() {
    let dir = dir();
    let server = started(dir.path());
    let Some(fault) = Fault::inject(server.pid(), "fsync:error=EIO:when=1") else { return };
    let (status, refused) = command(dir.path(), ID, &halt_all()).unwrap();
    fault.end();
    assert_eq!((status, &refused["error"]["code"]), (503, &json!("store_unavailable")));
    let was_made = states(dir.path()).iter().all(|state| state == "halted");
    assert_eq!(records(dir.path(), "halt"), usize::from(was_made), "not half");
    assert_eq!(command(dir.path(), ID, &halt_all()).unwrap().0, 200);
    assert!(states(dir.path()).iter().all(|state| state == "halted"));
    assert_eq!(records(dir.path(), "halt"), 1);
    assert_audit_is_whole(dir.path());
    drop(server);
}

/// A mount that ends with the test.
struct Tmpfs(PathBuf);

impl Tmpfs {
    /// `None` where this process may not mount.
    fn mount(path: &Path) -> Option<Self> {
        std::fs::create_dir(path).unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs"])
            .arg(path)
            .stderr(Stdio::null())
            .status();
        if made.is_ok_and(|status| status.success()) {
            return Some(Self(path.to_owned()));
        }
        eprintln!("not tested: this process may not mount a tmpfs");
        None
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(&self.0).status().ok();
    }
}

#[test]
fn a_full_disk_refuses_decisions_in_one_line_and_what_was_freed_takes_them() {
    let dir = dir();
    let Some(_mount) = Tmpfs::mount(&dir.path().join("data")) else { return };
    let server = started(dir.path());
    let fill = dir.path().join("data/fill");
    let mut file = std::fs::File::create(&fill).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    // The log has room for some changes that were made before.
    let end = Instant::now() + SOON;
    let line = loop {
        let output = server.cli(&["autoupdate", "agents", "halt", "prod"]);
        if !output.status.success() {
            break refused(&output);
        }
        server.ok(&["autoupdate", "agents", "run", "prod"]);
        assert!(Instant::now() < end, "the disk is not full");
    };
    assert!(line.contains("space") || line.contains("store does not answer"), "{line}");
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    // Whoever asks is answered meanwhile.
    find(&server, "group=dev");
    drop(file);
    std::fs::remove_file(&fill).unwrap();
    server
        .until("decisions are made again", || server.cli(&["autoupdate", "agents", "halt", "--all"]).status.success());
    assert!(!find(&server, "group=dev").1);
    assert_audit_is_whole(dir.path());
}

/// How many descriptors a process of this test may have.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

#[test]
fn find_and_an_operator_are_answered_beside_ten_thousand_idle_and_half_requests() {
    let dir = dir();
    let server = started(dir.path());
    let count = IDLE.min(descriptors().saturating_sub(OTHER_DESCRIPTORS));
    let mut idle = Vec::new();
    for number in 0..count {
        let Ok(mut stream) = TcpStream::connect(server.addr) else { panic!("connection {number} of {count}") };
        let start: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET /webapi/find HT",
            2 => b"POST /v1/webapi/find HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf",
            _ => b"GET /webapi/find HTTP/1.1\r\nhost: x\r\n\r\n",
        };
        stream.write_all(start).ok();
        idle.push(stream);
    }
    assert_eq!(find(&server, "group=dev"), ("1.1.0".to_owned(), true));
    server.ok(&["autoupdate", "agents", "halt", "--all"]);
    assert!(!find(&server, "group=dev").1);
    assert_eq!(request(server.metrics, "GET", "/readyz", "", "").0, 200);
    drop(idle);
}

/// The bytes of an answer on a connection of its own.
fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    // It may answer before it has read everything.
    stream.write_all(bytes).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn broken_requests_are_client_errors_and_the_server_goes_on() {
    let dir = dir();
    let server = started(dir.path());
    let get = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n").into_bytes()
    };
    let cases: [(&str, Vec<u8>, &[u16]); 13] = [
        ("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaa\r\n\r\n".to_vec(), &[400]),
        ("a huge header", get("/webapi/find", &format!("a: {}\r\n", "x".repeat(200_000))), &[431]),
        ("many headers", get("/webapi/find", &"a: b\r\n".repeat(2000)), &[431]),
        ("a huge address", get(&format!("/webapi/find?{}", "x".repeat(200_000)), ""), &[414, 431]),
        ("two lengths", get("/webapi/find", "content-length: 5\r\ncontent-length: 6\r\n"), &[400]),
        ("chunks that are none", b"POST /v1/fleet/commands HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\nZZ\r\n".to_vec(), &[400, 401]),
        ("two slashes", get("//webapi/find", ""), &[404]),
        ("an encoded slash", get("/webapi%2ffind", ""), &[404]),
        ("no UTF-8", get("/v1/%ff/version", ""), &[404]),
        ("a path up", get("/../../etc/passwd", ""), &[404]),
        ("another method", b"BREW /webapi/find HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec(), &[405]),
        ("no token", get("/v1/fleet/hosts", ""), &[401]),
        ("a token that is none", get("/v1/fleet/hosts", "authorization: Bearer \u{1f600}\r\n"), &[401]),
    ];
    for (what, bytes, expected) in cases {
        let answer = raw(&server, &bytes);
        assert!(expected.contains(&status(&answer)), "{what}: {answer}");
    }
    assert_eq!(status(&raw(&server, b"GET http://elsewhere/webapi/find HTTP/1.0\r\n\r\n")), 200);
    let head = raw(&server, b"HEAD /webapi/find HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(status(&head) == 200 && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(find(&server, "group=dev"), ("1.1.0".to_owned(), true));
}

#[test]
fn of_many_writers_with_the_same_revision_one_writes() {
    let dir = dir();
    let server = started(dir.path());
    let (_, kept) = admin(dir.path(), "GET", "/v1/fleet/resources/autoupdate_config", "").unwrap();
    let text = kept[0]["yaml"].as_str().unwrap().to_owned();
    assert!(text.contains("revision"), "{text}");
    let write = |number: u32| {
        let body = json!({ "id": host(number), "how": "update", "text": text }).to_string();
        admin(dir.path(), "POST", "/v1/fleet/resources", &body).unwrap()
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=24).map(|number| scope.spawn(move || write(number))).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1, "{answers:?}");
    let is_stale = |answer: &&(u16, Value)| answer.1["error"]["code"] == "stale_revision";
    assert_eq!(answers.iter().filter(is_stale).count(), 23, "{answers:?}");
    drop(server);
}

#[test]
fn one_request_that_is_sent_by_many_at_once_acts_once() {
    let dir = dir();
    let server = started(dir.path());
    let answers: Vec<_> = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..16).map(|_| scope.spawn(|| command(dir.path(), ID, &halt_all()).unwrap())).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.0 == 200), "{answers:?}");
    assert_eq!(records(dir.path(), "halt"), 1);
    drop(server);
}

#[test]
fn what_strangers_call_themselves_reaches_no_terminal_as_control_characters() {
    let dir = dir();
    let server = started(dir.path());
    let hostile = "%1b%5b31m%07%0d%0a%c2%9b2J%7f";
    find(&server, &format!("host={}&group={hostile}", host(1)));
    until_known(&server, dir.path(), 1);
    let is_control = |char: char| char.is_control() && char != '\n';
    for words in [
        &["hosts"][..],
        &["hosts", "--format", "json"],
        &["hosts", "--format", "yaml"],
        &["host", &host(1)],
        &["explain", "--host", &host(1)],
        &["autoupdate", "agents", "report"],
        &["autoupdate", "agents", "status"],
    ] {
        let text = server.ok(words);
        assert!(!text.contains(is_control), "{words:?}: {text:?}");
    }
    let log = server.log();
    assert!(!log.contains(is_control), "{log:?}");
    let metrics = request(server.metrics, "GET", "/metrics", "", "").1;
    assert!(!metrics.contains(is_control) && !metrics.contains("31m"), "{metrics:?}");
}

#[test]
fn one_host_is_one_whatever_the_spelling_of_its_uuid() {
    let dir = dir();
    let server = started(dir.path());
    let id = "ABCDEF01-2345-4789-8ABC-DEF012345678";
    for spelled in [id.to_owned(), id.to_lowercase(), id.replace('-', "")] {
        find(&server, &format!("host={spelled}&group=dev"));
    }
    until_known(&server, dir.path(), 1);
    find(&server, &format!("host={}&group=dev", host(2)));
    until_known(&server, dir.path(), 2);
}

#[test]
fn a_dry_run_of_each_kind_writes_nothing() {
    let dir = dir();
    let server = started(dir.path());
    let revision =
        || admin(dir.path(), "GET", "/v1/fleet/resources/autoupdate_version", "").unwrap().1[0]["revision"].clone();
    let head = || admin(dir.path(), "GET", "/v1/fleet/audit/verify", "").unwrap().1;
    let before = (revision(), head(), states(dir.path()), find(&server, "group=dev"));
    for words in [
        &["create", "--force", "--dry-run", "-f", "-"][..],
        &["update", "--dry-run", "-f", "-"],
        &["rm", "autoupdate_version", "--dry-run"],
        &["autoupdate", "agents", "start-update", "prod", "--dry-run"],
        &["autoupdate", "agents", "mark-done", "dev", "--dry-run"],
        &["autoupdate", "agents", "rollback", "--dry-run"],
        &["autoupdate", "agents", "halt", "--all", "--dry-run"],
    ] {
        crate::support::done(&server.cli_with(words, &version("1.0.0", "1.2.0", "regular")));
        // Refused ones too.
        server.cli_with(&["create", "--dry-run", "-f", "-"], "kind: [");
        assert_eq!((revision(), head(), states(dir.path()), find(&server, "group=dev")), before, "{words:?}");
    }
}

#[test]
fn a_question_never_changes_what_a_caller_of_another_group_is_answered() {
    let dir = dir();
    let server = started(dir.path());
    let update_id = host(100);
    find(&server, &format!("host={}&group=dev&update_id={update_id}", host(1)));
    until_known(&server, dir.path(), 1);
    let stays = ("1.0.0".to_owned(), false);
    assert_eq!(find(&server, &format!("group=prod&update_id={update_id}")), stays, "an updater without a host id");
    assert_eq!(find(&server, &format!("host={}&group=prod&update_id={update_id}", host(2))), stays, "a copied host");
}

#[test]
fn a_stranger_does_not_move_a_host_into_a_group_that_is_let_go() {
    let dir = dir();
    let server = started(dir.path());
    let own = format!("host={}&group=prod", host(1));
    find(&server, &own);
    until_in(&server, dir.path(), &host(1), "prod");
    find(&server, &format!("host={}&group=dev", host(1)));
    until_in(&server, dir.path(), &host(1), "dev");
    assert_eq!(find(&server, &own), ("1.0.0".to_owned(), false), "it says itself that it is in prod");
}

#[test]
fn a_held_host_is_never_told_also_while_decisions_are_published() {
    let dir = dir();
    let server = started(dir.path());
    let question = format!("host={}&group=dev", host(1));
    find(&server, &question);
    until_known(&server, dir.path(), 1);
    server.ok(&["host", &host(1), "hold"]);
    assert!(!find(&server, &question).1);
    let end = Instant::now() + Duration::from_secs(60);
    let (addr, is_told) = (server.addr, std::sync::atomic::AtomicBool::new(false));
    let is_over = || Instant::now() > end || is_told.load(std::sync::atomic::Ordering::Relaxed);
    let ask = || {
        let mut stream = TcpStream::connect(addr).unwrap();
        let questions = format!("GET /v1/webapi/find?{question} HTTP/1.1\r\nhost: x\r\n\r\n").repeat(100);
        while !is_over() {
            stream.write_all(questions.as_bytes()).unwrap();
            let (mut answers, mut part) = (String::new(), [0; 16 << 10]);
            while answers.matches("\"why\"").count() < 100 {
                let length = stream.read(&mut part).unwrap();
                answers.push_str(std::str::from_utf8(&part[..length]).unwrap());
            }
            if answers.contains("\"agent_auto_update\":true") {
                is_told.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(ask)));
        let mut number = 10;
        while !is_over() {
            number += 1;
            // A refused command is a decision on record: everything is published anew.
            let start = json!({ "start": { "groups": ["none"], "force": false } });
            assert_eq!(command(dir.path(), &host(number), &start).unwrap().0, 404);
        }
    });
    assert!(!is_told.into_inner(), "an operator holds it, and it was told to update");
}

#[test]
fn an_id_that_another_command_had_is_refused() {
    let dir = dir();
    let server = started(dir.path());
    assert_eq!(command(dir.path(), ID, &json!({ "start": { "groups": ["prod"], "force": false } })).unwrap().0, 200);
    let (status, answer) = command(dir.path(), ID, &halt_all()).unwrap();
    assert!(status >= 400, "{answer}");
    drop(server);
}

#[test]
fn an_id_is_the_same_in_capitals() {
    let dir = dir();
    let server = started(dir.path());
    for id in [ID, ID_IN_CAPITALS] {
        assert_eq!(command(dir.path(), id, &halt_all()).unwrap().0, 200);
    }
    assert_eq!(records(dir.path(), "halt"), 1);
    drop(server);
}

#[test]
fn a_halt_that_is_durable_is_answered_also_after_a_fault_of_the_store() {
    let dir = dir();
    let server = started(dir.path());
    // The sync of the halt, and the one that would empty the log: it is in the log, and whole.
    let Some(fault) = Fault::inject(server.pid(), "fsync:error=EIO:when=1..2") else { return };
    assert_eq!(command(dir.path(), ID, &halt_all()).unwrap().0, 503);
    fault.end();
    server.until("the store answers", || command(dir.path(), ID, &halt_all()).is_some_and(|(status, _)| status == 200));
    assert!(states(dir.path()).iter().all(|state| state == "halted"));
    assert!(!find(&server, "group=dev").1, "the operator was told that it is halted");
}

#[test]
fn hosts_are_in_their_groups_also_after_a_fault_of_the_store() {
    let dir = dir();
    let server = started(dir.path());
    let question = format!("host={}&group=dev", host(1));
    find(&server, &question);
    until_in(&server, dir.path(), &host(1), "dev");
    // A decision takes along what hosts said before it.
    server.create(&version("1.0.0", "1.1.0", "regular"));
    let Some(fault) = Fault::inject(server.pid(), "fsync:error=EIO:when=1") else { return };
    let body = json!({ "id": ID, "how": "create", "text": version("1.0.0", "1.1.0", "regular") }).to_string();
    admin(dir.path(), "POST", "/v1/fleet/resources", &body);
    fault.end();
    server.until("the store answers", || admin(dir.path(), "GET", "/v1/fleet/rollout", "").is_some());
    assert_eq!(places(dir.path()).get(&host(1)).map(String::as_str), Some("dev"));
}

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
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
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
    crate::support::done(&server.cli_with(&["create", "--force", "--dry-run", "-f", "-"], &target));
    assert_eq!(places(dir.path())[&told], "dev");
}

#[test]
fn a_host_that_was_held_is_held_after_a_restore() {
    let dir = dir();
    let server = started(dir.path());
    let question = format!("host={}&group=dev", host(1));
    find(&server, &question);
    until_known(&server, dir.path(), 1);
    // A decision takes along what hosts said before it.
    server.create(&version("1.0.0", "1.1.0", "regular"));
    let backup = dir.path().join("backup.db");
    server.ok(&["backup", backup.to_str().unwrap()]);
    server.ok(&["host", &host(1), "hold"]);
    assert_eq!(server.stop(), Some(0));
    let restore = |words: &[&str]| {
        let mut command = crate::support::program(&["restore", backup.to_str().unwrap(), "--config", "/dev/null"]);
        command.arg("--data").arg(dir.path().join("data")).args(words).output().unwrap()
    };
    crate::support::done(&restore(&["--force"]));
    let server = Server::start(dir.path());
    server.ok(&["autoupdate", "agents", "run", "--all"]);
    assert!(!find(&server, &question).1, "nobody released it");
}

#[test]
fn a_halted_group_is_not_told_by_a_version_with_another_schedule() {
    let dir = dir();
    let server = started(dir.path());
    server.ok(&["autoupdate", "agents", "halt", "dev"]);
    server.create(&version("1.0.0", "1.2.0", "immediate"));
    assert!(!find(&server, "group=dev").1, "only `run` ends a halt");
}

#[test]
fn nothing_is_started_while_the_mode_is_suspended() {
    let dir = dir();
    let server = started(dir.path());
    server.create(&version("1.0.0", "1.1.0", "regular").replace("mode: enabled", "mode: suspended"));
    refused(&server.cli(&["autoupdate", "agents", "start-update", "prod", "--force"]));
    assert_eq!(states(dir.path()), ["active", "unstarted"]);
}

#[test]
fn a_host_is_assigned_to_no_group_that_does_not_exist() {
    let dir = dir();
    let server = started(dir.path());
    find(&server, &format!("host={}&group=prod", host(1)));
    until_known(&server, dir.path(), 1);
    let line = refused(&server.cli(&["host", &host(1), "assign", "porduction"]));
    assert!(line.contains("porduction") && line.contains("prod"), "{line}");
}

/// Runs SQL on the data beside the server; false where there is no `sqlite3`.
fn sql(dir: &Path, sql: &str) -> bool {
    if !has("sqlite3") {
        return false;
    }
    let mut command = Command::new("sqlite3");
    let output = command.args(["-cmd", ".timeout 5000"]).arg(dir.join("data/fleet.db")).arg(sql).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

#[test]
fn a_store_that_lost_decisions_holds_everything() {
    let dir = dir();
    let server = started(dir.path());
    if !sql(dir.path(), "CREATE TABLE before AS SELECT * FROM book") {
        return;
    }
    server.ok(&["autoupdate", "agents", "halt", "--all"]);
    // As a disk that lost its last writes, under a server that goes on.
    sql(dir.path(), "UPDATE book SET (revision, json) = (SELECT revision, json FROM before)");
    server.until("it noticed", || server.log().contains("another process wrote it"));
    server.until("it goes on", || request(server.addr, "GET", "/readyz", "", "").0 == 200);
    // A step publishes what was read.
    server.cli_with(&["create", "--force", "-f", "-"], &version("1.0.0", "1.1.0", "regular"));
    assert!(!find(&server, "group=dev").1, "nobody is let go before an operator says so");
}

#[test]
fn a_store_that_is_gone_is_noticed_also_where_the_clock_was_ahead() {
    let dir = dir();
    let server = started(dir.path());
    assert_eq!(server.stop(), Some(0));
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(30);
    if !sql(dir.path(), &format!("UPDATE book SET json = json_set(json, '$.last_step', '{later}')")) {
        return;
    }
    let server = Server::start(dir.path());
    std::fs::rename(dir.path().join("data"), dir.path().join("gone")).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while find(&server, "group=dev").1 {
        assert!(Instant::now() < end, "the store is gone for a minute, and hosts are told to update");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn hosts_that_only_ask_are_at_most_a_hundred_thousand() {
    const MOST: u32 = 100_000;
    let dir = dir();
    let server = started(dir.path());
    let mut stream = TcpStream::connect(server.addr).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    const BATCH: u32 = 50;
    for batch in 0..(MOST + 2000) / BATCH {
        let ask = |number| format!("GET /v1/webapi/find?host={}&group=dev HTTP/1.1\r\nhost: x\r\n\r\n", host(number));
        let questions: String = (batch * BATCH..(batch + 1) * BATCH).map(|number| ask(number + 1)).collect();
        stream.write_all(questions.as_bytes()).unwrap();
        for _ in 0..BATCH {
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(text) = line.strip_prefix("content-length: ") {
                    length = text.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
        }
    }
    let known = || -> u32 {
        let text = request(server.metrics, "GET", "/metrics", "", "").1;
        let line = text.lines().find(|line| line.starts_with("teleport_fleet_hosts ")).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    };
    // What is over is taken away two in a hundred at a time.
    server.until("all were heard of", || known() >= MOST - MOST / 50);
    let (_, page) = admin(dir.path(), "GET", "/v1/fleet/rollout", "").unwrap();
    assert!(known() <= MOST, "{} hosts are known: {page}", known());
}

#[test]
fn who_leaves_takes_a_forwarded_channel_from_nobody() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let (asked, was_asked) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        for stream in other.incoming().map_while(Result::ok) {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).ok();
            asked.send(()).ok();
            // Until the first who asked has left.
            gone.recv_timeout(SOON).ok();
            (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nv1.5.0\n").ok();
        }
    });
    let dir = dir();
    let server = Server::start(dir.path());
    server.create(&format!(
        "kind: fleet_channel\nversion: v1\nmetadata: {{name: st/cloud}}\nspec: {{forward_url: 'http://127.0.0.1:{port}/v1/x'}}\n"
    ));
    let mut stream = TcpStream::connect(server.addr).unwrap();
    stream.write_all(b"GET /v1/st/cloud/version HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    was_asked.recv_timeout(SOON).unwrap();
    drop(stream);
    // The server has noticed when it answers others beside; nothing else shows it.
    for _ in 0..20 {
        assert_eq!(server.get("/healthz").0, 200);
    }
    drop(go);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = server.get("/v1/st/cloud/version");
        if answer == (200, "1.5.0\n".to_owned()) {
            return;
        }
        assert!(Instant::now() < end, "{answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn each_bad_request_of_the_admin_api_is_an_error_in_json() {
    let dir = dir();
    let server = started(dir.path());
    let large = "x".repeat(3 << 20);
    let cases = [
        ("GET", "/v1/fleet/audit?limit=-1", ""),
        ("GET", "/v1/fleet/audit?after=x", ""),
        ("GET", "/v1/fleet/hosts/%ff", ""),
        ("GET", "/v1/fleet/resources/%ff", ""),
        ("DELETE", "/v1/fleet/resources/autoupdate_version?x=1", ""),
        ("POST", "/v1/fleet/resources", &large),
    ];
    for (method, path, body) in cases {
        let answer = admin(dir.path(), method, path, body);
        let Some((status, answer)) = answer else { panic!("{method} {path}: no JSON") };
        assert!((400..500).contains(&status) && answer["error"]["code"].is_string(), "{method} {path}: {answer}");
    }
    drop(server);
}
