//! What hosts reported in the past, of all hosts at once.

use std::cmp::Reverse;
use std::path::Path;

use fleet_engine::curve::VersionChange;
use fleet_engine::host::HostId;
use jiff::Timestamp;
use rusqlite::Connection;
use serde::Deserialize;

use crate::column::{parse, time};
use crate::error::{OfDatabase, Result};

/// Most changes that are read at once.
const MOST: usize = 50_000;

/// What of a change the versions over time are made of.
#[derive(Deserialize)]
struct Step {
    outcome: String,
    #[serde(default)]
    from: String,
    to: String,
}

/// See [`crate::StoreReader::version_changes`]. Sorted here: SQLite would sort whole reports, five times slower.
pub(crate) fn version_changes(connection: &Connection, path: &Path, since: Timestamp) -> Result<Vec<VersionChange>> {
    let newest_first = |changes: &mut Vec<VersionChange>| {
        changes.sort_unstable_by_key(|change| Reverse(change.at));
        changes.truncate(MOST);
    };
    let mut found = connection.prepare("SELECT at, json FROM host_change WHERE at >= ?1").sql(path)?;
    let mut found = found.query([since.to_string()]).sql(path)?;
    let mut changes = Vec::new();
    while let Some(row) = found.next().sql(path)? {
        let (at, json): (String, String) = (row.get(0).sql(path)?, row.get(1).sql(path)?);
        let Step { outcome, from, to } = parse(path, "a host's change", &json)?;
        if outcome == "updated" {
            changes.push(VersionChange { at: time(path, &at)?, from, to });
        }
        if changes.len() > 2 * MOST {
            newest_first(&mut changes);
        }
    }
    newest_first(&mut changes);
    Ok(changes)
}

/// See [`crate::StoreReader::failures`].
pub(crate) fn failures(
    connection: &Connection,
    path: &Path,
    version: &str,
    (from, to): (Timestamp, Timestamp),
    limit: u32,
) -> Result<Vec<(HostId, Timestamp, String)>> {
    let query = "SELECT host, at, json FROM host_change WHERE at >= ?1 AND at <= ?2 AND json ->> 'to' = ?3 \
                 AND json ->> 'outcome' IN ('failed', 'rolled_back', 'refused') ORDER BY at LIMIT ?4";
    let mut found = connection.prepare(query).sql(path)?;
    let with = (from.to_string(), to.to_string(), version, limit);
    let rows = found.query_map(with, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let rows: Vec<([u8; 16], String, String)> = rows.and_then(Iterator::collect).sql(path)?;
    rows.into_iter().map(|(host, at, json)| Ok((HostId::from_be_bytes(host), time(path, &at)?, json))).collect()
}
