//! `GET /v1/fleet/resources/KIND` and `…/KIND/NAME`: a list of [`KeptResource`]. `POST /v1/fleet/resources` with [`Write`], and
//! `DELETE /v1/fleet/resources/KIND/NAME` (`?id=UUID&dry_run=true`): [`WriteResult`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::Lenient;

/// A resource as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeptResource {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Which of its writings this is.
    pub revision: String,
    /// The document as YAML, with the writer's comments.
    pub yaml: String,
    /// The document as JSON.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub json: serde_json::Value,
}

/// Resources to write: one change, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Made by the caller; sent twice, the change is made once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Documents in YAML or JSON; at most 1 MiB.
    pub text: String,
    /// What may be there already.
    pub how: How,
    /// Only says what would happen.
    #[serde(default)]
    pub dry_run: bool,
    /// Kinds of which all that the text lacks is removed; the text may then be empty. Not `autoupdate_agent_report`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prune: Vec<String>,
}

/// What may be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Nothing: `create`.
    Create,
    /// Anything: `create --force`.
    Replace,
    /// Exactly the revision that is written in `metadata.revision`; where none is written, any: `update`.
    Update,
}

/// What was written, or would be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WriteResult {
    /// Each resource, in the order of the text.
    pub changed: Vec<Changed>,
    /// What it does to the fleet.
    pub effects: Effects,
    /// What is legal and unwise in what was written.
    #[serde(default)]
    pub advice: Vec<Unwise>,
}

/// Something that was written, and is legal and unwise, as `lint` says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unwise {
    /// The kind of the resource.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The line of the text; null: it is about something that is not written.
    #[serde(default)]
    pub line: Option<usize>,
    /// The key.
    pub key: String,
    /// A stable code; docs/fleet-resources.md explains each.
    pub code: String,
    /// What is unwise.
    pub what: String,
    /// What to do.
    pub advice: String,
}

/// A resource that was written or removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its new revision; empty: it was removed.
    pub revision: String,
    /// It was there before.
    pub was_there: bool,
    /// When it acts.
    pub takes: Lenient<Takes>,
}

/// When a change acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// Nothing is different.
    Nothing,
    /// With the next step, within two seconds.
    NextStep,
    /// With the next rollout: the present one keeps its groups, order and windows.
    NextRollout,
    /// A part with the next step (mode, pace, thresholds, freezes), the rest with the next rollout.
    StepAndRollout,
    /// By a new rollout, from its first group.
    NewRollout,
    /// By the end of the rollout.
    NoRollout,
}

/// What a change does to the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Effects {
    /// Hosts that are allowed to update, and were not.
    pub lets_go: u64,
    /// Hosts that are sent to a lower version than they run.
    pub goes_down: u64,
    /// Hosts that may not update yet and run a later version than the target: they downgrade when their turn comes.
    #[serde(default)]
    pub above_target: u64,
    /// Hosts that might update, and are told so no more: a stop.
    #[serde(default)]
    pub stops: u64,
    /// The target was halted here before.
    pub halted_before: bool,
}

/// What a removal of a resource takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Removal {
    /// Made by the caller; sent twice, the removal is made once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Only says what would happen.
    #[serde(default)]
    pub dry_run: bool,
}
