//! The tables in a PostgreSQL database, and the way from each older schema.

use super::connection::PostgresConnection;
use crate::error::{Error, Result};
use crate::schema;
use crate::sql::{Sql, SqlExt, with};

/// The schemas, from 1 on: each leads from the one before it, and leaves what servers of that version need: they go on meanwhile.
const MIGRATIONS: [&str; 2] =
    [include_str!("../schema/postgres_0001.sql"), include_str!("../schema/postgres_0002.sql")];
/// Has one server after the other migrate.
const MIGRATE_TURN: &str = "SELECT pg_advisory_xact_lock(1951751021)";

/// Makes our tables in a PostgreSQL database, or brings them to the newest schema. Errors: `Newer`, `Unavailable`.
pub(crate) fn prepare(db: &PostgresConnection) -> Result<()> {
    db.batch(&format!("BEGIN; {MIGRATE_TURN}"))?;
    let made = migrate(db);
    if made.is_err() {
        db.batch("ROLLBACK")?;
        return made;
    }
    db.commit()
}

/// The schema of a PostgreSQL database; 0: it is empty. Errors: `Newer`, `Unavailable`.
pub(crate) fn version(db: &dyn Sql) -> Result<u64> {
    let table = "SELECT count(*) FROM pg_tables WHERE schemaname = 'teleport_fleet' AND tablename = 'schema_version'";
    let found = if db.count(table)? == 0 { 0 } else { db.count("SELECT version FROM schema_version")? };
    if found > newest() {
        return Err(Error::Newer(format!(
            "{} has schema {found}, and this program knows up to {}: run the newer teleport-fleet that wrote it",
            db.name(),
            newest()
        )));
    }
    Ok(found)
}

/// The schema that this program writes.
pub(crate) fn newest() -> u64 {
    u64::try_from(MIGRATIONS.len()).unwrap_or(u64::MAX)
}

fn migrate(db: &PostgresConnection) -> Result<()> {
    let found = version(db)?;
    if found == 0 {
        db.batch("CREATE SCHEMA IF NOT EXISTS teleport_fleet")?;
    }
    for (number, sql) in (1_u64..).zip(MIGRATIONS).filter(|(number, _)| *number > found) {
        db.batch(sql)?;
        let version = i64::try_from(number).unwrap_or(i64::MAX);
        let put = "INSERT INTO schema_version (one, version) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET version = excluded.version";
        db.execute(put, with![version])?;
    }
    if found == 0 { schema::begin(db) } else { Ok(()) }
}
