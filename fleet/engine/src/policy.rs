//! What operators want: groups of hosts, each with a gate (when may it start?), a pace (how many hosts at once?) and a proof
//! (when is it done, when does it stop?). The strategies of Managed Updates v2 and the groups of RFD 0169 are settings of
//! this one model (FLEET §2).

use std::collections::BTreeMap;

use jiff::SignedDuration;
use protocol::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::{Blackout, Days, WindowOpening, Zone};
use crate::labels::Expression;
use crate::percent::Percent;

/// Whether hosts are updated. The lower of two rules: disabled, then suspended, then enabled (Managed Updates v2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Hosts are told the target, and not to update.
    #[default]
    Disabled,
    /// As enabled, but nobody is allowed to update and no group starts.
    Suspended,
    /// The rollout goes on.
    Enabled,
}

/// How soon a version is rolled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// By groups and their windows.
    #[default]
    Regular,
    /// By the groups of the critical schedule; without such, by the regular ones without their windows.
    Critical,
    /// Everybody at once.
    Immediate,
}

/// Which rules lead from group to group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Managed Updates v2: one group after the other.
    #[default]
    HaltOnError,
    /// Managed Updates v2: each group in its window.
    TimeBased,
    /// RFD 0169: each group after those that it requires.
    Requires,
}

/// The target of a rollout: `autoupdate_version` of either dialect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutTarget {
    /// What hosts run before their turn, and go back to.
    pub start: Version,
    /// What they shall run.
    pub target: Version,
    /// How soon.
    pub schedule: Schedule,
    /// What the version's resource says; `None` where its dialect has no mode.
    pub mode: Mode,
}

/// How a fleet is updated: `autoupdate_config` or `cluster_maintenance_config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The mode of the configuration.
    pub mode: Mode,
    /// How groups follow one another.
    pub strategy: Strategy,
    /// How long windows of [`Strategy::TimeBased`] are; zero elsewhere.
    pub window: SignedDuration,
    /// The groups of the regular schedule, in order.
    pub regular: Vec<GroupPolicy>,
    /// The groups of the critical schedule; empty: the regular ones, without their windows.
    pub critical: Vec<GroupPolicy>,
    /// Where hosts go that belong to no group.
    pub unassigned: Unassigned,
    /// RFD 0169's schedule without groups, for hosts that belong to none.
    pub ungrouped: Option<Ungrouped>,
}

impl Policy {
    /// The groups of both schedules.
    pub fn all_groups(&self) -> impl Iterator<Item = &GroupPolicy> {
        self.regular.iter().chain(&self.critical)
    }

    /// What of it acts only with the next rollout: everything but [`Policy::at_once`].
    pub fn of_next_rollout(&self) -> Self {
        let mut shape = self.clone();
        (shape.mode, shape.window) = (Mode::Enabled, SignedDuration::ZERO);
        let neutral = GroupPolicy::v2("", WindowOpening { days: Days::EVERY, hour: 0, zone: Zone::UTC });
        for group in shape.regular.iter_mut().chain(&mut shape.critical) {
            group.pace = RolloutPace { canaries: group.pace.canaries, ..neutral.pace.clone() };
            group.proof = neutral.proof.clone();
            group.gate.blackout.clear();
        }
        shape
    }

    /// What of it acts with the next step of the present rollout: mode, length of windows, and of each group pace, proof and
    /// freezes.
    pub fn at_once(&self) -> impl PartialEq + use<> {
        let of_group = |group: &GroupPolicy| {
            let pace = RolloutPace { canaries: 0, ..group.pace.clone() };
            (group.name.clone(), (pace, group.proof.clone(), group.gate.blackout.clone()))
        };
        let groups = |groups: &[GroupPolicy]| groups.iter().map(of_group).collect::<BTreeMap<_, _>>();
        (self.mode, self.window, groups(&self.regular), groups(&self.critical))
    }
}

