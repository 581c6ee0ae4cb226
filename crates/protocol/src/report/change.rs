//! The last change of a host's version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What became of a host's last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has begun.
    Started,
    /// The links and the agent are changed; the watch goes on.
    Switched,
    /// The agent was healthy until the end of the watch.
    Updated,
    /// It was undone.
    RolledBack,
    /// It did not come about.
    Failed,
    /// This version failed here before, and is not tried.
    Refused,
}

impl Outcome {
    /// Its name in a report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Switched => "switched",
            Self::Updated => "updated",
            Self::RolledBack => "rolled_back",
            Self::Failed => "failed",
            Self::Refused => "refused",
        }
    }

    /// Whether it says that the version is not good here.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::RolledBack | Self::Failed | Self::Refused)
    }

    /// Whether the change goes on.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Started | Self::Switched)
    }
}

/// A host's last change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The version before; empty: none was installed.
    #[serde(default)]
    pub from: String,
    /// The version that it was to.
    pub to: String,
    /// When it came to this outcome, RFC 3339.
    pub at: String,
    /// The number of the rollout in which the host was told of it; none: somebody asked for it on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<u64>,
    /// The attempt of its group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// What became of it.
    pub outcome: Outcome,
    /// The code of its error, one of the updater's; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Its error in a line; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// How long its phases took, milliseconds, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub phases: BTreeMap<String, u64>,
}
