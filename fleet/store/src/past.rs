//! What hosts reported in the past, of all hosts at once.

use std::cmp::Reverse;

use fleet_engine::curve::VersionChange;
use fleet_engine::host::HostId;
use jiff::Timestamp;
use serde::Deserialize;

use crate::column::{parse, seconds, time};
use crate::error::Result;
use crate::sql::{Sql, SqlExt, SqlFields, with};

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
pub(crate) fn version_changes(db: &dyn Sql, since: Timestamp) -> Result<Vec<VersionChange>> {
    let newest_first = |changes: &mut Vec<VersionChange>| {
        changes.sort_unstable_by_key(|change| Reverse(change.at));
        changes.truncate(MOST);
    };
    let (mut changes, name) = (Vec::new(), db.name());
    db.each("SELECT at, json FROM host_change WHERE at >= $1", with![seconds(since, since).0], &mut |row| {
        let row = SqlFields::of(row, &name);
        let Step { outcome, from, to } = parse(&name, "a host's change", row.text(1)?)?;
        if outcome == "updated" {
            changes.push(VersionChange { at: time(&name, row.text(0)?)?, from, to });
        }
        if changes.len() > 2 * MOST {
            newest_first(&mut changes);
        }
        Ok(())
    })?;
    newest_first(&mut changes);
    Ok(changes)
}

/// See [`crate::StoreReader::failures`].
pub(crate) fn failures(
    db: &dyn Sql,
    version: &str,
    (from, to): (Timestamp, Timestamp),
    limit: u32,
) -> Result<Vec<(HostId, Timestamp, String)>> {
    let query = "SELECT host, at, json FROM host_change WHERE at >= $1 AND at <= $2 AND json ->> 'to' = $3 \
                 AND json ->> 'outcome' IN ('failed', 'rolled_back', 'refused') ORDER BY at LIMIT $4";
    let (from, to) = seconds(from, to);
    db.rows(query, with![from, to, version, limit], |row| {
        Ok((row.host(0)?, time(row.name(), row.text(1)?)?, row.string(2)?))
    })
}
