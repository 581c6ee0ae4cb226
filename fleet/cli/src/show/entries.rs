//! What was decided: a line a record.

use fleet_wire::api::{AuditEntry, Verified};
use fleet_wire::words::host::subject;
use serde_json::Value;

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
    let mut detail = entry.detail.clone();
    // The subject says it.
    detail.as_object_mut().map(|keys| keys.shift_remove("hostname"));
    let detail = Some(&detail).filter(|detail| is_worth_saying(detail)).map(Value::to_string);
    for more in [revisions, detail].into_iter().flatten() {
        line.push_str(&format!("; {}", clean(&more)));
    }
    line
}

fn is_worth_saying(detail: &Value) -> bool {
    match detail {
        Value::Null => false,
        Value::Object(keys) => !keys.is_empty(),
        _ => true,
    }
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
