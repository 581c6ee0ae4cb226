//! Nodes, their database, and what is between.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::observer::Observer;
use crate::crash::fleet::http::{self, Answer, On, Request};
use crate::postgres::Postgres;
use crate::proxy::Proxy;

/// Hosts of each group, and how many of them may be on their way: 30 %.
pub(super) const HOSTS: usize = 10;
/// See [`HOSTS`].
pub(super) const CAP: usize = 3;
/// Groups, none of which starts by itself.
pub(super) const GROUPS: [&str; 2] = ["dev", "prod"];
/// Until a host or an operator asks another node.
const PATIENCE: Duration = Duration::from_secs(4);
/// Until what comes soon is there, on a loaded machine.
pub(super) const SOON: Duration = Duration::from_secs(60);
/// Room for a node's notes, and for a database and its standby, KiB: what fills it is not much.
const ROOM: (u32, u32) = (4 << 10, 512 << 10);

/// How fast all goes, in milliseconds, at least and at most.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Between two questions of a host.
    pub(super) asks: (u64, u64),
    /// An update.
    pub(super) updates: (u64, u64),
    /// Between two commands.
    pub(super) commands: (u64, u64),
    /// Between two faults.
    pub(super) pauses: (u64, u64),
    /// How long a fault lasts.
    pub(super) lasts: (u64, u64),
    /// How long faults happen in a rollout.
    pub(super) troubled: Duration,
    /// Between two reports without news.
    pub(super) reports: Duration,
    /// A group may go back, and on again.
    pub(super) turns: bool,
    /// The first node is never killed: its memory is measured.
    pub(super) spares_first: bool,
}

/// A server.
#[derive(Debug)]
pub(super) struct Node {
    program: PathBuf,
    pub(super) dir: Room,
    store: Option<String>,
    child: Mutex<Option<Child>>,
    address: RwLock<String>,
    pub(super) proxy: Option<Proxy>,
}

/// A directory, on a file system of its own where that can be mounted.
#[derive(Debug)]
pub(super) struct Room {
    dir: TempDir,
    is_mounted: bool,
}

impl Room {
    fn new(kib: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={kib}k,mode=777");
        let is_mounted = done("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"], dir.path());
        Self { dir, is_mounted }
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Takes all room that is left; false: that would be the whole disk's.
    pub(super) fn fill(&self) -> bool {
        if self.is_mounted {
            let mut file = std::fs::File::create(self.path().join("filler")).unwrap();
            while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        }
        self.is_mounted
    }

    pub(super) fn free(&self) {
        let _ = std::fs::remove_file(self.path().join("filler"));
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.is_mounted {
            done("umount", &["-l"], self.dir.path());
        }
    }
}

fn done(program: &str, words: &[&str], path: &Path) -> bool {
    let run = Command::new(program).args(words).arg(path).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

impl Node {
    fn new(program: &Path, proxy: Option<Proxy>) -> Self {
        let store = proxy.as_ref().map(|proxy| format!("postgres://fleet@127.0.0.1:{}/fleet", proxy.port));
        let dir = Room::new(if proxy.is_some() { ROOM.0 } else { ROOM.1 });
        let (child, address) = (Mutex::default(), RwLock::default());
        Self { program: program.to_owned(), dir, store, child, address, proxy }
    }

    /// Starts it, as often as it must be. Only by the thread that lives longest: it ends with that.
    pub(super) fn begin(&self) -> bool {
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            if self.try_begin() {
                return true;
            }
        }
        false
    }

    fn try_begin(&self) -> bool {
        let ready = self.dir.path().join("ready");
        let _ = std::fs::remove_file(&ready);
        let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log"));
        let log = log.map_or_else(|_| Stdio::null(), Stdio::from);
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&self.program).env("RUST_BACKTRACE", "1");
        command.args([
            "serve",
            "--plain",
            "--config",
            "/dev/null",
            "--listen",
            "127.0.0.1:0",
            "--metrics",
            "127.0.0.1:0",
        ]);
        for (flag, name) in [("--data", "data"), ("--admin-socket", "admin.sock"), ("--ready-file", "ready")] {
            command.arg(flag).arg(self.dir.path().join(name));
        }
        // Others are not counted.
        command.args(["--enrolment", "token"]);
        command.args(self.store.iter().flat_map(|store| ["--store", store]));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let end = Instant::now() + SOON;
        while Instant::now() < end {
            let said = std::fs::read_to_string(&ready).unwrap_or_default();
            if let Some((address, _)) = said.strip_suffix('\n').and_then(|line| line.split_once(' ')) {
                *self.address.write().unwrap() = address.to_owned();
                *self.child.lock().unwrap() = Some(child);
                return true;
            }
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        std::thread::sleep(Duration::from_millis(200));
        false
    }

    /// `kill -9`.
    pub(super) fn kill(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Whether it runs.
    pub(super) fn runs(&self) -> bool {
        let mut child = self.child.lock().unwrap();
        child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_none()))
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.lock().unwrap().as_ref().map(Child::id)
    }

    /// One request; `None`: no answer came in time, or not all of it.
    pub(super) fn ask(&self, request: &Request) -> Option<Answer> {
        match request.on {
            On::Admin => http::on_socket(&self.dir.path().join("admin.sock"), request, 2 * PATIENCE),
            On::Public => http::on_address(&self.address.read().unwrap().clone(), request, PATIENCE),
        }
    }

    /// What it answers to a question of an operator; `None`: it does not, now.
    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.ask(&Request::get(path)).filter(|answer| answer.status == 200).map(|answer| answer.json())
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A primary, its standby, and where their files are.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) primary: Postgres,
    pub(super) standby: Option<Postgres>,
    pub(super) room: Room,
}

