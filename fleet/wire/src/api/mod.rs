//! What the admin API of the rollout server takes and gives: the words between server, command line and pages.
//!
//! All of it is JSON below `/v1/fleet/`, over the admin socket or with a token. An error is [`ErrorAnswer`] with a stable code and
//! an HTTP status of 4xx or 5xx; then nothing changed.

mod audit;
mod directives;
mod hosts;
mod refused;
mod resources;
mod rollout;
mod tokens;

/// Entries of a page of a list, where the caller names no limit.
pub const PAGE: u32 = 100;
/// Most entries of a page.
pub const MAX_PAGE: u32 = 1000;

pub use crate::rollout::HoldsView;
pub use audit::{AuditEntry, AuditHead, AuditRange, KnownHead, Page as AuditPage, Verified};
pub use directives::{
    ApplyPlan, BeginDryRun, DirectiveStatus, DraftView, InstallerStatus, InventoryRow, NewDraft, NewPlan, PlanView,
    Review, VersionControlStatus,
};
pub use fleet_engine::promotion::PlanState;
pub use fleet_engine::rollout_state::HaltCause;
pub use hosts::{
    DecideMany, Decided, DecidedMany, Decision, Explained, History, HostList, HostView, HostsQuery, ManyDecision,
    ReportedChange, ToldHost, host_states,
};
pub use refused::{ApiError, Code, ErrorAnswer};
pub use resources::{Changed, Effects, How, KeptResource, Removal, Takes, Unwise, Write, WriteResult};
pub use rollout::{Act, Acted, CountOf, Omission, RolloutsQuery, StateCounts};
pub use tokens::{JoinToken, MadeToken, NewJoinToken, NewToken, Role, Token, TokenRemoval};
