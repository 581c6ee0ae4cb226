//! Putting a backup in the place of the database (FLEET §7).
//!
//! The new database is made whole beside the old one, which is brought into one file and gets a second name; then one rename
//! puts the new one in its place. Killed at any point, one of the two is there, whole.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fleet_engine::record::HostRecord;
use fleet_engine::rollout_state::{HaltCause, Holds, RolloutState};
use fleet_wire::api::{AuditEntry, AuditHead};
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::json;

use crate::column::signed;
use crate::commit::{put_book, put_hosts, raise_arrivals};
use crate::connection::{immediate, sqlite};
use crate::error::{AtPath, Error, Result};
use crate::files::{self, DataDir, SIDECARS, beside};
use crate::lock::StoreLock;
use crate::sql::{Sql, SqlExt, with};
use crate::{audit, connection, enrolment, load, schema, witness};

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The revision now: higher than any before.
    pub revision: u64,
    /// The number of the last rollout in the backup; 0: none.
    pub rollout: u64,
    /// How many hosts the backup knows.
    pub hosts: u64,
    /// Where the replaced database is; `None`: there was none.
    pub replaced: Option<PathBuf>,
    /// The newest audit record of the replaced database; `None`: there was none, or it cannot be read.
    pub left: Option<AuditHead>,
}

/// Puts the backup `from` in the place of the database in `dir`, with a new epoch and everything held. The server must be
/// stopped. `force`: also over data that is newer or cannot be read, and with a backup whose audit log is damaged. The
/// replaced database stays as `fleet.db.replaced-TIME`. Errors: `Locked`, `Refused`, `Newer`, `Foreign`, `Unavailable`:
/// the data is as it was; `Unknown`: it was replaced, but that could not be synced.
pub fn restore(from: &Path, dir: &Path, force: bool) -> Result<Restored> {
    // What is no backup leaves nothing behind, not even a directory.
    check_source(from)?;
    let is_new = files::metadata(dir)?.is_none();
    let place = DataDir::make(dir)?;
    let lock = StoreLock::take(&place)?;
    let restored = restore_at(from, &place, force);
    if is_new && restored.is_err() {
        files::remove(&place.file(files::LOCK))?;
        files::remove_empty_dir(place.dir());
    }
    drop(lock);
    restored
}

fn restore_at(from: &Path, place: &DataDir, force: bool) -> Result<Restored> {
    let found = place.find()?;
    place.clean(found.as_ref())?;
    refuse_itself(from, place)?;
    let unfinished = place.file(files::UNFINISHED);
    let restored = prepare_and_swap(from, place, force);
    if restored.is_err() {
        files::remove_database(&unfinished)?;
    }
    restored
}

fn prepare_and_swap(from: &Path, place: &DataDir, force: bool) -> Result<Restored> {
    let unfinished = place.file(files::UNFINISHED);
    let owner = place.find()?.map_or(place.dir_owner(), |found| {
        use std::os::unix::fs::MetadataExt;
        (found.uid(), found.gid())
    });
    files::copy(from, &unfinished, owner)?;
    let (mut new, backup) = read_backup(&unfinished, force).map_err(|error| named(&error, &unfinished, from))?;
    let old = Old::read(place)?;
    if !force {
        old.refuse_if_newer(backup.as_ref(), last_decision(&sqlite(&new, &unfinished))?, place)?;
    }
    let now = Timestamp::now();
    let detail = json!({ "backup": from.display().to_string(), "force": force });
    let record = describe(now, "restore", "command line", detail);
    let revision = immediate(&mut new, &unfinished, |db| {
        let mut book = backup.clone().unwrap_or_default();
        book.lose_numbers(old.given);
        hold(db, Some(book), HaltCause::Restore, &old, &record)
    })?;
    let hosts = sqlite(&new, &unfinished).count("SELECT count(*) FROM host")?;
    let head = audit::head(&sqlite(&new, &unfinished))?;
    connection::settle(&new, &unfinished)?;
    drop(new);
    files::sync(&unfinished)?;
    let replaced = swap(place, &unfinished, now)?;
    // Killed before that, or where it cannot be written, the next start writes it: everything is held already.
    let _ = witness::write(place, &head, &[]);
    let rollout = backup.map_or(0, |book| book.number);
    Ok(Restored { revision, rollout, hosts, replaced, left: old.head })
}

fn refuse_itself(from: &Path, place: &DataDir) -> Result<()> {
    let found = from.metadata().at("cannot read", from)?;
    let own = files::metadata(&place.file(files::DATABASE))?;
    if own.as_ref().map(files::id) == Some(files::id(&found)) {
        return Err(Error::Refused(format!("{} is the database itself: name a backup", from.display())));
    }
    Ok(())
}

