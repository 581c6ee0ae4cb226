//! What is kept of hosts that report: their keys, who waits for an operator, reports, changes, join tokens (FLEET §5).

use std::collections::BTreeMap;
use std::path::Path;

use fleet_engine::host::HostId;
use jiff::Timestamp;
use protocol::report::{KEY_BYTES, Key};
use rusqlite::{Connection, OptionalExtension, Row, Transaction};
use serde::{Deserialize, Serialize};

use crate::commit::signed;
use crate::error::{Error, Result};
use crate::load::{parse, unreadable, unsigned};

/// Changes of a host that are kept, count (FLEET §5).
const MOST_CHANGES: i64 = 50;

/// A host that enrolled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    /// Its UUID.
    pub host: HostId,
    /// The key that its reports are signed with.
    pub key: Key,
    /// The highest number of a report or question that was taken.
    pub sequence: u64,
    /// `open`, `token NAME`, `accepted by WHO`.
    pub how: String,
    /// Since when.
    pub since: Timestamp,
    /// What its join token fixed.
    pub fixed: Option<Fixed>,
    /// Tells its last change from others: the same one counts once.
    pub change: u64,
}

/// What a join token fixes: it beats what the host says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fixed {
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// These labels; others stay the host's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A key that waits for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The host's UUID.
    pub host: HostId,
    /// The key.
    pub key: Key,
    /// Since when.
    pub since: Timestamp,
}

/// A host's last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReport {
    /// The host's UUID.
    pub host: HostId,
    /// When it came.
    pub at: Timestamp,
    /// It, as JSON.
    pub json: String,
    /// Its last change is a new one, as JSON.
    pub change: Option<String>,
}

/// A join token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinToken {
    /// Its name.
    pub name: String,
    /// SHA-256 of its secret, in hex.
    pub digest: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends; `None`: never.
    pub expires: Option<Timestamp>,
    /// How many hosts may still enrol with it; `None`: any number.
    pub uses: Option<u64>,
    /// What it fixes.
    pub fixed: Option<Fixed>,
}

/// What is kept of hosts' keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Enrolments {
    /// Hosts that enrolled.
    pub enrolled: Vec<Enrolled>,
    /// Keys that wait.
    pub candidates: Vec<Candidate>,
    /// Join tokens, by name.
    pub joins: Vec<JoinToken>,
}

/// How far a host that enrolled has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Its UUID.
    pub host: HostId,
    /// [`Enrolled::sequence`].
    pub sequence: u64,
    /// [`Enrolled::change`].
    pub change: u64,
}

/// Changes of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnrolmentChanges {
    /// New, or with another key.
    pub enrolled: Vec<Enrolled>,
    /// Others, and further progress of these.
    pub progress: Vec<Progress>,
    /// Host and key; `None`: it waits no more.
    pub candidates: Vec<(HostId, Option<Candidate>)>,
    /// Reports, in the order in which they came.
    pub reports: Vec<StoredReport>,
    /// Name and token; `None`: it is removed.
    pub joins: Vec<(String, Option<JoinToken>)>,
}

/// What a host said last, and its changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// How it enrolled, and since when.
    pub enrolled: Option<(Timestamp, String)>,
    /// When its last report came, and that.
    pub report: Option<(Timestamp, String)>,
    /// When each change was reported, and it, the newest first.
    pub changes: Vec<(Timestamp, String)>,
}

