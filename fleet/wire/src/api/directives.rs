//! Drafts and plans of version directives (DIRECTIVES §3). `PUT /v1/fleet/drafts/KIND/NAME` with [`NewDraft`]: [`DraftView`]. `GET
//! /v1/fleet/drafts`, `…/KIND/NAME`: [`DraftView`]. `POST /v1/fleet/directive-plans` with [`NewPlan`]: [`PlanView`]. `GET
//! /v1/fleet/directive-plans`, `…/UUID`: [`PlanView`]. `POST …/UUID/review` with [`Review`]: [`PlanView`]. `POST …/UUID/apply` with
//! [`ApplyPlan`]: [`super::WriteResult`]. `GET /v1/fleet/version-control`: [`VersionControlStatus`], how versions are controlled by
//! directives (DIRECTIVES §6).

use fleet_engine::dry_run::DryRunResults;
use fleet_engine::inventory::{InstallCounts, VersionAlert};
use fleet_engine::planned::Planned;
use fleet_engine::promotion::PlanState;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ApiError;
use crate::lenient::Lenient;

/// A draft to write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewDraft {
    /// Made by the caller; sent twice, the draft is written once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// One `version-directive`, in YAML or JSON; at most 1 MiB.
    pub text: String,
}

/// A draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DraftView {
    /// `KIND/NAME`.
    pub name: String,
    /// Who wrote it.
    pub author: String,
    /// When.
    pub time: Timestamp,
    /// Which of its writings this is; one that means the same is none.
    pub revision: String,
    /// SHA-256 of what it says.
    pub digest: String,
    /// From then on it is not applied any more.
    pub stale_after: Option<Timestamp>,
    /// What it says, as a `version-directive`; null in a list.
    pub yaml: Option<String>,
    /// The plan that was made of it by itself (`promotion.strategy`); null: none was.
    pub plan: Option<String>,
    /// That plan was applied.
    pub applied: bool,
}

/// A plan to make: of a draft, or of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPlan {
    /// Made by the caller; sent twice, one plan is made. It becomes the plan's name.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// The draft, `KIND/NAME`.
    pub draft: Option<String>,
    /// One `version-directive`, where no draft is named.
    pub text: Option<String>,
}

/// A plan: a draft that does not change any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanView {
    /// Its UUID.
    pub id: String,
    /// How far it is.
    pub state: Lenient<PlanState>,
    /// The draft that it was made of; empty: a file.
    pub draft: String,
    /// Who made it.
    pub author: String,
    /// When.
    pub time: Timestamp,
    /// Until when it can be applied.
    pub expires: Timestamp,
    /// The nonce that was active then.
    pub for_nonce: u64,
    /// SHA-256 of what it says.
    pub digest: String,
    /// Approvals that it needs.
    pub approvals: u32,
    /// Who approved it.
    pub approved: Vec<String>,
    /// Who denied it, and why; empty: nobody did.
    pub denied: String,
    /// What keeps it from being applied now; empty: nothing.
    pub against: Vec<ApiError>,
    /// What came of its dry run; null: none was begun.
    #[serde(default)]
    pub dry_run: Option<DryRunResults>,
    /// What it would do, as of now; null in a list, where it was applied, and where something of `against` leaves that open.
    pub effects: Option<Planned>,
    /// What it says; null in a list.
    #[serde(default)]
    pub yaml: Option<String>,
}

/// A voice on a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Made by the caller; sent twice, it is given once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// False: the plan is denied, and ends.
    pub approve: bool,
    /// Why; at most 1000 characters.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub reason: String,
}

/// A dry run of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginDryRun {
    /// Made by the caller; sent twice, it is begun once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
}

/// A plan to apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyPlan {
    /// Made by the caller; sent twice, it is applied once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Only says what would happen.
    #[serde(default)]
    pub dry_run: bool,
}

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