fn check_source(from: &Path) -> Result<()> {
    let shown = from.display();
    let found = from.metadata().map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::Unavailable(format!("cannot read {shown}: {error}: name a backup that is there")),
        _ => Error::io("cannot read", from, &error),
    })?;
    if !found.is_file() {
        return Err(Error::Refused(format!("{shown} is not a file: name a backup")));
    }
    for sidecar in ["-wal", "-journal"] {
        let path = beside(from, sidecar);
        if files::metadata(&path)?.is_some_and(|sidecar| sidecar.len() > 0) {
            return Err(Error::Refused(format!(
                "{shown} is not a backup but a database in use ({} is beside it): make one with `teleport-fleet backup`",
                path.display()
            )));
        }
    }
    let real = from.canonicalize().at("cannot read", from)?;
    files::check_header(&real)
        .map(drop)
        .map_err(|_| Error::Foreign(format!("{shown} is not a backup of teleport-fleet: name another file")))
}

/// The operator knows the backup by its own name.
fn named(error: &Error, unfinished: &Path, from: &Path) -> Error {
    let name = |line: &str| line.replace(&unfinished.display().to_string(), &from.display().to_string());
    match error {
        Error::Foreign(line) => {
            Error::Foreign(name(line).replace("restore a backup with", "choose an older backup for"))
        }
        Error::Newer(line) => Error::Newer(name(line)),
        Error::Refused(line) => Error::Refused(name(line)),
        Error::Unavailable(line) => Error::Unavailable(line.clone()),
        error => error.clone(),
    }
}

fn read_backup(path: &Path, force: bool) -> Result<(Connection, Option<RolloutState>)> {
    let mut new = connection::open(path)?;
    schema::refuse_newer(&new, path)?;
    connection::check_all(&new, path)?;
    // As one file: a copy of a database in use would not be.
    connection::settle(&new, path)?;
    schema::migrate(&mut new, path)?;
    let db = sqlite(&new, path);
    let verified = audit::verify(&db, None)?;
    if let (Some(fault), false) = (verified.fault, force) {
        return Err(Error::Refused(format!(
            "the audit log in {} is damaged: {fault}; choose another backup, or use --force",
            path.display()
        )));
    }
    let book = load::load(&db)?.book;
    // A host that cannot be read is seen now, not when the server starts.
    enrolment::keys(&db, &mut drop)?;
    load::hosts(&db, &mut drop)?;
    Ok((new, book))
}

/// What is in the database that is replaced, as far as it could be read; nothing: there is none.
#[derive(Debug, Default)]
pub(crate) struct Old {
    /// The number of its last rollout; `None`: it was not read.
    pub(crate) number: Option<u64>,
    /// The highest number of a rollout that may have been given.
    pub(crate) given: Option<u64>,
    pub(crate) revision: u64,
    /// Its newest record, or of one that is gone the newest that was seen.
    pub(crate) head: Option<AuditHead>,
    /// The newest record of a decision that a person made.
    pub(crate) decided: u64,
    /// What is held.
    pub(crate) holds: Holds,
    /// Hosts that are held.
    pub(crate) held: Vec<HostRecord>,
    pub(crate) arrivals: u64,
    /// Why it cannot be read.
    pub(crate) unreadable: Option<String>,
}

impl Old {
    /// Reads it. One of ours becomes one file: what was in its log is in the database then.
    fn read(place: &DataDir) -> Result<Self> {
        let path = place.file(files::DATABASE);
        if place.find()?.is_none() {
            return Ok(Self::default());
        }
        let read = || {
            let generations = witness::read(place)?.map(|seen| seen.generations).unwrap_or_default();
            if let Some(log) = place.foreign_log(&files::check_header(&path)?, &generations)? {
                return Err(Error::Foreign(format!("{} is another database's", log.display())));
            }
            let mut old = connection::open(&path)?;
            connection::settle(&old, &path)?;
            schema::refuse_newer(&old, &path)?;
            schema::migrate(&mut old, &path)?;
            let (db, mut held) = (sqlite(&old, &path), Vec::new());
            load::hosts(&db, &mut |host| held.extend(Some(host).filter(|host| host.flags.held)))?;
            let (state, head, decided) = (load::load(&db)?, audit::head(&db)?, last_decision(&db)?);
            let book = state.book.unwrap_or_default();
            let (number, given, head) = (Some(book.number), Some(book.given()), Some(head));
            let (revision, arrivals, holds) = (state.revision, state.arrivals, book.holds);
            Ok(Self { number, given, revision, head, decided, holds, held, arrivals, unreadable: None })
        };
        match read() {
            // Somebody has it open, or the disk fails: that may pass.
            Err(error @ (Error::Unavailable(_) | Error::Locked(_))) => Err(error),
            Err(error) => Ok(Self { unreadable: Some(error.message().to_owned()), ..Self::default() }),
            whole => whole,
        }
    }

