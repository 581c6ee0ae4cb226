//! Putting a snapshot in the place of the live database: prepared beside it, then swapped in by rename while the agent
//! is stopped (SPEC §6 "Restore"). Each function can be repeated after a crash at any point.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use protocol::Digest;

use super::backup::{Backup, Content, DATABASE_FILE, DESCRIPTION_FILE, invalid, missing};
use super::snapshot::Owner;
use super::snapshot_id::SnapshotId;
use super::stat_data::StatData;
use super::{sqlite, stat_data};
use crate::host::acting::Acting;
use crate::host::process::FileId;
use crate::host::{durable, selinux};
use crate::report::{Code, IoContext, Result};

/// A snapshot that lies ready beside the live database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    db: PathBuf,
    file: PathBuf,
    absent: bool,
}

impl Prepared {
    /// The prepared file, for the journal. Errors: `permission`, `io`.
    pub(crate) fn stat_data(&self) -> Result<Option<StatData>> {
        StatData::of(&self.file)
    }

    /// Whether it is the file of the snapshot in `snapshot_dir` itself: after the swap there is no other copy.
    pub(crate) fn is_second_name_of(&self, snapshot_dir: &Path) -> bool {
        let file = FileId::of(&self.file);
        file.is_some() && file == FileId::of(snapshot_dir.join(DATABASE_FILE))
    }

    /// Whether the prepared file is a good database; reads it whole. Errors: `backup_invalid`; `permission`, `io`.
    pub(crate) fn check(&self) -> Result<()> {
        sqlite::acting(&self.file, sqlite::check_at_rest).map_err(|error| match error.code {
            Code::DatabaseInvalid => invalid(&format!("is no longer a valid SQLite database: {}", error.what)),
            _ => error,
        })
    }
}

/// Copies the snapshot to its place beside `db`, checked and durable; nothing of the live database changes.
///
/// The copy gets owner, mode and SELinux label of the live database, or owner and mode of the snapshot where there is
/// none. `trusted` is the journalled identity of this run's snapshot, which its undo puts back, with the log that is kept
/// beside it; without it `backup.yaml` says what the bytes are. A restore and an undo use different names, so that the
/// files tell whether the restore has happened: its own lies there until then, an empty one if it is of no database.
///
/// Errors: `backup_missing`, `backup_invalid`, `no_space` (see [`prepare_by_link`]), `permission`, `io`; nothing is
/// left then.
pub(crate) fn prepare(snapshot_dir: &Path, db: &Path, trusted: Option<SnapshotId>) -> Result<Prepared> {
    make(snapshot_dir, db, trusted, copy_out)
}

/// As [`prepare`], but links the snapshot itself: the way back on a full disk.
///
/// After the swap the live database *is* the snapshot's file, so the caller removes that snapshot directory, whose
/// digest will not hold any more. Errors: as [`prepare`]; `io` if the two are on different file systems.
pub(crate) fn prepare_by_link(snapshot_dir: &Path, db: &Path, trusted: Option<SnapshotId>) -> Result<Prepared> {
    make(snapshot_dir, db, trusted, |source, target| {
        // What has no digest to compare need not be read: it may be what cannot be.
        let described = match trusted {
            Some(SnapshotId::Linked) => (None, std::fs::metadata(source).at("cannot look at", source)?.len()),
            _ => Digest::of_file(source).map(|(sha256, size)| (Some(sha256), size)).at("cannot read", source)?,
        };
        link_out(source, target)?;
        Ok(described)
    })
}

/// Copies a file of a snapshot to the new file `target` beside the database.
fn copy_out(source: &Path, target: &Path) -> Result<(Option<Digest>, u64)> {
    let mut from = open(source)?;
    let mut to = Acting::beside(target)?.create_new(target, 0o600)?;
    let (sha256, size) = Digest::of_copy(&mut from, &mut to).at("cannot write", target)?;
    to.sync_all().at("cannot sync", target)?;
    Ok((Some(sha256), size))
}

/// Gives a file of a snapshot the new name `target` beside the database.
fn link_out(source: &Path, target: &Path) -> Result<()> {
    Acting::SELF.link(source, target, &Acting::beside(target)?)?.at("cannot link", target)
}

/// Removes a file beside the database.
fn remove(file: &Path) -> Result<()> {
    // Nobody's rights are needed for nothing.
    if !durable::exists(file)? {
        return Ok(());
    }
    Acting::beside(file)?.remove(file)
}

/// Renames a file beside the database.
fn rename(from: &Path, to: &Path) -> Result<()> {
    let acting = Acting::beside(to)?;
    // No file can be renamed over it.
    if acting.is_foreign() && std::fs::symlink_metadata(to).is_ok_and(|meta| meta.is_dir()) {
        acting.remove(to)?;
    }
    acting.names(|| durable::rename(&acting.path(from), &acting.path(to)))
}

