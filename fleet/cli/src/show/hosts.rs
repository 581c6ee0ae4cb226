//! A table of hosts.

use fleet_wire::api::HostView;
use fleet_wire::lenient::word;
use fleet_wire::words::host as words;
use serde_json::Value;

use super::table::{Paint, TableCell, TextTable};
use super::text::{clean, time};

/// The keys of a host that CSV has.
pub(crate) const COLUMNS: [&str; 14] = [
    "hostname",
    "host",
    "group",
    "version",
    "state",
    "held",
    "pinned",
    "disabled",
    "last_seen",
    "last_outcome",
    "last_target",
    "error_code",
    "not_counted",
    "labels",
];

/// An empty table of hosts.
pub(crate) fn table() -> TextTable {
    TextTable::new(["Host", "Group", "Version", "State", "Last Seen", "Last Change"])
}

/// One more host.
pub(crate) fn add(table: &mut TextTable, host: &HostView) {
    let change = [&host.last_outcome, &host.last_target, words::code(&host.error_code)];
    let change: Vec<&str> = change.into_iter().filter(|word| !word.is_empty()).collect();
    let flags = words::beside_state(host);
    let state = if flags.is_empty() { host.state.clone() } else { format!("{} ({})", host.state, flags.join(", ")) };
    table.row(vec![
        TableCell::new(&words::name(&host.hostname, &host.host)),
        TableCell::new(&host.group),
        TableCell::new(&host.version),
        TableCell::painted(&state, paint(&host.state)),
        TableCell::new(&host.last_seen.map_or_else(|| "never".to_owned(), time)),
        TableCell::new(&change.join(" ")),
    ]);
}

/// A host as a line of CSV (RFC 4180).
pub(crate) fn csv(host: &Value) -> String {
    let cells = COLUMNS.map(|column| {
        let cell = match &host[column] {
            Value::Null => String::new(),
            Value::Object(keys) => {
                keys.iter().map(|(key, value)| format!("{key}={}", word(value))).collect::<Vec<_>>().join(" ")
            }
            value => word(value),
        };
        // A host says what it likes: a spreadsheet would run it as a formula.
        let quote = if cell.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
        let cell = format!("{quote}{}", clean(&cell));
        if cell.contains(['"', ',', ';']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
    });
    format!("{}\r\n", cells.join(","))
}

fn paint(state: &str) -> Paint {
    match state {
        "updated" => Paint::Green,
        "told" => Paint::Yellow,
        "failed" | "timed_out" => Paint::Red,
        _ => Paint::None,
    }
}
