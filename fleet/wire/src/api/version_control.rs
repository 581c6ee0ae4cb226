//! `GET /v1/fleet/version-control`: [`VersionControlStatus`], how versions are controlled by directives (DIRECTIVES §6).

use fleet_engine::inventory::{InstallCounts, VersionAlert};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How versions are controlled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VersionControlStatus {
    /// The directive; null: there is none.
    pub directive: Option<DirectiveStatus>,
    /// How a draft becomes active: `manual`, `automatic`; what is not enabled is `disabled`.
    pub promotion: String,
    /// The draft that is planned by itself; empty: none.
    pub promotion_from: String,
    /// People who must approve a plan, beside its author.
    pub approvals: u32,
    /// Plans on which people can still decide: their UUIDs.
    pub pending: Vec<String>,
    /// What installs, with counts.
    pub installers: Vec<InstallerStatus>,
    /// What hosts run, and shall run.
    pub inventory: Vec<InventoryRow>,
    /// What people are warned of.
    pub alerts: Vec<VersionAlert>,
}

/// A directive.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct DirectiveStatus {
    /// From what it was made: `tuf/default`, `static`; as it says itself.
    pub source: String,
    /// `active`; `disabled`; `waiting` before `not_before`; `over` after `not_after`.
    pub status: String,
    /// Its nonce.
    pub nonce: u64,
    /// From then on it is stale; null: never.
    pub stale_after: Option<Timestamp>,
    /// It is stale.
    pub is_stale: bool,
}

/// What installs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InstallerStatus {
    /// Its kind.
    pub kind: String,
    /// The script's name; empty: the kind has none.
    pub name: String,
    /// Whether it counts.
    pub enabled: bool,
    /// Hosts that get their target by it.
    #[serde(flatten)]
    pub counts: InstallCounts,
}

/// Hosts that run a version.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InventoryRow {
    /// What they run; empty: they do not say.
    pub version: String,
    /// What they shall run; empty: that, or nothing.
    pub target: String,
    /// How many, and how far.
    #[serde(flatten)]
    pub counts: InstallCounts,
}
