//! Why a group or a host waits: values with a stable code, not sentences (FLEET §6).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Who can change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// A person.
    Operator,
    /// The clock.
    Time,
    /// The hosts, by what they report.
    Hosts,
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Why {
    /// There is no rollout.
    #[default]
    NoRollout,
    /// The mode is disabled.
    Disabled,
    /// The mode is suspended.
    Suspended,
    /// The window is closed.
    OutsideWindow,
    /// The rollout began while the window was open: it waits for the next one.
    RolloutChangedDuringWindow,
    /// Groups before it are not done.
    PreviousGroupsNotDone {
        /// The first of them.
        group: String,
    },
    /// Its hours since the start of the group before it are not over.
    WaitHours {
        /// The group before it.
        group: String,
    },
    /// Its hours since the groups before it were done are not over.
    SoakHours {
        /// The last of them.
        group: String,
    },
    /// A freeze.
    Blackout {
        /// What the operator wrote.
        reason: String,
    },
    /// Nobody has approved it.
    Approval {
        /// Whose approval it needs.
        role: String,
    },
    /// The external check has not said go.
    Gate {
        /// Its last answer: none, or wait.
        answer: Option<String>,
    },
    /// Not all canaries are done.
    WaitingForCanaries {
        /// Those that are.
        done: u32,
        /// Those that could be chosen.
        #[serde(default)]
        chosen: u32,
        /// All.
        wanted: u32,
    },
    /// As many hosts as allowed are in flight.
    MaxInFlight {
        /// In flight.
        in_flight: u64,
        /// Allowed.
        cap: u64,
    },
    /// As many hosts as this hour allows were let go.
    Rate {
        /// Let go in this hour.
        granted: u64,
        /// Allowed.
        allowed: u64,
    },
    /// Hosts are on their way.
    UpdateInProgress {
        /// On the target.
        updated: u64,
        /// Counted.
        of: u64,
    },
    /// Nobody is on the way any more, and too few arrived.
    NobodyOnTheWay {
        /// Those that failed or timed out.
        failed: u64,
        /// Of so many.
        of: u64,
    },
    /// Hosts ask, and none reports.
    NoReports {
        /// Those that ask.
        hosts: u64,
    },
    /// Most of the fleet is not heard of, all at once: nothing is decided by that.
    FleetSilent,
    /// Nobody is in the group.
    Empty,
    /// More hosts are missing than a done group may miss.
    Shrunk {
        /// Present.
        present: u64,
        /// When the group started.
        initial: u64,
        /// Members that do not count as present: pinned, disabled, held.
        #[serde(default)]
        excluded: u64,
    },
    /// The group is halted.
    Halted {
        /// By which rule.
        rule: HaltRule,
        /// How many hosts.
        count: u64,
        /// Of how many.
        of: u64,
        /// Their commonest error code.
        error: Option<String>,
        /// Some of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sample: Vec<String>,
        /// Its hosts were to go back, and the start version is blocked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_way_back: bool,
    },
    /// Updates are given back.
    RolledBack,
    /// Nothing is left to do.
    Done,
    /// The host's turn has come.
    LetGo,
    /// The host runs the target.
    Updated,
    /// The host is told to go back to the start version.
    SentBack,
    /// The host went back: it runs the start version.
    WentBack,
    /// The host's turn has not come.
    NotYet,
    /// The host came after this pass began.
    NextPass,
    /// The host is pinned.
    Pinned,
    /// The host's updater is disabled.
    HostDisabled,
    /// An operator holds the host.
    Held,
    /// This version failed on the host.
    FailedHere {
        /// Its error code.
        error: Option<String>,
    },
    /// The host took too long.
    TimedOut,
    /// The host belongs to no group.
    Unassigned,
    /// The version that it would be given, or sent back to, is blocked.
    VersionBlocked {
        /// What the operator wrote.
        reason: String,
    },
    /// The server has not reached its store.
    StoreUnavailable,
}

named! {
/// What halts a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HaltRule {
    /// More hosts failed than allowed.
    FailedThreshold = "failed_threshold",
    /// More hosts timed out than allowed.
    TimeoutThreshold = "timeout_threshold",
    /// A canary failed or timed out.
    CanaryFailed = "canary_failed",
    /// Hosts failed after the group was done.
    SoakFailed = "soak_failed",
    /// The external check said stop.
    GateStopped = "gate_stopped",
    /// An operator.
    ManualHalt = "manual_halt",
    /// Its `fleet_release` is blocked.
    ReleaseBlocked = "release_blocked",
    /// A restore: everything is held, as an older target would send hosts back.
    Restored = "restored",
    /// The store lost decisions: everything is held.
    StoreLost = "store_lost",
}
}

impl HaltRule {
    /// Whether it lasts as long as a hold does (`Holds`); else as its group's halt.
    pub fn is_of_hold(self) -> bool {
        matches!(self, Self::ManualHalt | Self::Restored | Self::StoreLost)
    }

    /// Whether it is by what hosts said or did: they failed.
    pub(crate) fn is_of_failures(self) -> bool {
        matches!(self, Self::FailedThreshold | Self::SoakFailed | Self::CanaryFailed)
    }
}

