//! What a host reported.

use serde_json::Value;

use crate::api::{History, ReportedChange};

use crate::text::time;

/// How it enrolled, when it reported, and what of itself; names and values, as they came.
pub fn facts(history: &History) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !history.enrolled.is_empty() {
        let since = history.since.map_or_else(String::new, |since| format!(", since {} UTC", time(since)));
        facts.push(("Enrolled", format!("{}{since}", history.enrolled)));
    }
    let Some(report) = &history.report else { return facts };
    facts.push(("Last report", history.reported.map_or_else(|| "never".to_owned(), |at| format!("{} UTC", time(at)))));
    let shown = [
        ("Installed", "/versions/installed"),
        ("Previous", "/versions/previous"),
        ("Edition", "/edition"),
        ("Updater", "/updater"),
        ("Architecture", "/arch"),
        ("System", "/os"),
        ("Kernel", "/kernel"),
    ];
    let shown = shown.map(|(name, place)| (name, text(report, place)));
    facts
        .extend(shown.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.to_owned())));
    if report["recovery_pending"] == true {
        facts.push(("Recovery", "a run was cut short, and its recovery is due".to_owned()));
    }
    facts
}

/// `2026-01-05 12:00:00  1.2.3 -> 1.2.4  failed (unhealthy): the agent is not ready`.
pub fn change(ReportedChange { change, reported }: &ReportedChange) -> String {
    let [from, to, outcome, code, error] =
        ["/from", "/to", "/outcome", "/code", "/error"].map(|place| text(change, place));
    let from = if from.is_empty() { "(none)" } else { from };
    let code = if code.is_empty() { String::new() } else { format!(" ({code})") };
    let error = if error.is_empty() { String::new() } else { format!(": {error}") };
    format!("{}  {from} -> {to}  {outcome}{code}{error}", time(*reported))
}

/// The text at a JSON pointer; empty: none.
fn text<'a>(report: &'a Value, place: &str) -> &'a str {
    report.pointer(place).and_then(Value::as_str).unwrap_or_default()
}
