//! `GET /v1/fleet/hosts` with [`HostsQuery`]: [`HostList`]. `GET /v1/fleet/hosts/UUID`: [`Explained`]. `POST
//! /v1/fleet/hosts/UUID` with [`Decided`]: [`Explained`].

use std::collections::BTreeMap;

use fleet_engine::advice::Advice;
use fleet_engine::answer::HostAnswer;
use fleet_engine::host::NamedHost;
use fleet_engine::inventory::Instance;
use fleet_engine::tally::HostState;
use jiff::Timestamp;
use protocol::installer::InstallerOrder;
use protocol::report::{Change, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient::whole;
use crate::reason::Reason;
use crate::text::second;

/// States of hosts that are known.
pub fn host_states() -> Vec<&'static str> {
    let without_target = ["unassigned", "no_target", "no_installer", "recommended"];
    HostState::ALL.map(HostState::name).into_iter().chain(without_target).collect()
}

/// Which hosts; what is absent does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostsQuery {
    /// Of the group with this name, by which they update; empty: of none.
    pub group: Option<String>,
    /// In this state.
    #[schemars(extend("enum" = host_states()))]
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
    /// With this in their name or in the value of a label, or whose UUID begins so (with 4 hex digits at least), or with this label
    /// as KEY=VALUE.
    pub search: Option<String>,
    /// With this label, as KEY=VALUE.
    #[schemars(regex(pattern = "^[^=]+="))]
    pub label: Option<String>,
    /// With this name, or whose UUID begins so (with 4 hex digits at least).
    pub called: Option<String>,
    /// By name; hosts without one come last. Else by UUID.
    #[serde(default)]
    pub by_name: bool,
    /// Behind the host with this UUID.
    #[schemars(extend("format" = "uuid"))]
    pub after: Option<String>,
    /// How many; at most 1,000, and 100 where it is absent.
    #[serde(default, deserialize_with = "whole")]
    pub limit: Option<u32>,
}

impl HostsQuery {
    /// Names and values of what matters, as they stand in a query.
    pub fn pairs(&self) -> Vec<(String, String)> {
        let Ok(Value::Object(keys)) = serde_json::to_value(self) else { return Vec::new() };
        let said = |(key, value)| match value {
            Value::String(text) => Some((key, text)),
            Value::Bool(true) | Value::Number(_) => Some((key, value.to_string())),
            _ => None,
        };
        keys.into_iter().filter_map(said).collect()
    }
}

/// Hosts, by UUID or by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostList {
    /// At most as many as asked for.
    pub hosts: Vec<HostView>,
    /// There are more after the last one.
    pub more: bool,
    /// How many there are in all.
    #[serde(default)]
    pub count: u64,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostView {
    /// Its UUID.
    #[schemars(extend("format" = "uuid"))]
    pub host: String,
    /// Its name: its label `hostname`, else what it calls itself; empty: it has none. Others may have the same.
    #[serde(default)]
    pub hostname: String,
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
    /// Its state.
    #[schemars(extend("enum" = host_states()))]
    pub state: String,
    /// An operator holds it.
    pub held: bool,
    /// Its updater is pinned.
    pub pinned: bool,
    /// Its updater is disabled.
    pub disabled: bool,
    /// When it was last seen; null: never.
    pub last_seen: Option<Timestamp>,
    /// What became of its last change: `updated`, `rolled_back`, …; empty: none is known.
    pub last_outcome: String,
    /// The version that change was to.
    pub last_target: String,
    /// The code of its error, or `by_hand`: it left the target because somebody on the host went back; empty: none.
    pub error_code: String,
    /// The error code with which the present target failed, by which a halt counts it; empty: with none, or it did not fail.
    #[serde(default)]
    pub failed_with: String,
    /// It reports with a key that is accepted.
    #[serde(default)]
    pub enrolled: bool,
    /// Why it is in no count (`GET /v1/fleet/counts`), in the words of Managed Updates v2 where it has some; empty: it is.
    #[serde(default)]
    pub not_counted: String,
    /// The key that waits for an admin, in hex; empty: none.
    #[serde(default)]
    pub waiting_key: String,
    /// How far the installation of its target is.
    #[serde(flatten)]
    pub instance: Instance,
}

