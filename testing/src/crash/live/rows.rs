//! Rows that the agent acknowledged, and where they are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::cell::Cell;

/// Where the agent's database is in a cell.
pub const DATABASE: &str = "/var/lib/teleport/proc/sqlite.db";
/// Where the versions are.
pub const VERSIONS: &str = "/var/lib/teleport/versions";
/// How often who waits for a writer looks again. SQLite's own `busy_timeout` waits up to 100 ms between two looks, and
/// starves for half a minute beside a writer that hardly rests.
const BUSY_LOOK: Duration = Duration::from_millis(1);
/// Looks before it gives up: half a minute and more.
const BUSY_LOOKS: i32 = 30_000;

/// A row: the version that wrote it, and its id, which no two rows share.
pub type Row = (String, i64);

/// What the agents of the cell have acknowledged, in order.
pub fn acknowledged(cell: &Cell) -> Vec<Row> {
    let text = std::fs::read_to_string(cell.path("/var/lib/teleport/acked.log")).unwrap_or_default();
    // A line that is being written has no end yet.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let row = |line: &str| line.split_once(' ').and_then(|(version, id)| Some((version.to_owned(), id.parse().ok()?)));
    whole.lines().filter_map(row).collect()
}

/// The rows of the live database.
///
/// # Errors
/// What SQLite says.
pub fn live(cell: &Cell) -> Result<BTreeSet<Row>, String> {
    in_file(&cell.path(DATABASE))
}

/// The rows in every snapshot and every piece of evidence.
///
/// # Errors
/// What SQLite says of one that must be good.
pub fn kept(cell: &Cell) -> Result<BTreeSet<Row>, String> {
    let mut rows = BTreeSet::new();
    for version in std::fs::read_dir(cell.path(VERSIONS)).into_iter().flatten().flatten() {
        let backups = std::fs::read_dir(version.path()).into_iter().flatten().flatten();
        for backup in backups.filter(|entry| entry.file_name().to_string_lossy().starts_with("backup")) {
            let file = backup.path().join("sqlite.db");
            if file.exists() {
                rows.extend(in_file(&file)?);
            }
        }
    }
    Ok(rows)
}

/// The rows of `version`'s snapshot in a template: of a copy, since SQLite makes files beside what it opens, and other flows
/// copy the template meanwhile.
///
/// # Errors
/// What SQLite or the file system says.
pub fn in_snapshot(template: &Path, version: &str) -> Result<BTreeSet<Row>, String> {
    let place = template.join("root").join(VERSIONS.trim_start_matches('/')).join(version).join("backup/sqlite.db");
    let copied = || -> std::io::Result<(tempfile::TempDir, PathBuf)> {
        let dir = crate::crash::host::scratch()?;
        let copy = dir.path().join("sqlite.db");
        std::fs::copy(&place, &copy)?;
        Ok((dir, copy))
    };
    let (_dir, copy) = copied().map_err(|error| format!("{}: {error}", place.display()))?;
    in_file(&copy)
}

/// The rows in the database at `path`; the agent may be writing to it.
///
/// # Errors
/// What SQLite says.
pub fn in_file(path: &Path) -> Result<BTreeSet<Row>, String> {
    let read = || -> rusqlite::Result<BTreeSet<Row>> {
        let database = open(path)?;
        let mut statement = database.prepare("SELECT version, id FROM rows")?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    read().map_err(|error| format!("{}: {error}", path.display()))
}

/// `user_version` of the live database, once `quick_check` has nothing to say.
///
/// # Errors
/// What SQLite says.
pub fn schema(cell: &Cell) -> Result<i64, String> {
    let path = cell.path(DATABASE);
    let read = || -> rusqlite::Result<(String, i64)> {
        let database = open(&path)?;
        Ok((
            database.query_row("PRAGMA quick_check", [], |row| row.get(0))?,
            database.query_row("PRAGMA user_version", [], |row| row.get(0))?,
        ))
    };
    let (check, schema) = read().map_err(|error| format!("{}: {error}", path.display()))?;
    if check == "ok" { Ok(schema) } else { Err(format!("quick_check: {check}")) }
}

/// A database that is there, beside whoever writes to it.
///
/// # Errors
/// What SQLite says; busy after half a minute.
pub fn open(path: &Path) -> rusqlite::Result<Connection> {
    let mut database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    database.busy_handler(Some(|looks| {
        std::thread::sleep(BUSY_LOOK);
        looks < BUSY_LOOKS
    }))?;
    Ok(database)
}
