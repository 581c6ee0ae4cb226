//! How far a group is that updates: what it still needs, when it ends by its pace so far, and whom it waits for.

use fleet_engine::progress::GroupProgress;
use fleet_engine::reason::CanaryObstacle;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids;
use crate::lenient::{Lenient, word};
use crate::text::{self, clean, second};

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ReasonProgress {
    /// With so many updated hosts it is done; absent: its end is no matter of hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
    /// When that will be, by the pace of those that updated; absent: not known.
    #[schemars(extend("format" = "date-time"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_end: Option<String>,
    /// Some hosts that are on their way: those first that count as late first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub awaited: Vec<AwaitedHost>,
    /// What keeps its hosts from being canaries, where too few could be chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<Obstacle>,
}

/// A host that is waited for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AwaitedHost {
    /// Its UUID.
    pub host: String,
    /// Its name.
    pub name: String,
    /// When it was last seen.
    #[schemars(extend("format" = "date-time"))]
    pub last_seen: String,
    /// As what it counts if nothing is heard of it until `counts_at`: `silent`, `failed` or `timed_out`.
    pub counts_as: String,
    /// When it counts as that.
    #[schemars(extend("format" = "date-time"))]
    pub counts_at: String,
}

/// What keeps hosts from being canaries.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Obstacle {
    /// What.
    pub code: Lenient<CanaryObstacle>,
    /// How many hosts.
    pub hosts: u64,
}

impl ReasonProgress {
    /// Of the engine's, where `updated` hosts are on the target; `name` gives a host's name.
    pub fn of(progress: &GroupProgress, updated: u64, name: impl Fn(u128) -> String) -> Self {
        let awaited = progress.awaited.iter().map(|(at, host, heard, becomes)| AwaitedHost {
            host: ids::text(*host),
            name: name(*host),
            last_seen: second(*heard),
            counts_as: (*becomes).to_owned(),
            counts_at: second(*at),
        });
        let obstacles = progress.obstacles.iter();
        Self {
            needed: progress.needed.map(|needed| updated + needed),
            estimated_end: progress.end.map(second),
            awaited: awaited.collect(),
            obstacles: obstacles.map(|(code, hosts)| Obstacle { code: (*code).into(), hosts: *hosts }).collect(),
        }
    }

    /// What stands behind the reason.
    pub(super) fn behind(&self) -> String {
        let needed = self.needed.map(|needed| format!("; {needed} needed")).unwrap_or_default();
        if self.obstacles.is_empty() {
            return needed;
        }
        let obstacles: Vec<String> = self.obstacles.iter().map(Obstacle::words).collect();
        format!("{needed}: {}; it is tried again each minute", obstacles.join(", "))
    }

    /// The end and the hosts, behind a line.
    pub(super) fn line(&self, zone: &TimeZone) -> String {
        let end = self.estimated_end.as_ref();
        let end = end.map(|end| format!("; by its pace so far it ends about {}", text::time_to_come(end, zone)));
        let awaited: Vec<String> = self.awaited.iter().map(AwaitedHost::words).collect();
        let awaited = if awaited.is_empty() { String::new() } else { format!("; waits for {}", awaited.join(", ")) };
        end.unwrap_or_default() + &awaited
    }
}

impl AwaitedHost {
    /// `silent`, `timed out`.
    pub fn counts_as(&self) -> String {
        clean(&self.counts_as).replace('_', " ")
    }

    fn words(&self) -> String {
        let (seen, at) = (text::time_of(&self.last_seen), text::time_of(&self.counts_at));
        format!("{} (last seen {seen} UTC, counts as {} from {at} UTC on)", clean(&self.name), self.counts_as())
    }
}

impl Obstacle {
    fn words(&self) -> String {
        let one = self.hosts == 1;
        let verb = |one_is: &str, many: &str| format!("{} {}", self.hosts, if one { one_is } else { many });
        match &self.code {
            Lenient::Known(CanaryObstacle::Excluded) => verb("is", "are") + " pinned, disabled or held",
            Lenient::Known(CanaryObstacle::NotCounted) => {
                verb("is", "are") + " not enrolled, or came after the group began"
            }
            Lenient::Known(CanaryObstacle::NotSeen) => verb("was", "were") + " not seen within a report interval",
            Lenient::Known(CanaryObstacle::NoUpdateId) => verb("has", "have") + " no update id",
            Lenient::Known(CanaryObstacle::Tried) => verb("has", "have") + " been told already, or failed",
            newer @ Lenient::Newer(_) => format!("{}: {}", self.hosts, clean(&word(newer))),
        }
    }
}