    fn refuse_if_newer(&self, backup: Option<&RolloutState>, decided: u64, place: &DataDir) -> Result<()> {
        let shown = place.file(files::DATABASE);
        let shown = shown.display();
        let number = backup.map_or(0, |book| book.number);
        let why = match (&self.unreadable, self.number.unwrap_or_default()) {
            (Some(line), _) => {
                format!("whether {shown} is newer than the backup cannot be said ({line}): replace it with --force")
            }
            (None, own) if own > number => format!(
                "{shown} has rollout {own}, the backup only {number}: go back with --force, or choose a newer backup"
            ),
            _ if self.decided > decided => format!(
                "{shown} has decisions that the backup does not have (audit record {}, the backup has up to {decided}): lose \
                 them with --force, or choose a newer backup",
                self.decided
            ),
            _ => return Ok(()),
        };
        Err(Error::Refused(why))
    }
}

/// The record of what was taken as the data `from` there.
pub(crate) fn describe(now: Timestamp, action: &str, from: &str, detail: serde_json::Value) -> AuditEntry {
    AuditEntry {
        at: now,
        who: format!("uid {}", rustix::process::getuid().as_raw()),
        from: from.to_owned(),
        action: action.to_owned(),
        subject: "store".to_owned(),
        done: true,
        detail,
        ..AuditEntry::default()
    }
}

/// The newest record of a decision that a person made, and that was not refused; 0: there is none.
fn last_decision(db: &dyn Sql) -> Result<u64> {
    db.count("SELECT coalesce(max(seq), 0) FROM audit WHERE who <> 'engine' AND done = 1")
}

/// Holds everything, begins a new epoch, and writes the record; within a transaction of the caller. Returns the new revision.
pub(crate) fn hold(
    db: &dyn Sql,
    book: Option<RolloutState>,
    cause: HaltCause,
    old: &Old,
    record: &AuditEntry,
) -> Result<u64> {
    let mut book = book.unwrap_or_default();
    // A stop is never forgotten: what was held when the data was left is held.
    book.holds.join(&old.holds);
    book.holds.hold_all(cause);
    let revision = load::revision(db)?.max(old.revision) + 1;
    put_book(db, &book)?;
    db.execute("UPDATE book SET revision = $1", with![signed(&db.name(), revision)?])?;
    let epoch = schema::new_epoch()?;
    db.execute("UPDATE store SET epoch = $1, restored_held = 1, is_backup = 0", with![&epoch])?;
    let mut record = record.clone();
    record.after = revision.to_string();
    if let Some(detail) = record.detail.as_object_mut() {
        detail.insert("epoch".to_owned(), json!(epoch));
        let left = old.head.as_ref().map(|head| json!({ "seq": head.seq, "hash": head.hash }));
        detail.insert("left".to_owned(), json!(left));
        if let Some(number) = old.number {
            record.before = old.revision.to_string();
            detail.insert("left_rollout".to_owned(), json!(number));
        }
        if let Some(line) = &old.unreadable {
            detail.insert("left_unreadable".to_owned(), json!(line));
        }
    }
    put_hosts(db, &old.held)?;
    raise_arrivals(db, old.arrivals)?;
    // One that was removed since would be good again.
    db.execute("DELETE FROM token", &[])?;
    db.execute("DELETE FROM join_token", &[])?;
    audit::append(db, &[record])?;
    Ok(revision)
}

/// Puts the new database in the place of the old one, which keeps another name.
fn swap(place: &DataDir, unfinished: &Path, now: Timestamp) -> Result<Option<PathBuf>> {
    let database = place.file(files::DATABASE);
    let replaced = place.replaced(now);
    let is_replacing = files::metadata(&database)?.is_some();
    if is_replacing {
        files::link(&database, &replaced)?;
    }
    // Only a database that cannot be read has any, or one that is gone: SQLite would read them into the new one.
    for sidecar in SIDECARS {
        let left = beside(&database, sidecar);
        if files::metadata(&left)?.is_some() {
            files::rename(&left, &beside(&replaced, sidecar))?;
        }
    }
    files::sync(place.dir())?;
    files::rename(unfinished, &database)?;
    files::sync(place.dir()).map_err(|error| {
        Error::Unknown(format!("{} was replaced, but a power cut may undo that ({error})", database.display()))
    })?;
    Ok(is_replacing.then_some(replaced))
}
