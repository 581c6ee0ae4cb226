//! The audit log: append, read, verify (FLEET §8).

use std::path::Path;

use fleet_wire::api::{AuditEntry, AuditHead, Verified};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Params, Row, Transaction};

use crate::chain::{Link, START};
use crate::column::{signed, unreadable, unsigned};
use crate::error::{Error, OfDatabase, Result};

/// Most records at once, count.
const MOST: u32 = 10_000;
const COLUMNS: &str = "seq, at, who, origin, action, subject, done, detail, before, after, previous, hash";

/// Writes records after the newest one.
pub(crate) fn append(transaction: &Transaction<'_>, path: &Path, records: &[AuditEntry]) -> Result<Vec<AuditEntry>> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let mut insert = transaction
        .prepare(&format!("INSERT INTO audit ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"))
        .sql(path)?;
    let AuditHead { mut seq, mut hash } = head(transaction, path)?;
    // Behind what somebody forged: that stays visible, and keeps no decision from being written.
    let last: i64 = transaction.query_row("SELECT coalesce(max(seq), 0) FROM audit", [], |row| row.get(0)).sql(path)?;
    seq = seq.max(unsigned(path, last)?);
    let mut entries = Vec::with_capacity(records.len());
    for record in records {
        seq += 1;
        let entry = chained(record, seq, hash);
        let (at, detail) = (entry.at.to_string(), entry.detail.to_string());
        let AuditEntry { who, from, action, subject, done, before, after, previous, hash: own, .. } = &entry;
        let number = signed(path, seq)?;
        insert
            .execute((number, at, who, from, action, subject, done, detail, before, after, previous, own))
            .sql(path)?;
        hash = own.clone();
        entries.push(entry);
    }
    transaction.execute("UPDATE store SET head_seq = ?1, head_hash = ?2", (signed(path, seq)?, &hash)).sql(path)?;
    Ok(entries)
}

fn chained(record: &AuditEntry, seq: u64, previous: String) -> AuditEntry {
    let (at, detail) = (record.at.to_string(), record.detail.to_string());
    let hash = Link {
        previous: &previous,
        seq,
        at: &at,
        who: &record.who,
        from: &record.from,
        action: &record.action,
        subject: &record.subject,
        done: record.done,
        detail: &detail,
        before: &record.before,
        after: &record.after,
    }
    .hash();
    AuditEntry { seq, previous, hash, ..record.clone() }
}

/// The newest record, as the store remembers it.
pub(crate) fn head(connection: &Connection, path: &Path) -> Result<AuditHead> {
    let (seq, hash): (i64, String) = connection
        .query_row("SELECT head_seq, head_hash FROM store", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .sql(path)?;
    Ok(AuditHead { seq: unsigned(path, seq)?, hash })
}

/// Records after number `after`.
pub(crate) fn page(connection: &Connection, path: &Path, after: u64, limit: u32) -> Result<Vec<AuditEntry>> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    select(connection, path, "seq > ?1 ORDER BY seq LIMIT ?2", (after, limit.min(MOST)))
}

/// The newest records before number `before`, the newest first; where a subject is named, those about it among the newest
/// [`MOST`].
pub(crate) fn latest(
    connection: &Connection,
    path: &Path,
    before: Option<u64>,
    subject: Option<&str>,
    limit: u32,
) -> Result<Vec<AuditEntry>> {
    let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let limit = limit.min(MOST);
    match subject {
        None => select(connection, path, "seq < ?1 ORDER BY seq DESC LIMIT ?2", (before, limit)),
        Some(subject) => {
            let which =
                "seq < ?1 AND seq > (SELECT head_seq FROM store) - ?2 AND subject = ?3 ORDER BY seq DESC LIMIT ?4";
            select(connection, path, which, (before, MOST, subject, limit))
        }
    }
}

/// See [`crate::StoreReader::of_rollout`].
pub(crate) fn of_rollout(
    connection: &Connection,
    path: &Path,
    (from, to): (Timestamp, Timestamp),
    limit: u32,
) -> Result<Vec<AuditEntry>> {
    let which = "seq > (SELECT head_seq FROM store) - ?1 AND at >= ?2 AND at <= ?3 \
                 AND (subject LIKE 'group %' OR subject LIKE 'rollout %' OR subject = 'all groups') \
                 ORDER BY seq DESC LIMIT ?4";
    select(connection, path, which, (MOST, from.to_string(), to.to_string(), limit))
}

fn select(connection: &Connection, path: &Path, which: &str, with: impl Params) -> Result<Vec<AuditEntry>> {
    let read = || {
        let mut query = connection.prepare(&format!("SELECT {COLUMNS} FROM audit WHERE {which}"))?;
        query.query_map(with, entry)?.collect::<rusqlite::Result<_>>()
    };
    read().map_err(|error| unread(path, &error))
}

/// The newest record of an action.
pub(crate) fn newest(connection: &Connection, path: &Path, action: &str) -> Result<Option<AuditEntry>> {
    let sql = format!("SELECT {COLUMNS} FROM audit WHERE action = ?1 ORDER BY seq DESC LIMIT 1");
    connection.query_row(&sql, [action], entry).optional().map_err(|error| unread(path, &error))
}

