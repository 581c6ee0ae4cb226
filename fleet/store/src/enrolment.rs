//! Writing and reading what is kept of hosts that report (FLEET §5).

use std::path::Path;

use fleet_engine::host::HostId;
use protocol::report::{KEY_BYTES, Key};
use rusqlite::{Connection, OptionalExtension, Row, Transaction};

use crate::column::{parse, signed, time, unreadable, unsigned};
use crate::error::{Error, OfDatabase, Result};
use crate::state::{
    Candidate, EnrolledHost, EnrolledKey, EnrolmentChanges, EnrolmentHistory, EnrolmentProgress, Enrolments, Fixed,
    JoinTokenRecord, OPEN, StoredReport,
};

/// Changes of a host that are kept, count (FLEET §5).
const MOST_CHANGES: i64 = 50;

/// Writes the changes.
pub(crate) fn put(transaction: &Transaction<'_>, path: &Path, changes: &EnrolmentChanges) -> Result<()> {
    put_enrolled(transaction, path, &changes.enrolled)?;
    put_progress(transaction, path, &changes.progress)?;
    for (host, candidate) in &changes.candidates {
        put_candidate(transaction, *host, candidate.as_ref()).sql(path)?;
    }
    put_reports(transaction, &changes.reports).sql(path)?;
    for (name, token) in &changes.joins {
        put_join(transaction, path, name, token.as_ref())?;
    }
    Ok(())
}

/// Removes all that is kept of these hosts.
pub(crate) fn forget(transaction: &Transaction<'_>, hosts: &[HostId]) -> rusqlite::Result<()> {
    for table in ["enrolled", "candidate", "report", "host_change"] {
        let mut delete = transaction.prepare(&format!("DELETE FROM {table} WHERE host = ?1"))?;
        hosts.iter().try_for_each(|host| delete.execute([host.to_be_bytes()]).map(drop))?;
    }
    Ok(())
}

fn put_enrolled(transaction: &Transaction<'_>, path: &Path, hosts: &[EnrolledHost]) -> Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let put = "INSERT OR REPLACE INTO enrolled (host, key, sequence, how, since, fixed, change) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut put = transaction.prepare(put).sql(path)?;
    for EnrolledHost { known: host, how, since } in hosts {
        let (id, since) = (host.host.to_be_bytes(), since.to_string());
        let fixed = fixed_json(path, host.fixed.as_deref())?;
        let sequence = signed(path, host.sequence)?;
        // Of 64 bits SQLite keeps all, with a sign.
        let change = host.change.cast_signed();
        put.execute((id, host.key.0, sequence, how, since, fixed, change)).sql(path)?;
    }
    Ok(())
}

fn put_progress(transaction: &Transaction<'_>, path: &Path, hosts: &[EnrolmentProgress]) -> Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let put = "UPDATE enrolled SET sequence = ?2, change = ?3 WHERE host = ?1";
    let mut put = transaction.prepare(put).sql(path)?;
    for host in hosts {
        let sequence = signed(path, host.sequence)?;
        put.execute((host.host.to_be_bytes(), sequence, host.change.cast_signed())).sql(path)?;
    }
    Ok(())
}

fn put_candidate(transaction: &Transaction<'_>, host: HostId, candidate: Option<&Candidate>) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM candidate WHERE host = ?1", [host.to_be_bytes()])?;
    if let Some(candidate) = candidate {
        transaction.execute(
            "INSERT INTO candidate (host, key, since) VALUES (?1, ?2, ?3)",
            (host.to_be_bytes(), candidate.key.0, candidate.since.to_string()),
        )?;
    }
    Ok(())
}

fn put_reports(transaction: &Transaction<'_>, reports: &[StoredReport]) -> rusqlite::Result<()> {
    if reports.is_empty() {
        return Ok(());
    }
    let mut put = transaction.prepare("INSERT OR REPLACE INTO report (host, at, json) VALUES (?1, ?2, ?3)")?;
    let mut add = transaction.prepare(
        "INSERT INTO host_change (host, number, at, json) \
         SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3 FROM host_change WHERE host = ?1",
    )?;
    let mut shorten = transaction.prepare(
        "DELETE FROM host_change WHERE host = ?1 AND number <= \
         (SELECT max(number) FROM host_change WHERE host = ?1) - ?2",
    )?;
    for report in reports {
        let (host, at) = (report.host.to_be_bytes(), report.at.to_string());
        put.execute((host, &at, &report.json))?;
        if let Some(change) = &report.change {
            add.execute((host, &at, change))?;
            shorten.execute((host, MOST_CHANGES))?;
        }
    }
    Ok(())
}

