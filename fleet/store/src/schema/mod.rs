//! The schema, and the way from each older one.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::chain;
use crate::error::{Error, OfDatabase, Result};

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
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    let has_table = connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'", [], |_| Ok(()))
        .optional()?;
    if has_table.is_none() {
        return Ok(0);
    }
    connection.query_row("SELECT version FROM schema_version", [], |row| row.get(0))
}

/// Refuses a schema that a newer program made.
pub(crate) fn refuse_newer(connection: &Connection, path: &Path) -> Result<i64> {
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
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let found = refuse_newer(connection, path)?;
    apply(connection, found, &MIGRATIONS).sql(path)
}

fn apply(connection: &mut Connection, found: i64, migrations: &[&str]) -> rusqlite::Result<()> {
    for (number, sql) in (1_i64..).zip(migrations).filter(|(number, _)| *number > found) {
        let step = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        step.execute_batch(sql)?;
        step.execute("INSERT OR REPLACE INTO schema_version (one, version) VALUES (1, ?1)", [number])?;
        step.commit()?;
    }
    Ok(())
}

/// Fills an empty database: our mark, the schema, and a new epoch.
pub(crate) fn fill(connection: &mut Connection, path: &Path) -> Result<()> {
    connection.pragma_update(None, "application_id", APPLICATION_ID).sql(path)?;
    migrate(connection, path)?;
    let epoch = new_epoch(connection).sql(path)?;
    connection
        .execute("INSERT INTO store (one, epoch, head_hash) VALUES (1, ?1, ?2)", (epoch, chain::START))
        .sql(path)?;
    Ok(())
}

/// A random UUID (version 4).
pub(crate) fn new_epoch(connection: &Connection) -> rusqlite::Result<String> {
    let random: [u8; 16] = connection.query_row("SELECT randomblob(16)", [], |row| row.get(0))?;
    // RFC 9562 §5.4: four bits of version, two of variant.
    let bits = u128::from_be_bytes(random) & !(0xF << 76) & !(0b11 << 62) | (0x4 << 76) | (0b10 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    Ok(format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_migration_runs_once_and_a_failed_one_leaves_the_schema_before_it() {
        let mut connection = Connection::open_in_memory().unwrap();
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
        let connection = Connection::open_in_memory().unwrap();
        let (one, other) = (new_epoch(&connection).unwrap(), new_epoch(&connection).unwrap());
        assert_ne!(one, other);
        let parts: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert!(one[14..].starts_with('4'));
        assert!(['8', '9', 'a', 'b'].iter().any(|variant| one[19..].starts_with(*variant)));
    }
}
