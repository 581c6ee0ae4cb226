//! What was decided: a line a record.

use fleet_wire::api::{AuditEntry, Verified};
use fleet_wire::words::host::subject;
use fleet_wire::words::record;

use super::text::{clean, counted, time};

/// `41 2025-01-15 02:00:00 uid 0 (root): halt group prod`, with what else is known of it.
pub(crate) fn line(entry: &AuditEntry) -> String {
    let from = if entry.from.is_empty() { String::new() } else { format!(" from {}", clean(&entry.from)) };
    let refused = if entry.done { "" } else { " REFUSED" };
    let mut line = format!(
        "{} {} {}{from}: {} {}{refused}",
        entry.seq,
        time(entry.at),
        clean(&entry.who),
        clean(&entry.action),
        clean(&subject(entry))
    );
    let revisions = match (entry.before.as_str(), entry.after.as_str()) {
        ("", "") => None,
        ("", after) => Some(format!("revision {after}")),
        (before, "") => Some(format!("was revision {before}")),
        (before, after) => Some(format!("revision {before} -> {after}")),
    };
    let detail = Some(record::detail(&entry.detail)).filter(|detail| !detail.is_empty());
    for more in [revisions, detail].into_iter().flatten() {
        line.push_str(&format!("; {}", clean(&more)));
    }
    line
}

/// What `audit verify` found, where all is well.
pub(crate) fn whole(verified: &Verified) -> String {
    format!(
        "The chain of {} is whole. Head: {} (record {})",
        counted(verified.records, "record"),
        clean(&verified.head.hash),
        verified.head.seq
    )
}
