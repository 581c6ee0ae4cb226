//! A table of hosts.

use fleet_wire::api::HostView;
use fleet_wire::words::host as words;

use super::table::{Paint, TableCell, TextTable};
use super::text::time;

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

fn paint(state: &str) -> Paint {
    match state {
        "updated" => Paint::Green,
        "told" => Paint::Yellow,
        "failed" | "timed_out" => Paint::Red,
        _ => Paint::None,
    }
}
