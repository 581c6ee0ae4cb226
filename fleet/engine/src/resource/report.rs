//! `autoupdate_agent_report`: which versions another server's agents run, counted by group.

use crate::plain::is_unsafe;
use jiff::Timestamp;
use protocol::Version;

use super::reader::ResourceReader;

/// Most groups of a report (FLEET §5).
pub const MOST_GROUPS: usize = 50;
/// Most versions of a group.
pub const MOST_VERSIONS: usize = 20;
/// Most reasons for not being counted; there are seven (FLEET §5).
const MOST_OMITTED: usize = 100;
/// Most agents of a count.
const MOST_AGENTS: u32 = i32::MAX.unsigned_abs();

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
pub(crate) fn counts_are_good(made: Timestamp, now: Timestamp) -> bool {
    now.as_second() - made.as_second() <= VALID
}

/// Reads `spec`.
pub(super) fn read(spec: &ResourceReader<'_>) -> Option<AgentReport> {
    let mut fields = spec.fields()?;
    let timestamp = fields.get("timestamp").needed("the time when the report was made").time();
    let mut counts = Vec::new();
    for (name, place) in fields.get("groups").pairs_up_to(MOST_GROUPS, "groups") {
        group(name, &place, &mut counts);
    }
    let omitted = fields.get("omitted").items_up_to(MOST_OMITTED, "reasons").iter().filter_map(omitted).collect();
    fields.end();
    Some(AgentReport { timestamp: timestamp?, counts, omitted })
}

fn group(name: &str, place: &ResourceReader<'_>, counts: &mut Vec<VersionCount>) {
    if name.trim().is_empty() || name.len() > 255 || name.chars().any(is_unsafe) {
        place.refuse("is not the name of a group: 1 to 255 bytes without control characters");
    }
    let Some(mut fields) = place.fields() else { return };
    let versions = fields.get("versions");
    fields.end();
    for (version, place) in versions.pairs_up_to(MOST_VERSIONS, "versions") {
        let Some(mut fields) = place.fields() else { continue };
        let count = fields.get("count").integer(0..=MOST_AGENTS).unwrap_or(0);
        fields.end();
        match version.parse() {
            Ok(version) => counts.push(VersionCount { group: name.to_owned(), version, count }),
            Err(_) => place.refuse("is not the count of a version such as 17.2.1"),
        }
    }
}

fn omitted(reader: &ResourceReader<'_>) -> Option<Omitted> {
    let mut fields = reader.clone().needed("a count and its reason").fields()?;
    let count = fields.get("count").integer(0..=MOST_AGENTS).unwrap_or(0);
    let reason = fields.get("reason").text().unwrap_or_default().to_owned();
    fields.end();
    Some(Omitted { count, reason })
}
