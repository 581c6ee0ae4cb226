//! Reading what is kept.

use std::path::Path;

use fleet_engine::record::HostRecord;
use fleet_engine::resource::Kind;
use fleet_engine::rollout::Rollout;
use fleet_wire::api::Role;
use rusqlite::{Connection, Row};

use crate::column::{parse, unreadable, unsigned};
use crate::enrolment;
use crate::error::{Error, OfDatabase, Result};
use crate::state::{StoreState, StoredResource, StoredToken};

/// Most past rollouts at once, count.
const MOST_ROLLOUTS: u32 = 1000;

/// Everything but hosts, which `take` gets.
pub(crate) fn load<T>(
    connection: &Connection,
    path: &Path,
    take: impl FnOnce(&mut dyn Iterator<Item = HostRecord>, u64) -> T,
) -> Result<(StoreState, T)> {
    let (revision, json): (i64, Option<String>) =
        connection.query_row("SELECT revision, json FROM book", [], |row| Ok((row.get(0)?, row.get(1)?))).sql(path)?;
    let book = json.map(|json| parse(path, "the book", &json)).transpose()?;
    let (epoch, arrivals, is_restored_held): (String, i64, bool) = connection
        .query_row("SELECT epoch, arrivals, restored_held FROM store", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .sql(path)?;
    let arrivals = unsigned(path, arrivals)?;
    let (resources, tokens) = (resources(connection, path)?, tokens(connection, path)?);
    let enrolments = enrolment::load(connection, path)?;
    let taken = hosts(connection, path, |hosts| take(hosts, arrivals))?;
    let revision = unsigned(path, revision)?;
    Ok((
        StoreState {
            book,
            revision,
            resources,
            tokens,
            enrolments,
            hosts: Vec::new(),
            arrivals,
            epoch,
            is_restored_held,
        },
        taken,
    ))
}

/// The book's revision.
pub(crate) fn revision(connection: &Connection, path: &Path) -> Result<u64> {
    let revision = connection.query_row("SELECT revision FROM book", [], |row| row.get(0)).sql(path)?;
    unsigned(path, revision)
}

/// Past rollouts, the newest first.
pub(crate) fn rollouts(connection: &Connection, path: &Path, before: Option<u64>, limit: u32) -> Result<Vec<Rollout>> {
    let before = before.map_or(i64::MAX, |number| i64::try_from(number).unwrap_or(i64::MAX));
    let read = || {
        connection
            .prepare("SELECT json FROM rollout WHERE number < ?1 ORDER BY number DESC LIMIT ?2")?
            .query_map((before, limit.min(MOST_ROLLOUTS)), |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<String>>>()
    };
    let rows = read().sql(path)?;
    rows.iter().map(|json| parse(path, "a past rollout", json)).collect()
}

fn resources(connection: &Connection, path: &Path) -> Result<Vec<StoredResource>> {
    let read = || {
        connection
            .prepare("SELECT kind, name, revision, yaml FROM resource ORDER BY kind, name")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
            .collect::<rusqlite::Result<Vec<(String, String, String, String)>>>()
    };
    let rows = read().sql(path)?;
    let resource = |(kind, name, revision, yaml): (String, String, String, String)| {
        // By its very name: `Kind::named` knows plurals as well.
        let known = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
        let kind = known.ok_or_else(|| unreadable(path, &format!("the resource {kind}/{name}"), "unknown kind"))?;
        Ok(StoredResource { kind, name, revision, yaml })
    };
    rows.into_iter().map(resource).collect()
}

fn tokens(connection: &Connection, path: &Path) -> Result<Vec<StoredToken>> {
    type Row = (String, String, String, String, Option<String>);
    let read = || {
        connection
            .prepare("SELECT name, digest, role, created, expires FROM token ORDER BY name")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))?
            .collect::<rusqlite::Result<Vec<Row>>>()
    };
    let rows = read().sql(path)?;
    let token = |(name, digest, role, created, expires): Row| {
        let what = format!("the token {name}");
        let role = Role::named(&role).ok_or_else(|| unreadable(path, &what, "unknown role"))?;
        let time =
            |text: String| text.parse().map_err(|error: jiff::Error| unreadable(path, &what, &error.to_string()));
        let (created, expires) = (time(created)?, expires.map(time).transpose()?);
        Ok(StoredToken { name, digest, role, created, expires })
    };
    rows.into_iter().map(token).collect()
}

/// Gives `take` the hosts; the first that cannot be read ends them, and is the error.
fn hosts<T>(
    connection: &Connection,
    path: &Path,
    take: impl FnOnce(&mut dyn Iterator<Item = HostRecord>) -> T,
) -> Result<T> {
    let mut statement = connection.prepare("SELECT id, record FROM host ORDER BY rowid").sql(path)?;
    let mut rows = statement.query([]).sql(path)?;
    let mut failed = None;
    let mut next = std::iter::from_fn(|| {
        let read = match rows.next() {
            Ok(row) => row.map(|row| host(row, path)).transpose(),
            Err(error) => Err(Error::sql(path, &error)),
        };
        read.unwrap_or_else(|error| {
            failed = Some(error);
            None
        })
    })
    .fuse();
    let taken = take(&mut next);
    // Also where `take` ended early, all are read: damage must be seen now.
    next.for_each(drop);
    failed.map_or(Ok(taken), Err)
}

fn host(row: &Row<'_>, path: &Path) -> Result<HostRecord> {
    let id: [u8; 16] = row.get(0).sql(path)?;
    let json = row.get_ref(1).sql(path)?.as_str().map_err(|error| unreadable(path, "a host", &error.to_string()))?;
    let id = u128::from_be_bytes(id);
    match serde_json::from_str::<HostRecord>(json) {
        Ok(record) => Ok(HostRecord { id, ..record }),
        Err(error) => Err(unreadable(path, &format!("host {id:032x}"), &error.to_string())),
    }
}