impl Database {
    /// `None`, and said: there is no PostgreSQL here.
    fn start() -> Option<Self> {
        let room = Room::new(ROOM.1);
        // What is killed here are processes, not machines.
        let options = ["fsync=off", "max_wal_size=64MB", "min_wal_size=32MB", "wal_keep_size=32MB"];
        let primary = Postgres::start_in(room.path(), &options)?;
        primary.database("fleet");
        let standby = Some(primary.standby());
        Some(Self { primary, standby, room })
    }

    /// Waits until the standby has all that the primary has; one that lost its way is made anew.
    pub(super) fn follow(&mut self) {
        let end = Instant::now() + SOON / 6;
        while !self.is_followed() {
            if Instant::now() > end {
                self.standby = Some(self.primary.standby());
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_followed(&self) -> bool {
        let at = |server: &Postgres| server.sql("fleet", "SELECT change FROM store").ok();
        self.standby.as_ref().is_some_and(|standby| at(standby).is_some() && at(standby) == at(&self.primary))
    }

    /// The standby takes the place of the primary, which is killed, and nodes come to it.
    pub(super) fn fail_over(&mut self, nodes: &[Node]) {
        self.primary.kill_hard();
        let mut standby = self.standby.take().unwrap();
        if standby.has_ended() {
            standby.begin();
        }
        standby.promote();
        nodes.iter().filter_map(|node| node.proxy.as_ref()).for_each(|proxy| proxy.lead_to(standby.port));
        self.primary = standby;
    }
}

/// All of it.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) observer: Observer,
    pub(super) nodes: Vec<Node>,
    /// With which hosts enrol.
    pub(super) token: String,
    /// What each host runs.
    pub(super) versions: Mutex<Vec<String>>,
    /// Held while a command is sent, or while none may be.
    pub(super) commands: Mutex<()>,
    /// Hosts fail, and operators command.
    pub(super) is_troubled: AtomicBool,
    pub(super) has_ended: AtomicBool,
}

impl World {
    /// So many nodes on one PostgreSQL; or one with a file. `None`, and said: there is no PostgreSQL here.
    pub(super) fn start(program: &Path, plan: Plan, nodes: usize, seed: u64) -> Option<(Self, Option<Database>)> {
        let database = if nodes > 1 { Some(Database::start()?) } else { None };
        let proxy = |number| database.as_ref().map(|database| Proxy::start(database.primary.port, seed + number));
        let nodes: Vec<Node> = (0..nodes).map(|number| Node::new(program, proxy(number as u64))).collect();
        for node in &nodes {
            assert!(node.begin(), "a node does not start: {}", node.log());
        }
        let made =
            json!({ "id": "00000000-0000-4000-8000-000000000001", "name": "all", "expires": null, "group": null });
        let made = nodes[0].ask(&Request::post("/v1/fleet/join-tokens", &made)).unwrap().json();
        let world = Self {
            token: made["secret"].as_str().unwrap().to_owned(),
            observer: Observer::new(CAP, plan.turns),
            plan,
            nodes,
            versions: Mutex::new(vec!["1.0.0".to_owned(); HOSTS * GROUPS.len()]),
            commands: Mutex::default(),
            is_troubled: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        };
        Some((world, database))
    }

    /// Waits for what comes soon; false, which is a violation: it does not.
    pub(super) fn until(&self, what: &str, is_so: impl Fn() -> bool) -> bool {
        let end = Instant::now() + SOON;
        while !is_so() {
            if Instant::now() > end {
                self.observer.violation(format!("not within {SOON:?}: {what}"));
                return false;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        true
    }
}
