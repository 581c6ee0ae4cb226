//! Really starts the toy agent, and moves it on to a second version through a link.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

const PATIENCE: Duration = Duration::from_secs(20);

struct Host {
    directory: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn install(&self, version: &str, behaviour: &str, schema: u32) -> PathBuf {
        let directory = self.path(version);
        std::fs::create_dir_all(&directory).unwrap();
        let mut program = std::fs::read(env!("CARGO_BIN_EXE_toy-agent")).unwrap();
        let trailer =
            format!("\nTOYAGENT {{\"version\":\"{version}\",\"behaviour\":\"{behaviour}\",\"schema\":{schema}}}\n");
        program.extend(trailer.as_bytes());
        let path = directory.join("teleport");
        std::fs::write(&path, program).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    fn link(&self, version: &str) {
        let temporary = self.path("link.tmp");
        symlink(self.path(version).join("teleport"), &temporary).unwrap();
        std::fs::rename(temporary, self.path("teleport")).unwrap();
    }

    fn command(&self) -> Command {
        std::fs::write(self.path("teleport.yaml"), format!("teleport:\n  data_dir: {}\n", self.path("data").display()))
            .unwrap();
        let mut command = Command::new(self.path("teleport"));
        command
            .arg("start")
            .arg("--config")
            .arg(self.path("teleport.yaml"))
            .arg(format!("--pid-file={}", self.path("teleport.pid").display()))
            .stdout(Stdio::null());
        command
    }

    fn start(&self) -> Agent {
        Agent(self.command().spawn().unwrap())
    }

    fn readyz(&self) -> Option<(u16, i32)> {
        let mut stream = UnixStream::connect(self.path("data/debug.sock")).ok()?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: unix\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        let pid = answer.rsplit("\"pid\":").next()?.trim_end_matches('}').parse().ok()?;
        Some((status, pid))
    }

    fn pid_file(&self) -> Option<i32> {
        std::fs::read_to_string(self.path("teleport.pid")).ok()?.trim().parse().ok()
    }

    fn versions(&self) -> Vec<String> {
        let connection = Connection::open(self.path("data/proc/sqlite.db")).unwrap();
        let mut query = connection.prepare("SELECT version FROM rows ORDER BY id").unwrap();
        query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

/// Whatever a test leaves running is ended with it.
struct Agent(Child);

impl Agent {
    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn wait_for<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(found) = seen() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("waited in vain for {what}");
}

fn version(program: &Path) -> Output {
    Command::new(program).arg("version").output().unwrap()
}

#[test]
fn it_says_its_version_and_a_helper_its_own_name() {
    let host = Host::new();
    let program = host.install("15.1.1", "healthy", 1);
    assert_eq!(version(&program).stdout, b"Teleport v15.1.1 git:v15.1.1-0-g0000000 go1.23\n");
    let tsh = program.with_file_name("tsh");
    std::fs::hard_link(&program, &tsh).unwrap();
    assert!(version(&tsh).stdout.starts_with(b"Tsh v15.1.1 "));
    let helper = program.with_file_name("fdpass-teleport");
    std::fs::hard_link(&program, &helper).unwrap();
    assert_eq!(version(&helper).status.code(), Some(1));
}

#[test]
fn a_reload_through_a_moved_link_ends_in_the_new_version() {
    let host = Host::new();
    host.install("1.0.0", "healthy", 1);
    host.install("2.0.0", "healthy", 2);
    host.link("1.0.0");
    let mut agent = host.start();
    let old = agent.pid();
    wait_for("the first version", || (host.readyz() == Some((200, old))).then_some(()));
    wait_for("its pid file", || (host.pid_file() == Some(old)).then_some(()));

    host.link("2.0.0");
    signal(old, Signal::HUP);
    let status = wait_for("the parent's end", || agent.0.try_wait().unwrap());
    assert!(status.success());
    let new = host.pid_file().unwrap();
    assert_ne!(new, old);
    assert_eq!(host.readyz(), Some((200, new)));
    assert_eq!(host.versions(), ["1.0.0", "2.0.0"]);

    signal(new, Signal::TERM);
    wait_for("the child's end", || host.pid_file().is_none().then_some(()));
    wait_for("its process", || test_kill_process(Pid::from_raw(new).unwrap()).is_err().then_some(()));
}

#[test]
fn when_the_new_process_dies_the_old_one_goes_on() {
    let host = Host::new();
    host.install("2.0.0", "healthy", 2);
    host.install("1.0.0", "healthy", 1);
    host.link("2.0.0");
    let mut agent = Agent(host.command().stderr(Stdio::piped()).spawn().unwrap());
    let old = agent.pid();
    wait_for("the pid file", || (host.pid_file() == Some(old)).then_some(()));

    // Schema 1 cannot read what schema 2 has written.
    host.link("1.0.0");
    signal(old, Signal::HUP);
    let errors = BufReader::new(agent.0.stderr.take().unwrap());
    let said: Vec<String> = errors.lines().map(Result::unwrap).take(2).collect();
    assert!(said[0].contains("database is newer"), "{said:?}");
    assert!(said[1].contains("the old one goes on"), "{said:?}");
    assert_eq!(host.pid_file(), Some(old));
    assert_eq!(host.readyz(), Some((200, old)));

    // The old process still listens to reloads.
    host.link("2.0.0");
    signal(old, Signal::HUP);
    let new = wait_for("the new process", || host.pid_file().filter(|pid| *pid != old));
    signal(new, Signal::TERM);
    wait_for("its end", || host.pid_file().is_none().then_some(()));
}

#[test]
fn a_process_that_is_never_ready_answers_503() {
    let host = Host::new();
    host.install("1.0.0", "never-ready", 1);
    host.link("1.0.0");
    let agent = host.start();
    let (status, pid) = wait_for("an answer", || host.readyz());
    assert_eq!((status, pid), (503, agent.pid()));
    assert_eq!(host.pid_file(), None);
}
