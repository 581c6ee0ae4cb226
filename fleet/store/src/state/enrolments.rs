//! Hosts that report: their keys, who waits for an operator, reports, changes, join tokens (FLEET §5).

use std::collections::BTreeMap;

use fleet_engine::host::HostId;
use jiff::Timestamp;
use protocol::report::Key;
use serde::{Deserialize, Serialize};

/// A host that enrolled, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolledHost {
    /// What decides of it.
    pub known: EnrolledKey,
    /// [`OPEN`], `token NAME`, `accepted by WHO`.
    pub how: String,
    /// Since when.
    pub since: Timestamp,
}

/// How a host enrolled that nobody vouched for.
pub const OPEN: &str = "open";

/// What decides of a host that enrolled: a million of them are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnrolledKey {
    /// Its UUID.
    pub host: HostId,
    /// The key that its reports are signed with.
    pub key: Key,
    /// The highest number of a report or question that was taken.
    pub sequence: u64,
    /// Tells its last change from others: the same one counts once.
    pub change: u64,
    /// What its join token fixed.
    pub fixed: Option<Box<Fixed>>,
    /// Nobody vouched for it: [`OPEN`].
    pub is_unproven: bool,
}

/// What a join token fixes: it beats what the host says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fixed {
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// These labels; others stay the host's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A key that waits for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The host's UUID.
    pub host: HostId,
    /// The key.
    pub key: Key,
    /// Since when.
    pub since: Timestamp,
}

/// A host's last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReport {
    /// The host's UUID.
    pub host: HostId,
    /// When it came.
    pub at: Timestamp,
    /// It, as JSON.
    pub json: String,
    /// Its last change is a new one, as JSON.
    pub change: Option<String>,
}

/// A join token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTokenRecord {
    /// Its name.
    pub name: String,
    /// SHA-256 of its secret, in hex.
    pub digest: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends; `None`: never.
    pub expires: Option<Timestamp>,
    /// How many hosts may still enrol with it; `None`: any number.
    pub uses: Option<u64>,
    /// What it fixes.
    pub fixed: Option<Fixed>,
}

/// How far a host that enrolled has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnrolmentProgress {
    /// Its UUID.
    pub host: HostId,
    /// [`EnrolledKey::sequence`].
    pub sequence: u64,
    /// [`EnrolledKey::change`].
    pub change: u64,
}

/// Changes of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnrolmentChanges {
    /// New, or with another key.
    pub enrolled: Vec<EnrolledHost>,
    /// Others, and further progress of these.
    pub progress: Vec<EnrolmentProgress>,
    /// Host and key; `None`: it waits no more.
    pub candidates: Vec<(HostId, Option<Candidate>)>,
    /// Reports, in the order in which they came.
    pub reports: Vec<StoredReport>,
    /// Name and token; `None`: it is removed.
    pub joins: Vec<(String, Option<JoinTokenRecord>)>,
}
