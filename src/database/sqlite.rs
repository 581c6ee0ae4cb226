//! Opening and checking SQLite files, and what their errors mean to the operator.
//!
//! No file of an open database may be opened and closed by other means in this process: closing any descriptor of it
//! drops SQLite's POSIX locks.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::OFlags;

use crate::host::acting::Acting;
use crate::report::{Code, Error, IoContext, Result};

/// Names of the files that belong to a database file.
pub const SIDECARS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Those of them that can hold rows.
pub const LOGS: [&str; 2] = ["-wal", "-journal"];

/// The database's own path: SQLite names its sidecars after the link's target, and a rename must not replace a link. A link
/// that others than root can make is not followed.
pub fn live_path(db: &Path) -> PathBuf {
    match Acting::beside(db) {
        Ok(acting) if !acting.is_foreign() => std::fs::canonicalize(db).unwrap_or_else(|_| db.to_owned()),
        _ => db.to_owned(),
    }
}

/// Does `work` with the database `db`, or a file beside it, with the rights of whose directory it is in.
///
/// Errors: those of `work`; `permission` if that is not to be told.
pub fn acting<T>(db: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    Acting::beside(db)?.act(work)
}

/// What stands at `path`; a link counts as what it is where others than root can make one.
pub fn look(path: &Path) -> std::io::Result<Metadata> {
    match Acting::beside(path) {
        Ok(acting) if !acting.is_foreign() => std::fs::metadata(path),
        _ => std::fs::symlink_metadata(path),
    }
}

/// Opens `path` for reading, with the rights of whose directory it is in; a link that others can make is not followed, and
/// a pipe in its place is not waited for.
pub fn open(path: &Path) -> std::io::Result<File> {
    let acting = Acting::beside(path).map_err(|error| std::io::Error::other(error.what))?;
    let flags = if acting.is_foreign() { OFlags::NOFOLLOW | OFlags::NONBLOCK } else { OFlags::NONBLOCK };
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = acting.act(|| Ok(File::options().read(true).custom_flags(flags).open(path)));
    opened.map_err(|error| std::io::Error::other(error.what))?
}

/// `path` with `suffix` behind its name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Bytes of the log `file` (one of [`LOGS`]) if it may hold rows, else 0. A rollback journal that begins with a zero has
/// done its work (sqlite.org, `PRAGMA journal_mode`, PERSIST).
///
/// Errors: `permission`, `io`.
pub fn log_size(file: &Path) -> Result<u64> {
    let size = match look(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        other => other.at("cannot look at", file)?.len(),
    };
    let mut first = [0];
    let is_spent = size > 0
        && file.as_os_str().as_bytes().ends_with(b"-journal")
        && open(file).and_then(|mut file| file.read(&mut first)).at("cannot read", file)? == 1
        && first == [0];
    Ok(if is_spent { 0 } else { size })
}

/// Opens a database that is there, for reading and for the recovery it may need after a crash; never creates one.
///
/// Reading alone would not do: a hot journal must be rolled back and a log without its index be recovered, which is
/// what the agent would do at its next start. As root, SQLite gives new sidecars the owner of the database. SQLite opens
/// files by their names whenever it likes: all use of the connection, its end too, is within [`acting`].
pub fn open_live(db: &Path, wait: Duration) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(db, flags).map_err(|error| explain(error, "cannot open", db))?;
    let set = connection.busy_timeout(wait).and_then(|()| connection.execute_batch("PRAGMA trusted_schema = OFF"));
    set.map_err(|error| explain(error, "cannot open", db))?;
    Ok(connection)
}

/// Opens a single-file database that nobody else uses, without locks and without making sidecars.
pub fn open_at_rest(db: &Path) -> Result<Connection> {
    let mut uri = String::from("file:");
    for byte in std::path::absolute(db).unwrap_or_else(|_| db.to_owned()).as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags).map_err(|error| explain(error, "cannot open", db))?;
    connection.execute_batch("PRAGMA trusted_schema = OFF").map_err(|error| explain(error, "cannot open", db))?;
    Ok(connection)
}

/// `PRAGMA quick_check`: `database_invalid` with the first complaint unless it is `ok`.
pub fn quick_check(connection: &Connection, db: &Path) -> Result<()> {
    let verdict: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| explain(error, "cannot check", db))?;
    if verdict == "ok" {
        return Ok(());
    }
    let verdict = verdict.lines().collect::<Vec<_>>().join(" ");
    Err(Error::new(Code::DatabaseInvalid, format!("{} is damaged: {verdict}", db.display())))
}

/// Whether a single file that nobody uses is a good database: `database_invalid` if not.
pub fn check_at_rest(db: &Path) -> Result<()> {
    quick_check(&open_at_rest(db)?, db)
}

/// True if waiting may help.
pub fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Turns an SQLite error into ours; `action` is a clause such as "cannot open".
pub fn explain(error: rusqlite::Error, action: &str, db: &Path) -> Error {
    let (code, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Code::DatabaseBusy, "another program holds the database; run the command again when it has finished")
        }
        Some(ErrorCode::DiskFull) => (Code::NoSpace, "free space on that file system and run the command again"),
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (Code::Permission, "run as root")
        }
        Some(ErrorCode::ReadOnly) => (Code::ReadOnly, "remount it writable"),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => (Code::Io, "check the disk and the kernel's log"),
        _ => (Code::DatabaseInvalid, "see whether the agent itself can open it"),
    };
    Error::new(code, format!("{action} {}: {error}", db.display())).advise(advice)
}

/// SQLite's refusal, for calls that report a lock held by another in another way.
pub fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}
