//! Writing a change.

use fleet_engine::host::HostId;
use fleet_engine::record::HostRecord;
use fleet_engine::rollout_state::{HaltCause, RolloutState};
use jiff::Timestamp;

use crate::column::{json, signed};
use crate::error::{Error, Result};
use crate::sql::{Sql, SqlExt, with};
use crate::state::{Change, Committed, ResourceChange, StoredToken};
use crate::{audit, enrolment, load};

/// How long the outcome of a request is kept, seconds: a week; whoever asks again later is not a retry.
const KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;
/// Most outcomes that are kept: a request each 6 s for a week.
const MOST_OUTCOMES: i64 = 100_000;
/// Most past rollouts that are kept: three years of one each day.
const MOST_PAST: i64 = 1000;
/// Hosts that are written at once.
const BATCH: usize = 1024;

/// Writes all of it, within a transaction that the caller began and ends.
pub(crate) fn apply(db: &dyn Sql, change: &Change<'_>) -> Result<Committed> {
    let (found, name) = (load::revision(db)?, db.name());
    if found != change.expected {
        return Err(Error::Mismatch(format!(
            "{name} is at revision {found}, not at {}: another process wrote it; load it again",
            change.expected
        )));
    }
    if let Some((id, _)) = &change.request
        && outcome(db, id)?.is_some()
    {
        return Err(Error::Mismatch(format!("{name}: request {id} was answered before")));
    }
    let is_decision = change.book.is_some() || !change.resources.is_empty();
    if let Some(book) = change.book {
        put_book(db, book)?;
    }
    if is_decision {
        db.execute("UPDATE book SET revision = revision + 1", &[])?;
    }
    put_resources(db, &change.resources)?;
    put_tokens(db, &change.tokens)?;
    // Who was forgotten and came again since is put there anew.
    forget_hosts(db, &change.forgotten)?;
    put_hosts(db, &change.hosts)?;
    enrolment::put(db, &change.enrolments)?;
    raise_arrivals(db, change.arrivals)?;
    let entries = audit::append(db, &change.records)?;
    if let Some((id, outcome)) = &change.request {
        put_outcome(db, id, outcome)?;
    }
    Ok(Committed { revision: found + u64::from(is_decision), entries })
}

/// What an earlier request with this id was answered, as JSON.
pub(crate) fn outcome(db: &dyn Sql, id: &str) -> Result<Option<String>> {
    db.first("SELECT outcome FROM request WHERE id = $1", with![id], |row| row.string(0))
}

/// Arrivals are never fewer than before.
pub(crate) fn raise_arrivals(db: &dyn Sql, arrivals: u64) -> Result<()> {
    let arrivals = signed(&db.name(), arrivals)?;
    db.execute("UPDATE store SET arrivals = $1 WHERE arrivals < $1", with![arrivals]).map(drop)
}

/// Writes the book. A rollout that it does not have any more is kept among the past ones. The hold of a restore ends where
/// an operator ended it.
pub(crate) fn put_book(db: &dyn Sql, book: &RolloutState) -> Result<()> {
    let name = db.name();
    let number = book.rollout.as_ref().map(|rollout| signed(&name, rollout.number)).transpose()?;
    let json = json(&name, "the new book", book)?;
    db.execute(
        "INSERT INTO rollout (number, json) \
         SELECT CAST(json -> 'rollout' ->> 'number' AS BIGINT), json -> 'rollout' FROM book \
         WHERE json -> 'rollout' ->> 'number' IS NOT NULL \
         AND CAST(json -> 'rollout' ->> 'number' AS BIGINT) IS DISTINCT FROM $1 \
         ON CONFLICT (number) DO UPDATE SET json = excluded.json",
        with![number],
    )?;
    db.execute(
        "DELETE FROM rollout WHERE number <= (SELECT number FROM rollout ORDER BY number DESC LIMIT 1 OFFSET $1)",
        with![MOST_PAST],
    )?;
    db.execute("UPDATE book SET json = $1", with![json])?;
    if !book.holds.all || book.holds.cause == HaltCause::Operator {
        db.execute("UPDATE store SET restored_held = 0 WHERE restored_held <> 0", &[])?;
    }
    Ok(())
}

fn put_resources(db: &dyn Sql, resources: &[ResourceChange]) -> Result<()> {
    for (kind, name, document) in resources {
        match document {
            Some((revision, yaml)) => db.execute(
                "INSERT INTO resource (kind, name, revision, yaml) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (kind, name) DO UPDATE SET revision = excluded.revision, yaml = excluded.yaml",
                with![kind.as_str(), name, revision, yaml],
            )?,
            None => db.execute("DELETE FROM resource WHERE kind = $1 AND name = $2", with![kind.as_str(), name])?,
        };
    }
    Ok(())
}

fn put_tokens(db: &dyn Sql, tokens: &[(String, Option<StoredToken>)]) -> Result<()> {
    for (name, token) in tokens {
        db.execute("DELETE FROM token WHERE name = $1", with![name])?;
        if let Some(token) = token {
            let expires = token.expires.map(|expires| expires.to_string());
            db.execute(
                "INSERT INTO token (name, digest, role, created, expires) VALUES ($1, $2, $3, $4, $5)",
                with![name, &token.digest, token.role.to_string(), token.created.to_string(), expires],
            )?;
        }
    }
    Ok(())
}

pub(crate) fn put_hosts(db: &dyn Sql, hosts: &[HostRecord]) -> Result<()> {
    let name = db.name();
    let row = |host: &HostRecord| Ok(with![host.id, json(&name, "a new host", host)?].to_vec());
    // Not a whole fleet in memory once more.
    hosts.chunks(BATCH).try_for_each(|hosts| {
        let rows = hosts.iter().map(row).collect::<Result<Vec<_>>>()?;
        db.execute_each(
            "INSERT INTO host (id, record) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET record = excluded.record",
            &rows,
        )
    })
}

fn forget_hosts(db: &dyn Sql, hosts: &[HostId]) -> Result<()> {
    let rows: Vec<_> = hosts.iter().map(|host| with![*host].to_vec()).collect();
    db.execute_each("DELETE FROM host WHERE id = $1", &rows)?;
    enrolment::forget(db, &rows)
}

fn put_outcome(db: &dyn Sql, id: &str, outcome: &str) -> Result<()> {
    let now = Timestamp::now().as_second();
    db.execute("INSERT INTO request (id, outcome, at) VALUES ($1, $2, $3)", with![id, outcome, now])?;
    db.execute("DELETE FROM request WHERE at < $1", with![now.saturating_sub(KEPT_SECONDS)])?;
    // Those of one second go together: the new one is younger.
    db.execute(
        "DELETE FROM request WHERE at < (SELECT at FROM request ORDER BY at DESC LIMIT 1 OFFSET $1)",
        with![MOST_OUTCOMES - 1],
    )?;
    Ok(())
}
