//! What is known of a host.

use std::borrow::Cow;

use fleet_engine::host::NamedHost;
use fleet_engine::reason::Why;
use fleet_engine::tally::BY_HAND;

use crate::api::{AuditEntry, DecidedMany, HostView, ManyDecision, ToldHost};
use crate::text::{self, clean, time};

pub use crate::name::{full, name, names, parts};

/// The UUID of the host that a record is about, where it is about one.
pub fn of_record(entry: &AuditEntry) -> Option<&str> {
    entry.subject.strip_prefix("host ")
}

/// What a record is about: a host by its name then.
pub fn subject(entry: &AuditEntry) -> Cow<'_, str> {
    match (of_record(entry), entry.detail["hostname"].as_str()) {
        (Some(id), Some(hostname)) => format!("host {}", name(hostname, id)).into(),
        _ => entry.subject.as_str().into(),
    }
}

/// `web07 (1a6fd0c2), web08 (…), … and 27 more`: the first of so many.
pub fn first(hosts: &[NamedHost], count: u64) -> String {
    let more = count.saturating_sub(u64::try_from(hosts.len()).unwrap_or(u64::MAX));
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    clean(&(names(hosts).join(", ") + &more)).into_owned()
}

/// What a decision on many hosts is, or would be, about: `37 hosts: web07 (1a6fd0c2), …`.
pub fn touched(DecidedMany { count, hosts, left_out, shown: _ }: &DecidedMany) -> String {
    let named = if hosts.is_empty() { String::new() } else { format!(": {}", first(hosts, *count)) };
    let left_out = match left_out {
        0 => String::new(),
        1 => "; 1 has another key already, and is left out: decide on it alone".to_owned(),
        many => format!("; {many} have another key already, and are left out: decide on each alone"),
    };
    format!("{}{named}{left_out}", text::hosts(*count))
}

/// What was decided on many hosts: `Accepted 37 hosts: web07 (1a6fd0c2), …`.
pub fn decided(decision: &ManyDecision, done: &DecidedMany) -> String {
    let many = touched(done);
    match decision {
        ManyDecision::Accept => format!("Accepted {many}"),
        ManyDecision::Assign(None) => format!("Given back to the groups that they declare: {many}"),
        ManyDecision::Assign(Some(group)) => format!("Put in group {}: {many}", clean(group)),
    }
}

/// An error code as it is shown.
pub fn code(code: &str) -> &str {
    if code == BY_HAND { "sent back by hand" } else { code }
}

/// What its state does not say: how it failed, where its last change does not say that, and that it is held.
pub fn beside_state(host: &HostView) -> Vec<&str> {
    let is_said = host.failed_with == host.error_code && host.failed_with != BY_HAND;
    let all = [if is_said { "" } else { code(&host.failed_with) }, if host.held { "held" } else { "" }];
    all.into_iter().filter(|word| !word.is_empty()).collect()
}

/// `update to 1.2.4`, `1.2.4, which it runs`, `no update now (version named: 1.2.3)`.
pub fn answer(ToldHost { update, version, why, .. }: &ToldHost) -> String {
    match why.code.known() {
        _ if version.is_empty() => "no version, and no update".to_owned(),
        Some(Why::Updated | Why::WentBack) => format!("{version}, which it runs"),
        _ if *update => format!("update to {version}"),
        _ => format!("no update now (version named: {version})"),
    }
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
    let code = match host.error_code.as_str() {
        "" => String::new(),
        BY_HAND => " (by hand)".to_owned(),
        code => format!(" ({code})"),
    };
    format!("{}{to}{code}", host.last_outcome)
}
