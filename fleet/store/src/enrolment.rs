//! Writing and reading what is kept of hosts that report (FLEET §5).

use fleet_engine::host::HostId;
use fleet_wire::api::{History, ReportedChange};
use jiff::Timestamp;
use protocol::report::Key;

use crate::column::{json, parse, signed, time, unsigned};
use crate::error::Result;
use crate::sql::{Sql, SqlExt, SqlFields, SqlValue, with};
use crate::state::{
    Candidate, EnrolledHost, EnrolledKey, EnrolmentChanges, EnrolmentProgress, JoinTokenRecord, OPEN, StoredReport,
};

/// Changes of a host that are kept, count (FLEET §5).
const MOST_CHANGES: i64 = 50;
/// What errors call it.
const FIXED: &str = "what a join token fixes";

/// Writes the changes.
pub(crate) fn put(db: &dyn Sql, changes: &EnrolmentChanges) -> Result<()> {
    put_enrolled(db, &changes.enrolled)?;
    put_progress(db, &changes.progress)?;
    for (host, candidate) in &changes.candidates {
        put_candidate(db, *host, candidate.as_ref())?;
    }
    put_reports(db, &changes.reports)?;
    changes.joins.iter().try_for_each(|(name, token)| put_join(db, name, token.as_ref()))
}

