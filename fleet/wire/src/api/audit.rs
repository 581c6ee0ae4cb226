//! `GET /v1/fleet/audit?after=SEQ&limit=N`: [`Page`]. `GET /v1/fleet/audit/verify?head=HASH`: [`Verified`]. `GET
//! /v1/fleet/events?after=SEQ` (`&follow=true`: the connection stays open): an [`AuditEntry`] a line.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A record: a decision of a person or of the engine, or one that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// Counted from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who: `uid 0 (root)`, `token NAME`, `engine`.
    pub who: String,
    /// From where: `admin socket`, an address, or empty.
    pub from: String,
    /// What: `create`, `update`, `delete`, `start`, `mark_done`, `rollback`, `halt`, `run`, `approve`, `gate`, `hold`,
    /// `release`, `assign`, `rollout_started`, `group_started`, `group_done`, `group_halted`, `rollout_removed`, `restore`,
    /// `login`, `logout`.
    pub action: String,
    /// On what: `autoupdate_version/autoupdate-version`, `group prod`, `host UUID`.
    pub subject: String,
    /// Whether it was done; else it was refused.
    pub done: bool,
    /// More of it: the error of a refusal, the reason of a halt; a JSON object.
    pub detail: serde_json::Value,
    /// The revision of the subject before; empty: none.
    pub before: String,
    /// The revision of the subject afterwards; empty: none.
    pub after: String,
    /// The hash of the record before.
    pub previous: String,
    /// The hash of this record.
    pub hash: String,
}

/// Records, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditPage")]
pub struct Page {
    /// At most as many as asked for.
    pub entries: Vec<AuditEntry>,
    /// There are more after the last one.
    pub more: bool,
}

/// The newest record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditHead {
    /// Its number; 0: there is none.
    pub seq: u64,
    /// Its hash.
    pub hash: String,
}

/// Whether the chain is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verified {
    /// How many records were looked at.
    pub records: u64,
    /// The newest one.
    pub head: AuditHead,
    /// What is wrong, with the number of the record; null: nothing.
    pub fault: Option<String>,
}

/// Which records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditRange {
    /// Behind this number; of events, where it is above the newest: those to come.
    #[serde(default)]
    pub after: u64,
    /// How many at most: 1000 at most. Absent: 100, of events 1000 at a time.
    pub limit: Option<u32>,
    /// The connection stays open, and brings those to come. Of events alone.
    #[serde(default)]
    pub follow: bool,
}

/// What is known of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnownHead {
    /// A hash that was stored elsewhere, 64 hex digits: it must be in the chain.
    #[schemars(regex(pattern = "^[0-9A-Fa-f]{64}$"))]
    pub head: Option<String>,
}
