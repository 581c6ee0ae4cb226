//! What a host reported.

use crate::api::History;
use serde_json::Value;

use crate::text::time;

/// What is shown of a report: its name, and where it stands in the report.
const SHOWN: [(&str, &str); 7] = [
    ("Installed", "/versions/installed"),
    ("Previous", "/versions/previous"),
    ("Edition", "/edition"),
    ("Updater", "/updater"),
    ("Architecture", "/arch"),
    ("System", "/os"),
    ("Kernel", "/kernel"),
];

/// How it enrolled, when it reported, and what of itself; names and values, as they came.
pub fn facts(history: &History) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if !history.enrolled.is_empty() {
        let since = history.since.map_or_else(String::new, |since| format!(", since {} UTC", time(since)));
        facts.push(("Enrolled", format!("{}{since}", history.enrolled)));
    }
    let Some(report) = &history.report else { return facts };
    facts.push(("Last report", history.reported.map_or_else(|| "never".to_owned(), |at| format!("{} UTC", time(at)))));
    let of = |pointer: &str| report.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    facts.extend(SHOWN.iter().map(|(name, pointer)| (*name, of(pointer))).filter(|(_, value)| !value.is_empty()));
    if report["recovery_pending"] == true {
        facts.push(("Recovery", "a run was cut short, and its recovery is due".to_owned()));
    }
    facts
}

/// `2026-01-05 12:00:00  1.2.3 -> 1.2.4  failed (unhealthy): the agent is not ready`.
pub fn change(change: &Value) -> String {
    let of = |key: &str| change.get(key).and_then(Value::as_str).unwrap_or_default();
    let at = of("reported").parse().map_or_else(|_| of("reported").to_owned(), time);
    let from = if of("from").is_empty() { "(none)" } else { of("from") };
    let code = if of("code").is_empty() { String::new() } else { format!(" ({})", of("code")) };
    let error = if of("error").is_empty() { String::new() } else { format!(": {}", of("error")) };
    format!("{at}  {from} -> {}  {}{code}{error}", of("to"), of("outcome"))
}
