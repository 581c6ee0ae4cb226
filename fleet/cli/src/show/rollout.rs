//! The resource `autoupdate_agent_rollout` as the server writes it (`fleet_answers::show::rollout`). What a newer server writes
//! besides is left alone, what an older one does not write is empty.

use fleet_api::Holds;
use serde::Deserialize;
use serde_json::Value;

use super::reason::Reason;

/// A rollout.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Rollout {
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

/// What it shall do.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Spec {
    pub(crate) start_version: String,
    pub(crate) target_version: String,
    pub(crate) schedule: String,
    pub(crate) autoupdate_mode: String,
    pub(crate) strategy: String,
}

/// How far it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) groups: Vec<Group>,
    /// RFC 3339.
    pub(crate) start_time: Option<String>,
    pub(crate) state: Option<String>,
    /// Of a rollout without groups: why it is as it is.
    pub(crate) why: Value,
    /// What is held.
    pub(crate) holds: Holds,
}

/// A group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) state: String,
    /// RFC 3339.
    pub(crate) start_time: Option<String>,
    /// RFC 3339.
    pub(crate) last_update_time: Option<String>,
    pub(crate) last_update_reason: String,
    pub(crate) present_count: u64,
    pub(crate) up_to_date_count: u64,
    pub(crate) pending_count: u64,
    pub(crate) in_flight_count: u64,
    pub(crate) updated_count: u64,
    pub(crate) failed_count: u64,
    pub(crate) timed_out_count: u64,
    pub(crate) silent_count: u64,
    pub(crate) excluded_count: u64,
    pub(crate) canary_count: u64,
    pub(crate) canaries: Vec<Canary>,
    /// The groups that it requires (RFD 0169); absent: the server does not say.
    pub(crate) config_requires: Option<Vec<String>>,
    /// It takes hosts of no other group; absent: v2's rule.
    pub(crate) catch_all: Option<bool>,
    pub(crate) why: Value,
}

/// A canary.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Canary {
    pub(crate) success: bool,
}

/// The strategies whose last group takes the hosts of no other.
const WITH_CATCH_ALL: [&str; 2] = ["halt-on-error", "time-based"];

impl Rollout {
    /// Reads the resource; what is no rollout reads as an empty one.
    pub(crate) fn read(resource: &Value) -> Self {
        serde_json::from_value(resource.clone()).unwrap_or_default()
    }

    /// Whether the group at `index` takes the hosts of no other.
    pub(crate) fn is_catch_all(&self, index: usize) -> bool {
        let is_last = index + 1 == self.status.groups.len();
        let by_rule = is_last && WITH_CATCH_ALL.contains(&self.spec.strategy.as_str());
        self.status.groups.get(index).and_then(|group| group.catch_all).unwrap_or(by_rule)
    }

    /// Every host updates at once, without groups.
    pub(crate) fn is_immediate(&self) -> bool {
        self.spec.schedule == "immediate"
    }
}

impl Group {
    /// Why it is as it is.
    pub(crate) fn reason(&self) -> Reason {
        Reason::read(&self.why)
    }

    /// Its canaries that run the target.
    pub(crate) fn canary_success_count(&self) -> u64 {
        self.canaries.iter().map(|canary| u64::from(canary.success)).sum()
    }
}
