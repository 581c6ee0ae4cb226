//! What hosts reported in the past, of all hosts at once.

use std::path::Path;

use fleet_engine::curve::VersionChange;
use fleet_engine::host::HostId;
use jiff::Timestamp;
use rusqlite::{Connection, Params};

use crate::column::{parse, time};
use crate::error::{OfDatabase, Result};

/// Most changes that are read at once.
const MOST: u32 = 50_000;

/// A host, when it reported, and the change in JSON.
type Row = ([u8; 16], String, String);

/// See [`crate::StoreReader::version_changes`].
pub(crate) fn version_changes(connection: &Connection, path: &Path, since: Timestamp) -> Result<Vec<VersionChange>> {
    let which = "at >= ?1 AND json ->> 'outcome' = 'updated' ORDER BY at DESC LIMIT ?2";
    let change = |(_, at, json): Row| {
        let change: protocol::report::Change = parse(path, "a host's change", &json)?;
        Ok(VersionChange { at: time(path, &at)?, from: change.from, to: change.to })
    };
    rows(connection, path, which, (since.to_string(), MOST))?.into_iter().map(change).collect()
}

/// See [`crate::StoreReader::failures`].
pub(crate) fn failures(
    connection: &Connection,
    path: &Path,
    version: &str,
    (from, to): (Timestamp, Timestamp),
    limit: u32,
) -> Result<Vec<(HostId, Timestamp, String)>> {
    let which = "at >= ?1 AND at <= ?2 AND json ->> 'to' = ?3 \
                 AND json ->> 'outcome' IN ('failed', 'rolled_back', 'refused') ORDER BY at LIMIT ?4";
    let failure = |(host, at, json): Row| Ok((HostId::from_be_bytes(host), time(path, &at)?, json));
    let found = rows(connection, path, which, (from.to_string(), to.to_string(), version, limit))?;
    found.into_iter().map(failure).collect()
}

fn rows(connection: &Connection, path: &Path, which: &str, with: impl Params) -> Result<Vec<Row>> {
    let mut found = connection.prepare(&format!("SELECT host, at, json FROM host_change WHERE {which}")).sql(path)?;
    let rows = found.query_map(with, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.and_then(Iterator::collect).sql(path)
}
