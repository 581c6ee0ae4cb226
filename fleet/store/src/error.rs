//! Errors of the store, by what the caller may conclude from them.

use std::fmt;
use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

/// What went wrong: a line that names the file and says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Another writer was first, or the request was answered before: nothing was written. Load again and decide anew.
    Mismatch(String),
    /// Nothing was written: no space, an I/O error, a busy or read-only database.
    Unavailable(String),
    /// It may have been written, or not: open the store again and look.
    Unknown(String),
    /// A newer version of this program wrote the database.
    Newer(String),
    /// Another process has the data directory.
    Locked(String),
    /// It is not a database of this program, or it is damaged.
    Foreign(String),
    /// The caller asks for what would destroy something; nothing was done.
    Refused(String),
}

/// A result of the store.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The line.
    pub fn message(&self) -> &str {
        match self {
            Self::Mismatch(line)
            | Self::Unavailable(line)
            | Self::Unknown(line)
            | Self::Newer(line)
            | Self::Locked(line)
            | Self::Foreign(line)
            | Self::Refused(line) => line,
        }
    }

    /// What the operating system refused to do with `path` (`what`: "cannot open").
    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::Unavailable(format!("{what} {}: {error}{}", path.display(), advice(error)))
    }

    /// What SQLite refused before a COMMIT: nothing was written.
    pub(crate) fn sql(path: &Path, error: &rusqlite::Error) -> Self {
        let shown = path.display();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Foreign(format!("{shown} is damaged ({error}): restore a backup with `teleport-fleet restore`"))
            }
            Some(ErrorCode::DiskFull) => {
                Self::Unavailable(format!("{shown}: no space left on the disk, nothing was written: free some"))
            }
            Some(ErrorCode::ReadOnly) => Self::Unavailable(format!(
                "{shown} is read-only, nothing was written: check the mount and the owner of the file"
            )),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Unavailable(format!(
                "{shown} is locked by another process, nothing was written: end what has it open (`fuser {shown}`)"
            )),
            Some(ErrorCode::CannotOpen) => {
                Self::Unavailable(format!("cannot open {shown} ({error}): check that it exists and who owns it"))
            }
            _ => {
                Self::Unavailable(format!("{shown}: {error}: nothing was written; check the disk and the kernel's log"))
            }
        }
    }

    /// What SQLite refused at a COMMIT. In WAL mode a frame that does not fit on the disk, and a lock, come before the
    /// transaction's last frame; after any other error that frame may be on the disk (a failed fsync).
    pub(crate) fn at_commit(path: &Path, error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::sql(path, error)
            }
            _ => Self::Unknown(format!(
                "{}: {error} while writing: it is not known whether the change was kept; the store must be opened again",
                path.display()
            )),
        }
    }
}

/// Names the file that an I/O error is about, as [`Error::io`].
pub(crate) trait AtPath<T> {
    fn at(self, what: &str, path: &Path) -> Result<T>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, what: &str, path: &Path) -> Result<T> {
        self.map_err(|error| Error::io(what, path, &error))
    }
}

/// Names the database that an error is about, as [`Error::sql`].
pub(crate) trait OfDatabase<T> {
    fn sql(self, path: &Path) -> Result<T>;
}

impl<T> OfDatabase<T> for rusqlite::Result<T> {
    fn sql(self, path: &Path) -> Result<T> {
        self.map_err(|error| Error::sql(path, &error))
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": free some space",
        io::ErrorKind::ReadOnlyFilesystem => ": mount it writable",
        io::ErrorKind::PermissionDenied => ": check owner and mode, and that the right user runs this",
        io::ErrorKind::NotFound => ": make the directory first",
        _ => "",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}
