//! What hosts are called where they are shown.

use fleet_engine::host::NamedHost;
use fleet_engine::plain::cut;

/// Hex digits of a UUID that stand behind a name.
const SHORT: usize = 8;
/// Longest name that is shown, characters: the kernel's has no more.
const LONGEST: usize = 64;

/// What a host is called, and the beginning of its `id`, as two hosts may have one name; where it has none, its UUID and nothing.
pub fn parts<'a>(hostname: &str, id: &'a str) -> (String, &'a str) {
    if hostname.is_empty() {
        return (id.to_owned(), "");
    }
    (cut(hostname, LONGEST), id.get(..SHORT).unwrap_or(id))
}

/// `web07 (1a6fd0c2)`; where it has no name, its UUID.
pub fn name(hostname: &str, id: &str) -> String {
    match parts(hostname, id) {
        (id, "") => id,
        (name, id) => format!("{name} ({id})"),
    }
}

/// The same of each of them.
pub fn names(hosts: &[NamedHost]) -> Vec<String> {
    hosts.iter().map(|NamedHost { host, hostname }| name(hostname, host)).collect()
}

/// `web07 (1a6fd0c2-0000-4000-8000-000000000001)`.
pub fn full(hostname: &str, id: &str) -> String {
    if hostname.is_empty() { id.to_owned() } else { format!("{} ({id})", cut(hostname, LONGEST)) }
}
