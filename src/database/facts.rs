//! What can be known of the agent's database without opening it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use super::backup::DATABASE_FILE;
use super::sqlite;
use crate::host::{durable, machine};
use crate::report::{Code, Error, Result};

/// For a transaction of the running agent: they are short.
const SCHEMA_WAIT: Duration = Duration::from_secs(2);

/// Whether `db` can be replaced by rename: a file can be made beside it, and it is neither mounted by itself, as a container's
/// single file can be, nor protected.
///
/// Errors: `database_invalid` if it is a mount point or protected; `permission`, `read_only`, `no_space`, `io`.
pub(crate) fn check_replaceable(db: &Path) -> Result<()> {
    let path = sqlite::live_path(db)?;
    machine::check_replaceable(&path).map_err(|error| Error { code: Code::DatabaseInvalid, ..error })?;
    if !durable::parent(&path).is_dir() {
        return Ok(());
    }
    let acting = sqlite::opened_up(&path)?;
    acting.try_new(&path)?;
    match std::fs::symlink_metadata(&path) {
        // One that is put back is given to the database's owner, and could not be opened with the rights of the directory's.
        Ok(found) if found.is_file() && !acting.is_of(found.uid()) => {
            let what = format!("{} and its directory belong to different users", path.display());
            Err(Error::new(Code::Permission, what).advise(format!(
                "run `chown --reference={} {}`",
                durable::parent(&path).display(),
                path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Whether the live database `db` has the schema of the snapshot in `snapshot_dir`: no version has migrated it since.
///
/// Errors: `database_invalid`, `database_busy`, `permission`, `io`.
pub(crate) fn has_schema_of(snapshot_dir: &Path, db: &Path) -> Result<bool> {
    let copy = snapshot_dir.join(DATABASE_FILE);
    if !durable::exists(&copy)? || !durable::exists(db)? {
        return Ok(durable::exists(&copy)? == durable::exists(db)?);
    }
    let live = sqlite::acting(&sqlite::live_path(db)?, |here| schema_of(&sqlite::open_live(here, SCHEMA_WAIT)?, db))?;
    Ok(live == schema_of(&sqlite::open_at_rest(&copy)?, &copy)?)
}

/// Every table, index, view and trigger as it was made, and the version that an application gives its schema (sqlite.org,
/// `PRAGMA user_version`). SQLite's own count of changes is another one in a copy.
fn schema_of(connection: &Connection, db: &Path) -> Result<(i64, Vec<String>)> {
    const ALL: &str = "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1";
    let read = || {
        let version = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let schema = connection.prepare(ALL)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok((version, schema))
    };
    read().map_err(|error| sqlite::explain(error, "cannot read the schema of", db))
}
