//! `GET /v1/fleet/rollout`: [`AgentRollout`].
//! `GET /v1/fleet/holds`: [`HoldsView`]. `GET /v1/fleet/counts`: [`StateCounts`]. `POST /v1/fleet/commands` with [`Act`]: [`Acted`].

use fleet_engine::command::Command;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rollout::{AgentRollout, HoldsView};

/// A command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// Made by the caller; sent twice, the command acts once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// What to do.
    pub command: Command,
    /// Only says what would happen.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Acted {
    /// The groups that it was carried out on.
    pub groups: Vec<String>,
    /// Those of them that had not begun, and that `run` started.
    #[serde(default)]
    pub started: Vec<String>,
    /// The rollout afterwards.
    pub rollout: Option<AgentRollout>,
    /// What it does to the fleet.
    pub effects: crate::api::Effects,
    /// What is held afterwards.
    #[serde(default)]
    pub holds: HoldsView,
}

/// Hosts by group and version (`autoupdate_agent_report`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StateCounts {
    /// When they were counted.
    pub at: Option<Timestamp>,
    /// How many servers counted: 1, or as many as wrote an `autoupdate_agent_report`.
    pub reports: u64,
    /// Those of them that are older than a minute.
    pub expired: u64,
    /// The counts.
    pub counts: Vec<CountOf>,
    /// Hosts that are not counted.
    pub omitted: Vec<Omission>,
}

/// Hosts of a group and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountOf {
    /// The group that they declare.
    pub group: String,
    /// What they run.
    pub version: String,
    /// How many.
    pub count: u64,
}

/// Hosts that are not counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Omission {
    /// How many.
    pub count: u64,
    /// Why.
    pub reason: String,
}

/// Which rollouts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutsQuery {
    /// With a lower number.
    pub before: Option<u64>,
    /// How many; at most 1000, and 100 where it is absent.
    pub limit: Option<u32>,
}