/// Swaps a prepared database in, or removes the live one if the snapshot says there was none. The agent is stopped, and
/// the database it leaves is already snapshotted; `look` proves both once more, as late as possible.
///
/// Errors: those of `look`; `database_busy` if a log turns up behind the rename; `backup_missing`, `permission`, `io`.
pub(crate) fn commit(prepared: &Prepared, look: &dyn Fn() -> Result<()>) -> Result<()> {
    if prepared.absent {
        look()?;
        if durable::exists(&prepared.file)? {
            // It says that nothing was removed, so it goes first. An undo has none.
            remove(&prepared.file)?;
            look()?;
        }
        return remove_database(&prepared.db);
    }
    if !durable::exists(&prepared.file)? {
        return Err(missing(&prepared.file));
    }
    replace(&prepared.db, &prepared.file, look)?;
    let mut logs = logs_of(&prepared.file)?.into_iter();
    logs.try_for_each(|(log, suffix)| rename(&log, &sqlite::beside(&prepared.db, suffix)))
}

/// Swaps in what [`prepare`] left beside `db` for a restore; true if there was something. Of no database that is an empty
/// file, and the live one is removed (`absent`). As [`commit`].
pub(crate) fn swap(db: &Path, absent: bool, look: &dyn Fn() -> Result<()>) -> Result<bool> {
    let db = sqlite::live_path(db)?;
    let file = prepared_path(&db);
    let is_there = durable::exists(&file)?;
    if is_there && absent {
        commit(&Prepared { db, file, absent }, look)?;
    } else if is_there {
        replace(&db, &file, look)?;
    }
    Ok(is_there)
}

fn replace(db: &Path, file: &Path, look: &dyn Fn() -> Result<()>) -> Result<()> {
    look()?;
    // The old database's log beside the new file would be replayed into it, so it goes first, and durably.
    if remove_sidecars(db)? {
        look()?;
    }
    rename(file, db)?;
    // Two names of one file are left alone by rename: the snapshot linked was the live file itself.
    remove(file)?;
    // Of which of the two files it is cannot be told.
    for suffix in sqlite::SIDECARS {
        if durable::exists(&sqlite::beside(db, suffix))? {
            return Err(stat_data::used(db));
        }
    }
    Ok(())
}

/// Removes the live database with all that belongs to it: the restoration of "no database". The agent is stopped.
fn remove_database(db: &Path) -> Result<()> {
    // What is not a file is no database, and stood there before.
    if std::fs::symlink_metadata(db).is_ok_and(|meta| !meta.is_file()) || !durable::exists(durable::parent(db))? {
        return Ok(());
    }
    // The database first: without it a left-over log is never replayed.
    remove(db)?;
    remove_sidecars(db).map(|_| ())
}

/// Puts the log that is kept in `snapshot_dir` back beside the live database `db`, which was not replaced and is still the
/// file of `left`: a swap that was cut short has taken it away.
pub(crate) fn return_log(snapshot_dir: &Path, db: &Path, left: Option<StatData>) -> Result<()> {
    let db = sqlite::live_path(db)?;
    let kept = snapshot_dir.join(DATABASE_FILE);
    // With rows of later in the file the log does not fit it any more.
    if left.is_none() || StatData::of(&db)? != left {
        return Ok(());
    }
    for (log, suffix) in logs_of(&kept)? {
        let (place, temp) = (sqlite::beside(&db, suffix), sqlite::beside(&undo_path(&db), suffix));
        if durable::exists(&place)? {
            continue;
        }
        remove(&temp)?;
        if FileId::find(&kept)? == FileId::find(&db)? {
            link_out(&log, &temp)?
        } else {
            copy_out(&log, &temp)?;
            if let Some(owner) = Owner::of(&log)? {
                owner.give(&temp)?;
            }
        }
        rename(&temp, &place)?;
    }
    Ok(())
}

/// The logs beside the database file `file`, with what their names end in.
fn logs_of(file: &Path) -> Result<Vec<(PathBuf, &'static str)>> {
    let mut found = Vec::new();
    for suffix in sqlite::LOGS {
        let log = sqlite::beside(file, suffix);
        if durable::exists(&log)? {
            found.push((log, suffix));
        }
    }
    Ok(found)
}

/// Whether the restore that was prepared beside `db` has not happened.
pub(crate) fn is_prepared(db: &Path) -> Result<bool> {
    durable::exists(&prepared_path(&sqlite::live_path(db)?))
}

/// Whether this run's own snapshot still lies ready for an undo: its swap has not happened.
pub(crate) fn is_undo_prepared(db: &Path) -> Result<bool> {
    durable::exists(&undo_path(&sqlite::live_path(db)?))
}

/// Removes what [`prepare`] left beside `db`, if anything.
pub(crate) fn discard(db: &Path) -> Result<()> {
    let db = sqlite::live_path(db)?;
    let undo = undo_path(&db);
    sqlite::LOGS.iter().try_for_each(|log| remove(&sqlite::beside(&undo, log)))?;
    remove(&undo)?;
    remove(&prepared_path(&db))
}

