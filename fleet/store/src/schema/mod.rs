//! The schema, and the way from each older one.

use std::path::Path;

use rusqlite::{OptionalExtension, TransactionBehavior};

use crate::chain;
use crate::connection::sqlite;
use crate::error::{Error, OfDatabase, Result};
use crate::sql::{Sql, with};

/// In the header of each of our files: "TpFl".
pub(crate) const APPLICATION_ID: i32 = 0x5470_466C;

/// The schemas, from 1 on: each leads from the one before it.
const MIGRATIONS: [&str; 4] = [
    include_str!("0001_start.sql"),
    include_str!("0002_tokens.sql"),
    include_str!("0003_reports.sql"),
    include_str!("0004_backup.sql"),
];

/// The newest schema that this program knows.
pub(crate) fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The schema of a database; 0: it is empty.
pub(crate) fn version(connection: &rusqlite::Connection) -> rusqlite::Result<i64> {
    let has_table = connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'", [], |_| Ok(()))
        .optional()?;
    if has_table.is_none() {
        return Ok(0);
    }
    connection.query_row("SELECT version FROM schema_version", [], |row| row.get(0))
}

/// Refuses a schema that a newer program made.
pub(crate) fn refuse_newer(connection: &rusqlite::Connection, path: &Path) -> Result<i64> {
    let (found, newest) = (version(connection).sql(path)?, newest());
    if found > newest {
        return Err(Error::Newer(format!(
            "{} has schema {found}, and this program knows up to {newest}: run the newer teleport-fleet that wrote it, or \
             restore an older backup",
            path.display()
        )));
    }
    Ok(found)
}

/// Brings a database to the newest schema: each step is one transaction.
pub(crate) fn migrate(connection: &mut rusqlite::Connection, path: &Path) -> Result<()> {
    let found = refuse_newer(connection, path)?;
    apply(connection, found, &MIGRATIONS).sql(path)
}

fn apply(connection: &mut rusqlite::Connection, found: i64, migrations: &[&str]) -> rusqlite::Result<()> {
    for (number, sql) in (1_i64..).zip(migrations).filter(|(number, _)| *number > found) {
        let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        step.execute_batch(sql)?;
        step.execute("INSERT OR REPLACE INTO schema_version (one, version) VALUES (1, ?1)", [number])?;
        step.commit()?;
    }
    Ok(())
}

/// Fills an empty database: our mark, the schema, and a new epoch.
pub(crate) fn fill(connection: &mut rusqlite::Connection, path: &Path) -> Result<()> {
    connection.pragma_update(None, "application_id", APPLICATION_ID).sql(path)?;
    migrate(connection, path)?;
    begin(&sqlite(connection, path))
}

/// A new life of the data.
pub(crate) fn begin(db: &dyn Sql) -> Result<()> {
    let epoch = new_epoch()?;
    db.execute("INSERT INTO store (one, epoch, head_hash) VALUES (1, $1, $2)", with![epoch, chain::START]).map(drop)
}

/// A random UUID (version 4). Errors: `Unavailable`: there are no random numbers.
pub(crate) fn new_epoch() -> Result<String> {
    let mut random = [0; 16];
    let got = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    if got != Ok(random.len()) {
        return Err(Error::Unavailable("the kernel has no random numbers".to_owned()));
    }
    // RFC 9562 §5.4: four bits of version, two of variant.
    let bits = u128::from_be_bytes(random) & !(0xF << 76) & !(0b11 << 62) | (0x4 << 76) | (0b10 << 62);
    Ok(fleet_engine::host::uuid(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_migration_runs_once_and_a_failed_one_leaves_the_schema_before_it() {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        let second = "CREATE TABLE second (x INTEGER);";
        apply(&mut connection, 0, &[MIGRATIONS[0], second]).unwrap();
        assert_eq!(version(&connection).unwrap(), 2);
        let broken = "CREATE TABLE third (x INTEGER); CREATE TABLE second (x INTEGER);";
        apply(&mut connection, 2, &[MIGRATIONS[0], second, broken]).unwrap_err();
        assert_eq!(version(&connection).unwrap(), 2);
        assert!(connection.prepare("SELECT x FROM third").is_err(), "half of a migration was kept");
    }

    #[test]
    fn an_epoch_is_a_random_uuid() {
        let (one, other) = (new_epoch().unwrap(), new_epoch().unwrap());
        assert_ne!(one, other);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(one[14..].starts_with('4'));
        assert!(['8', '9', 'a', 'b'].iter().any(|variant| one[19..].starts_with(*variant)));
    }
}
