//! The audit log: append, read, verify (FLEET §8).

use fleet_wire::api::{AuditEntry, AuditHead, Verified};
use jiff::Timestamp;

use crate::chain::{Link, START};
use crate::column::{parse, seconds, signed, time, unreadable};
use crate::error::{Error, Result};
use crate::sql::{Sql, SqlExt, SqlFields, SqlRow, SqlValue, with};

/// Most records at once, count.
const MOST: u32 = 10_000;
const COLUMNS: &str = "seq, at, who, origin, action, subject, done, detail, before, after, previous, hash";

/// Writes records after the newest one.
pub(crate) fn append(db: &dyn Sql, records: &[AuditEntry]) -> Result<Vec<AuditEntry>> {
    if records.is_empty() {
        return Ok(Vec::new());
    }
    let AuditHead { mut seq, mut hash } = head(db)?;
    // Behind what somebody forged: that stays visible, and keeps no decision from being written.
    seq = seq.max(db.count("SELECT coalesce(max(seq), 0) FROM audit")?);
    let (mut entries, name) = (Vec::with_capacity(records.len()), db.name());
    for record in records {
        seq += 1;
        let AuditEntry { who, from, action, subject, done, before, after, .. } = record;
        let (at, detail, done) = (record.at.to_string(), record.detail.to_string(), *done);
        let (at, detail, previous) = (at.as_str(), detail.as_str(), hash.as_str());
        let own = Link { previous, seq, at, who, from, action, subject, done, detail, before, after }.hash();
        db.execute(
            &format!("INSERT INTO audit ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"),
            with![signed(&name, seq)?, at, who, from, action, subject, done, detail, before, after, previous, &own],
        )?;
        entries.push(AuditEntry { seq, previous: hash, hash: own.clone(), ..record.clone() });
        hash = own;
    }
    db.execute("UPDATE store SET head_seq = $1, head_hash = $2", with![signed(&name, seq)?, &hash])?;
    Ok(entries)
}

/// The newest record, as the store remembers it.
pub(crate) fn head(db: &dyn Sql) -> Result<AuditHead> {
    let head = db.first("SELECT head_seq, head_hash FROM store", &[], |row| {
        Ok(AuditHead { seq: row.unsigned(0)?, hash: row.string(1)? })
    });
    head?.ok_or_else(|| unreadable(&db.name(), "the head of the audit log", "it has no row"))
}

/// Records after number `after`.
pub(crate) fn page(db: &dyn Sql, after: u64, limit: u32) -> Result<Vec<AuditEntry>> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    select(db, "seq > $1 ORDER BY seq LIMIT $2", with![after, limit.min(MOST)])
}

/// The newest records before number `before`, the newest first; where a subject is named, those about it among the newest
/// [`MOST`].
pub(crate) fn latest(db: &dyn Sql, before: Option<u64>, subject: Option<&str>, limit: u32) -> Result<Vec<AuditEntry>> {
    let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    let limit = limit.min(MOST);
    match subject {
        None => select(db, "seq < $1 ORDER BY seq DESC LIMIT $2", with![before, limit]),
        Some(subject) => {
            let which =
                "seq < $1 AND seq > (SELECT head_seq FROM store) - $2 AND subject = $3 ORDER BY seq DESC LIMIT $4";
            select(db, which, with![before, MOST, subject, limit])
        }
    }
}

/// See [`crate::StoreReader::of_rollout`].
pub(crate) fn of_rollout(db: &dyn Sql, (from, to): (Timestamp, Timestamp), limit: u32) -> Result<Vec<AuditEntry>> {
    let which = "seq > (SELECT head_seq FROM store) - $1 AND at >= $2 AND at <= $3 \
                 AND (subject LIKE 'group %' OR subject LIKE 'rollout %' OR subject = 'all groups') \
                 ORDER BY seq DESC LIMIT $4";
    let (from, to) = seconds(from, to);
    select(db, which, with![MOST, from, to, limit])
}

/// The newest record of an action.
pub(crate) fn newest(db: &dyn Sql, action: &str) -> Result<Option<AuditEntry>> {
    Ok(select(db, "action = $1 ORDER BY seq DESC LIMIT 1", with![action])?.into_iter().next())
}

fn select(db: &dyn Sql, which: &str, with: &[SqlValue<'_>]) -> Result<Vec<AuditEntry>> {
    db.rows(&format!("SELECT {COLUMNS} FROM audit WHERE {which}"), with, entry).map_err(|error| match error {
        // A column of it says little to whom it is told.
        Error::Foreign(line) => {
            Error::Foreign(line.replace("cannot read column", "cannot read an audit record: column"))
        }
        error => error,
    })
}

fn entry(row: &SqlFields<'_>) -> Result<AuditEntry> {
    Ok(AuditEntry {
        seq: row.unsigned(0)?,
        at: time(row.name(), row.text(1)?)?,
        who: row.string(2)?,
        from: row.string(3)?,
        action: row.string(4)?,
        subject: row.string(5)?,
        done: row.number(6)? != 0,
        detail: parse(row.name(), "an audit record", row.text(7)?)?,
        before: row.string(8)?,
        after: row.string(9)?,
        previous: row.string(10)?,
        hash: row.string(11)?,
    })
}

/// Walks the chain, and compares its end with what the store remembers; within a transaction that reads one point in time.
pub(crate) fn verify(db: &dyn Sql, expected: Option<&str>) -> Result<Verified> {
    let remembered = head(db)?;
    let mut walk = Walk::new(expected);
    // A damaged page is an error; a value of the wrong type is a changed record.
    db.each(&format!("SELECT {COLUMNS} FROM audit ORDER BY seq"), &[], &mut |row| {
        walk.take(row);
        Ok(())
    })?;
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

    fn take(&mut self, row: &dyn SqlRow) {
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
fn link(row: &dyn SqlRow) -> std::result::Result<(Link<'_>, &str), String> {
    let absent = || "it is NULL".to_owned();
    let text = |column: usize| row.text(column)?.ok_or_else(absent);
    let number = |column: usize| row.number(column)?.ok_or_else(absent);
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
