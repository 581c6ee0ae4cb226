//! Moving a fleet from one store to another: from a file to PostgreSQL, or back.

use fleet_engine::rollout_state::HaltCause;
use jiff::Timestamp;
use serde_json::json;

use crate::connection::immediate;
use crate::error::{Error, Result};
use crate::place::StorePlace;
use crate::restore::{Old, describe, hold};
use crate::sql::{Sql, SqlExt, SqlFields, SqlValue, with};
use crate::sqlite::SqliteStore;
use crate::{audit, load, postgres};

/// Rows that are written at once.
const BATCH: usize = 1024;

/// Every table with rows of its own, and its columns: `#` a number, `$` a text, `%` bytes.
const TABLES: [(&str, &str); 9] = [
    ("rollout", "#number $json"),
    ("resource", "$kind $name $revision $yaml"),
    ("host", "%id $record"),
    ("request", "$id $outcome #at"),
    ("audit", "#seq $at $who $origin $action $subject #done $detail $before $after $previous $hash"),
    ("enrolled", "%host %key #sequence $how $since $fixed #change"),
    ("candidate", "%host %key $since"),
    ("report", "%host $at $json"),
    ("host_change", "%host #number $at $json"),
];
/// What a hold takes away, and this puts there after it: nobody removed any since.
const TOKENS: [(&str, &str); 2] = [
    ("token", "$name $digest $role $created $expires"),
    ("join_token", "$name $digest $created $expires #uses $fixed"),
];

/// What was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// Hosts.
    pub hosts: u64,
    /// Audit records, the one of this among them.
    pub records: u64,
}

/// Copies all that `from` keeps to `to`, which must be empty, and holds everything there until `run --all`; `from` stays as it is. Its
/// servers must be stopped: of a file that is seen. Errors: `Refused` where `to` is not empty, or both are of one kind; `Locked`,
/// `Newer`, `Foreign`, `Unavailable`: `to` is as it was, or empty.
pub fn migrate(from: &StorePlace, to: &StorePlace) -> Result<Migrated> {
    match (&from.server, &to.server) {
        (None, Some(server)) => {
            let source = SqliteStore::open(&from.dir)?;
            let target = server.connect()?;
            postgres::schema::prepare(&target)?;
            target.batch("BEGIN; SET LOCAL statement_timeout = 0; UPDATE store SET change = change + 1")?;
            let migrated = copy(&source.db(), &target, from)?;
            target.commit()?;
            Ok(migrated)
        }
        (Some(server), None) => {
            let mut target = SqliteStore::open(&to.dir)?;
            let reader = server.connect()?;
            let (connection, path) = target.parts();
            reader.read(|source| immediate(connection, path, |target| copy(source, target, from)))
        }
        _ => Err(Error::Refused(
            "one of the two is a directory and the other a PostgreSQL database: copy others by their own tools"
                .to_owned(),
        )),
    }
}

fn copy(from: &dyn Sql, to: &dyn Sql, place: &StorePlace) -> Result<Migrated> {
    let used = "SELECT revision + head_seq + (SELECT count(*) FROM host) FROM book, store";
    if to.count(used)? != 0 {
        return Err(Error::Refused(format!("{} has a fleet already: name an empty one", to.name())));
    }
    TABLES.iter().try_for_each(|(table, columns)| copy_table(from, to, table, columns))?;
    let head = audit::head(from)?;
    let seq = i64::try_from(head.seq).unwrap_or(i64::MAX);
    let arrivals = from.first("SELECT arrivals FROM store", &[], |row| row.number(0))?.unwrap_or_default();
    to.execute("UPDATE store SET arrivals = $1, head_seq = $2, head_hash = $3", with![arrivals, seq, head.hash])?;
    let revision = i64::try_from(load::revision(from)?).unwrap_or(i64::MAX);
    to.execute("UPDATE book SET revision = $1", with![revision])?;
    let record = describe(Timestamp::now(), "migrate", "command line", json!({ "from": place.name() }));
    hold(to, load::book(from)?, HaltCause::Restore, &Old::default(), &record)?;
    TOKENS.iter().try_for_each(|(table, columns)| copy_table(from, to, table, columns))?;
    Ok(Migrated { hosts: to.count("SELECT count(*) FROM host")?, records: audit::head(to)?.seq })
}

fn copy_table(from: &dyn Sql, to: &dyn Sql, table: &str, columns: &str) -> Result<()> {
    let columns: Vec<(&str, &str)> = columns.split(' ').map(|column| column.split_at(1)).collect();
    let names: Vec<&str> = columns.iter().map(|(_, name)| *name).collect();
    let names = names.join(", ");
    let values: Vec<String> = (1..=columns.len()).map(|number| format!("${number}")).collect();
    let put = format!("INSERT INTO {table} ({names}) VALUES ({})", values.join(", "));
    let (mut rows, name) = (Vec::new(), from.name());
    from.each(&format!("SELECT {names} FROM {table}"), &[], &mut |row| {
        let row = SqlFields::of(row, &name);
        let value = |(column, (kind, name)): (usize, &(&str, &str))| {
            Ok(match (*kind, *name) {
                ("#", _) => SqlValue::from(row.some_number(column)?),
                ("%", "key") => SqlValue::Key(row.bytes(column)?),
                ("%", _) => SqlValue::Id(row.bytes(column)?),
                _ => SqlValue::from(row.some_text(column)?.map(str::to_owned)),
            })
        };
        rows.push(columns.iter().enumerate().map(value).collect::<Result<Vec<_>>>()?);
        if rows.len() == BATCH {
            to.execute_each(&put, &std::mem::take(&mut rows))?;
        }
        Ok(())
    })?;
    to.execute_each(&put, &rows)
}
