//! The snapshot of a stopped agent's database: nothing written is missing from it, and where possible nothing is
//! copied (SPEC §6 "Restore", "Rows").

use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::backup::DATABASE_FILE;
use super::snapshot::{Clock, Owner, Pace, Snapshot, Subject, absent, describe, lock_wait};
use super::{directory, sqlite};
use crate::host::durable;
use crate::report::{Code, Error, Result};

/// What the caller is about to do with a database at rest.
#[derive(Debug, Clone, Copy, Default)]
pub struct AtRest {
    /// The live file will be replaced by rename before anything writes to it: it may be linked in place of copied.
    pub will_be_replaced: bool,
    /// A failed run is being undone: a database that cannot be opened is kept with its log, marked `failed`.
    pub even_if_damaged: bool,
}

/// Takes the database of an agent that is proven stopped into the fresh directory `dir`, then describes it.
///
/// The log is checkpointed into the database and emptied first, so one file holds every row. A host without database
/// is described as such.
///
/// Errors: `database_busy` if another program still has it, `database_invalid` if it is damaged (unless
/// [`AtRest::even_if_damaged`]), `interrupted`, `no_space`, `permission`, `io`.
pub fn snapshot_stopped(
    db: &Path,
    dir: &Path,
    subject: &Subject<'_>,
    at_rest: AtRest,
    pace: &Pace<'_>,
) -> Result<Snapshot> {
    let clock = Clock::start(pace);
    let db = sqlite::live_path(db);
    directory::make_fresh(dir)?;
    let Some(owner) = Owner::of(&db)? else { return absent(dir, subject) };
    // On a full disk the log cannot be checkpointed either; the files as they are need no room when they are linked.
    let keepable = |code| matches!(code, Code::DatabaseInvalid | Code::NoSpace | Code::ReadOnly | Code::Io);
    let raw = match settle(&db, &clock) {
        Ok(()) => false,
        Err(error) if at_rest.even_if_damaged && keepable(error.code) => true,
        Err(error) => return Err(error),
    };
    let copy = dir.join(DATABASE_FILE);
    let linked = place(&db, &copy, at_rest.will_be_replaced, owner)?;
    if raw {
        for suffix in sqlite::SIDECARS {
            let part = sqlite::beside(&db, suffix);
            if let Some(owner) = Owner::of(&part)? {
                place(&part, &sqlite::beside(&copy, suffix), at_rest.will_be_replaced, owner)?;
            }
        }
    }
    let backup = describe(dir, subject, subject.failed || raw)?;
    Ok(Snapshot { backup, passes: 1, moved: false, linked, raw })
}

/// Brings every row into the one file, and checks it.
fn settle(db: &Path, clock: &Clock<'_>) -> Result<()> {
    let connection = sqlite::open_live(db, lock_wait())?;
    // A damaged database keeps its log as it is: the check comes before the checkpoint, and closing must not make one.
    keep_log(&connection, db, true)?;
    // The first reading also rolls back a hot journal.
    clock.retry(db, || connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)))?;
    sqlite::quick_check(&connection, db)?;
    keep_log(&connection, db, false)?;
    clock.retry(db, || {
        let busy: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        if busy { Err(sqlite::busy()) } else { Ok(()) }
    })?;
    connection.close().map_err(|(_, error)| sqlite::explain(error, "cannot close", db))?;
    if std::fs::metadata(sqlite::beside(db, "-wal")).is_ok_and(|log| log.len() > 0) {
        return Err(Error::new(Code::DatabaseBusy, format!("{} is still written to", db.display()))
            .advise("stop every program that uses it"));
    }
    durable::sync_file(db)
}

fn keep_log(connection: &Connection, db: &Path, keep: bool) -> Result<()> {
    let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep);
    set.map(|_| ()).map_err(|error| sqlite::explain(error, "cannot open", db))
}

/// Links or copies `from` to the new name `to`; true if linked.
fn place(from: &Path, to: &Path, link: bool, owner: Owner) -> Result<bool> {
    if link && std::fs::hard_link(from, to).is_ok() {
        return Ok(true);
    }
    durable::copy_synced(from, to, 0o600)?;
    owner.give(to)?;
    durable::sync_file(to)?;
    Ok(false)
}