/// Removes all that is kept of these hosts, one a row.
pub(crate) fn forget(db: &dyn Sql, hosts: &[Vec<SqlValue<'_>>]) -> Result<()> {
    let tables = ["enrolled", "candidate", "report", "host_change"];
    tables.iter().try_for_each(|table| db.execute_each(&format!("DELETE FROM {table} WHERE host = $1"), hosts))
}

fn put_enrolled(db: &dyn Sql, hosts: &[EnrolledHost]) -> Result<()> {
    let name = db.name();
    let row = |EnrolledHost { known: host, how, since }: &EnrolledHost| {
        let fixed = host.fixed.as_deref().map(|fixed| json(&name, FIXED, fixed)).transpose()?;
        // Of 64 bits a database keeps all, with a sign.
        let (sequence, change) = (signed(&name, host.sequence)?, host.change.cast_signed());
        let key = SqlValue::Key(host.key.0);
        Ok(with![host.host, key, sequence, how.clone(), since.to_string(), fixed, change].to_vec())
    };
    let rows = hosts.iter().map(row).collect::<Result<Vec<_>>>()?;
    db.execute_each(
        "INSERT INTO enrolled (host, key, sequence, how, since, fixed, change) VALUES ($1, $2, $3, $4, $5, $6, $7) \
         ON CONFLICT (host) DO UPDATE SET key = excluded.key, sequence = excluded.sequence, how = excluded.how, \
         since = excluded.since, fixed = excluded.fixed, change = excluded.change",
        &rows,
    )
}

fn put_progress(db: &dyn Sql, hosts: &[EnrolmentProgress]) -> Result<()> {
    let name = db.name();
    let row = |host: &EnrolmentProgress| {
        Ok(with![host.host, signed(&name, host.sequence)?, host.change.cast_signed()].to_vec())
    };
    let rows = hosts.iter().map(row).collect::<Result<Vec<_>>>()?;
    db.execute_each("UPDATE enrolled SET sequence = $2, change = $3 WHERE host = $1", &rows)
}

fn put_candidate(db: &dyn Sql, host: HostId, candidate: Option<&Candidate>) -> Result<()> {
    db.execute("DELETE FROM candidate WHERE host = $1", with![host])?;
    let Some(candidate) = candidate else { return Ok(()) };
    let with = with![host, SqlValue::Bytes(&candidate.key.0), candidate.since.to_string()];
    db.execute("INSERT INTO candidate (host, key, since) VALUES ($1, $2, $3)", with).map(drop)
}

/// A host may report twice in one change: then the order matters.
fn put_reports(db: &dyn Sql, reports: &[StoredReport]) -> Result<()> {
    let rows: Vec<_> =
        reports.iter().map(|report| with![report.host, report.at.to_string(), &report.json].to_vec()).collect();
    db.execute_each(
        "INSERT INTO report (host, at, json) VALUES ($1, $2, $3) \
         ON CONFLICT (host) DO UPDATE SET at = excluded.at, json = excluded.json",
        &rows,
    )?;
    let changed = || reports.iter().filter_map(|report| Some((report, report.change.as_ref()?)));
    let rows: Vec<_> =
        changed().map(|(report, change)| with![report.host, report.at.to_string(), change].to_vec()).collect();
    db.execute_each(
        "INSERT INTO host_change (host, number, at, json) VALUES \
         ($1, (SELECT coalesce(max(number), 0) + 1 FROM host_change WHERE host = $1), $2, $3)",
        &rows,
    )?;
    let rows: Vec<_> = changed().map(|(report, _)| with![report.host, MOST_CHANGES].to_vec()).collect();
    db.execute_each(
        "DELETE FROM host_change WHERE host = $1 AND number <= \
         (SELECT max(number) FROM host_change WHERE host = $1) - $2",
        &rows,
    )
}

fn put_join(db: &dyn Sql, name: &str, token: Option<&JoinTokenRecord>) -> Result<()> {
    db.execute("DELETE FROM join_token WHERE name = $1", with![name])?;
    let (Some(token), of) = (token, db.name()) else { return Ok(()) };
    let uses = token.uses.map(|uses| signed(&of, uses)).transpose()?;
    let fixed = token.fixed.as_ref().map(|fixed| json(&of, FIXED, fixed)).transpose()?;
    let (created, expires) = (token.created.to_string(), token.expires.map(|expires| expires.to_string()));
    db.execute(
        "INSERT INTO join_token (name, digest, created, expires, uses, fixed) VALUES ($1, $2, $3, $4, $5, $6)",
        with![name, &token.digest, created, expires, uses, fixed],
    )
    .map(drop)
}

/// Gives `take` each host that enrolled.
pub(crate) fn keys(db: &dyn Sql, take: &mut dyn FnMut(EnrolledKey)) -> Result<()> {
    let name = db.name();
    db.each("SELECT host, key, sequence, how, fixed, change FROM enrolled", &[], &mut |row| {
        take(enrolled(&SqlFields::of(row, &name))?);
        Ok(())
    })
}

/// The key of a host that enrolled.
pub(crate) fn key(db: &dyn Sql, host: HostId) -> Result<Option<Key>> {
    db.first("SELECT key FROM enrolled WHERE host = $1", with![host], |row| row.bytes(0).map(Key))
}

/// Keys that wait.
pub(crate) fn candidates(db: &dyn Sql) -> Result<Vec<Candidate>> {
    db.rows("SELECT host, key, since FROM candidate", &[], |row| {
        Ok(Candidate { host: row.host(0)?, key: Key(row.bytes(1)?), since: time(row.name(), row.text(2)?)? })
    })
}

/// Join tokens, by name.
pub(crate) fn joins(db: &dyn Sql) -> Result<Vec<JoinTokenRecord>> {
    db.rows("SELECT name, digest, created, expires, uses, fixed FROM join_token ORDER BY name", &[], |row| {
        let name = row.name();
        Ok(JoinTokenRecord {
            name: row.string(0)?,
            digest: row.string(1)?,
            created: time(name, row.text(2)?)?,
            expires: row.some_text(3)?.map(|text| time(name, text)).transpose()?,
            uses: row.some_number(4)?.map(|uses| unsigned(name, uses)).transpose()?,
            fixed: row.some_text(5)?.map(|json| parse(name, FIXED, json)).transpose()?,
        })
    })
}

/// What a host said last, and its changes.
pub(crate) fn history(db: &dyn Sql, host: HostId) -> Result<History> {
    let timed = |row: &SqlFields<'_>| Ok((time(row.name(), row.text(0)?)?, row.string(1)?));
    let enrolled = db.first("SELECT since, how FROM enrolled WHERE host = $1", with![host], timed)?;
    let report = db.first("SELECT at, json FROM report WHERE host = $1", with![host], timed)?;
    let changes = "SELECT at, json FROM host_change WHERE host = $1 ORDER BY number DESC";
    let change = |(reported, text): (Timestamp, String)| {
        Some(ReportedChange { change: serde_json::from_str(&text).ok()?, reported })
    };
    let changes = db.rows(changes, with![host], timed)?.into_iter().filter_map(change).collect();
    let ((since, enrolled), (reported, report)) = (enrolled.unzip(), report.unzip());
    let report = report.and_then(|text| serde_json::from_str(&text).ok());
    Ok(History { enrolled: enrolled.unwrap_or_default(), since, reported, report, changes })
}

/// A host that enrolled: host, key, sequence, how, fixed, change.
pub(crate) fn enrolled(row: &SqlFields<'_>) -> Result<EnrolledKey> {
    Ok(EnrolledKey {
        host: row.host(0)?,
        key: Key(row.bytes(1)?),
        sequence: row.unsigned(2)?,
        change: row.number(5)?.cast_unsigned(),
        fixed: row.some_text(4)?.map(|json| parse(row.name(), FIXED, json).map(Box::new)).transpose()?,
        is_unproven: row.text(3)? == OPEN,
    })
}
