//! `/audit`.

use askama::Template;
use fleet_wire::api::{AuditEntry, Verified};
use fleet_wire::text;

use crate::Frame;

/// Records, the newest first.
#[derive(Debug, Clone, Template)]
#[template(path = "audit.html")]
pub struct AuditLogPage {
    /// What is around it.
    pub frame: Frame,
    /// A page of them.
    pub lines: Vec<AuditRow>,
    /// The number before which the next page begins; `None`: there is none.
    pub next: Option<u64>,
    /// Whether the chain is whole.
    pub verified: Option<Verified>,
    /// It is asked for all of it, not for a page after the first.
    pub is_first: bool,
}

/// A record, as a row.
#[derive(Debug, Clone)]
pub struct AuditRow {
    /// Its number.
    pub seq: u64,
    /// `2025-01-15 02:00:00`.
    pub at: String,
    /// Who.
    pub who: String,
    /// From where.
    pub from: String,
    /// What.
    pub action: String,
    /// On what.
    pub subject: String,
    /// Whether it was done.
    pub done: bool,
    /// More of it.
    pub detail: String,
}

impl AuditRow {
    /// Of a record.
    pub fn of(entry: &AuditEntry) -> Self {
        let message = entry.detail.get("message").and_then(serde_json::Value::as_str);
        let detail = match (&entry.detail, message) {
            (_, Some(message)) => message.to_owned(),
            (serde_json::Value::Object(keys), None) => {
                let said = keys.iter().filter(|(_, value)| !value.is_null());
                said.map(|(key, value)| format!("{key}: {}", bare(value))).collect::<Vec<_>>().join(", ")
            }
            (other, None) => other.to_string(),
        };
        Self {
            seq: entry.seq,
            at: text::time(entry.at),
            who: entry.who.clone(),
            from: entry.from.clone(),
            action: entry.action.replace('_', " "),
            subject: entry.subject.clone(),
            done: entry.done,
            detail,
        }
    }
}

/// A string without its quotes.
fn bare(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
