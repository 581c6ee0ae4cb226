//! What tells that a file is still the one that it was, and that nobody has written to it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::sqlite;
use crate::report::{Code, Error, IoContext, Result};

/// A file and the state of its bytes. A rename and a second name change nothing of it; the device is not in it, because
/// its number can be another after a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatData {
    /// Inode.
    pub(crate) ino: u64,
    /// Bytes.
    size: u64,
    /// Time of the last write, seconds since 1970.
    mtime: i64,
    /// And its nanoseconds.
    nanos: i64,
}

impl StatData {
    /// Of `path`, links followed; `None` if it is not there. Errors: `permission`, `io`.
    pub fn of(path: &Path) -> Result<Option<Self>> {
        match sqlite::look(path) {
            Ok(meta) => {
                Ok(Some(Self { ino: meta.ino(), size: meta.len(), mtime: meta.mtime(), nanos: meta.mtime_nsec() }))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).at("cannot look at", path),
        }
    }
}

/// Proves that the database `db` is as it was taken into `snapshot_dir`: the same file or none (`left`), not written to,
/// and without a log but the one that is kept there.
///
/// Errors: `database_busy`; `permission`, `io`.
pub(crate) fn check_left(db: &Path, left: Option<StatData>, snapshot_dir: &Path) -> Result<()> {
    let path = sqlite::live_path(db)?;
    let kept = snapshot_dir.join(super::backup::DATABASE_FILE);
    let mut untouched = StatData::of(&path)? == left;
    for suffix in sqlite::LOGS {
        let log = sqlite::log_size(&sqlite::beside(&path, suffix))?;
        untouched &= log == 0 || log == sqlite::log_size(&sqlite::beside(&kept, suffix))?;
    }
    if untouched { Ok(()) } else { Err(used(db)) }
}

/// `database_busy`: a program has come between the stop and the start.
pub(super) fn used(db: &Path) -> Error {
    Error::new(Code::DatabaseBusy, format!("{} was opened while the agent was stopped for the update", db.display()))
        .advise("find what started the agent or opened its database meanwhile, stop that, then run the command again")
}

/// Whether `db` is the file of `stat_data` with nothing written to it or beside it.
pub(crate) fn is_unwritten(db: &Path, stat_data: Option<StatData>) -> Result<bool> {
    let path = sqlite::live_path(db)?;
    let logs = sqlite::LOGS.iter().map(|suffix| sqlite::log_size(&sqlite::beside(&path, suffix)));
    let logs = logs.sum::<Result<u64>>()?;
    Ok(stat_data.is_some() && StatData::of(&path)? == stat_data && logs == 0)
}
