//! What the admin API of the rollout server takes and gives: the words between server, command line and pages.
//!
//! All of it is JSON below `/v1/fleet/`, over the admin socket or with a token. An error is [`Refused`] with a stable code and
//! an HTTP status of 4xx or 5xx; then nothing changed.

mod audit;
mod hosts;
mod refused;
mod resources;
mod rollout;
mod tokens;

/// Entries of a page of a list, where the caller names no limit.
pub const PAGE: u32 = 100;
/// Most entries of a page.
pub const MAX_PAGE: u32 = 1000;

pub use audit::{Entry, Head, Page as AuditPage, Verified};
pub use fleet_engine::book::{Cause, Holds};
pub use hosts::{Decided, Decision, Explained, History, Host, Hosts, HostsQuery};
pub use refused::{ApiError, Code, Refused};
pub use resources::{Changed, Effects, How, Kept, Takes, Unwise, Write, Written};
pub use rollout::{Act, Acted, CountOf, Counts, Omission};
pub use tokens::{JoinToken, MadeToken, NewJoinToken, NewToken, Role, Token};
