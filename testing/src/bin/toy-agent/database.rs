//! The agent's database: a schema that only moves forward, a row per start, and writers that keep a record.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, TransactionBehavior};

use crate::identity::Identity;

/// How often a writer that waits for another looks again: parent and child of a reload share the database. SQLite's own
/// `busy_timeout` waits up to 100 ms between two looks, and starves for 10 s and more beside a writer without pause.
const BUSY_LOOK: Duration = Duration::from_millis(1);
/// Looks before it gives up: half a minute.
const BUSY_LOOKS: i32 = 30_000;

/// No version can read this; see `corrupts-schema`.
const SPOILT_SCHEMA: i64 = 999;

/// Opens `path`, migrates it to the identity's schema and inserts this start's row.
///
/// # Errors
/// What SQLite says, or that the database is newer than this version.
pub(crate) fn open(path: &Path, identity: &Identity) -> Result<Connection, String> {
    let directory = path.parent().expect("the database has a directory");
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| error.to_string())?;
    let mut connection = connect(path).map_err(|error| error.to_string())?;
    // Cannot be changed while another process has the database open; then the present mode is kept.
    let _ = connection.pragma_update(None, "journal_mode", &identity.journal);
    migrate(&mut connection, identity.schema)?;
    connection
        .execute("INSERT INTO rows (version, note) VALUES (?1, 'start')", [&identity.version])
        .map_err(|error| error.to_string())?;
    Ok(connection)
}

/// Leaves a schema that no version accepts, without its table of rows.
///
/// # Errors
/// What SQLite says.
pub(crate) fn spoil_schema(connection: &Connection) -> Result<(), String> {
    connection
        .execute_batch(&format!("DROP TABLE rows; PRAGMA user_version = {SPOILT_SCHEMA};"))
        .map_err(|error| error.to_string())
}

/// Overwrites the first page below SQLite's feet.
///
/// # Errors
/// What the file system says.
pub(crate) fn spoil_file(connection: Connection, path: &Path) -> std::io::Result<()> {
    let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    drop(connection);
    OpenOptions::new().write(true).open(path)?.write_all_at(&[0xA5; 4096], 0)
}

/// A thread that inserts rows, and records each in `acked.log` after its commit.
///
/// A row's id is the time, in microseconds: no two acknowledged rows are alike, also where a restore took ids back.
#[derive(Debug)]
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts the thread with a connection of its own.
    pub(crate) fn start(database: &Path, acked: &Path, identity: &Identity) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, database, identity) = (Arc::clone(&stop), database.to_owned(), identity.clone());
        let acked = OpenOptions::new().append(true).create(true).open(acked).expect("acked.log can be opened");
        let thread = std::thread::spawn(move || {
            if let Err(error) = write(&database, &acked, &identity, &stopped) {
                eprintln!("ERROR: writer: {error}");
            }
        });
        Self { stop, thread }
    }

    /// Ends after the transaction at hand.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

fn write(database: &Path, mut acked: &File, identity: &Identity, stopped: &AtomicBool) -> Result<(), String> {
    let mut connection = connect(database).map_err(|error| error.to_string())?;
    let version = &identity.version;
    while !stopped.load(Ordering::Relaxed) {
        let ids = transaction(&mut connection, identity).map_err(|error| error.to_string())?;
        let lines: String = ids.iter().map(|id| format!("{version} {id}\n")).collect();
        // One write call: parent and child append to the same file.
        acked.write_all(lines.as_bytes()).map_err(|error| error.to_string())?;
        std::thread::sleep(identity.pace.rest);
    }
    Ok(())
}

/// Inserts and commits: one row, or one each millisecond while the transaction is to last. The ids, once they are safe.
fn transaction(connection: &mut Connection, identity: &Identity) -> rusqlite::Result<Vec<i64>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let begun = Instant::now();
    let mut ids = Vec::new();
    loop {
        // Parent and child of a reload may meet in one microsecond; then the next one is taken.
        let id = transaction.query_row(
            "INSERT INTO rows (id, version, note) VALUES (max(?1, (SELECT ifnull(max(id), 0) + 1 FROM rows)), ?2, \
             'written without pause') RETURNING id",
            (microseconds(), &identity.version),
            |row| row.get(0),
        )?;
        ids.push(id);
        if begun.elapsed() >= identity.pace.transaction {
            transaction.commit()?;
            return Ok(ids);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The time.
fn microseconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(path)?;
    connection.busy_handler(Some(|looks| {
        std::thread::sleep(BUSY_LOOK);
        looks < BUSY_LOOKS
    }))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

fn migrate(connection: &mut Connection, own: i64) -> Result<(), String> {
    let migrate = |connection: &mut Connection| -> rusqlite::Result<i64> {
        let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found: i64 = change.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if found < own {
            change
                .execute_batch("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, version TEXT, note TEXT);")?;
            for schema in found + 1..=own {
                change.execute_batch(&format!(
                    "CREATE TABLE t{schema} (id INTEGER PRIMARY KEY); ALTER TABLE rows ADD COLUMN c{schema} TEXT;"
                ))?;
            }
            change.pragma_update(None, "user_version", own)?;
            change.commit()?;
        }
        Ok(found)
    };
    match migrate(connection).map_err(|error| error.to_string())? {
        found if found > own => Err(format!("database is newer (schema {found}) than this version (schema {own})")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_schema_cannot_open_a_newer_database() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("proc/sqlite.db");
        let identity = |version: &str, schema: i64| {
            let trailer = format!("\nTOYAGENT {{\"version\":\"{version}\",\"schema\":{schema}}}\n");
            Identity::parse(trailer.as_bytes()).unwrap()
        };
        open(&path, &identity("1.0.0", 1)).unwrap();
        open(&path, &identity("3.0.0", 3)).unwrap();
        assert!(open(&path, &identity("1.0.0", 1)).unwrap_err().contains("newer"));
        let connection = open(&path, &identity("3.0.1", 3)).unwrap();
        let rows: i64 = connection.query_row("SELECT count(*) FROM rows", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 3);
    }
}
