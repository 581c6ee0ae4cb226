//! A disk that fails, is full, or has lost what was written.
//!
//! Faults are injected by `strace`, the state of the data is changed by `sqlite3`, a full disk is a small tmpfs: where this machine
//! does not have one of them, or does not allow it, the test says so and ends.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    ID, admin, assert_audit_is_whole, command, find, halt_all, has, host, places, records, started, states, until_in,
};
use crate::support::{SOON, Server, dir, refused, signal, version};

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
    let (dir, server) = started();
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

#[test]
fn a_halt_that_is_durable_is_answered_also_after_a_fault_of_the_store() {
    let (dir, server) = started();
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
    let (dir, server) = started();
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
    let server = Server::start(dir.path());
    server.rolls(&["dev", "prod"]);
    server.agents(&["start-update", "dev"]);
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
        server.agents(&["run", "prod"]);
        assert!(Instant::now() < end, "the disk is not full");
    };
    assert!(line.contains("space") || line.contains("store does not answer"), "{line}");
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    assert!(line.contains("not decided yet: the server tries until it is"), "{line}");
    assert!(!line.contains("would forget it"), "{line}");
    // Whoever asks is answered meanwhile, and at once nobody is allowed to update.
    assert!(!find(&server, "group=dev").1);
    drop(file);
    std::fs::remove_file(&fill).unwrap();
    let is_halted = || server.agents(&["status", "--format", "json"]).contains("manual_halt");
    server.until("the halt is decided, though nobody asks again", is_halted);
    server.until("others are told again", || find(&server, "group=dev").1);
    assert_audit_is_whole(dir.path());
}

#[test]
fn a_stop_that_waits_is_shown_and_a_restart_holds_everything_until_it_is_run() {
    let (dir, server) = started();
    let (lock, away) = (dir.path().join("data/fleet.lock"), dir.path().join("lock"));
    std::fs::rename(&lock, &away).unwrap();
    let line = refused(&server.cli(&["autoupdate", "agents", "halt", "dev"]));
    assert!(line.contains("not decided yet") && !line.contains("would forget it"), "{line}");
    let shown = server.agents(&["status"]);
    assert!(shown.contains("a stop waits for the store: until it is decided, no host is allowed to update"), "{shown}");
    let json = server.parsed(&["autoupdate", "agents", "status"]);
    assert_eq!(json["stop_waits"], true, "{json}");
    assert!(server.get("/readyz").1.contains("a stop waits for the store"));
    server.kill();
    std::fs::rename(&away, &lock).unwrap();
    let server = Server::start(dir.path());
    assert!(!find(&server, "group=dev").1, "{}", server.log());
    let shown = server.agents(&["status"]);
    assert!(!shown.contains("a stop waits") && states(dir.path()).iter().all(|state| state == "halted"), "{shown}");
    assert_eq!(records(dir.path(), "store_lost"), 1);
    server.agents(&["run", "--all"]);
    assert!(find(&server, "group=dev").1);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    assert!(find(&server, "group=dev").1, "it was decided");
    assert_audit_is_whole(dir.path());
}

#[test]
fn a_stop_of_which_no_note_can_be_left_says_that_a_restart_would_forget_it_and_one_that_is_decided_leaves_none() {
    let (dir, server) = started();
    let lock = dir.path().join("data/fleet.lock");
    let away = dir.path().join("data/away");
    std::fs::rename(&lock, &away).unwrap();
    assert!(!refused(&server.cli(&["autoupdate", "agents", "halt", "dev"])).contains("would forget it"));
    std::fs::rename(&away, &lock).unwrap();
    let is_halted = || server.agents(&["status", "--format", "json"]).contains("manual_halt");
    server.until("the halt is decided", is_halted);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    assert_eq!(records(dir.path(), "store_lost"), 0);
    let (_, holds) = admin(dir.path(), "GET", "/v1/fleet/holds", "").unwrap();
    assert_eq!(holds["all"], false, "{holds}");
    // Something else has the name of the note.
    std::fs::rename(dir.path().join("data/fleet.lock"), &away).unwrap();
    let spare = dir.path().join("data/fleet.db.spare");
    std::fs::remove_file(&spare).unwrap();
    std::fs::create_dir(dir.path().join("data/fleet.db.stop-waits")).unwrap();
    let line = refused(&server.cli(&["autoupdate", "agents", "halt", "prod"]));
    assert!(line.contains("would forget it"), "{line}");
}

