//! A snapshot of a database that is in use: SQLite's online backup.

use std::path::Path;

use rusqlite::backup::{Backup as OnlineBackup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::backup::DATABASE_FILE;
use super::snapshot::{Clock, LOCK_WAIT, MAX_PASSES, Owner, Pace, Snapshot, Subject, absent, describe};
use super::{directory, raw, sqlite};
use crate::host::acting::Acting;
use crate::host::durable;
use crate::report::{Code, Error, IoContext, Result};

/// Pages a step: 16 MiB of 4 KiB pages. A signal is seen between steps; each step costs a lock or two.
const STEP_PAGES: i32 = 4096;

/// Copies the database of an agent that may be running into the fresh directory `dir`, then describes it.
///
/// Each pass copies within one read transaction, so it is consistent by itself; while `data_version` moves there are up
/// to three. The copy is one file in the journal mode of the source, with its owner and mode. A host without database
/// is described as such. The live database is not changed, but for the recovery a crash left to its next opener.
///
/// A move that keeps the database does not need the copy of a damaged one: what there is of it is kept, described as
/// failed, and [`Snapshot::damage`] says why (SPEC §6, a damaged database).
///
/// `as_it_lies`: earlier runs have waited long enough for one that stays busy; it is taken without its locks.
///
/// Errors: `database_busy` after the deadline, unless `as_it_lies`; `interrupted`, `no_space`, `permission`, `io`. After
/// an error `dir` is incomplete, without description.
pub fn snapshot_online(
    db: &Path,
    dir: &Path,
    subject: &Subject<'_>,
    as_it_lies: bool,
    pace: &Pace<'_>,
) -> Result<Snapshot> {
    let clock = Clock::start(pace);
    let db = sqlite::live_path(db)?;
    directory::make_fresh(dir)?;
    if let Some(what) = raw::oddity(&db)? {
        return raw::keep(&db, dir, subject, &clock, Error::new(Code::DatabaseInvalid, what));
    }
    let Some(owner) = Owner::of(&db)? else { return absent(dir, subject) };
    match sqlite::twice(|| copy_online(&db, dir, &clock)) {
        Ok(()) => {
            let copy = dir.join(DATABASE_FILE);
            let of_original = |what: String| what.replace(&copy.display().to_string(), &db.display().to_string());
            let damage = sqlite::damage(&copy)?.map(|error| Error { what: of_original(error.what), ..error });
            owner.give(&copy)?;
            durable::sync_file(&copy)?;
            let backup = describe(dir, subject, subject.failed || damage.is_some())?;
            Ok(Snapshot { backup, raw: damage.is_some(), damage })
        }
        Err(error) if error.code == Code::DatabaseInvalid => raw::keep(&db, dir, subject, &clock, error),
        Err(error) if as_it_lies && matches!(error.code, Code::DatabaseBusy | Code::Io) => {
            raw::take_locked(&db, dir, subject, &clock, error)
        }
        Err(error) => Err(error),
    }
}

/// Copies by SQLite, again while others write. Rows from after the last pass are not in the copy.
fn copy_online(db: &Path, dir: &Path, clock: &Clock<'_>) -> Result<()> {
    let copy = dir.join(DATABASE_FILE);
    // Without a log of its own to keep, the last one to close leaves no sidecars behind.
    let keeps_log = sqlite::beside(db, sqlite::WAL).exists();
    let acting = sqlite::opened_up(db)?;
    let here = acting.path(db);
    let source = acting.act(|| {
        let source = sqlite::open_live(&here, LOCK_WAIT)?;
        if keeps_log {
            let set = source.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            set.map_err(|error| sqlite::explain(error, "cannot open", db))?;
        }
        let bytes = clock.retry(db, || {
            source.query_row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", [], |row| {
                row.get::<_, i64>(0)
            })
        })?;
        if raw::is_hollow(&here, bytes.unsigned_abs()) {
            let shown = db.display();
            let what = format!(
                "{shown} is a sparse file: its header says {bytes} bytes, but almost none of them are on the disk"
            );
            return Err(Error::new(Code::DatabaseInvalid, what));
        }
        Ok(source)
    })?;
    let source = Source { connection: Some(source), acting };
    for _ in 0..MAX_PASSES {
        let has_moved = copy_once(&source, db, &copy, clock)?;
        if !has_moved {
            break;
        }
    }
    Ok(())
}

/// The live database, opened with the rights of its owner, and closed with them.
struct Source {
    connection: Option<Connection>,
    acting: Acting,
}

impl Drop for Source {
    fn drop(&mut self) {
        let connection = self.connection.take();
        // What cannot be closed so is not closed as root: it ends with the process.
        let mut connection = std::mem::ManuallyDrop::new(connection);
        let _ = self.acting.act(|| {
            drop(connection.take());
            Ok(())
        });
    }
}

/// One pass; true if others wrote meanwhile.
fn copy_once(source: &Source, db: &Path, copy: &Path, clock: &Clock<'_>) -> Result<bool> {
    durable::remove_file(copy)?;
    durable::create_new(copy, 0o600).at("cannot make", copy)?;
    let failed = |error| sqlite::explain(error, "cannot copy", db);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = Connection::open_with_flags(copy, flags).map_err(failed)?;
    // Nobody reads the copy before it is synced as a whole. It has one file, which is open from here on.
    target.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").map_err(failed)?;
    let Some(connection) = &source.connection else { return Ok(false) };
    let moved = source.acting.act(|| copy_pages(connection, &mut target, db, copy, clock))?;
    target.close().map_err(|(_, error)| sqlite::explain(error, "cannot write", copy))?;
    Ok(moved)
}

/// The pages of one pass; true if others wrote meanwhile.
fn copy_pages(source: &Connection, target: &mut Connection, db: &Path, copy: &Path, clock: &Clock<'_>) -> Result<bool> {
    let data_version = || source.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0));
    let failed = |error| sqlite::explain(error, "cannot copy", db);
    // An open read transaction holds one state through all steps; without it each write would start the copy again.
    source.execute_batch("BEGIN").map_err(failed)?;
    let transaction = Rollback(source);
    clock.retry(db, || source.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)))?;
    let before = clock.retry(db, data_version)?;
    {
        let online = OnlineBackup::new(source, target).map_err(failed)?;
        let next = || {
            clock.retry(db, || step(&online)).map_err(|error| match error.code {
                Code::NoSpace => Error { what: format!("cannot write {}: no space left", copy.display()), ..error },
                _ => error,
            })
        };
        while next()? == StepResult::More {}
    }
    drop(transaction);
    Ok(clock.retry(db, data_version)? != before)
}

/// One step; a lock held by another is an error like any other, for [`Clock::retry`].
fn step(online: &OnlineBackup<'_, '_>) -> rusqlite::Result<StepResult> {
    match online.step(STEP_PAGES)? {
        StepResult::Busy | StepResult::Locked => Err(sqlite::busy()),
        other => Ok(other),
    }
}

/// Ends a read transaction; there is nothing to lose in it.
struct Rollback<'a>(&'a Connection);

impl Drop for Rollback<'_> {
    fn drop(&mut self) {
        let _ = self.0.execute_batch("ROLLBACK");
    }
}