impl Why {
    /// Its stable code, as serde writes it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoRollout => "no_rollout",
            Self::Disabled => "disabled",
            Self::Suspended => "suspended",
            Self::OutsideWindow => "outside_window",
            Self::RolloutChangedDuringWindow => "rollout_changed_during_window",
            Self::PreviousGroupsNotDone { .. } => "previous_groups_not_done",
            Self::WaitHours { .. } => "wait_hours",
            Self::SoakHours { .. } => "soak_hours",
            Self::Blackout { .. } => "blackout",
            Self::Approval { .. } => "approval",
            Self::Gate { .. } => "gate",
            Self::WaitingForCanaries { .. } => "waiting_for_canaries",
            Self::MaxInFlight { .. } => "max_in_flight",
            Self::Rate { .. } => "rate",
            Self::UpdateInProgress { .. } => "update_in_progress",
            Self::NobodyOnTheWay { .. } => "nobody_on_the_way",
            Self::NoReports { .. } => "no_reports",
            Self::FleetSilent => "fleet_silent",
            Self::Empty => "empty",
            Self::Shrunk { .. } => "shrunk",
            Self::Halted { .. } => "halted",
            Self::RolledBack => "rolled_back",
            Self::Done => "done",
            Self::LetGo => "let_go",
            Self::Updated => "updated",
            Self::SentBack => "sent_back",
            Self::WentBack => "went_back",
            Self::NotYet => "not_yet",
            Self::NextPass => "next_pass",
            Self::Pinned => "pinned",
            Self::HostDisabled => "host_disabled",
            Self::Held => "held",
            Self::FailedHere { .. } => "failed_here",
            Self::TimedOut => "timed_out",
            Self::Unassigned => "unassigned",
            Self::VersionBlocked { .. } => "version_blocked",
            Self::StoreUnavailable => "store_unavailable",
        }
    }

    /// Whether the hosts did nothing to be halted for: a person or the server stopped them.
    pub fn is_stopped_by_decision(&self) -> bool {
        let is_decision =
            |rule: HaltRule| rule.is_of_hold() || matches!(rule, HaltRule::ReleaseBlocked | HaltRule::GateStopped);
        matches!(self, Self::Halted { rule, .. } if is_decision(*rule))
    }

    /// Who can change it.
    pub fn who(&self) -> Who {
        match self {
            // Nobody goes, whatever hosts do.
            Self::MaxInFlight { cap: 0, .. } => Who::Operator,
            Self::OutsideWindow
            | Self::RolloutChangedDuringWindow
            | Self::WaitHours { .. }
            | Self::SoakHours { .. }
            | Self::Blackout { .. }
            | Self::Rate { .. }
            | Self::Empty
            | Self::StoreUnavailable => Who::Time,
            Self::PreviousGroupsNotDone { .. }
            | Self::WaitingForCanaries { .. }
            | Self::MaxInFlight { .. }
            | Self::UpdateInProgress { .. }
            | Self::NoReports { .. }
            | Self::FleetSilent
            | Self::LetGo
            | Self::NotYet
            | Self::NextPass
            | Self::Pinned
            | Self::HostDisabled
            | Self::Updated
            | Self::SentBack
            | Self::WentBack
            | Self::Done => Who::Hosts,
            Self::NoRollout
            | Self::Disabled
            | Self::Suspended
            | Self::Approval { .. }
            | Self::Gate { .. }
            | Self::NobodyOnTheWay { .. }
            | Self::Shrunk { .. }
            | Self::Halted { .. }
            | Self::RolledBack
            | Self::Held
            | Self::FailedHere { .. }
            | Self::TimedOut
            | Self::Unassigned
            | Self::VersionBlocked { .. } => Who::Operator,
        }
    }
}

/// A reason with its times.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WaitReason {
    /// Why.
    #[serde(flatten)]
    pub why: Why,
    /// Since when.
    pub since: Timestamp,
    /// The earliest end, where the clock brings one.
    pub until: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// The names of all variants, from what serde says of a name that is none.
    fn names<T: serde::de::DeserializeOwned>(unknown: serde_json::Value) -> BTreeSet<String> {
        let error = serde_json::from_value::<T>(unknown).err().map(|error| error.to_string()).unwrap_or_default();
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_code_of_a_reason_is_the_one_that_serde_writes() {
        let codes = names::<Why>(json!({ "code": "?" }));
        assert!(codes.len() > 30, "{codes:?}");
        for code in &codes {
            // The fields of all reasons; a reason takes its own.
            let fields = json!({
                "code": code, "group": "a", "reason": "a", "role": "a", "answer": null, "done": 1, "chosen": 1,
                "wanted": 1, "in_flight": 1, "cap": 1, "granted": 1, "allowed": 1, "updated": 1, "of": 1, "hosts": 1,
                "present": 1, "initial": 1, "rule": "manual_halt", "count": 1, "error": null, "failed": 1,
            });
            let why: Why = serde_json::from_value(fields).unwrap();
            assert_eq!(why.code(), code);
            assert_eq!(serde_json::to_value(&why).unwrap()["code"], *code);
        }
    }
}
