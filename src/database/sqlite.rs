//! Opening and checking SQLite files, and what their errors mean to the operator.
//!
//! No file of an open database may be opened and closed by other means in this process: closing any descriptor of it
//! drops SQLite's POSIX locks.

use std::ffi::{CStr, OsString, c_char, c_int};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::host::acting::{Acting, HANDLES};
use crate::host::durable;
use crate::report::{Code, Error, IoContext, Result};

/// Ends of the names of what SQLite keeps beside a database: the log that rows go to, its index, and the journal from which a
/// transaction is rolled back.
pub(super) const WAL: &str = "-wal";
const SHM: &str = "-shm";
pub(super) const JOURNAL: &str = "-journal";
/// All of them.
pub(super) const SIDECARS: [&str; 3] = [WAL, SHM, JOURNAL];
/// Those of them that can hold rows.
pub(super) const LOGS: [&str; 2] = [WAL, JOURNAL];
/// The files that a database consists of, itself first.
pub(super) const FILES: [&str; 4] = ["", WAL, SHM, JOURNAL];
/// Those of them that can hold rows.
pub(super) const ROWS: [&str; 3] = ["", WAL, JOURNAL];

/// The database's own path: SQLite names its sidecars after the link's target, and a rename must not replace a link. A link
/// that others than root can make is not followed.
///
/// Errors: `io` where it cannot be told what it leads to.
pub(super) fn live_path(db: &Path) -> Result<PathBuf> {
    match Acting::beside(db) {
        Ok(acting) if !acting.is_foreign() => durable::real(db),
        Err(error) if error.code != Code::Permission => Err(error),
        _ => Ok(db.to_owned()),
    }
}

/// Does `work` with the database `db`, or a file beside it, with the rights of whose directory it is in; it gets the name that
/// the file has with them.
///
/// Errors: those of `work`; `permission` if that is not to be told.
pub(super) fn acting<T>(db: &Path, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let acting = opened_up(db)?;
    let here = acting.path(db);
    acting.act(|| work(&here))
}

/// Whose rights are used for the database `db`, or a file beside it. What its owner has taken from himself he has back then:
/// else neither this nor his agent could work with it.
///
/// Errors: `permission` if that is not to be told.
pub(super) fn opened_up(db: &Path) -> Result<Acting> {
    let acting = Acting::beside(db)?;
    acting.open_up(&files(db));
    Ok(acting)
}

/// What stands at `path`; a link counts as what it is where others than root can make one.
pub(super) fn look(path: &Path) -> std::io::Result<Metadata> {
    match Acting::beside(path) {
        Ok(acting) if !acting.is_foreign() => std::fs::metadata(path),
        _ => std::fs::symlink_metadata(path),
    }
}

/// Opens `path` for reading, with the rights of whose directory it is in; a link that others can make is not followed, and
/// a pipe in its place is not waited for.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    Acting::beside(path).map_err(|error| std::io::Error::other(error.what))?.open(path)
}

/// `path` with `suffix` behind its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// The names of what the database `db` consists of, itself first.
pub(crate) fn files(db: &Path) -> [PathBuf; 4] {
    FILES.map(|suffix| beside(db, suffix))
}

/// Bytes of the log `file` (one of [`LOGS`]) if it may hold rows, else 0. A rollback journal that begins with a zero has
/// done its work (sqlite.org, `PRAGMA journal_mode`, PERSIST).
///
/// Errors: `permission`, `io`.
pub(super) fn log_size(file: &Path) -> Result<u64> {
    let (size, is_file) = match look(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        other => other.at("cannot look at", file).map(|meta| (meta.len(), meta.is_file()))?,
    };
    let mut first = [0];
    let is_spent = is_file
        && size > 0
        && file.as_os_str().as_bytes().ends_with(JOURNAL.as_bytes())
        && open(file).and_then(|mut file| file.read(&mut first)).at("cannot read", file)? == 1
        && first == [0];
    Ok(if is_spent { 0 } else { size })
}

/// Opens a database that is there, for reading and for the recovery it may need after a crash; never creates one.
///
/// Reading alone would not do: a hot journal must be rolled back and a log without its index be recovered, which is
/// what the agent would do at its next start. As root, SQLite gives new sidecars the owner of the database. SQLite opens
/// files by their names whenever it likes: all use of the connection, its end too, is within [`acting`].
pub(super) fn open_live(db: &Path, wait: Duration) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = connect(db, db, flags)?;
    let set = connection.busy_timeout(wait).and_then(|()| connection.execute_batch("PRAGMA trusted_schema = OFF"));
    set.map_err(|error| explain(error, "cannot open", db))?;
    Ok(connection)
}

