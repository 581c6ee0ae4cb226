//! What operators want: groups of hosts, each with a gate (when may it start?), a pace (how many hosts at once?) and a proof
//! (when is it done, when does it stop?). The strategies of Managed Updates v2 and the groups of RFD 0169 are settings of
//! this one model (FLEET §2).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::installer::Installer;
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
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
    /// It is a directive's: its groups have targets of their own, and an entry that means the same goes on when others change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directive: Option<DirectiveTerms>,
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
            *group = group.of_next_rollout(&neutral);
        }
        shape.directive = shape.directive.map(|_| DirectiveTerms::default());
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
        (self.mode, self.window, groups(&self.regular), groups(&self.critical), self.directive.clone())
    }
}

impl GroupPolicy {
    /// Most targets (DIRECTIVES §2).
    pub const MOST_TARGETS: usize = 20;
    /// Most installers.
    pub const MOST_INSTALLERS: usize = 8;
    /// Most selectors.
    pub const MOST_SELECTORS: usize = 50;

    /// The versions of its own that its hosts may run: its targets, and what they run before.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &Version> {
        self.targets.iter().map(|target| &target.version).chain(&self.start)
    }

    /// What of it acts only with the next rollout; pace, proof and freezes are those of `neutral`.
    fn of_next_rollout(&self, neutral: &Self) -> Self {
        let mut shape = self.clone();
        shape.pace = RolloutPace { canaries: self.pace.canaries, ..neutral.pace.clone() };
        shape.proof = neutral.proof.clone();
        shape.gate.blackout.clear();
        shape
    }

    /// Whether it means what `other` means, but for what acts with the next step.
    pub(crate) fn is_as(&self, other: &Self) -> bool {
        self.of_next_rollout(other) == other.of_next_rollout(other)
    }
}

/// Where hosts go that belong to no group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unassigned {
    /// Nowhere: they are told the start version, and not to update.
    #[default]
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

/// When a directive lets hosts go at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DirectiveTerms {
    /// It is disabled.
    #[serde(default)]
    pub disabled: bool,
    /// Nobody is told before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Nobody is told from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
}

/// A group of hosts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupPolicy {
    /// Its name, unique in its list.
    pub name: String,
    /// Labels that make a host a member; both given: both hold. `None`: by the name that the host declares.
    pub members: Option<Members>,
    /// Versions that its hosts may get, of which each gets the first that fits it (DIRECTIVES §2); empty: the rollout's target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// What installs them, of which a host gets the first that it knows; empty: `update`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub installers: Vec<Installer>,
    /// What its hosts run before their turn, and go back to; `None`: the rollout's start version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Version>,
    /// When it may start.
    pub gate: Gate,
    /// How many hosts at once.
    pub pace: RolloutPace,
    /// When it is done, and when it stops.
    pub proof: Proof,
}

/// A version that hosts of a group may get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The version.
    pub version: Version,
    /// What else is known of it: `arch`, `edition`, `fips`, `length`, `sha256`, and whatever installers are given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

/// Whom a sub-directive takes. All of it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Selector {
    /// Labels with these values; `*` as a value: any, and `'*': '*'`: every host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// One of these services runs; empty: neither `auth` nor `proxy` does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// The group that the host declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// An expression about its labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<Expression>,
    /// Hosts that run a pre-release are let go too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permit_prerelease: bool,
}

/// Members by label (RFD 0169).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Members {
    /// `node_labels_expression`.
    pub node: Option<Expression>,
    /// `instance_labels_expression`.
    pub instance: Option<Expression>,
    /// A sub-directive's, any of which holds; empty: the expressions decide.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<Selector>,
}

/// When a group may start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gate {
    /// Days, hour and time zone of its window.
    pub opening: WindowOpening,
    /// It has no window: the opening does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_any_time: bool,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rate {
    /// In the first hour.
    pub base: u32,
    /// In place of the base: so much of the hosts that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Percent>,
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
    /// More hosts that were told and fell silent than this halt it.
    #[serde(default = "everybody", skip_serializing_if = "is_everybody")]
    pub max_churned: Percent,
    /// Fewer such hosts than this halt nothing.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub min_churned: u32,
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

const fn everybody() -> Percent {
    Percent::ALL
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_everybody(percent: &Percent) -> bool {
    *percent == Percent::ALL
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
