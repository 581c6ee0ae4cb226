//! A real PostgreSQL server for a test: started in a directory of its own, and ended with the value.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Until a server must have begun to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    dir: TempDir,
    server: Option<Child>,
    /// Where it listens, on loopback.
    pub port: u16,
    /// Its options, one `NAME=VALUE` each.
    options: Vec<String>,
}

impl Postgres {
    /// An empty server with these options (`fsync=off`); `None`, and said: PostgreSQL is not installed here.
    pub fn start(options: &[&str]) -> Option<Self> {
        Self::start_in(&std::env::temp_dir(), options)
    }

    /// The same with its files below `parent`.
    pub fn start_in(parent: &Path, options: &[&str]) -> Option<Self> {
        if bin().is_none() {
            eprintln!("skipped: there is no PostgreSQL (tests/setup.sh packages)");
            return None;
        }
        let dir = tempfile::tempdir_in(parent).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let made = run("initdb", &["--no-sync", "-A", "trust", "-U", "fleet", "-D"], &dir.path().join("data"));
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let mut server = Self { dir, server: None, port: free_port(), options };
        server.begin();
        Some(server)
    }

    /// A standby that follows this one by streaming replication.
    pub fn standby(&self) -> Self {
        let dir = tempfile::tempdir_in(self.dir.path().parent().unwrap()).unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let port = self.port.to_string();
        let words = [
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "fleet",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
            "-D",
        ];
        let copied = run("pg_basebackup", &words, &dir.path().join("data"));
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let mut server = Self { dir, server: None, port: free_port(), options: self.options.clone() };
        server.begin();
        server
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        let promoted = run("pg_ctl", &["promote", "-w", "-D"], &self.data());
        assert!(promoted.status.success(), "{}", String::from_utf8_lossy(&promoted.stderr));
    }

    /// Starts it, also after [`Postgres::kill`], at the same port.
    pub fn begin(&mut self) {
        let until = Instant::now() + PATIENCE;
        self.server = Some(self.spawn());
        while self.sql("postgres", "SELECT 1").is_err() {
            assert!(Instant::now() < until, "PostgreSQL does not begin");
            std::thread::sleep(Duration::from_millis(50));
            // What was left of it by `kill -9` may be there still.
            if self.has_ended() {
                self.server = Some(self.spawn());
            }
        }
    }

    fn spawn(&self) -> Child {
        let mut command = as_user(&bin().unwrap().join("postgres"));
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string(), "-k", ""]);
        for option in ["listen_addresses=127.0.0.1", "max_connections=60", "log_min_messages=fatal"] {
            command.args(["-c", option]);
        }
        for option in &self.options {
            command.args(["-c", option]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.server.as_mut().is_none_or(|server| server.try_wait().is_ok_and(|status| status.is_some()))
    }

    /// `kill -9` of its first process; the others end by themselves.
    pub fn kill_hard(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Ends it at once, as a power cut does.
    pub fn kill(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // Immediate shutdown: no checkpoint, and its children end as well.
        let pid = rustix::process::Pid::from_child(&server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        let _ = server.wait();
    }

    /// Its process, for signals.
    pub fn pid(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// A new database, and its address.
    pub fn database(&self, name: &str) -> String {
        self.sql("postgres", &format!("CREATE DATABASE {name}")).unwrap();
        self.url(name)
    }

    /// The address of a database.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://fleet@127.0.0.1:{}/{name}", self.port)
    }

    /// What psql prints: values of a row with `|` between.
    ///
    /// # Errors
    /// What it says where it fails.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let psql = Command::new(bin().unwrap().join("psql"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "fleet", "-XAtq", "-v", "ON_ERROR_STOP=1"])
            .env("PGOPTIONS", "-c search_path=teleport_fleet")
            .args(["-d", database, "-c", sql])
            .output();
        let psql = psql.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if psql.status.success() { Ok(text(&psql.stdout)) } else { Err(text(&psql.stderr)) }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where the programs are: Debian has each version in a directory of its own.
fn bin() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.retain(|bin| bin.join("postgres").exists());
    found.sort();
    found.pop()
}

/// It does not run as root; and it ends with the test, however that ends.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", "postgres", "--regid", "postgres", "--init-groups"]);
    }
    command.arg(program);
    command
}

fn run(program: &str, words: &[&str], dir: &Path) -> Output {
    as_user(&bin().unwrap().join(program)).args(words).arg(dir).current_dir("/").output().unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
