//! Why a group or a host waits: values with a stable code, not sentences (FLEET §6).

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::NamedHost;

/// Who can change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// A person.
    Operator,
    /// The clock.
    Time,
    /// The hosts, by what they report.
    Hosts,
}

/// Why a target does not fit a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Misfit {
    /// The target's version, or the installer.
    pub of: String,
    /// Why, a clause.
    pub why: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.of, self.why)
    }
}

named! { code[&] self:
/// Why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "code")]
pub enum Why {
    /// There is no rollout.
    #[default]
    NoRollout = "no_rollout",
    /// The mode is disabled.
    Disabled = "disabled",
    /// The mode is suspended.
    Suspended = "suspended",
    /// The window is closed.
    OutsideWindow = "outside_window",
    /// The rollout began while the window was open: it waits for the next one.
    RolloutChangedDuringWindow = "rollout_changed_during_window",
    /// Groups before it are not done.
    PreviousGroupsNotDone {
        /// One of them.
        group: String,
        /// Its state, where it is stopped: halted or rolledback.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped: Option<String>,
    } = "previous_groups_not_done",
    /// Its hours since the start of the group before it are not over.
    WaitHours {
        /// The group before it.
        group: String,
    } = "wait_hours",
    /// Its hours since the groups before it were done are not over.
    SoakHours {
        /// The last of them.
        group: String,
    } = "soak_hours",
    /// A freeze.
    Blackout {
        /// What the operator wrote.
        reason: String,
    } = "blackout",
    /// Nobody has approved it.
    Approval {
        /// Whose approval it needs.
        role: String,
    } = "approval",
    /// The external check has not said go.
    Gate {
        /// Its last answer: none, or wait.
        answer: Option<String>,
    } = "gate",
    /// Not all canaries are done.
    WaitingForCanaries {
        /// Those that are.
        done: u32,
        /// Those that could be chosen.
        #[serde(default)]
        chosen: u32,
        /// All.
        wanted: u32,
    } = "waiting_for_canaries",
    /// As many hosts as allowed are in flight.
    MaxInFlight {
        /// In flight.
        in_flight: u64,
        /// Allowed.
        cap: u64,
        /// On the target.
        #[serde(default)]
        updated: u64,
        /// Counted; 0: an older server does not say.
        #[serde(default)]
        of: u64,
    } = "max_in_flight",
    /// As many hosts as this hour allows were let go.
    Rate {
        /// Let go in this hour.
        granted: u64,
        /// Allowed.
        allowed: u64,
    } = "rate",
    /// Hosts are on their way.
    UpdateInProgress {
        /// On the target.
        updated: u64,
        /// Counted.
        of: u64,
    } = "update_in_progress",
    /// Nobody is on the way any more, and too few arrived.
    NobodyOnTheWay {
        /// Those that failed or timed out.
        failed: u64,
        /// Of so many.
        of: u64,
    } = "nobody_on_the_way",
    /// Hosts ask, and none reports.
    NoReports {
        /// Those that ask.
        hosts: u64,
    } = "no_reports",
    /// Most of the fleet is not seen, all at once: nothing is decided by that.
    FleetSilent = "fleet_silent",
    /// Nobody is in the group.
    Empty = "empty",
    /// More hosts are missing than a done group may miss.
    Shrunk {
        /// Present.
        present: u64,
        /// When the group started.
        initial: u64,
        /// Members that do not count as present: pinned, disabled, held.
        #[serde(default)]
        excluded: u64,
    } = "shrunk",
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
        /// The same with their names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hosts: Vec<NamedHost>,
        /// Its hosts were to go back, and the start version is blocked.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        no_way_back: bool,
    } = "halted",
    /// Updates are given back.
    RolledBack = "rolled_back",
    /// Nothing is left to do.
    Done = "done",
    /// The host's turn has come.
    LetGo = "let_go",
    /// The host runs the target.
    Updated = "updated",
    /// The host is told to go back to the start version.
    SentBack = "sent_back",
    /// The host went back: it runs the start version.
    WentBack = "went_back",
    /// The host's turn has not come.
    NotYet = "not_yet",
    /// The host came after this pass began.
    NextPass = "next_pass",
    /// The host is pinned.
    Pinned = "pinned",
    /// The host's updater is disabled.
    HostDisabled = "host_disabled",
    /// An operator holds the host.
    Held = "held",
    /// This version failed on the host.
    FailedHere {
        /// Its error code.
        error: Option<String>,
    } = "failed_here",
    /// The host took too long.
    TimedOut = "timed_out",
    /// The host belongs to no group.
    Unassigned = "unassigned",
    /// The version that it would be given, or sent back to, is blocked.
    VersionBlocked {
        /// What the operator wrote.
        reason: String,
    } = "version_blocked",
    /// The server has not reached its store.
    StoreUnavailable = "store_unavailable",
    /// No target of its sub-directive fits the host.
    NoTarget {
        /// Why not, of each.
        targets: Vec<Misfit>,
    } = "no_target",
    /// No installer of its sub-directive may act on the host.
    NoInstaller {
        /// Why not, of each.
        installers: Vec<Misfit>,
    } = "no_installer",
    /// Its sub-directive recommends, and installs nothing (`notify`).
    Recommended = "recommended",
    /// The directive is disabled.
    DirectiveDisabled = "directive_disabled",
    /// The directive lets nobody go yet.
    NotBefore = "not_before",
    /// The directive lets nobody go any more.
    DirectiveOver = "directive_over",
}
}

named! { name[] self:
/// What halts a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum HaltRule {
    /// More hosts failed than allowed.
    FailedThreshold = "failed_threshold",
    /// More hosts timed out than allowed.
    TimeoutThreshold = "timeout_threshold",
    /// Too many were told and fell silent.
    ChurnThreshold = "churn_threshold",
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

named! { name[] self:
/// What keeps a host from being a canary; the first that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CanaryObstacle {
    /// Pinned, disabled, or held.
    Excluded = "excluded",
    /// It came after the group began, or is not enrolled.
    NotCounted = "not_counted",
    /// It was not seen within a report interval.
    NotSeen = "not_seen",
    /// It has no updater with an id.
    NoUpdateId = "no_update_id",
    /// It failed, or was told already.
    Tried = "tried",
}
}

impl HaltRule {
    /// Whether it lasts as long as a hold does (`Holds`); else as its group's halt.
    pub fn is_of_hold(self) -> bool {
        matches!(self, Self::ManualHalt | Self::Restored | Self::StoreLost)
    }

    /// Whether it is by what hosts said or did: they failed.
    pub fn is_of_failures(self) -> bool {
        matches!(self, Self::FailedThreshold | Self::SoakFailed | Self::CanaryFailed)
    }

    /// Whether it is by what hosts said or did, late ones too: no person and no other program stopped them.
    pub fn is_by_hosts(self) -> bool {
        self.is_of_failures() || matches!(self, Self::TimeoutThreshold | Self::ChurnThreshold)
    }
}

impl Why {
    /// Whether the hosts did nothing to be halted for: a person or the server stopped them.
    pub fn is_stopped_by_decision(&self) -> bool {
        matches!(self, Self::Halted { rule, .. } if !rule.is_by_hosts())
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
            | Self::NotBefore
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
            | Self::NoTarget { .. }
            | Self::NoInstaller { .. }
            | Self::Recommended
            | Self::DirectiveDisabled
            | Self::DirectiveOver
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
