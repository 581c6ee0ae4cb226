//! What can be known of the agent's database without opening it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::sqlite;
use crate::report::{Code, Error, IoContext, Result};

/// The agent's database as it lies there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseFacts {
    /// The database's path, links resolved.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
    /// Bytes of the database and its write-ahead log: what a snapshot takes at most.
    pub size: u64,
}

impl DatabaseFacts {
    /// Looks at `db` (`<data_dir>/proc/sqlite.db`). Errors: `permission`, `io`; `database_invalid` if it is no file.
    pub fn gather(db: &Path) -> Result<Self> {
        let path = sqlite::live_path(db);
        let size = |path: &Path| match std::fs::metadata(path) {
            Ok(meta) if !meta.is_file() => {
                Err(Error::new(Code::DatabaseInvalid, format!("{} is not a file", path.display())))
            }
            Ok(meta) => Ok(Some(meta.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).at("cannot look at", path),
        };
        let own = size(&path)?;
        let log = size(&sqlite::beside(&path, "-wal"))?;
        Ok(Self { exists: own.is_some(), size: own.unwrap_or_default() + log.unwrap_or_default(), path })
    }
}
