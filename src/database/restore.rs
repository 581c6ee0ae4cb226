//! Putting a snapshot in the place of the live database: prepared beside it, then swapped in by rename while the agent
//! is stopped (SPEC §6 "Restore"). Each function can be repeated after a crash at any point.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::backup::{Backup, Content, DATABASE_FILE, DESCRIPTION_FILE, LINKED, invalid, missing};
use super::snapshot::Owner;
use super::{digest, sqlite};
use crate::host::durable;
use crate::report::{Code, Error, IoContext, Result};

/// The attribute that holds a file's SELinux label.
const LABEL: &str = "security.selinux";
/// Longest label, bytes: more than policies have.
const MAX_LABEL: usize = 1024;

/// A snapshot that lies ready beside the live database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    db: PathBuf,
    absent: bool,
    size: u64,
}

impl Prepared {
    /// True if the snapshot says that there was no database: [`commit`] then removes the live one.
    pub fn is_absent(&self) -> bool {
        self.absent
    }

    /// Bytes of the prepared file.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// Copies the snapshot to its place beside `db`, checked and durable; nothing of the live database changes.
///
/// The copy gets owner, mode and SELinux label of the live database, or owner and mode of the snapshot where there is
/// none. `trusted` is the journalled identity of this run's snapshot; without it `backup.yaml` says what the bytes are.
///
/// Errors: `backup_missing`, `backup_invalid`, `no_space` (see [`prepare_by_link`]), `permission`, `io`; nothing is
/// left then.
pub fn prepare(snapshot_dir: &Path, db: &Path, trusted: Option<&str>) -> Result<Prepared> {
    make(snapshot_dir, db, trusted, |source, target| {
        let mut from = open(source)?;
        let mut to = durable::create_new(target, 0o600).at("cannot make", target)?;
        let copied = digest::copy(&mut from, &mut to).at("cannot write", target)?;
        to.sync_all().at("cannot sync", target)?;
        Ok(copied)
    })
}

/// As [`prepare`], but links the snapshot itself: the way back on a full disk.
///
/// After the swap the live database *is* the snapshot's file, so the caller removes that snapshot directory, whose
/// digest will not hold any more. Errors: as [`prepare`]; `io` if the two are on different file systems.
pub fn prepare_by_link(snapshot_dir: &Path, db: &Path, trusted: Option<&str>) -> Result<Prepared> {
    make(snapshot_dir, db, trusted, |source, target| {
        // What has no digest to compare need not be read: it may be what cannot be.
        let described = match trusted {
            Some(LINKED) => (String::new(), std::fs::metadata(source).at("cannot look at", source)?.len()),
            _ => digest::of_file(source)?,
        };
        std::fs::hard_link(source, target).at("cannot link", target)?;
        Ok(described)
    })
}

/// Swaps a prepared database in, or removes the live one if the snapshot says there was none. The agent is stopped and
/// the database it leaves is already snapshotted.
pub fn commit(prepared: &Prepared) -> Result<()> {
    if prepared.absent {
        return remove_database(&prepared.db);
    }
    match swap(&prepared.db)? {
        true => Ok(()),
        false => Err(missing(&prepared_path(&sqlite::live_path(&prepared.db)))),
    }
}

/// Swaps in what [`prepare`] left beside `db`; true if there was something. The agent is stopped.
pub fn swap(db: &Path) -> Result<bool> {
    let db = sqlite::live_path(db);
    let prepared = prepared_path(&db);
    if !durable::exists(&prepared)? {
        return Ok(false);
    }
    // The old database's log beside the new file would be replayed into it, so it goes first, and durably.
    remove_sidecars(&db)?;
    durable::rename(&prepared, &db)?;
    // Two names of one file are left alone by rename: the snapshot linked was the live file itself.
    durable::remove_file(&prepared)?;
    remove_sidecars(&db)?;
    Ok(true)
}

/// Removes the live database with all that belongs to it: the restoration of "no database". The agent is stopped.
pub fn remove_database(db: &Path) -> Result<()> {
    let db = sqlite::live_path(db);
    // The database first: without it a left-over log is never replayed.
    durable::remove_file(&db)?;
    remove_sidecars(&db)
}

/// Removes what [`prepare`] left beside `db`, if anything.
pub fn discard(db: &Path) -> Result<()> {
    durable::remove_file(&prepared_path(&sqlite::live_path(db)))
}

/// Where a snapshot lies ready for `db`.
pub fn prepared_path(db: &Path) -> PathBuf {
    let name = db.file_name().unwrap_or_default().to_string_lossy();
    durable::parent(db).join(format!(".{name}.teleport-update"))
}

fn make(
    snapshot_dir: &Path,
    db: &Path,
    trusted: Option<&str>,
    place: impl Fn(&Path, &Path) -> Result<(String, u64)>,
) -> Result<Prepared> {
    let db = sqlite::live_path(db);
    let (digest, size) = match wanted(snapshot_dir, trusted)? {
        Content::Absent => return Ok(Prepared { db, absent: true, size: 0 }),
        Content::Database { size, sha256 } => (sha256, size),
    };
    let source = snapshot_dir.join(DATABASE_FILE);
    let target = prepared_path(&db);
    durable::remove_file(&target)?;
    let made = place(&source, &target).and_then(|(found, length)| {
        if digest.is_some_and(|digest| digest != found) || size.is_some_and(|size| size != length) {
            return Err(invalid("has other bytes than it should have").during(source.display()));
        }
        // This run's own snapshot was checked when it was taken, or is of a database that was already damaged then.
        if trusted.is_none() {
            sqlite::check_at_rest(&target).map_err(|error| match error.code {
                Code::DatabaseInvalid => invalid("is not a good database").during(source.display()),
                _ => error,
            })?;
        }
        let owner = match Owner::of(&db)? {
            Some(owner) => Some(owner),
            None => Owner::of(&source)?,
        };
        if let Some(owner) = owner {
            owner.give(&target)?;
        }
        copy_label(&db, &target)?;
        durable::sync_file(&target)?;
        durable::sync_dir(durable::parent(&target))?;
        Ok(length)
    });
    match made {
        Ok(size) => Ok(Prepared { db, absent: false, size }),
        Err(error) => {
            let _ = durable::remove_file(&target);
            Err(error)
        }
    }
}

/// What the snapshot's bytes must be: by the journal, else by the description.
fn wanted(snapshot_dir: &Path, trusted: Option<&str>) -> Result<Content> {
    match trusted {
        Some("absent") => Ok(Content::Absent),
        Some(LINKED) => Ok(Content::Database { size: None, sha256: None }),
        Some(digest) => Ok(Content::Database { size: None, sha256: Some(digest.to_owned()) }),
        None => match Backup::read(snapshot_dir)? {
            Some(backup) => Ok(backup.content),
            None => Err(missing(&snapshot_dir.join(DESCRIPTION_FILE))),
        },
    }
}

fn open(file: &Path) -> Result<File> {
    match File::open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(missing(file)),
        other => other.at("cannot read", file),
    }
}

fn remove_sidecars(db: &Path) -> Result<()> {
    for suffix in sqlite::SIDECARS {
        durable::remove_file(&sqlite::beside(db, suffix))?;
    }
    Ok(())
}

/// Gives `to` the SELinux label of `from`, where labels exist and `from` does.
fn copy_label(from: &Path, to: &Path) -> Result<()> {
    let mut label = [0; MAX_LABEL];
    let length = match rustix::fs::lgetxattr(from, LABEL, &mut label[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NODATA | Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error).at("cannot read the SELinux label of", from),
    };
    match rustix::fs::lsetxattr(to, LABEL, &label[..length], XattrFlags::empty()) {
        Ok(()) | Err(Errno::NOTSUP) => Ok(()),
        Err(error) => Err(Error::new(
            Code::of_io(&error.into()),
            format!("cannot set the SELinux label of {}: {error}", to.display()),
        )),
    }
}
