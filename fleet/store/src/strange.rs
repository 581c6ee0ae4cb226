//! What a server takes as its data when it starts: a database that is older than what was seen here, another one, or a backup that was
//! put in place by hand forgot what was stopped since. Then everything is held, as after a restore (FLEET §3).

use std::path::Path;

use fleet_engine::rollout_state::HaltCause;
use fleet_wire::api::AuditHead;
use jiff::Timestamp;
use serde_json::json;

use crate::error::Result;
use crate::files::DataDir;
use crate::restore::{Old, describe, hold};
use crate::sql::{Sql, SqlExt};
use crate::{audit, load, witness};

/// What is not as the server left it.
pub(crate) enum Strange {
    /// The database does not have the record that was seen last.
    Lost(AuditHead),
    /// It is a backup.
    Backup,
    /// The log beside it was another database's.
    Log,
}

impl Strange {
    /// Looks at an open database of this place; `None`: it is as it was left. Errors: `Foreign`, `Unavailable`.
    pub(crate) fn of(db: &dyn Sql, place: &DataDir) -> Result<Option<Self>> {
        let seen = witness::read(place)?.map(|seen| seen.head);
        if let Some(seen) = seen
            && !witness::has(db, &seen)?
            && !is_restored(db)?
        {
            return Ok(Some(Self::Lost(seen)));
        }
        Ok((db.count("SELECT is_backup FROM store")? != 0).then_some(Self::Backup))
    }

    /// What happened, as a line for people.
    pub(crate) fn line(&self, ends: &AuditHead) -> String {
        match self {
            Self::Lost(seen) => format!(
                "the store lost decisions: record {} of the audit log was seen here, and the database ends with {}",
                seen.seq, ends.seq
            ),
            Self::Backup => "the database is a backup that was put in its place without `restore`".to_owned(),
            Self::Log => "the database is an older or another one: the log beside it is not its own".to_owned(),
        }
    }

    fn cause(&self) -> HaltCause {
        match self {
            Self::Lost(_) | Self::Log => HaltCause::StoreLost,
            Self::Backup => HaltCause::Restore,
        }
    }
}

/// A restore was cut short between the new database and the note of its newest record: what was seen is of the one before, and
/// everything is held.
fn is_restored(db: &dyn Sql) -> Result<bool> {
    let newest = audit::newest(db, "restore")?;
    let head = audit::head(db)?;
    let is_last = newest.is_some_and(|restore| head.seq == restore.seq);
    let is_restored = db.count("SELECT restored_held FROM store")? != 0;
    let book = load::book(db)?;
    Ok(is_restored && is_last && book.is_some_and(|book| book.holds.all && book.holds.released.is_empty()))
}

/// Holds everything where the database is strange, or another's log, `aside` by now, was beside it; within a transaction of the
/// caller. Returns what happened, as a line; `None`: nothing.
pub(crate) fn take(db: &dyn Sql, place: &DataDir, aside: Option<&Path>) -> Result<Option<String>> {
    let Some(strange) = Strange::of(db, place)?.or(aside.map(|_| Strange::Log)) else { return Ok(None) };
    let mut line = strange.line(&audit::head(db)?);
    if let Some(aside) = aside {
        line.push_str(&format!("; another database's log was beside it, and is kept as {}", aside.display()));
    }
    let (mut book, cause) = (load::book(db)?.unwrap_or_default(), strange.cause());
    book.lose_numbers(None);
    let (action, head, detail) = match strange {
        Strange::Lost(seen) => ("store_lost", Some(seen), json!({})),
        Strange::Log => ("store_lost", None, json!({})),
        Strange::Backup => ("restore", None, json!({ "backup": "a file that was put in place by hand" })),
    };
    hold(
        db,
        Some(book),
        cause,
        &Old { head, ..Old::default() },
        &describe(Timestamp::now(), action, "start of the server", detail),
    )?;
    Ok(Some(line))
}