fn put_join(transaction: &Transaction<'_>, path: &Path, name: &str, token: Option<&JoinTokenRecord>) -> Result<()> {
    transaction.execute("DELETE FROM join_token WHERE name = ?1", [name]).sql(path)?;
    let Some(token) = token else { return Ok(()) };
    let uses = token.uses.map(|uses| signed(path, uses)).transpose()?;
    let fixed = fixed_json(path, token.fixed.as_ref())?;
    let (created, expires) = (token.created.to_string(), token.expires.map(|expires| expires.to_string()));
    transaction
        .execute(
            "INSERT INTO join_token (name, digest, created, expires, uses, fixed) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (name, &token.digest, created, expires, uses, fixed),
        )
        .map(drop)
        .sql(path)
}

fn fixed_json(path: &Path, fixed: Option<&Fixed>) -> Result<Option<String>> {
    let json = fixed.map(serde_json::to_string).transpose();
    json.map_err(|error| unreadable(path, "what a token fixes", &error.to_string()))
}

/// Reads all of them.
pub(crate) fn load(connection: &Connection, path: &Path) -> Result<Enrolments> {
    Ok(Enrolments {
        enrolled: rows(connection, path, "SELECT host, key, sequence, how, fixed, change FROM enrolled", enrolled)?,
        candidates: rows(connection, path, "SELECT host, key, since FROM candidate", candidate)?,
        joins: rows(
            connection,
            path,
            "SELECT name, digest, created, expires, uses, fixed FROM join_token ORDER BY name",
            join,
        )?,
    })
}

/// What a host said last, and its changes.
pub(crate) fn history(connection: &Connection, path: &Path, host: HostId) -> Result<EnrolmentHistory> {
    let pair = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let id = host.to_be_bytes();
    let one = |query: &str| connection.query_row(query, [id], pair).optional().sql(path);
    let report = one("SELECT at, json FROM report WHERE host = ?1")?;
    let enrolled = one("SELECT since, how FROM enrolled WHERE host = ?1")?;
    let timed = |(at, json): (String, String)| Ok::<_, Error>((time(path, &at)?, json));
    let mut changes =
        connection.prepare("SELECT at, json FROM host_change WHERE host = ?1 ORDER BY number DESC").sql(path)?;
    let changes = changes.query_map([id], pair).and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>).sql(path)?;
    Ok(EnrolmentHistory {
        enrolled: enrolled.map(timed).transpose()?,
        report: report.map(timed).transpose()?,
        changes: changes.into_iter().map(timed).collect::<Result<_>>()?,
    })
}

fn rows<T>(
    connection: &Connection,
    path: &Path,
    query: &str,
    read: impl Fn(&Row<'_>, &Path) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare(query).sql(path)?;
    let mut found = statement.query([]).sql(path)?;
    let mut all = Vec::new();
    while let Some(row) = found.next().sql(path)? {
        all.push(read(row, path)?);
    }
    Ok(all)
}

fn enrolled(row: &Row<'_>, path: &Path) -> Result<EnrolledKey> {
    let (host, key): ([u8; 16], [u8; KEY_BYTES]) = (row.get(0).sql(path)?, row.get(1).sql(path)?);
    let (sequence, change): (i64, i64) = (row.get(2).sql(path)?, row.get(5).sql(path)?);
    let fixed: Option<String> = row.get(4).sql(path)?;
    Ok(EnrolledKey {
        host: u128::from_be_bytes(host),
        key: Key(key),
        sequence: unsigned(path, sequence)?,
        change: change.cast_unsigned(),
        fixed: fixed.map(|json| parse(path, "what a token fixed", &json).map(Box::new)).transpose()?,
        is_unproven: row.get::<_, String>(3).sql(path)? == OPEN,
    })
}

fn candidate(row: &Row<'_>, path: &Path) -> Result<Candidate> {
    let (host, key): ([u8; 16], [u8; KEY_BYTES]) = (row.get(0).sql(path)?, row.get(1).sql(path)?);
    let since: String = row.get(2).sql(path)?;
    Ok(Candidate { host: u128::from_be_bytes(host), key: Key(key), since: time(path, &since)? })
}

fn join(row: &Row<'_>, path: &Path) -> Result<JoinTokenRecord> {
    let (created, expires): (String, Option<String>) = (row.get(2).sql(path)?, row.get(3).sql(path)?);
    let (uses, fixed): (Option<i64>, Option<String>) = (row.get(4).sql(path)?, row.get(5).sql(path)?);
    Ok(JoinTokenRecord {
        name: row.get(0).sql(path)?,
        digest: row.get(1).sql(path)?,
        created: time(path, &created)?,
        expires: expires.map(|text| time(path, &text)).transpose()?,
        uses: uses.map(|uses| unsigned(path, uses)).transpose()?,
        fixed: fixed.map(|json| parse(path, "what a token fixes", &json)).transpose()?,
    })
}
