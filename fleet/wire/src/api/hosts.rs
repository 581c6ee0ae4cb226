//! `GET /v1/fleet/hosts` with [`HostsQuery`]: [`HostList`]. `GET /v1/fleet/hosts/UUID`: [`Explained`]. `POST
//! /v1/fleet/hosts/UUID` with [`Decided`]: [`Explained`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Which hosts; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostsQuery {
    /// Of the group with this name, by which they update; empty: of none.
    pub group: Option<String>,
    /// In this state: `excluded`, `updated`, `failed`, `timed_out`, `told`, `silent`, `let_go`, `pending`, `unassigned`.
    pub state: Option<String>,
    /// That run this version.
    pub version: Option<String>,
    /// On which the present target failed.
    #[serde(default)]
    pub failed: bool,
    /// On which it failed with this error code; empty: with none.
    pub code: Option<String>,
    /// Of which a key waits for an admin.
    #[serde(default)]
    pub waiting: bool,
    /// Behind this UUID.
    pub after: Option<String>,
    /// How many; at most 1,000, and 100 where it is absent.
    pub limit: Option<u32>,
}

/// Hosts, by UUID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostList {
    /// At most as many as asked for.
    pub hosts: Vec<HostView>,
    /// There are more after the last one.
    pub more: bool,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostView {
    /// Its UUID.
    pub host: String,
    /// Its updater's id; empty: none.
    pub update_id: String,
    /// The group by which it updates; empty: none.
    pub group: String,
    /// The group that it declares.
    pub declared_group: String,
    /// The group that an operator gave it; empty: none.
    pub assigned_group: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it runs; empty: it does not say.
    pub version: String,
    /// Its state, as in [`HostsQuery::state`].
    pub state: String,
    /// An operator holds it.
    pub held: bool,
    /// Its updater is pinned.
    pub pinned: bool,
    /// Its updater is disabled.
    pub disabled: bool,
    /// When it was last heard of.
    pub last_seen: Option<Timestamp>,
    /// What became of its last change: `updated`, `rolled_back`, …; empty: none is known.
    pub last_outcome: String,
    /// The version that change was to.
    pub last_target: String,
    /// The code of its error; empty: none.
    pub error_code: String,
    /// The error code with which the present target failed, by which a halt counts it; empty: with none, or it did not fail.
    #[serde(default)]
    pub failed_with: String,
    /// It reports with a key that is believed.
    #[serde(default)]
    pub enrolled: bool,
    /// Why it is in no count (`GET /v1/fleet/counts`), in the words of Managed Updates v2 where it has some; empty: it is.
    #[serde(default)]
    pub not_counted: String,
    /// The key that waits for an admin, in hex; empty: none.
    #[serde(default)]
    pub waiting_key: String,
}

/// What a host said last, and its changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct History {
    /// How it enrolled: `open`, `token NAME`, `accepted by WHO`; empty: it did not.
    pub enrolled: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// When its last report came.
    pub reported: Option<Timestamp>,
    /// Its last report, as `protocol::report::Report` is written; `None`: there is none.
    pub report: Option<serde_json::Value>,
    /// Its last changes, the newest first; each with `reported`.
    pub changes: Vec<serde_json::Value>,
}

/// What a host would be told now, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// What is known of it; `None`: it was never heard of.
    pub known: Option<HostView>,
    /// What it reported; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// As `fleet_wire::answers::show::explain` writes it: `host`, `group`, `state`, `version`, `update`, `why`, `until`.
    #[serde(flatten)]
    pub answer: serde_json::Value,
}

/// An operator's decision on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// A UUID; sent twice, the decision is made once.
    pub id: String,
    /// What was decided.
    pub decision: Decision,
}

/// What is decided of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is not updated until it is released.
    Hold,
    /// It is updated again.
    Release,
    /// It belongs to this group, whatever it declares; `None`: to its own again.
    Assign(Option<String>),
    /// The key that waits is its key, and what it reports counts from now on; with `Some`, only if it begins with these hex
    /// digits.
    Accept(Option<String>),
    /// It is struck off, and its key with it: if it comes back it is new.
    Forget,
}