/// Where a snapshot lies ready for the restore of `db`.
pub(crate) fn prepared_path(db: &Path) -> PathBuf {
    let name = db.file_name().unwrap_or_default().to_string_lossy();
    durable::parent(db).join(format!(".{name}.teleport-update"))
}

/// Where this run's own snapshot lies ready for the undo.
fn undo_path(db: &Path) -> PathBuf {
    sqlite::beside(&prepared_path(db), "-undo")
}

fn make(
    snapshot_dir: &Path,
    db: &Path,
    trusted: Option<SnapshotId>,
    place: impl Fn(&Path, &Path) -> Result<(Option<Digest>, u64)>,
) -> Result<Prepared> {
    let db = sqlite::live_path(db)?;
    if trusted.is_some() {
        // Its owner can have taken the directory away meanwhile, and must have the old version's database all the same.
        Acting::make_dir(durable::parent(&db))?;
        sqlite::opened_up(&db)?;
    }
    let target = if trusted.is_some() { undo_path(&db) } else { prepared_path(&db) };
    let content = wanted(snapshot_dir, trusted)?;
    remove(&target)?;
    let Content::Database { size, sha256 } = content else {
        if trusted.is_none() {
            let made = Acting::beside(&target)?.create_new(&target, 0o600)?;
            made.sync_all().at("cannot sync", &target)?;
            sync_directory(&target)?;
        }
        return Ok(Prepared { db, file: target, absent: true });
    };
    let source = snapshot_dir.join(DATABASE_FILE);
    let finish = |source: &Path, target: &Path| {
        let owner = match Owner::of(&db) {
            Ok(Some(owner)) => Some(owner),
            // Whatever has come in its place, the old version must have its own.
            Err(error) if trusted.is_none() || error.code != Code::DatabaseInvalid => return Err(error),
            _ => Owner::of(source)?,
        };
        if let Some(owner) = owner {
            owner.give(target)?;
        }
        let file = sqlite::open(target).at("cannot open", target)?;
        selinux::copy_label(&db, target, &file)?;
        file.sync_all().at("cannot sync", target)
    };
    let made = place(&source, &target).and_then(|(found, length)| {
        if (sha256.is_some() && sha256 != found) || size.is_some_and(|size| size != length) {
            return Err(invalid("does not match its recorded size or SHA-256").during(source.display()));
        }
        // This run's own snapshot was checked when it was taken, or is of a database that was already damaged then.
        if trusted.is_none() {
            sqlite::acting(&target, sqlite::check_at_rest).map_err(|error| match error.code {
                Code::DatabaseInvalid => invalid("is not a valid SQLite database").during(source.display()),
                _ => error,
            })?;
        }
        finish(&source, &target)?;
        for (log, suffix) in trusted.map_or(Ok(Vec::new()), |_| logs_of(&source))? {
            let place_of_log = sqlite::beside(&target, suffix);
            remove(&place_of_log)?;
            place(&log, &place_of_log)?;
            finish(&log, &place_of_log)?;
        }
        sync_directory(&target)?;
        Ok(length)
    });
    match made {
        Ok(_) => Ok(Prepared { db, file: target, absent: false }),
        Err(error) => {
            for file in [sqlite::beside(&target, sqlite::WAL), sqlite::beside(&target, sqlite::JOURNAL), target] {
                let _ = remove(&file);
            }
            Err(error)
        }
    }
}

/// What the snapshot's bytes must be: by the journal, else by the description.
fn wanted(snapshot_dir: &Path, trusted: Option<SnapshotId>) -> Result<Content> {
    match trusted {
        Some(SnapshotId::Absent) => Ok(Content::Absent),
        Some(SnapshotId::Linked) => Ok(Content::Database { size: None, sha256: None }),
        Some(SnapshotId::Sha256(digest)) => Ok(Content::Database { size: None, sha256: Some(digest) }),
        None => {
            let content = Backup::read(snapshot_dir)?.map(|backup| backup.content);
            content.ok_or_else(|| missing(&snapshot_dir.join(DESCRIPTION_FILE)))
        }
    }
}

fn open(file: &Path) -> Result<File> {
    match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(missing(file)),
        other => other.at("cannot read", file),
    }
}

/// True if there were any.
fn remove_sidecars(db: &Path) -> Result<bool> {
    let mut any = false;
    for suffix in sqlite::SIDECARS {
        let file = sqlite::beside(db, suffix);
        any |= durable::exists(&file)?;
        remove(&file)?;
    }
    Ok(any)
}

/// Makes the name of a file beside the database durable.
fn sync_directory(file: &Path) -> Result<()> {
    let acting = Acting::beside(file)?;
    acting.names(|| durable::sync_dir(durable::parent(&acting.path(file))))
}
