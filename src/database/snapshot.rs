//! A consistent copy of the database of a running agent, by SQLite's online backup API (SPEC §6).

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::backup::{Backup, Content, DATABASE_FILE};
use super::sqlite;
use crate::host::acting::Acting;
use crate::host::durable;
use crate::host::signal::Cancelled;
use crate::report::{Code, Error, IoContext, Result};
use protocol::{Digest, Revision};

/// Most passes while others write, count (SPEC §6 "Rows").
pub(super) const MAX_PASSES: u32 = 3;
/// How long SQLite itself waits for a lock, milliseconds: a signal is seen that soon.
pub(super) const LOCK_WAIT: Duration = Duration::from_millis(50);
/// Pause after a refusal for which SQLite does not wait, milliseconds.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Whose database it is and when the snapshot is taken: the head of its description.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The proxy the host belongs to, as configured; empty if none.
    pub proxy: &'a str,
    /// The version that last used the database.
    pub revision: &'a Revision,
    /// The agent's `host_uuid`, if it has one.
    pub host: Option<String>,
    /// The present time.
    pub now: Timestamp,
    /// The version has failed: its snapshot is never restored by itself.
    pub failed: bool,
}

/// How long to wait and when to give up.
#[derive(Clone, Copy)]
pub struct Pace<'a> {
    /// How long a busy database is waited for, in all.
    pub deadline: Duration,
    /// Asked between steps; true ends with `interrupted`.
    pub cancelled: Cancelled<'a>,
}

/// A snapshot that was taken.
#[derive(Debug)]
pub struct Snapshot {
    /// Its description, as written.
    pub backup: Backup,
    /// The database could not be opened or failed its check; the files are there as they were.
    pub raw: bool,
    /// What is wrong with the database: it was left all the same.
    pub damage: Option<Error>,
}

/// A deadline and a signal.
pub(super) struct Clock<'a> {
    until: Instant,
    cancelled: Cancelled<'a>,
}

impl<'a> Clock<'a> {
    pub(super) fn start(pace: &Pace<'a>) -> Self {
        Self { until: Instant::now() + pace.deadline, cancelled: pace.cancelled }
    }

    /// Errors: `interrupted`.
    pub(super) fn check(&self, db: &Path) -> Result<()> {
        if (self.cancelled)() {
            Err(Error::new(Code::Interrupted, format!("interrupted while copying {}", db.display())))
        } else {
            Ok(())
        }
    }

    /// Repeats `attempt` while the database is busy and there is time.
    pub(super) fn retry<T>(&self, db: &Path, mut attempt: impl FnMut() -> rusqlite::Result<T>) -> Result<T> {
        loop {
            self.check(db)?;
            match attempt() {
                Ok(value) => return Ok(value),
                Err(error) if sqlite::is_busy(&error) && Instant::now() < self.until => {
                    std::thread::sleep(RETRY_PAUSE);
                }
                Err(error) => return Err(sqlite::explain(error, "cannot copy", db)),
            }
        }
    }
}

/// What the owner's permissions on his database are at least: without them it would be nobody's.
const NEEDED: u32 = 0o600;

/// Owner and mode of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
    mode: u32,
}

impl Owner {
    /// Of `path`; `None` if it is not there.
    pub(super) fn of(path: &Path) -> Result<Option<Self>> {
        match sqlite::look(path) {
            Ok(meta) if !meta.is_file() => {
                Err(Error::new(Code::DatabaseInvalid, format!("{} is not a file", path.display())))
            }
            Ok(meta) => Ok(Some(Self { uid: meta.uid(), gid: meta.gid(), mode: (meta.mode() & 0o777) | NEEDED })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).at("cannot look at", path),
        }
    }

    /// To `path`; the mode last, because changing the owner takes bits away.
    pub(super) fn give(self, path: &Path) -> Result<()> {
        Acting::beside(path)?.give(path, self.uid, self.gid, self.mode)
    }
}

/// Describes the copy that lies durably in `dir`; its name is synced with the description's.
pub(super) fn describe(dir: &Path, subject: &Subject<'_>, failed: bool) -> Result<Backup> {
    let file = dir.join(DATABASE_FILE);
    let (sha256, size) = Digest::of_file(&file).at("cannot read", &file)?;
    let content = Content::Database { size: Some(size), sha256: Some(sha256) };
    // The description's presence says that the copy is complete, so the copy's name is durable before it.
    durable::sync_dir(dir)?;
    write(dir, subject, content, failed)
}

/// Describes a host without database.
pub(super) fn absent(dir: &Path, subject: &Subject<'_>) -> Result<Snapshot> {
    let backup = write(dir, subject, Content::Absent, subject.failed)?;
    Ok(Snapshot { backup, raw: false, damage: None })
}

pub(super) fn write(dir: &Path, subject: &Subject<'_>, content: Content, failed: bool) -> Result<Backup> {
    let backup = Backup {
        proxy: subject.proxy.to_owned(),
        version: subject.revision.version.clone(),
        edition: Some(subject.revision.edition),
        creation_time: subject.now,
        content,
        host: subject.host.clone(),
        failed,
    };
    backup.write(dir)?;
    Ok(backup)
}