/// Runs SQL on the data beside the server; false where there is no `sqlite3`.
pub(crate) fn sql(dir: &Path, sql: &str) -> bool {
    if !has("sqlite3") {
        return false;
    }
    let mut command = Command::new("sqlite3");
    let output = command.args(["-cmd", ".timeout 5000"]).arg(dir.join("data/fleet.db")).arg(sql).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    true
}

/// Status, explanation and resource say that the store does not answer, as `find` does.
fn assert_everything_shows_it(server: &Server) {
    let shown = |words: &[&str]| server.ok(words);
    let line = "\nthe server does not reach its store: until it does, no host is allowed to update\n";
    for words in [&["autoupdate", "agents", "status"][..], &["autoupdate", "status"]] {
        assert!(shown(words).contains(line), "{}", shown(words));
        let json: Value = serde_json::from_str(&shown(&[words, &["--format", "json"]].concat())).unwrap();
        assert_eq!(json["store_unavailable"]["code"], "store_unavailable", "{json}");
    }
    let json: Value = serde_json::from_str(&shown(&["get", "autoupdate_agent_rollout", "--format", "json"])).unwrap();
    let rollout = json.get(0).unwrap_or(&json);
    assert_eq!(rollout["status"]["store_unavailable"]["code"], "store_unavailable", "{json}");
    let host = "00000000-0000-4000-8000-000000000001";
    let json: Value = serde_json::from_str(&shown(&["explain", "--host", host, "--format", "json"])).unwrap();
    assert_eq!((&json["update"], &json["why"]["code"]), (&json!(false), &json!("store_unavailable")), "{json}");
    assert!(!json["why"].to_string().contains("1970"), "{json}");
}

#[test]
fn a_clock_that_is_behind_the_last_decision_is_named_wherever_nobody_is_told_to_update() {
    let (dir, server) = started();
    let host = host(1);
    assert!(find(&server, &format!("host={host}&group=dev")).1);
    assert_eq!(server.stop(), Some(0));
    let ahead =
        (jiff::Timestamp::now() + jiff::SignedDuration::from_mins(30)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if !sql(dir.path(), &format!("UPDATE book SET json = json_set(json, '$.last_step', '{ahead}')")) {
        return;
    }
    let server = Server::start(dir.path());
    assert!(!find(&server, &format!("host={host}&group=dev")).1);
    let (status, body) = server.get("/readyz");
    let said = ahead.replace('T', " ").replace('Z', " UTC");
    assert!(
        status == 503 && body.contains(&format!("the clock is behind the last decision, which is of {said}")),
        "{body}"
    );
    let line = format!("the server's clock is behind its last decision, which is of {said}");
    for words in [&["autoupdate", "agents", "status"][..], &["autoupdate", "status"], &["explain", "--host", &host]] {
        let shown = server.ok(words);
        assert!(shown.contains(&line) && !shown.contains("does not reach its store"), "{words:?}: {shown}");
    }
    let json = server.parsed(&["explain", "--host", &host]);
    assert_eq!((&json["update"], &json["why"]["code"]), (&json!(false), &json!("store_unavailable")), "{json}");
    assert_eq!(server.get("/v1/dev/version"), (200, "none\n".to_owned()));
    assert_eq!(server.get("/v1/dev/critical"), (200, "no".to_owned()));
}

#[test]
fn a_store_that_is_gone_is_noticed_also_where_the_clock_was_ahead() {
    let (dir, server) = started();
    assert_eq!(server.stop(), Some(0));
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(30);
    if !sql(dir.path(), &format!("UPDATE book SET json = json_set(json, '$.last_step', '{later}')")) {
        return;
    }
    let server = Server::start(dir.path());
    std::fs::rename(dir.path().join("data"), dir.path().join("gone")).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while find(&server, "group=dev").1 {
        assert!(Instant::now() < end, "the store is gone for a minute, and hosts are allowed to update");
        std::thread::sleep(Duration::from_millis(200));
    }
    // Until then it is the clock that keeps everybody.
    server.until("it is noticed", || server.log().contains("the store failed"));
    let (status, body) = server.get("/readyz");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["error"]["code"]), (503, &json!("store_unavailable")), "{body}");
    assert_everything_shows_it(&server);
    let gone = dir.path().join("gone");
    let doctor = server.cli(&["doctor", "--data", gone.to_str().unwrap()]);
    let said = String::from_utf8(doctor.stdout).unwrap();
    assert!(
        !doctor.status.success() && said.contains("is not ready: nobody new is allowed to update: the store has not"),
        "{said}"
    );
    // It never confirmed anything, and says no year for that.
    assert!(said.contains("since this server started: look at its log\n"), "{said}");
}
