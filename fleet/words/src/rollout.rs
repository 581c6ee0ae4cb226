//! The resource `autoupdate_agent_rollout` as the server writes it (`fleet_answers::show::rollout`). What a newer server writes
//! besides is left alone, what an older one does not write is empty.

use fleet_api::Holds;
use serde::Deserialize;
use serde_json::Value;

use crate::reason::Reason;

/// A rollout.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Rollout {
    /// What it shall do.
    pub spec: Spec,
    /// How far it is.
    pub status: Status,
}

/// What it shall do.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Where hosts come from, and go back to.
    pub start_version: String,
    /// Where they shall go.
    pub target_version: String,
    /// `regular`, `critical` or `immediate`.
    pub schedule: String,
    /// `enabled`, `suspended` or `disabled`.
    pub autoupdate_mode: String,
    /// How its groups follow each other.
    pub strategy: String,
}

/// How far it is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    /// Its groups, in their order.
    pub groups: Vec<Group>,
    /// RFC 3339.
    pub start_time: Option<String>,
    /// In which state it is; in the words of Managed Updates v2, or `halted`.
    pub state: Option<String>,
    /// Of a rollout without groups: why it is as it is.
    pub why: Value,
    /// What is held.
    pub holds: Holds,
    /// That the store does not answer, for [`Reason::read`]; null: it does.
    pub store_unavailable: Value,
}

/// What keeps every host from updating, with a rollout and without one.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Stops {
    /// What is held.
    #[serde(flatten)]
    pub holds: Holds,
    /// That the store does not answer, for [`Reason::read`]; null: it does.
    #[serde(default)]
    pub store_unavailable: Value,
}

impl Stops {
    /// What holds beside a rollout.
    pub fn of(rollout: &Rollout) -> Self {
        let status = &rollout.status;
        Self { holds: status.holds.clone(), store_unavailable: status.store_unavailable.clone() }
    }
}

/// A group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// In which state it is; in the words of Managed Updates v2, or `halted`.
    pub state: String,
    /// RFC 3339.
    pub start_time: Option<String>,
    /// RFC 3339.
    pub last_update_time: Option<String>,
    /// The code of why its state changed last.
    pub last_update_reason: String,
    /// Hosts that are counted in it now.
    pub present_count: u64,
    /// Those of them that run the target.
    pub up_to_date_count: u64,
    /// Hosts whose turn has not come.
    pub pending_count: u64,
    /// Hosts that take a slot.
    pub in_flight_count: u64,
    /// Hosts that run the target.
    pub updated_count: u64,
    /// Hosts on which the target failed.
    pub failed_count: u64,
    /// Hosts that took too long.
    pub timed_out_count: u64,
    /// Hosts that are not heard of any more.
    pub silent_count: u64,
    /// Hosts that are pinned, disabled or held.
    pub excluded_count: u64,
    /// How many canaries it wants.
    pub canary_count: u64,
    /// Those that were chosen.
    pub canaries: Vec<Canary>,
    /// The groups that it requires (RFD 0169); absent: the server does not say.
    pub config_requires: Option<Vec<String>>,
    /// It takes hosts of no other group; absent: v2's rule.
    pub catch_all: Option<bool>,
    /// The role whose approval it needs; empty: none.
    pub approval: String,
    /// That was given.
    pub approved: bool,
    /// Why it is as it is, for [`Reason::read`].
    pub why: Value,
}

/// A canary.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Canary {
    /// It runs the target.
    pub success: bool,
}

/// The strategies whose last group takes the hosts of no other.
const WITH_CATCH_ALL: [&str; 2] = ["halt-on-error", "time-based"];

impl Rollout {
    /// Reads the resource; what is no rollout reads as an empty one.
    pub fn read(resource: &Value) -> Self {
        serde_json::from_value(resource.clone()).unwrap_or_default()
    }

    /// Whether the group at `index` takes the hosts of no other.
    pub fn is_catch_all(&self, index: usize) -> bool {
        let is_last = index + 1 == self.status.groups.len();
        let by_rule = is_last && WITH_CATCH_ALL.contains(&self.spec.strategy.as_str());
        self.status.groups.get(index).and_then(|group| group.catch_all).unwrap_or(by_rule)
    }

    /// Every host updates at once, without groups.
    pub fn is_immediate(&self) -> bool {
        self.spec.schedule == "immediate"
    }
}

impl Group {
    /// Why it is as it is.
    pub fn reason(&self) -> Reason {
        Reason::read(&self.why)
    }

    /// Its canaries that run the target.
    pub fn canary_success_count(&self) -> u64 {
        self.canaries.iter().map(|canary| u64::from(canary.success)).sum()
    }

    /// Its state as a person reads it; `Canary (2/5)`: two of five are on the target.
    pub fn state_words(&self) -> String {
        let word = state_word(&self.state);
        if self.state == "canary" {
            return format!("{word} ({}/{})", self.canary_success_count(), self.canary_count);
        }
        word
    }
}

/// The word of a state, as `tctl` writes it.
pub fn state_word(state: &str) -> String {
    let mut chars = state.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => "Unknown".to_owned(),
    }
}
