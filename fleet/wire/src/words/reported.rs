//! What a host reported.

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
        ("Installed", &report.versions.installed),
        ("Previous", &report.versions.previous),
        ("Edition", &report.edition),
        ("Updater", &report.updater),
        ("Architecture", &report.arch),
        ("System", &report.os),
        ("Kernel", &report.kernel),
    ];
    facts.extend(shown.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.clone())));
    if report.recovery_pending {
        facts.push(("Recovery", "a run was cut short, and its recovery is due".to_owned()));
    }
    facts
}

/// `2026-01-05 12:00:00  1.2.3 -> 1.2.4  failed (unhealthy): the agent is not ready`.
pub fn change(ReportedChange { change, reported }: &ReportedChange) -> String {
    let from = if change.from.is_empty() { "(none)" } else { &change.from };
    let code = if change.code.is_empty() { String::new() } else { format!(" ({})", change.code) };
    let error = if change.error.is_empty() { String::new() } else { format!(": {}", change.error) };
    format!("{}  {from} -> {}  {}{code}{error}", time(*reported), change.to, change.outcome.name())
}
