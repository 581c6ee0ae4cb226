//! `autoupdate_agent_report`: which versions another server's agents run, counted by group.

use crate::plain::is_unsafe;
use jiff::Timestamp;
use protocol::Version;

use super::fields::ResourceFields;
use super::reader::ResourceReader;

/// How long counts are good, seconds: a minute (Managed Updates v2).
const VALID: i64 = 60;

/// What an `autoupdate_agent_report` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReport {
    /// When it was made; [`counts_are_good`] says until when it counts.
    pub timestamp: Timestamp,
    /// How many agents of a group run a version, in the order written.
    pub counts: Vec<VersionCount>,
    /// How many agents are not counted, and why.
    pub omitted: Vec<Omitted>,
}

/// How many agents of a group run a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionCount {
    /// The group that they declare.
    pub group: String,
    /// The version.
    pub version: Version,
    /// How many.
    pub count: u32,
}

/// Agents that are not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omitted {
    /// How many.
    pub count: u32,
    /// Why, for people.
    pub reason: String,
}

/// Whether counts that were made then are good at `now`.
pub fn counts_are_good(made: Timestamp, now: Timestamp) -> bool {
    now.as_second() - made.as_second() <= VALID
}

/// Reads `spec`.
pub(super) fn read(fields: &ResourceFields<'_>) -> Option<AgentReport> {
    let timestamp = fields.get("timestamp");
    let mut counts = Vec::new();
    for (name, place) in fields.pairs("groups") {
        group(fields, name, &place, &mut counts);
    }
    let omitted = fields.items("omitted");
    let omitted = omitted.into_iter().filter_map(|item| {
        let fields = fields.fields_at("omitted", &item.needed("a count and its reason"))?;
        Some(Omitted { count: fields.value("count"), reason: fields.value("reason") })
    });
    let omitted = omitted.collect();
    Some(AgentReport { timestamp: timestamp?, counts, omitted })
}

fn group<'a>(spec: &ResourceFields<'a>, name: &str, place: &ResourceReader<'a>, counts: &mut Vec<VersionCount>) {
    if name.trim().is_empty() || name.len() > 255 || name.chars().any(is_unsafe) {
        place.refuse("is not the name of a group: 1 to 255 bytes without control characters");
    }
    let Some(fields) = spec.fields_at("groups", place) else { return };
    for (version, place) in fields.pairs("versions") {
        let Some(count) = fields.fields_at("versions", &place).map(|fields| fields.value("count")) else { continue };
        match version.parse() {
            Ok(version) => counts.push(VersionCount { group: name.to_owned(), version, count }),
            Err(_) => place.refuse("is not the count of a version such as 17.2.1"),
        }
    }
}
