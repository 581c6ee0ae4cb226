//! The agent's database: made, left behind by a crash, and looked at.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

/// Where it is in an image.
pub const PATH: &str = "var/lib/teleport/proc/sqlite.db";
/// Where it is in an image whose agent has a user and a data directory of its own.
pub const OWN_PATH: &str = "srv/agent/proc/sqlite.db";
/// Suffixes of the files that SQLite keeps beside a database.
const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// SQLite's usual page, bytes.
const PAGE: usize = 4096;

/// What a good database holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// `user_version`.
    pub schema: u32,
    /// Every acknowledged row.
    pub rows: Vec<String>,
    /// User, group and mode of its file.
    pub owner: String,
}

/// The database of the image below `root`.
pub fn of_image(root: &Path) -> PathBuf {
    let own = root.join(OWN_PATH);
    if own.exists() { own } else { root.join(PATH) }
}

/// Migrates the database at `path` to `schema`, or makes it, and adds a row that names the schema. It is closed
/// cleanly.
pub fn migrate(path: &Path, schema: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let database = Connection::open(path).unwrap();
    insert(&database, schema, "schema", 1);
}

/// The same, by an agent that is killed: write-ahead logging, and `rows` that are in the log alone, which nobody has
/// checkpointed.
pub fn migrate_and_crash(path: &Path, schema: u32, rows: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let living = scratch.path().join("sqlite.db");
    if path.exists() {
        std::fs::copy(path, &living).unwrap();
    }
    let database = Connection::open(&living).unwrap();
    database.execute_batch("PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0").unwrap();
    insert(&database, schema, "in the log", rows);
    // Copied while the connection is open: closing it would checkpoint.
    std::fs::copy(&living, path).unwrap();
    for suffix in ["-wal", "-shm"] {
        let side = beside(path, suffix);
        std::fs::copy(beside(&living, suffix), &side).unwrap();
        let meta = std::fs::metadata(path).unwrap();
        chown(side, Some(meta.uid()), Some(meta.gid())).unwrap();
    }
}

/// The same, and pages of the file itself are damaged: it cannot be checkpointed, so that its log stays.
pub fn migrate_damage_and_crash(path: &Path, schema: u32, rows: u32) {
    let sql = "PRAGMA journal_mode = delete; CREATE TABLE big (v); INSERT INTO big VALUES (randomblob(20000))";
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
    migrate_and_crash(path, schema, rows);
    let mut bytes = std::fs::read(path).unwrap();
    let end = bytes.len() - 2 * PAGE;
    bytes[end..].fill(0xff);
    std::fs::write(path, bytes).unwrap();
}

fn insert(database: &Connection, schema: u32, name: &str, rows: u32) {
    database.execute_batch("CREATE TABLE IF NOT EXISTS kv (k, v)").unwrap();
    for number in 1..=rows {
        let row = (format!("{name} {schema}"), number);
        database.execute("INSERT INTO kv VALUES (?1, ?2)", row).unwrap();
    }
    database.pragma_update(None, "user_version", schema).unwrap();
}

/// What the database at `path` holds, if there is one. It is read from a copy, so that a log left by a crash stays.
///
/// # Errors
/// It cannot be read, `quick_check` finds something, or a file beside it is another user's.
pub fn read(path: &Path) -> Result<Option<Database>, String> {
    if !path.exists() {
        return Ok(None);
    }
    let read = || -> Result<Database, Box<dyn std::error::Error>> {
        let scratch = crate::crash::host::scratch()?;
        let copied = scratch.path().join("sqlite.db");
        std::fs::copy(path, &copied)?;
        let meta = std::fs::metadata(path)?;
        let owner = format!("{}:{} {:o}", meta.uid(), meta.gid(), meta.mode() & 0o7777);
        for suffix in SIDE_FILES {
            let side = beside(path, suffix);
            if std::fs::metadata(&side).is_ok_and(|side| side.uid() != meta.uid()) {
                return Err(format!("{suffix} is not of {owner}").into());
            }
            // The index of the log is made anew from the log.
            if suffix != "-shm" && side.exists() {
                std::fs::copy(&side, beside(&copied, suffix))?;
            }
        }
        let database = Connection::open(&copied)?;
        let check: String = database.query_row("PRAGMA quick_check", [], |row| row.get(0))?;
        if check != "ok" {
            return Err(format!("quick_check: {check}").into());
        }
        let schema = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let mut statement = database.prepare("SELECT k || ' = ' || v FROM kv ORDER BY rowid")?;
        let rows = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(Database { schema, rows, owner })
    };
    read().map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

/// `path` with something after its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
