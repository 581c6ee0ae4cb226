//! A database that SQLite cannot copy, kept as the files that it consists of: damage must not keep a host on its version
//! (SPEC §6, a damaged database).

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::io::Errno;

use super::backup::{Backup, Content, DATABASE_FILE};
use super::snapshot::{Clock, MAX_PASSES, Owner, Snapshot, Subject, describe, write};
use super::stat_data::StatData;
use super::stopped::{checkpoint, place};
use super::{directory, sqlite};
use crate::host::durable;
use crate::report::{Error, IoContext, Result};

/// How many times larger than what the disk holds of it a file says it is before nobody can have written that: file
/// systems that compress make about a tenth of rows.
const HOLLOW_TIMES: u64 = 64;
/// Below this a file is copied whatever it holds, bytes: it costs nothing.
const SMALL: u64 = 1 << 30;

/// What keeps SQLite from being asked at all: another thing than a file in the place of the database or of one of its
/// logs. Opening a FIFO could wait for ever.
///
/// Errors: `permission`, `io`.
pub(super) fn oddity(db: &Path) -> Result<Option<String>> {
    for file in sqlite::files(db) {
        match sqlite::look(&file) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Ok(Some(format!("{} is not a file", file.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOTDIR | Errno::LOOP)) => {
                return Ok(Some(format!("{} is not a file: {error}", file.display())));
            }
            Err(error) => return Err(error).at("cannot look at", &file),
        }
    }
    Ok(None)
}

/// Whether `bytes` (of the file `path`, by its own account) cannot have been written: a hole of terabytes costs an agent
/// nothing, and would cost a copy the disk.
pub(super) fn is_hollow(path: &Path, bytes: u64) -> bool {
    // In units of 512 bytes, whatever the file system's blocks are (stat(2)).
    let held = std::fs::metadata(path).map_or(u64::MAX, |meta| meta.blocks().saturating_mul(512));
    bytes > SMALL && bytes / HOLLOW_TIMES > held
}

/// Bytes that a snapshot of `db` can take on the disk.
pub(crate) fn room_for_copy(db: &Path) -> u64 {
    // An estimate: what cannot be looked at fails where it is copied.
    let Ok(db) = sqlite::live_path(db) else { return 0 };
    let of = |suffix| {
        let file = sqlite::beside(&db, suffix);
        let size = std::fs::metadata(&file).map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 });
        if is_hollow(&file, size) { 0 } else { size }
    };
    of("") + sqlite::LOGS.iter().copied().map(of).sum::<u64>()
}

/// Keeps what there is of `db` in the fresh directory `dir`, described as never to be restored. Where another thing than
/// a file stands in the database's place there is nothing to keep, nor of one that is all holes.
///
/// Errors: `interrupted`, `no_space`, `permission`, `io`.
pub(super) fn keep(db: &Path, dir: &Path, subject: &Subject<'_>, clock: &Clock<'_>, why: Error) -> Result<Snapshot> {
    copy_files(db, dir, clock)?;
    let copy = dir.join(DATABASE_FILE);
    let backup = if durable::exists(&copy)? {
        describe(dir, subject, true)?
    } else {
        // An undo leaves holes where they are, and takes away what has come in the place of no file.
        let is_file = sqlite::look(db).is_ok_and(|meta| meta.is_file());
        let content = if is_file { Content::Database { size: None, sha256: None } } else { Content::Absent };
        write(dir, subject, content, true)?
    };
    Ok(Snapshot { backup, raw: true, damage: Some(why) })
}

/// Takes a database that others keep locked as a power cut would leave it, and recovers the copy as SQLite does after
/// one. What comes of it that is whole, and that nobody wrote to meanwhile, is as good as any.
///
/// Errors: as [`keep`].
pub(super) fn take_locked(
    db: &Path,
    dir: &Path,
    subject: &Subject<'_>,
    clock: &Clock<'_>,
    why: Error,
) -> Result<Snapshot> {
    let before = stamps(db)?;
    copy_files(db, dir, clock)?;
    let copy = dir.join(DATABASE_FILE);
    let is_still = stamps(db)? == before && durable::exists(&copy)?;
    let whole = checkpoint(&copy, clock);
    if is_still && whole.is_ok() && whole.and_then(|()| alone(&copy)).is_ok() {
        let backup: Backup = describe(dir, subject, subject.failed)?;
        return Ok(Snapshot { backup, raw: false, damage: Some(why) });
    }
    // What SQLite made of it is not what there was.
    keep(db, dir, subject, clock, why)
}

/// The copy is one file again.
fn alone(copy: &Path) -> Result<()> {
    sqlite::SIDECARS.iter().try_for_each(|suffix| durable::remove_file(&sqlite::beside(copy, suffix)))?;
    sqlite::check_at_rest(copy)
}

/// Copies every file of the database, again while somebody writes to them.
fn copy_files(db: &Path, dir: &Path, clock: &Clock<'_>) -> Result<()> {
    for _ in 0..MAX_PASSES {
        directory::make_fresh(dir)?;
        let before = stamps(db)?;
        for suffix in sqlite::ROWS {
            clock.check(db)?;
            let (from, to) = (sqlite::beside(db, suffix), sqlite::beside(&dir.join(DATABASE_FILE), suffix));
            let meta = match sqlite::look(&from) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
                meta => meta.at("cannot look at", &from)?,
            };
            if meta.is_file()
                && !is_hollow(&from, meta.len())
                && let Some(owner) = Owner::of(&from)?
            {
                place(&from, &to, false, owner)?;
            }
        }
        durable::sync_dir(dir)?;
        if stamps(db)? == before {
            break;
        }
    }
    Ok(())
}

/// What changes when somebody writes.
fn stamps(db: &Path) -> Result<Vec<(OsString, Option<StatData>)>> {
    let of = |suffix: &&str| {
        let file = sqlite::beside(db, suffix);
        Ok((
            OsString::from(suffix),
            match StatData::of(&file) {
                Err(_) if !durable::exists(&file)? => None,
                stat_data => stat_data?,
            },
        ))
    };
    sqlite::ROWS.iter().map(of).collect()
}