fn unread(path: &Path, error: &rusqlite::Error) -> Error {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::IntegralValueOutOfRange(..) => {
            unreadable(path, "an audit record", &error.to_string())
        }
        error => Error::sql(path, error),
    }
}

fn entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let cannot = |column: usize, error: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error)
    };
    let (seq, at, detail): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(7)?);
    Ok(AuditEntry {
        seq: u64::try_from(seq).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, seq))?,
        at: at.parse().map_err(|error: jiff::Error| cannot(1, error.into()))?,
        who: row.get(2)?,
        from: row.get(3)?,
        action: row.get(4)?,
        subject: row.get(5)?,
        done: row.get(6)?,
        detail: serde_json::from_str(&detail).map_err(|error| cannot(7, error.into()))?,
        before: row.get(8)?,
        after: row.get(9)?,
        previous: row.get(10)?,
        hash: row.get(11)?,
    })
}

/// Walks the chain, and compares its end with what the store remembers.
pub(crate) fn verify(connection: &Connection, path: &Path, expected: Option<&str>) -> Result<Verified> {
    // One point in time, also beside a writer; where one is open already, that.
    let _point = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose().sql(path)?;
    let remembered = head(connection, path)?;
    let mut walk = Walk::new(expected);
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM audit ORDER BY seq")).sql(path)?;
    let mut rows = statement.query([]).sql(path)?;
    while let Some(row) = rows.next().sql(path)? {
        // A damaged page is an error above; a value of the wrong type is a changed record.
        walk.take(row);
    }
    Ok(walk.end(&remembered))
}

/// How far the chain was walked.
struct Walk<'a> {
    expected: Option<&'a str>,
    is_found: bool,
    /// The record of a restore that names the expected hash as the one that it left.
    left_by: Option<u64>,
    records: u64,
    head: AuditHead,
    fault: Option<String>,
}

impl<'a> Walk<'a> {
    fn new(expected: Option<&'a str>) -> Self {
        let expected = expected.map(str::trim);
        let head = AuditHead { seq: 0, hash: START.to_owned() };
        Self { is_found: expected == Some(START), expected, left_by: None, records: 0, head, fault: None }
    }

    fn take(&mut self, row: &Row<'_>) {
        self.records += 1;
        let supposed = self.head.seq + 1;
        match link(row) {
            Ok((link, hash)) => {
                let fault = self.fault_of(&link, hash);
                self.note(fault);
                if let Some(expected) = self.expected {
                    self.is_found |= expected.eq_ignore_ascii_case(hash);
                    if ["restore", "store_lost"].contains(&link.action) && link.detail.contains(expected) {
                        self.left_by = Some(link.seq);
                    }
                }
                self.head = AuditHead { seq: link.seq, hash: hash.to_owned() };
            }
            Err(error) => {
                self.note(Some(format!("record {supposed} cannot be read: {error}")));
                self.head.seq = supposed;
            }
        }
    }

    fn fault_of(&self, link: &Link<'_>, hash: &str) -> Option<String> {
        let (seq, supposed) = (link.seq, self.head.seq + 1);
        if seq != supposed {
            return Some(format!("record {supposed} is missing: record {seq} comes after record {}", self.head.seq));
        }
        if link.previous != self.head.hash {
            return Some(format!("record {seq} does not follow the record before it: one of them was changed"));
        }
        (link.hash() != hash).then(|| format!("record {seq} was changed: its hash is not that of its content"))
    }

    /// The first fault counts: what comes after it may follow from it.
    fn note(&mut self, fault: Option<String>) {
        self.fault = self.fault.take().or(fault);
    }

    fn end(mut self, remembered: &AuditHead) -> Verified {
        let AuditHead { seq, hash } = &self.head;
        if *remembered != self.head {
            let fault = format!(
                "the log ends with record {seq} ({hash}), but {} was written last ({})",
                remembered.seq, remembered.hash
            );
            self.note(Some(fault));
        }
        if let Some(expected) = self.expected.filter(|_| !self.is_found) {
            let fault = match self.left_by {
                Some(seq) => format!("{expected} is in the log that the restore of record {seq} left, not in this one"),
                None => format!("{expected} is not in the log: records were cut off, or it is the head of another log"),
            };
            self.note(Some(fault));
        }
        Verified { records: self.records, head: self.head, fault: self.fault }
    }
}

/// A record as it is stored, and its hash.
fn link<'a>(row: &'a Row<'_>) -> std::result::Result<(Link<'a>, &'a str), String> {
    let text = |column: usize| {
        let value = row.get_ref(column).map_err(|error| error.to_string())?;
        value.as_str().map_err(|error| error.to_string())
    };
    let number = |column: usize| row.get::<_, i64>(column).map_err(|error| error.to_string());
    let link = Link {
        seq: u64::try_from(number(0)?).map_err(|error| error.to_string())?,
        at: text(1)?,
        who: text(2)?,
        from: text(3)?,
        action: text(4)?,
        subject: text(5)?,
        done: match number(6)? {
            0 => false,
            1 => true,
            other => return Err(format!("`done` is {other}")),
        },
        detail: text(7)?,
        before: text(8)?,
        after: text(9)?,
        previous: text(10)?,
    };
    Ok((link, text(11)?))
}