/// Where hosts go that belong to no group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unassigned {
    /// Nowhere: they are told the start version, and not to update.
    Hold,
    /// Into the last group, as in Managed Updates v2.
    Last,
    /// Into the group of this name.
    Group(String),
}

/// RFD 0169's `agent_auto_update`: a schedule without groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ungrouped {
    /// When hosts may update with a regular version; `None`: not at all.
    pub regular: Option<UngroupedWindow>,
    /// The same for a critical version; `None`: as regular ones, at any time.
    pub critical: Option<UngroupedWindow>,
    /// Jitter of an immediate version, seconds, at most 60.
    pub immediate_jitter: u32,
}

/// When hosts without a group may update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UngroupedWindow {
    /// Its hour and days; it is open for an hour.
    pub opening: WindowOpening,
    /// Jitter, seconds, at most 60.
    pub jitter: u32,
}

/// A group of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupPolicy {
    /// Its name, unique in its list.
    pub name: String,
    /// Labels that make a host a member; both given: both hold. `None`: by the name that the host declares.
    pub members: Option<Members>,
    /// When it may start.
    pub gate: Gate,
    /// How many hosts at once.
    pub pace: RolloutPace,
    /// When it is done, and when it stops.
    pub proof: Proof,
}

/// Members by label (RFD 0169).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// `node_labels_expression`.
    pub node: Option<Expression>,
    /// `instance_labels_expression`.
    pub instance: Option<Expression>,
}

/// When a group may start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gate {
    /// Days, hour and time zone of its window.
    pub opening: WindowOpening,
    /// Whole hours since the start of the group before it ([`Strategy::HaltOnError`]).
    pub wait_hours: u32,
    /// Whole hours since the group before it, or those that it requires, were done.
    pub soak_hours: u32,
    /// Groups that passed with this very version before (RFD 0169).
    pub requires: Vec<String>,
    /// When nobody is let go.
    pub blackout: Vec<Blackout>,
    /// The role whose approval it needs.
    pub approval: Option<String>,
    /// Who is asked whether it may start.
    pub external: Option<External>,
}

/// An external check of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct External {
    /// An https URL.
    pub url: String,
    /// How long an answer may take, seconds.
    pub timeout_seconds: u32,
}

/// How many hosts update at once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RolloutPace {
    /// Hosts that update before the others, 0 to 5.
    pub canaries: u32,
    /// Most hosts in flight, of those counted.
    pub max_in_flight: Percent,
    /// Longest random wait of a host, seconds.
    pub jitter: u32,
    /// Hosts are let go only so long after the window opened; `None`: at any time once it started.
    pub window: Option<SignedDuration>,
    /// Most hosts an hour.
    pub rate: Option<Rate>,
}

/// Hosts an hour, growing while nothing fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// In the first hour.
    pub base: u32,
    /// It is multiplied by this after each hour with success and without failure, in hundredths: 200 doubles it.
    pub factor_hundredths: u32,
    /// Never more than this.
    pub maximum: u32,
}

/// What ends a group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Proof {
    /// Seconds from `started` to `switched` before a host counts as timed out; `None`: that clock is off.
    pub timeout_seconds: Option<u32>,
    /// Seconds without a report after a host began, beyond its interval, before it counts as failed; 0: off.
    pub failure_seconds: u32,
    /// More failed hosts than this, of those counted when the group started, halt it.
    pub max_failed: Percent,
    /// More hosts that timed out than this halt it.
    pub max_timeout: Percent,
    /// More failed hosts than this, of those that ended, halt it.
    pub max_failed_of_ended: Percent,
    /// Fewer failed hosts than this halt nothing.
    pub min_failed: u32,
    /// `max_failed_of_ended` counts from so many ended hosts on.
    pub min_ended: u32,
    /// A group with more silent hosts than this is not done.
    pub max_silent: Percent,
    /// What a halt does.
    pub on_halt: OnHalt,
}

/// What a halt does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum OnHalt {
    /// Nobody is allowed to update any more.
    #[default]
    Stop,
    /// Those that were told go back to the start version as well.
    Rollback,
}
