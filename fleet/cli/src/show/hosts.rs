//! A table of hosts.

use fleet_wire::api::HostView;

use super::table::{Paint, TableCell, TextTable};
use super::text::time;

/// An empty table of hosts.
pub(crate) fn table() -> TextTable {
    TextTable::new(["Host", "Group", "Version", "State", "Last Seen", "Last Change"])
}

/// One more host.
pub(crate) fn add(table: &mut TextTable, host: &HostView) {
    let change = [&host.last_outcome, &host.last_target, &host.error_code];
    let change: Vec<&str> = change.into_iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    // The last change may have been another failure since.
    let code = if host.failed_with == host.error_code { "" } else { &host.failed_with };
    let flags: Vec<&str> =
        [code, if host.held { "held" } else { "" }].into_iter().filter(|word| !word.is_empty()).collect();
    let state = if flags.is_empty() { host.state.clone() } else { format!("{} ({})", host.state, flags.join(", ")) };
    table.row(vec![
        TableCell::new(&host.host),
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
