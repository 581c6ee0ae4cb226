//! Snapshots and restoration with real SQLite files.

use std::cell::Cell;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::backup::{self, Backup, Content, DATABASE_FILE, DESCRIPTION_FILE};
use super::restore::{prepare, prepare_by_link};
use super::snapshot::Snapshot;
use super::*;
use crate::host::durable;
use crate::host::process::FileId;
use crate::host::signal::Cancelled;
use crate::report::{Code, Error, Result};
use protocol::{Edition, Revision};

mod evidence;
mod online;
mod owners;
mod restored;
mod stopped;

/// A host with an agent's database and room for snapshots.
struct Bed {
    dir: tempfile::TempDir,
    revision: Revision,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        durable::create_dir_all(&dir.path().join("proc")).unwrap();
        Self { dir, revision: Revision { version: "15.1.0".parse().unwrap(), edition: Edition::Enterprise } }
    }

    /// With a database in this journal mode that nobody has open any more, and the snapshot of it.
    fn with_snapshot(mode: &str, rows: i64) -> (Self, Backup) {
        let bed = Self::new();
        drop(bed.agent(mode, rows));
        let backup = bed.online().unwrap().backup;
        (bed, backup)
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("proc/sqlite.db")
    }

    fn snapshot(&self) -> PathBuf {
        self.dir.path().join("snapshot")
    }

    fn prepared(&self) -> PathBuf {
        restore::prepared_path(&self.db())
    }

    /// A database in this journal mode with rows 1 to `rows`; its connection stays open like an agent's.
    fn agent(&self, mode: &str, rows: i64) -> Connection {
        let agent = Connection::open(self.db()).unwrap();
        agent.busy_timeout(Duration::from_secs(10)).unwrap();
        agent
            .execute_batch(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE t(id INTEGER PRIMARY KEY, x)"))
            .unwrap();
        add(&agent, rows);
        agent
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            proxy: "p:443",
            revision: &self.revision,
            host: None,
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
            failed: false,
        }
    }

    fn online(&self) -> Result<Snapshot> {
        self.online_with(&|| false)
    }

    fn online_with(&self, cancelled: Cancelled<'_>) -> Result<Snapshot> {
        snapshot_online(&self.db(), &self.snapshot(), &self.subject(), false, &Pace { cancelled, ..PACE })
    }

    /// As an undo takes what the failed version wrote.
    fn failed(&self) -> Result<Backup> {
        take_failed(&self.db(), &self.snapshot(), &Subject { failed: true, ..self.subject() }, &PACE)
    }

    /// What the snapshot holds, after checking that it is complete, single and as described.
    fn taken(&self) -> Vec<i64> {
        assert_eq!(names(&self.snapshot()), [DESCRIPTION_FILE, DATABASE_FILE]);
        let backup = Backup::read(&self.snapshot()).unwrap().unwrap();
        backup::check_bytes(&self.snapshot(), &backup).unwrap();
        let rows = rows_at_rest(&self.snapshot().join(DATABASE_FILE));
        assert_eq!(names(&self.snapshot()).len(), 2, "looking at it makes no sidecars");
        rows
    }

    /// Leaves the live files as a crash of the agent would.
    fn crash(&self, agent: Connection, parts: &[&str]) {
        let saved: Vec<_> =
            parts.iter().map(|part| (*part, std::fs::read(sqlite::beside(&self.db(), part)).unwrap())).collect();
        drop(agent);
        for suffix in sqlite::SIDECARS {
            durable::remove_file(&sqlite::beside(&self.db(), suffix)).unwrap();
        }
        for (part, bytes) in saved {
            durable::write(&sqlite::beside(&self.db(), part), &bytes, 0o600).unwrap();
        }
    }

    /// The same for a WAL, and the database stays the file that it is.
    fn crash_in_place(&self, agent: Connection) {
        let log = std::fs::read(sqlite::beside(&self.db(), "-wal")).unwrap();
        let set = agent.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        set.unwrap();
        drop(agent);
        durable::write(&sqlite::beside(&self.db(), "-wal"), &log, 0o600).unwrap();
    }

    fn damage(&self) {
        let mut bytes = std::fs::read(self.db()).unwrap();
        assert!(bytes.len() > 8192);
        bytes[4096..8192].fill(0x5a);
        durable::write(&self.db(), &bytes, 0o600).unwrap();
    }
}

fn add(connection: &Connection, rows: i64) {
    for _ in 0..rows {
        connection.execute("INSERT INTO t(x) VALUES (randomblob(100))", []).unwrap();
    }
}

fn rows(connection: &Connection) -> Vec<i64> {
    let mut query = connection.prepare("SELECT id FROM t ORDER BY id").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(|id| id.unwrap()).collect()
}

fn rows_at_rest(db: &Path) -> Vec<i64> {
    rows(&sqlite::open_at_rest(db).unwrap())
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn up_to(last: i64) -> Vec<i64> {
    (1..=last).collect()
}

/// Patience enough for a lock of this process.
const PACE: Pace<'static> = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
