//! Connections to a database, with what each needs.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, TransactionBehavior};

use crate::error::{Error, OfDatabase, Result};
use crate::sql::{Sql, SqlRow, SqlValue};

/// How long a lock of another process is waited for: an operator's stop must be decided within 2 s (FLEET §11).
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// Memory for pages, KiB: a million hosts leave 256 MiB for everything (FLEET §11).
const CACHE_KIB: i64 = 8 * 1024;
/// Pages in the log before they are brought into the database: 16 MiB, some batches of hosts.
const CHECKPOINT_PAGES: i64 = 4096;
/// The log's file is cut to this when it begins anew, bytes.
pub(crate) const LOG_LIMIT: u64 = 64 * 1024 * 1024;
/// Tables that are small and that nothing works without; damage of hosts is seen when they are loaded.
const CHECKED: [&str; 4] = ["schema_version", "store", "book", "resource"];

/// How SQLite uses files: one process owns the database, and its connections share the index of the log in its memory. In a file that
/// is mapped, as elsewhere, a page without room on the disk ends the process (SIGBUS): file systems that copy on write reserve none.
const OWNED: &str = "unix-excl";

/// Opens a database that is there, for writing. No link is followed.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    let connection = with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let is_readonly = connection.is_readonly("main").sql(path)?;
    if is_readonly {
        return Err(Error::Unavailable(format!(
            "{} can only be read: check the mount, its owner and its mode",
            path.display()
        )));
    }
    read_log(&connection).sql(path)?;
    Ok(connection)
}

/// Has SQLite read the log; from now on it may bring it into the database at the end, and remove it.
fn read_log(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map(drop)
}

/// Opens a database that is there, for reading. Of who opens it read-only, and first, SQLite takes no ownership: it would map a file.
pub(crate) fn open_for_reading(path: &Path) -> Result<Connection> {
    let connection = with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "query_only", true).sql(path)?;
    Ok(connection)
}

/// Opens a database without locks and without its log: nobody may write it, nothing beside it is made.
pub(crate) fn open_still(path: &Path) -> Result<Connection> {
    // In a URI these mean something else.
    let name = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let uri = format!("file:{name}?immutable=1");
    with_flags(Path::new(&uri), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

fn with_flags(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let open = || {
        let connection = Connection::open_with_flags_and_vfs(path, flags, OWNED)?;
        // Of a log that it could not read SQLite believes at the end that nothing is in it, and removes it.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.busy_timeout(LOCK_WAIT)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    };
    open().map_err(|error| owned(path, &error))
}

/// Refuses a database that another process owns. Errors: `Locked`, `Foreign`, `Unavailable`.
pub(crate) fn refuse_owned(connection: &Connection, path: &Path) -> Result<()> {
    let read = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
    read.map_err(|error| owned(path, &error))
}

/// What a first look at a database ends with.
fn owned(path: &Path, error: &rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy) => Error::Locked(format!("{} is open in another process", path.display())),
        _ => Error::sql(path, error),
    }
}

/// Switches to the write-ahead log.
pub(crate) fn log_ahead(connection: &Connection, path: &Path) -> Result<()> {
    set_journal(connection, path, "wal")?;
    let limits = || {
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        connection.pragma_update(None, "journal_size_limit", LOG_LIMIT.cast_signed())
    };
    limits().sql(path)
}

/// Brings the whole log into the database and switches it off: afterwards the database is one file.
pub(crate) fn settle(connection: &Connection, path: &Path) -> Result<()> {
    set_journal(connection, path, "delete")
}

fn set_journal(connection: &Connection, path: &Path, mode: &str) -> Result<()> {
    let set: String = connection.pragma_update_and_check(None, "journal_mode", mode, |row| row.get(0)).sql(path)?;
    if set == mode {
        return Ok(());
    }
    Err(Error::Unavailable(format!(
        "{} cannot switch to journal mode {mode} (it is {set}): end what else has it open; a network file system will not do",
        path.display()
    )))
}

/// Brings the log into the database and empties it. False: a reader was in the way.
pub(crate) fn checkpoint(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0).map(|is_busy: bool| !is_busy))
}

