//! The snapshot of a stopped agent's database: nothing written is missing from it, and where possible nothing is
//! copied (SPEC §6 "Restore", "Rows").
//!
//! A database that is about to be replaced is taken in three parts, so that an agent stands still for the second alone:
//! [`link_ahead`] beside the running agent, [`take_stopped`] at rest, and [`describe_taken`] when nobody waits any more.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use protocol::Digest;

use super::backup::{Backup, DATABASE_FILE, DESCRIPTION_FILE, missing};
use super::file_lock::FileLock;
use super::snapshot::{Clock, LOCK_WAIT, Owner, Pace, Subject, absent, describe};
use super::snapshot_id::SnapshotId;
use super::stat_data::{self, StatData};
use super::{directory, sqlite};
use crate::host::acting::Acting;
use crate::host::durable;
use crate::host::process::FileId;
use crate::report::{Code, Error, IoContext, Result};

/// What [`take_stopped`] has taken, for the journal.
#[derive(Debug)]
pub(crate) struct Taken {
    /// What it holds.
    pub id: SnapshotId,
    /// The live file when it was at rest; none if there was none.
    pub file: Option<StatData>,
    /// Keeps others out of it until another is in its place and in use.
    pub lock: Option<FileLock>,
}

/// Gives the live database a second, durable name in the fresh directory `dir`, and writes out what can be written while
/// its agent runs: its log as far as no reader is in the way, and its pages. True if the link could be made; false on
/// another file system or where there is no database.
///
/// A link is no danger to the agent: nobody opens the second name before [`take_stopped`] has proven that the file is
/// complete.
///
/// Errors: `no_space`, `read_only`, which are better found before the agent is stopped; `permission`, `io`.
pub(crate) fn link_ahead(db: &Path, dir: &Path) -> Result<bool> {
    let db = sqlite::live_path(db)?;
    directory::make_fresh(dir)?;
    if Owner::of(&db)?.is_none() {
        return Ok(false);
    }
    write_out(&db);
    let full = |kind| matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::ReadOnlyFilesystem);
    match Acting::beside(&db)?.link(&db, &dir.join(DATABASE_FILE), &Acting::SELF)? {
        Err(error) if full(error.kind()) => Err(error).at("cannot link", &db),
        Err(_) => Ok(false),
        Ok(()) => durable::sync_dir(dir).map(|()| true),
    }
}

/// Takes the database of an agent that is proven stopped into `dir`, where [`link_ahead`] may have linked it: the log is
/// brought into the one file, and that is durable under its second name afterwards, or copied where it cannot have one.
/// The live file will be replaced by rename before anything writes to it.
///
/// A host without database is described as such at once; everything else by [`describe_taken`].
///
/// Errors: `database_busy` if another program still has it, `database_invalid` if it cannot be opened (unless
/// `even_if_damaged`: then its log is kept beside it), `interrupted`, `no_space`, `permission`, `io`.
pub(crate) fn take_stopped(
    db: &Path,
    dir: &Path,
    subject: &Subject<'_>,
    even_if_damaged: bool,
    pace: &Pace<'_>,
) -> Result<Taken> {
    let db = sqlite::live_path(db)?;
    let (id, file) = take(&db, dir, subject, even_if_damaged, pace)?;
    if file.is_none() {
        return Ok(Taken { id, file, lock: None });
    }
    // After the copy, whose end would end it.
    let lock = FileLock::take(&db)?;
    stat_data::check_left(&db, file, dir)?;
    Ok(Taken { id, file, lock })
}

/// What is in `dir` then, and the live file when it was at rest.
fn take(
    db: &Path,
    dir: &Path,
    subject: &Subject<'_>,
    even_if_damaged: bool,
    pace: &Pace<'_>,
) -> Result<(SnapshotId, Option<StatData>)> {
    let clock = Clock::start(pace);
    let Some(owner) = Owner::of(db)? else {
        directory::make_fresh(dir)?;
        absent(dir, subject)?;
        return Ok((SnapshotId::Absent, None));
    };
    let raw = rest(db, &clock, even_if_damaged)?;
    // What is written from here on, into the file or a new log, is seen before the file is replaced.
    let stat_data = StatData::of(db)?;
    let copy = dir.join(DATABASE_FILE);
    let file = FileId::find(db)?;
    let id = if file.is_some() && file == FileId::find(&copy)? {
        SnapshotId::Linked
    } else {
        directory::make_fresh(dir)?;
        let copied = place(db, &copy, true, owner)?;
        durable::sync_dir(dir)?;
        copied.map_or(SnapshotId::Linked, SnapshotId::Sha256)
    };
    if raw {
        keep_sidecars(db, &copy, id == SnapshotId::Linked)?;
        durable::sync_dir(dir)?;
    }
    Ok((id, stat_data))
}

/// Checks and describes what [`take_stopped`] took into `dir`; reads the whole file. A database that is damaged, now or
/// when it was taken, is described as one of a version that failed; the second value is what is wrong with it.
///
/// Errors: `backup_missing` if nothing was taken; `no_space`, `permission`, `io`.
pub(crate) fn describe_taken(dir: &Path, subject: &Subject<'_>) -> Result<(Backup, Option<Error>)> {
    let copy = dir.join(DATABASE_FILE);
    if !durable::exists(&copy)? {
        let absent = Backup::read(dir)?.ok_or_else(|| missing(&dir.join(DESCRIPTION_FILE)))?;
        return Ok((absent, None));
    }
    let mut raw = false;
    for suffix in sqlite::SIDECARS {
        raw |= durable::exists(&sqlite::beside(&copy, suffix))?;
    }
    let damage = sqlite::damage(&copy)?;
    let backup = describe(dir, subject, subject.failed || raw || damage.is_some())?;
    // That it could not be opened was told when it was taken.
    Ok((backup, damage.filter(|_| !raw)))
}