/// Opens a single-file database that nobody else uses, without locks and without making sidecars.
pub(super) fn open_at_rest(db: &Path) -> Result<Connection> {
    let path = std::path::absolute(db).unwrap_or_else(|_| db.to_owned());
    let uri = format!("file:{}?immutable=1", http_client::in_url(&path));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = connect(Path::new(&uri), db, flags)?;
    connection.execute_batch("PRAGMA trusted_schema = OFF").map_err(|error| explain(error, "cannot open", db))?;
    Ok(connection)
}

/// Opens `name`, which stands for `db`.
fn connect(name: &Path, db: &Path, flags: OpenFlags) -> Result<Connection> {
    let opened = if db.starts_with(HANDLES) {
        Connection::open_with_flags_and_vfs(name, flags, by_handle())
    } else {
        Connection::open_with_flags(name, flags)
    };
    opened.map_err(|error| explain(error, "cannot open", db))
}

/// SQLite's own way to the files of this system, but that names are taken as they are: it would follow the name of an open
/// directory to that directory's path, on which the rights may be lacking.
fn by_handle() -> &'static CStr {
    const NAME: &CStr = c"by-handle";
    const FULL_NAME: FullName = as_it_is;
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        // SAFETY: the table found is complete and lives as long as the process, its copy does, too; it is changed before it is
        // made known.
        unsafe {
            let usual = ffi::sqlite3_vfs_find(std::ptr::null());
            if let Some(usual) = usual.as_ref() {
                let own = Box::leak(Box::new(*usual));
                (own.pNext, own.zName, own.xFullPathname) = (std::ptr::null_mut(), NAME.as_ptr(), Some(FULL_NAME));
                ffi::sqlite3_vfs_register(own, 0);
            }
        }
    });
    NAME
}

/// The entry of the table that makes a full name.
type FullName = unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *const c_char, c_int, *mut c_char) -> c_int;

/// Copies `name` to the `room` bytes at `to`.
unsafe extern "C" fn as_it_is(_: *mut ffi::sqlite3_vfs, name: *const c_char, room: c_int, to: *mut c_char) -> c_int {
    // SAFETY: SQLite gives a string that ends with a zero, and as much room as it says.
    unsafe {
        let bytes = CStr::from_ptr(name).to_bytes_with_nul();
        if bytes.len() > usize::try_from(room).unwrap_or_default() {
            return ffi::SQLITE_CANTOPEN;
        }
        std::ptr::copy_nonoverlapping(name, to, bytes.len());
    }
    ffi::SQLITE_OK
}

/// `PRAGMA quick_check`: `database_invalid` with the first complaint unless it is `ok`.
fn quick_check(connection: &Connection, db: &Path) -> Result<()> {
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
pub(super) fn check_at_rest(db: &Path) -> Result<()> {
    twice(|| quick_check(&open_at_rest(db)?, db))
}

/// What is wrong with the rows, by the same check; an error that is not theirs is one.
pub(super) fn damage(db: &Path) -> Result<Option<Error>> {
    match check_at_rest(db) {
        Err(error) if error.code == Code::DatabaseInvalid => Ok(Some(error)),
        checked => checked.map(|()| None),
    }
}

/// Does `work` again where it met damage or an I/O error: to SQLite a read that failed with EIO is damage
/// (`SQLITE_IOERR_CORRUPTFS` ends as `SQLITE_CORRUPT`), and what goes by is not there a second time. Errors: the first.
pub(super) fn twice<T>(work: impl Fn() -> Result<T>) -> Result<T> {
    work().or_else(|first| match first.code {
        Code::DatabaseInvalid | Code::Io => work().map_err(|_| first),
        _ => Err(first),
    })
}

/// True if waiting may help.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Turns an SQLite error into ours; `action` is a clause such as "cannot open".
pub(super) fn explain(error: rusqlite::Error, action: &str, db: &Path) -> Error {
    let (code, advice) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (Code::DatabaseBusy, "another program has locked the database; run the command again when it has finished")
        }
        Some(ErrorCode::DiskFull) => (Code::NoSpace, "free space on that file system and run the command again"),
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (Code::Permission, "run as root")
        }
        Some(ErrorCode::ReadOnly) => (Code::ReadOnly, "remount it writable"),
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => (Code::Io, "check the disk and the kernel's log"),
        _ => (Code::DatabaseInvalid, "check whether the agent can open this database (it may be damaged)"),
    };
    Error::new(code, format!("{action} {}: {error}", db.display())).advise(advice)
}

/// SQLite's refusal, for calls that report a lock held by another in another way.
pub(super) fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_itself_its_log_the_logs_index_and_its_journal() {
        // sqlite.org, "Temporary Files Used By SQLite": the stop is proven by these.
        let names = ["/d/sqlite.db", "/d/sqlite.db-wal", "/d/sqlite.db-shm", "/d/sqlite.db-journal"];
        assert_eq!(files(Path::new("/d/sqlite.db")), names.map(PathBuf::from));
    }
}
