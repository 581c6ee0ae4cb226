//! Plans run on files of an image: done, undone, and taken up again after a kill.

mod database;
mod last;
mod outgoing;
mod prepare;
mod running;
mod steps;
mod unmanaged;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::journal::Journal;
use super::recovery::{self, Recovered};
use super::*;
use crate::host::process::tests::Child;
use crate::host::signal::Signals;
use crate::host::{Host, Layout};
use crate::plan::{Database, Node, Part, Placement, ServiceAction};
use crate::report::Report;
use crate::service::{Commands, HealthSettings, Service};
use protocol::{Edition, Revision};

/// Where the first evidence beside a snapshot is kept.
const EVIDENCE_BESIDE_SNAPSHOT: &str = "backup-failed";

/// An image with versions 1.0.0 and 2.0.0 of which the first is linked.
pub(super) struct Bed {
    dir: tempfile::TempDir,
    host: Host,
    layout: Layout,
    report: Report,
    signals: Signals,
}

impl Bed {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::current();
        let layout = Layout::new(dir.path(), None, None).unwrap();
        let report = Report::new(|name| host.var(name), &crate::cli::Global::default());
        let bed = Self { dir, host, layout, report, signals: Signals::never() };
        for version in ["1.0.0", "2.0.0"] {
            durable::create_dir_all(&bed.version(version).join("bin")).unwrap();
        }
        durable::create_dir_all(&bed.layout.link_dir).unwrap();
        durable::create_dir_all(durable::parent(&bed.db())).unwrap();
        durable::symlink(&bed.target("1.0.0"), &bed.agent()).unwrap();
        bed
    }

    pub(super) fn site(&self) -> Site<'_> {
        Site {
            host: &self.host,
            layout: &self.layout,
            report: &self.report,
            signals: &self.signals,
            service: Service::None,
            data_dir: self.layout.default_data_dir(),
            proxy: "p:443".into(),
            health: HealthSettings::default(),
            database_timeout: Duration::from_millis(200),
            busy_too_long: false,
            before_reload: Cell::default(),
            stopped_at: Cell::default(),
            down: RefCell::default(),
            restarted: Cell::default(),
            downtime: RefCell::default(),
            boot: false,
        }
    }

    /// The agent's link.
    fn agent(&self) -> PathBuf {
        self.layout.link_dir.join("teleport")
    }

    fn db(&self) -> PathBuf {
        self.layout.default_data_dir().join("proc/sqlite.db")
    }

    fn version(&self, version: &str) -> PathBuf {
        self.layout.versions.join(version)
    }

    /// What the agent's link leads to, as seen from inside the image.
    fn target(&self, version: &str) -> PathBuf {
        self.layout.path_inside(&self.version(version).join("bin/teleport"))
    }

    /// The step that moves the agent's link from 1.0.0 to 2.0.0.
    fn switch(&self) -> Step {
        let (was, now) = (Node::Link(self.target("1.0.0")), Node::Link(self.target("2.0.0")));
        let place = Placement { path: self.agent(), was, now, part: Part::Agent };
        Step::LinkAgent { place, evidence: "2.0.0".into() }
    }

    /// Runs `plan` to its commit.
    fn commit(&self, plan: &Plan) -> Option<Error> {
        self.commit_told(plan).0
    }

    /// Runs `plan` to its commit, and gives what the commit is told: the snapshot that was taken.
    fn commit_told(&self, plan: &Plan) -> (Option<Error>, Option<SnapshotId>) {
        let mut told = None;
        let mut commit_settings = |taken| {
            told = taken;
            Ok(Next { config: Some("next\n".into()), credentials: None })
        };
        let finished = run(&self.site(), plan, "update", &mut commit_settings, &mut |_| panic!("undone")).unwrap();
        (finished, told)
    }

    /// Runs `plan`, which fails just before its commit, after `last` has done something to the host, and is undone.
    fn fail(&self, plan: &Plan, last: impl Fn()) -> Undone {
        let mut commit_settings = |_| {
            last();
            Err(Error::new(Code::Io, "as asked"))
        };
        let undone = run(&self.site(), plan, "update", &mut commit_settings, &mut |_| {}).unwrap_err();
        assert!(undone.recovery.is_none(), "{undone:?}");
        undone
    }

    /// Runs `plan` and leaves it as a kill before its commit does, after `last` has done something to the host.
    fn kill(&self, plan: &Plan, last: impl Fn()) -> Journal {
        let mut journal = self.begin(plan);
        assert!(switch(&self.site(), plan, &mut journal).is_ok());
        last();
        self.reopen().unwrap()
    }

    fn begin(&self, plan: &Plan) -> Journal {
        let opening = Opening {
            root: self.layout.root.clone(),
            data_dir: self.layout.default_data_dir(),
            ..journal::tests::opening(plan)
        };
        Journal::create(&self.layout.versions, opening).unwrap()
    }

    /// Takes up the run that was cut short, and undoes it.
    fn recover(&self) {
        self.recover_at(&self.site());
    }

    fn recover_at(&self, site: &Site<'_>) {
        assert_eq!(recovery::run(site, self.reopen().unwrap(), &mut |_| {}).unwrap(), Recovered::Undone);
    }

    /// A service with these lines of shell; its pid file is `pid` in the image.
    fn commands(&self, start: &str, stop: &str, reload: Option<String>) -> Service {
        let pid_file = self.layout.root.join("pid");
        Service::Commands(Commands { start: start.into(), stop: Some(stop.into()), reload, pid_file })
    }

    /// Starts an agent of a version, which has the database open as agents have; it ends with the value.
    fn start_agent(&self, version: &str) -> Child {
        let binary = self.version(version).join("bin/teleport");
        durable::copy_synced(Path::new("/usr/bin/tail"), &binary, 0o755).unwrap();
        let database = File::options().read(true).write(true).create(true).truncate(false).open(self.db()).unwrap();
        Child::start_with(&binary, &["start", "-f", "/dev/null"], Some(database))
    }

    fn reopen(&self) -> Option<Journal> {
        Journal::open(&self.layout.versions, &self.layout.root).unwrap()
    }

    /// Every name in the image that is no directory, with owner, mode and content.
    fn tree(&self) -> Vec<String> {
        let mut found = Vec::new();
        list(self.dir.path(), &mut found);
        found.sort();
        found
    }
}

