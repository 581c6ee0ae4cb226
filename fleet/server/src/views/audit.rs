//! `/audit`.

use askama::Template;
use fleet_wire::api::{AuditEntry, Verified};
use fleet_wire::text;
use fleet_wire::words::host;

use super::frame::Frame;

/// Records, the newest first.
#[derive(Debug, Clone, Template)]
#[template(path = "audit.html")]
pub(crate) struct AuditLogPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// A page of them.
    pub(crate) lines: Vec<AuditRow>,
    /// The number before which the next page begins; `None`: there is none.
    pub(crate) next: Option<u64>,
    /// Whether the chain is whole.
    pub(crate) verified: Option<Verified>,
    /// It is asked for all of it, not for a page after the first.
    pub(crate) is_first: bool,
}

/// A record, as a row.
#[derive(Debug, Clone)]
pub(crate) struct AuditRow {
    /// The record.
    pub(crate) entry: AuditEntry,
    /// When, in RFC 3339.
    pub(crate) at: String,
    /// What.
    pub(crate) action: String,
    /// On what, a host by its name.
    pub(crate) subject: String,
    /// The UUID of that host.
    pub(crate) host: Option<String>,
    /// More of it.
    pub(crate) detail: String,
}

impl AuditRow {
    /// Of a record.
    pub(crate) fn of(entry: &AuditEntry) -> Self {
        let (subject, host) = (host::subject(entry).into_owned(), host::of_record(entry).map(str::to_owned));
        let detail = fleet_wire::words::record::detail(&entry.detail);
        let (at, action) = (text::second(entry.at), entry.action.replace('_', " "));
        Self { at, action, subject, host, detail, entry: entry.clone() }
    }
}
