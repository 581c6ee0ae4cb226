//! Writing a change.

use std::path::Path;

use fleet_engine::host::HostId;
use fleet_engine::record::HostRecord;
use fleet_engine::rollout_state::{HaltCause, RolloutState};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::column::{signed, unreadable};
use crate::error::{Error, OfDatabase, Result};
use crate::state::{Change, Committed, ResourceChange, StoredToken};
use crate::{audit, enrolment, load};

/// How long the outcome of a request is kept, seconds: a week; whoever asks again later is not a retry.
const KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;
/// Most outcomes that are kept: a request each 6 s for a week.
const MOST_OUTCOMES: i64 = 100_000;
/// Most past rollouts that are kept: three years of one each day.
const MOST_PAST: i64 = 1000;

/// Writes all of it in one transaction.
pub(crate) fn write(connection: &mut Connection, path: &Path, change: &Change<'_>) -> Result<Committed> {
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = begun.sql(path)?;
    let committed = apply(&transaction, path, change)?;
    transaction.commit().map_err(|error| Error::at_commit(path, &error))?;
    Ok(committed)
}

fn apply(transaction: &Transaction<'_>, path: &Path, change: &Change<'_>) -> Result<Committed> {
    let found = load::revision(transaction, path)?;
    if found != change.expected {
        return Err(Error::Mismatch(format!(
            "{} is at revision {found}, not at {}: another process wrote it; load it again",
            path.display(),
            change.expected
        )));
    }
    if let Some((id, _)) = &change.request {
        refuse_answered(transaction, path, id)?;
    }
    let is_decision = change.book.is_some() || !change.resources.is_empty();
    if let Some(book) = change.book {
        put_book(transaction, path, book)?;
    }
    if is_decision {
        transaction.execute("UPDATE book SET revision = revision + 1", []).sql(path)?;
    }
    put_resources(transaction, &change.resources).sql(path)?;
    put_tokens(transaction, &change.tokens).sql(path)?;
    // Who was forgotten and came again since is put there anew.
    forget_hosts(transaction, &change.forgotten).sql(path)?;
    put_hosts(transaction, path, &change.hosts)?;
    enrolment::put(transaction, path, &change.enrolments)?;
    let arrivals = signed(path, change.arrivals)?;
    transaction.execute("UPDATE store SET arrivals = ?1 WHERE arrivals < ?1", [arrivals]).sql(path)?;
    let entries = audit::append(transaction, path, &change.records)?;
    if let Some((id, outcome)) = &change.request {
        put_outcome(transaction, id, outcome).sql(path)?;
    }
    Ok(Committed { revision: found + u64::from(is_decision), entries })
}

fn refuse_answered(transaction: &Transaction<'_>, path: &Path, id: &str) -> Result<()> {
    let answered = transaction.query_row("SELECT 1 FROM request WHERE id = ?1", [id], |_| Ok(())).optional();
    match answered.sql(path)? {
        None => Ok(()),
        Some(()) => Err(Error::Mismatch(format!("{}: request {id} was answered before", path.display()))),
    }
}

/// Writes the book. A rollout that it does not have any more is kept among the past ones. The hold of a restore ends where
/// an operator ended it.
pub(crate) fn put_book(transaction: &Transaction<'_>, path: &Path, book: &RolloutState) -> Result<()> {
    let number = book.rollout.as_ref().map(|rollout| signed(path, rollout.number)).transpose()?;
    let json = serde_json::to_string(book).map_err(|error| unreadable(path, "the new book", &error.to_string()))?;
    transaction
        .execute(
            "INSERT OR REPLACE INTO rollout (number, json) \
             SELECT json ->> '$.rollout.number', json -> '$.rollout' FROM book \
             WHERE json ->> '$.rollout.number' IS NOT NULL AND json ->> '$.rollout.number' IS NOT ?1",
            [number],
        )
        .sql(path)?;
    transaction
        .execute(
            "DELETE FROM rollout WHERE number <= (SELECT number FROM rollout ORDER BY number DESC LIMIT 1 OFFSET ?1)",
            [MOST_PAST],
        )
        .sql(path)?;
    transaction.execute("UPDATE book SET json = ?1", [json]).sql(path)?;
    if !book.holds.all || book.holds.cause == HaltCause::Operator {
        transaction.execute("UPDATE store SET restored_held = 0 WHERE restored_held <> 0", []).sql(path)?;
    }
    Ok(())
}

fn put_resources(transaction: &Transaction<'_>, resources: &[ResourceChange]) -> rusqlite::Result<()> {
    for (kind, name, document) in resources {
        match document {
            Some((revision, yaml)) => transaction.execute(
                "INSERT INTO resource (kind, name, revision, yaml) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (kind, name) DO UPDATE SET revision = excluded.revision, yaml = excluded.yaml",
                (kind.as_str(), name, revision, yaml),
            )?,
            None => transaction.execute("DELETE FROM resource WHERE kind = ?1 AND name = ?2", (kind.as_str(), name))?,
        };
    }
    Ok(())
}

fn put_tokens(transaction: &Transaction<'_>, tokens: &[(String, Option<StoredToken>)]) -> rusqlite::Result<()> {
    for (name, token) in tokens {
        transaction.execute("DELETE FROM token WHERE name = ?1", [name])?;
        if let Some(token) = token {
            let expires = token.expires.map(|expires| expires.to_string());
            transaction.execute(
                "INSERT INTO token (name, digest, role, created, expires) VALUES (?1, ?2, ?3, ?4, ?5)",
                (name, &token.digest, token.role.to_string(), token.created.to_string(), expires),
            )?;
        }
    }
    Ok(())
}

pub(crate) fn put_hosts(transaction: &Transaction<'_>, path: &Path, hosts: &[HostRecord]) -> Result<()> {
    let mut upsert = transaction
        .prepare(
            "INSERT INTO host (id, record) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET record = excluded.record",
        )
        .sql(path)?;
    for host in hosts {
        let json = serde_json::to_string(host).map_err(|error| unreadable(path, "a new host", &error.to_string()))?;
        upsert.execute((host.id.to_be_bytes(), json)).sql(path)?;
    }
    Ok(())
}

fn forget_hosts(transaction: &Transaction<'_>, hosts: &[HostId]) -> rusqlite::Result<()> {
    let mut delete = transaction.prepare("DELETE FROM host WHERE id = ?1")?;
    hosts.iter().try_for_each(|id| delete.execute([id.to_be_bytes()]).map(drop))?;
    enrolment::forget(transaction, hosts)
}

fn put_outcome(transaction: &Transaction<'_>, id: &str, outcome: &str) -> rusqlite::Result<()> {
    let now = Timestamp::now().as_second();
    transaction.execute("INSERT INTO request (id, outcome, at) VALUES (?1, ?2, ?3)", (id, outcome, now))?;
    transaction.execute("DELETE FROM request WHERE at < ?1", [now.saturating_sub(KEPT_SECONDS)])?;
    transaction.execute(
        "DELETE FROM request WHERE rowid <= (SELECT rowid FROM request ORDER BY rowid DESC LIMIT 1 OFFSET ?1)",
        [MOST_OUTCOMES],
    )?;
    Ok(())
}