fn list(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            list(&path, found);
            continue;
        }
        let content = match std::fs::read_link(&path) {
            Ok(target) => format!("-> {}", target.display()).into_bytes(),
            Err(_) => std::fs::read(&path).unwrap(),
        };
        let what = String::from_utf8_lossy(&content).into_owned();
        found.push(format!("{} {:o} {}:{} {what:?}", path.display(), meta.mode(), meta.uid(), meta.gid()));
    }
}

fn revision(version: &str) -> Revision {
    Revision { version: version.parse().unwrap(), edition: Edition::Oss }
}

/// An update from 1.0.0 to 2.0.0 with these steps.
fn plan(switch: Vec<Step>) -> Plan {
    Plan {
        from: Some(revision("1.0.0")),
        to: Some(revision("2.0.0")),
        to_dir: Some("2.0.0".into()),
        service: ServiceAction::Reload,
        switch,
        ..Plan::none(Direction::Upgrade)
    }
}

fn snapshot(stopped: bool, dir: &str) -> Step {
    Step::Snapshot { dir: dir.into(), stopped, failed: false }
}

/// Fills a database as this agent would, and closes it.
fn write_rows(db: &Path, rows: &[&str]) {
    let agent = Connection::open(db).unwrap();
    agent.execute_batch("CREATE TABLE IF NOT EXISTS t(x)").unwrap();
    for row in rows {
        agent.execute("INSERT INTO t VALUES (?)", [row]).unwrap();
    }
}

fn rows(db: &Path) -> Vec<String> {
    let agent = Connection::open_with_flags(db, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut query = agent.prepare("SELECT x FROM t ORDER BY rowid").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(|row| row.unwrap()).collect()
}

fn inode(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).unwrap().ino()
}