/// Takes the database of a version that failed, whose agent is proven stopped and whose live file will be replaced, into the
/// fresh directory `dir`, and describes it: one that cannot be opened with its log beside it.
///
/// Errors: `database_busy` if another program still has it; `interrupted`, `no_space`, `permission`, `io`.
pub(crate) fn take_failed(db: &Path, dir: &Path, subject: &Subject<'_>, pace: &Pace<'_>) -> Result<Backup> {
    directory::make_fresh(dir)?;
    take(&sqlite::live_path(db)?, dir, subject, true, pace)?;
    describe_taken(dir, subject).map(|(backup, _)| backup)
}

/// What a running agent's database has not on the disk yet; what does not work is done when it is stopped.
fn write_out(db: &Path) {
    if has_log(db) {
        let _ = sqlite::acting(db, |here| {
            let connection = sqlite::open_live(here, LOCK_WAIT)?;
            keep_log(&connection, db, true)?;
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            Ok(())
        });
    }
    // The connection is closed: a descriptor of the file that were closed before would take its locks along.
    let _ = sync(db);
}

/// Brings `db` to rest; true if it must be kept as it is, with its log. It is not checked: whoever describes it does that.
fn rest(db: &Path, clock: &Clock<'_>, even_if_damaged: bool) -> Result<bool> {
    // On a full disk the log cannot be checkpointed either; the files as they are need no room when they are linked.
    let keepable = |code| matches!(code, Code::DatabaseInvalid | Code::NoSpace | Code::ReadOnly | Code::Io);
    // Where no log is left every row is in the one file, and SQLite is not asked.
    let bring = || if has_log(db) { checkpoint(db, clock) } else { sync(db) };
    match sqlite::twice(bring) {
        Ok(()) => Ok(false),
        Err(error) if even_if_damaged && keepable(error.code) => Ok(true),
        Err(error) => Err(error),
    }
}

pub(super) fn checkpoint(db: &Path, clock: &Clock<'_>) -> Result<()> {
    sqlite::acting(db, |here| checkpoint_acting(here, db, clock))?;
    if sqlite::log_size(&sqlite::beside(db, sqlite::WAL))? > 0 {
        return Err(Error::new(Code::DatabaseBusy, format!("a program is still writing to {}", db.display()))
            .advise("stop every program that uses it"));
    }
    sync(db)
}

fn sync(db: &Path) -> Result<()> {
    sqlite::open(db).and_then(|file| file.sync_all()).at("cannot sync", db)
}

fn checkpoint_acting(here: &Path, db: &Path, clock: &Clock<'_>) -> Result<()> {
    let connection = sqlite::open_live(here, LOCK_WAIT)?;
    // Where it cannot be read, closing must not touch the log.
    keep_log(&connection, db, true)?;
    // The first reading also rolls back a hot journal.
    clock.retry(db, || connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)))?;
    keep_log(&connection, db, false)?;
    clock.retry(db, || {
        let busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy { Err(sqlite::busy()) } else { Ok(()) }
    })?;
    connection.close().map_err(|(_, error)| sqlite::explain(error, "cannot close", db))
}

/// Removes the names in `dir` of what the live database `db` consists of.
pub(crate) fn unlink_shared(dir: &Path, db: &Path) -> Result<()> {
    let (copy, db) = (dir.join(DATABASE_FILE), sqlite::live_path(db)?);
    for suffix in sqlite::FILES {
        let name = sqlite::beside(&copy, suffix);
        let file = FileId::find(&name)?;
        if file.is_some() && file == FileId::find(sqlite::beside(&db, suffix))? {
            durable::remove_file(&name)?;
        }
    }
    Ok(())
}

/// Whether a log or journal may hold rows; what cannot be looked at may.
pub(crate) fn has_log(db: &Path) -> bool {
    sqlite::LOGS.iter().any(|suffix| sqlite::log_size(&sqlite::beside(db, suffix)).map_or(true, |size| size > 0))
}

/// Keeps the log of a database beside its copy.
fn keep_sidecars(db: &Path, copy: &Path, link: bool) -> Result<()> {
    for suffix in sqlite::SIDECARS {
        let part = sqlite::beside(db, suffix);
        if let Some(owner) = Owner::of(&part)? {
            place(&part, &sqlite::beside(copy, suffix), link, owner)?;
        }
    }
    Ok(())
}

fn keep_log(connection: &Connection, db: &Path, keep: bool) -> Result<()> {
    let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep);
    set.map(|_| ()).map_err(|error| sqlite::explain(error, "cannot open", db))
}

/// Links `from` to the new name `to`, or copies it durably: then it returns the copy's digest.
pub(super) fn place(from: &Path, to: &Path, link: bool, owner: Owner) -> Result<Option<Digest>> {
    if link && Acting::beside(from)?.link(from, to, &Acting::SELF)?.is_ok() {
        return Ok(None);
    }
    let mut source = sqlite::open(from).at("cannot read", from)?;
    // By then another thing can be there; of a pipe nothing would come.
    if !source.metadata().at("cannot look at", from)?.is_file() {
        return Err(Error::new(Code::DatabaseInvalid, format!("{} is not a file", from.display())));
    }
    let mut target = durable::create_new(to, 0o600).at("cannot make", to)?;
    let (sha256, _) = Digest::of_copy(&mut source, &mut target).at("cannot write", to)?;
    owner.give(to)?;
    target.sync_all().at("cannot sync", to)?;
    Ok(Some(sha256))
}