/// What a host said last, and its changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// How it enrolled: `open`, `token NAME`, `accepted by WHO`; empty: it did not.
    pub enrolled: String,
    /// Since when; null: it did not.
    pub since: Option<Timestamp>,
    /// When its last report came; null: never.
    pub reported: Option<Timestamp>,
    /// Its last report; null: there is none.
    #[schemars(with = "Option<Report>")]
    pub report: Option<Value>,
    /// Its last 50 changes, the newest first.
    pub changes: Vec<ReportedChange>,
}

/// A change of a host's version, and when it was reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportedChange {
    /// As the host reported it.
    #[serde(flatten)]
    #[schemars(with = "Change")]
    pub change: Value,
    /// When the report came.
    pub reported: Timestamp,
}

/// What a host would be answered now, and why; and what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// What is known of it; null: it was never seen.
    pub known: Option<HostView>,
    /// What it reported; absent while the store does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// What it would be told.
    #[serde(flatten)]
    pub answer: ToldHost,
}

/// What a host would be answered now, and why.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToldHost {
    /// Its UUID.
    #[schemars(extend("format" = "uuid"))]
    pub host: String,
    /// Its name; empty: it has none.
    pub hostname: String,
    /// The group by which it updates; empty: none.
    pub group: String,
    /// Its state, as in the list of hosts; `unknown`: it was never seen.
    #[schemars(extend("enum" = [host_states(), vec!["unknown"]].concat()))]
    pub state: String,
    /// What it is to run; empty: no rollout ever named a version.
    pub version: String,
    /// Whether it would be allowed to update now.
    pub update: bool,
    /// Why, and what would change it.
    pub why: Reason,
    /// The earliest time at which that could change; null: the clock changes nothing.
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
    /// What would install it, such as `local-script/NAME`; absent: the updater's usual way.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub installer: String,
}

impl ToldHost {
    /// Of the engine's answer to a host in this state: since when its reason holds, where that is known, and what would change it.
    pub fn of(host: &str, state: &str, answer: &HostAnswer, since: Option<Timestamp>, advice: Option<&Advice>) -> Self {
        // A store that never confirmed anything has no time.
        let since = since.filter(|since| *since > Timestamp::UNIX_EPOCH).map(second);
        let why = Reason {
            since,
            // It stands beside it.
            until: None,
            advice: Some(advice.cloned().map(Into::into)),
            ..Reason::now(answer.reason.why.clone())
        };
        let installer = answer.installer.as_ref().and_then(InstallerOrder::installer);
        Self {
            host: host.to_owned(),
            hostname: String::new(),
            group: answer.group.clone(),
            state: state.to_owned(),
            version: answer.version.to_string(),
            update: answer.update,
            why,
            until: answer.reason.until.map(second),
            installer: installer.map_or_else(String::new, |installer| installer.to_string()),
        }
    }
}

/// An operator's decision on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Made by the caller; sent twice, the decision is made once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// What was decided.
    pub decision: Decision,
}

/// A decision on all hosts that a question finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideMany {
    /// Made by the caller; sent twice, the decision is made once.
    #[schemars(extend("format" = "uuid"))]
    pub id: String,
    /// Which hosts; `after` and `limit` do not matter.
    pub hosts: HostsQuery,
    /// What is decided.
    pub decision: ManyDecision,
    /// Nothing is changed.
    #[serde(default)]
    pub dry_run: bool,
    /// What `shown` was in an answer before: refused if these are other hosts, or have other keys.
    #[serde(default)]
    pub shown: Option<String>,
}

/// What is decided of many hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ManyDecision {
    /// The keys that wait are theirs. Hosts with a key already are left out.
    Accept,
    /// They belong to this group, whatever they declare; null: to their own again.
    Assign(Option<String>),
}

/// What was decided of many hosts, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecidedMany {
    /// How many hosts.
    pub count: u64,
    /// The first few, by name.
    pub hosts: Vec<NamedHost>,
    /// Hosts that have a key already, and of which another one waits: an admin decides on each.
    #[serde(default)]
    pub left_out: u64,
    /// Names these hosts and keys: to decide on them, and on no others.
    #[serde(default)]
    pub shown: String,
}

/// What is decided of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It is not updated until it is released.
    Hold,
    /// It is updated again.
    Release,
    /// It belongs to this group, whatever it declares; null: to its own again.
    Assign(Option<String>),
    /// The key that waits is its key, and what it reports counts from now on; with a text, only if it begins with these hex
    /// digits.
    Accept(Option<String>),
    /// It is struck off, and its key with it: if it comes back it is new.
    Forget,
}