/// [`checkpoint`], without waiting for readers.
pub(crate) fn checkpoint_now(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let done = checkpoint(connection);
    connection.busy_timeout(LOCK_WAIT)?;
    done
}

/// Does `act` in one transaction, which keeps all of it or nothing.
pub(crate) fn immediate<T>(
    connection: &mut Connection,
    path: &Path,
    act: impl FnOnce(&Sqlite<'_>) -> Result<T>,
) -> Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).sql(path)?;
    let done = act(&sqlite(&transaction, path))?;
    transaction.commit().sql(path)?;
    Ok(done)
}

/// Looks for damage in the small tables.
pub(crate) fn check_small_tables(connection: &Connection, path: &Path) -> Result<()> {
    CHECKED.iter().try_for_each(|table| pragma_check(connection, path, &format!("PRAGMA quick_check('{table}')")))
}

/// Looks for damage everywhere.
pub(crate) fn check_all(connection: &Connection, path: &Path) -> Result<()> {
    pragma_check(connection, path, "PRAGMA integrity_check(1)")
}

fn pragma_check(connection: &Connection, path: &Path, sql: &str) -> Result<()> {
    let found: String = connection.query_row(sql, [], |row| row.get(0)).sql(path)?;
    if found == "ok" {
        return Ok(());
    }
    Err(Error::Foreign(format!(
        "{} is damaged ({found}): restore a backup with `teleport-fleet restore`",
        path.display()
    )))
}

/// A connection to the database at a path.
pub(crate) struct Sqlite<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) path: &'a Path,
}

/// See [`Sqlite`]; a transaction is one as well.
pub(crate) fn sqlite<'a>(connection: &'a Connection, path: &'a Path) -> Sqlite<'a> {
    Sqlite { connection, path }
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Owned(text) => ValueRef::Text(text.as_bytes()),
            Self::Id(id) => ValueRef::Blob(id),
            Self::Key(key) => ValueRef::Blob(key),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl SqlRow for rusqlite::Row<'_> {
    fn number(&self, column: usize) -> std::result::Result<Option<i64>, String> {
        self.get(column).map_err(|error| error.to_string())
    }

    fn text(&self, column: usize) -> std::result::Result<Option<&str>, String> {
        let value = self.get_ref(column).map_err(|error| error.to_string())?;
        value.as_str_or_null().map_err(|error| error.to_string())
    }

    fn bytes(&self, column: usize) -> std::result::Result<Option<&[u8]>, String> {
        let value = self.get_ref(column).map_err(|error| error.to_string())?;
        value.as_blob_or_null().map_err(|error| error.to_string())
    }
}

impl Sql for Sqlite<'_> {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn execute(&self, sql: &str, with: &[SqlValue<'_>]) -> Result<u64> {
        let done =
            self.connection.prepare_cached(sql).and_then(|mut sql| sql.execute(rusqlite::params_from_iter(with)));
        // A count of rows has at most 64 bits.
        done.map(|rows| u64::try_from(rows).unwrap_or(u64::MAX)).sql(self.path)
    }

    fn execute_each(&self, sql: &str, rows: &[Vec<SqlValue<'_>>]) -> Result<()> {
        let each = || {
            let mut sql = self.connection.prepare_cached(sql)?;
            rows.iter().try_for_each(|row| sql.execute(rusqlite::params_from_iter(row)).map(drop))
        };
        if rows.is_empty() { Ok(()) } else { each().sql(self.path) }
    }

    fn each(&self, sql: &str, with: &[SqlValue<'_>], take: &mut dyn FnMut(&dyn SqlRow) -> Result<()>) -> Result<()> {
        let mut sql = self.connection.prepare_cached(sql).sql(self.path)?;
        let mut rows = sql.query(rusqlite::params_from_iter(with)).sql(self.path)?;
        while let Some(row) = rows.next().sql(self.path)? {
            take(row)?;
        }
        Ok(())
    }
}