/// Writes the changes.
pub(crate) fn put(transaction: &Transaction<'_>, path: &Path, changes: &EnrolmentChanges) -> Result<()> {
    put_enrolled(transaction, path, &changes.enrolled)?;
    put_progress(transaction, path, &changes.progress)?;
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    for (host, candidate) in &changes.candidates {
        put_candidate(transaction, *host, candidate.as_ref()).map_err(sql)?;
    }
    put_reports(transaction, &changes.reports).map_err(sql)?;
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

fn put_enrolled(transaction: &Transaction<'_>, path: &Path, hosts: &[Enrolled]) -> Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    let put = "INSERT OR REPLACE INTO enrolled (host, key, sequence, how, since, fixed, change) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let mut put = transaction.prepare(put).map_err(sql)?;
    for host in hosts {
        let (id, since) = (host.host.to_be_bytes(), host.since.to_string());
        let fixed = fixed_json(path, host.fixed.as_ref())?;
        let sequence = signed(path, host.sequence)?;
        // Of 64 bits SQLite keeps all, with a sign.
        let change = host.change.cast_signed();
        put.execute((id, host.key.0, sequence, &host.how, since, fixed, change)).map_err(sql)?;
    }
    Ok(())
}

fn put_progress(transaction: &Transaction<'_>, path: &Path, hosts: &[Progress]) -> Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    let put = "UPDATE enrolled SET sequence = ?2, change = ?3 WHERE host = ?1";
    let mut put = transaction.prepare(put).map_err(sql)?;
    for host in hosts {
        let sequence = signed(path, host.sequence)?;
        put.execute((host.host.to_be_bytes(), sequence, host.change.cast_signed())).map_err(sql)?;
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

fn put_join(transaction: &Transaction<'_>, path: &Path, name: &str, token: Option<&JoinToken>) -> Result<()> {
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    transaction.execute("DELETE FROM join_token WHERE name = ?1", [name]).map_err(sql)?;
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
        .map_err(sql)
}

fn fixed_json(path: &Path, fixed: Option<&Fixed>) -> Result<Option<String>> {
    let json = fixed.map(serde_json::to_string).transpose();
    json.map_err(|error| unreadable(path, "what a token fixes", &error.to_string()))
}

/// Reads all of them.
pub(crate) fn load(connection: &Connection, path: &Path) -> Result<Enrolments> {
    Ok(Enrolments {
        enrolled: rows(
            connection,
            path,
            "SELECT host, key, sequence, how, since, fixed, change FROM enrolled",
            enrolled,
        )?,
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
pub(crate) fn history(connection: &Connection, path: &Path, host: HostId) -> Result<History> {
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    let pair = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let id = host.to_be_bytes();
    let one = |query: &str| connection.query_row(query, [id], pair).optional().map_err(sql);
    let report = one("SELECT at, json FROM report WHERE host = ?1")?;
    let enrolled = one("SELECT since, how FROM enrolled WHERE host = ?1")?;
    let timed = |(at, json): (String, String)| Ok::<_, Error>((time(path, &at)?, json));
    let mut changes =
        connection.prepare("SELECT at, json FROM host_change WHERE host = ?1 ORDER BY number DESC").map_err(sql)?;
    let changes = changes.query_map([id], pair).and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>).map_err(sql)?;
    Ok(History {
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
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    let mut statement = connection.prepare(query).map_err(sql)?;
    let mut found = statement.query([]).map_err(sql)?;
    let mut all = Vec::new();
    while let Some(row) = found.next().map_err(sql)? {
        all.push(read(row, path)?);
    }
    Ok(all)
}

fn enrolled(row: &Row<'_>, path: &Path) -> Result<Enrolled> {
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    let (host, key): ([u8; 16], [u8; KEY_BYTES]) = (row.get(0).map_err(sql)?, row.get(1).map_err(sql)?);
    let (sequence, change): (i64, i64) = (row.get(2).map_err(sql)?, row.get(6).map_err(sql)?);
    let (since, fixed): (String, Option<String>) = (row.get(4).map_err(sql)?, row.get(5).map_err(sql)?);
    Ok(Enrolled {
        host: u128::from_be_bytes(host),
        key: Key(key),
        sequence: unsigned(path, sequence)?,
        how: row.get(3).map_err(sql)?,
        since: time(path, &since)?,
        fixed: fixed.map(|json| parse(path, "what a token fixed", &json)).transpose()?,
        change: change.cast_unsigned(),
    })
}

fn candidate(row: &Row<'_>, path: &Path) -> Result<Candidate> {
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    let (host, key): ([u8; 16], [u8; KEY_BYTES]) = (row.get(0).map_err(sql)?, row.get(1).map_err(sql)?);
    let since: String = row.get(2).map_err(sql)?;
    Ok(Candidate { host: u128::from_be_bytes(host), key: Key(key), since: time(path, &since)? })
}

fn join(row: &Row<'_>, path: &Path) -> Result<JoinToken> {
    let sql = |error: rusqlite::Error| Error::sql(path, &error);
    let (created, expires): (String, Option<String>) = (row.get(2).map_err(sql)?, row.get(3).map_err(sql)?);
    let (uses, fixed): (Option<i64>, Option<String>) = (row.get(4).map_err(sql)?, row.get(5).map_err(sql)?);
    Ok(JoinToken {
        name: row.get(0).map_err(sql)?,
        digest: row.get(1).map_err(sql)?,
        created: time(path, &created)?,
        expires: expires.map(|text| time(path, &text)).transpose()?,
        uses: uses.map(|uses| unsigned(path, uses)).transpose()?,
        fixed: fixed.map(|json| parse(path, "what a token fixes", &json)).transpose()?,
    })
}

fn time(path: &Path, text: &str) -> Result<Timestamp> {
    text.parse().map_err(|error: jiff::Error| unreadable(path, "a time", &error.to_string()))
}
