//! What is known of a host.

use crate::api::{HostView, ToldHost};
use crate::text::time;

/// `update to 1.2.4`, `no update (1.2.3)`.
pub fn answer(ToldHost { update, version, .. }: &ToldHost) -> String {
    let version = if version.is_empty() { "(none)" } else { version };
    if *update { format!("update to {version}") } else { format!("no update ({version})") }
}

/// What keeps it from updating, by a word each; empty: nothing of its own.
pub fn flags(host: &HostView) -> String {
    let all = [(host.held, "held"), (host.pinned, "pinned"), (host.disabled, "disabled")];
    all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, word)| word).collect::<Vec<_>>().join(", ")
}

/// When it was last seen.
pub fn seen(host: &HostView) -> String {
    host.last_seen.map_or_else(|| "never".to_owned(), |seen| format!("{} UTC", time(seen)))
}

/// `failed, to 1.2.4 (health_failed)`; empty: none is known.
pub fn last_change(host: &HostView) -> String {
    if host.last_outcome.is_empty() {
        return String::new();
    }
    let to = if host.last_target.is_empty() { String::new() } else { format!(", to {}", host.last_target) };
    let code = if host.error_code.is_empty() { String::new() } else { format!(" ({})", host.error_code) };
    format!("{}{to}{code}", host.last_outcome)
}
