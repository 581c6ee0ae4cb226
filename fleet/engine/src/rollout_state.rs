//! Everything that decisions rest on, but for the hosts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use protocol::Version;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::{Days, WindowOpening, Zone};
use crate::listening::{Listening, ListeningClock};
use crate::membership::{DEFAULT_GROUP, Membership, Rule};
use crate::policy::{GroupPolicy, Members, Mode, Policy, RolloutTarget, Schedule, Strategy, Unassigned};
use crate::reason::{HaltRule, Why};
use crate::resource::default_group;
use crate::rollout::{Halt, Rollout, StartBlock, State};
use crate::selection::TargetRules;

/// What is wanted, what is stopped, and the rollout.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RolloutState {
    /// How the fleet is updated; `None`: by the default group.
    pub policy: Option<Policy>,
    /// What it shall run; `None`: there is no rollout.
    pub target: Option<RolloutTarget>,
    /// Why nobody new gets the target (`fleet_release`, FLEET §9); `None`: they do.
    #[serde(default)]
    pub blocked: Option<String>,
    /// Why nobody new gets these versions, whatever they are to the rollout.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocks: BTreeMap<String, String>,
    /// By what a directive's targets are chosen; empty without one.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub rules: TargetRules,
    /// The highest nonce of a directive that was active; 0: none was.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub nonce: u64,
    /// What operators stopped.
    pub holds: Holds,
    /// Who wrote the target, where that is known.
    #[serde(default)]
    pub author: Option<String>,
    /// The rollout.
    pub rollout: Option<Rollout>,
    /// Rollouts so far.
    pub number: u64,
    /// Up to this, numbers of rollouts may have been given before the store went back ([`RolloutState::lose_numbers`]).
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub numbers_lost: u64,
    /// The last target whose rollout was done.
    pub last_done: Option<Version>,
    /// The one before that.
    pub done_before: Option<Version>,
    /// Versions that halted here; the oldest go.
    #[serde(default)]
    pub halted: Vec<Version>,
    /// Where ids of rollouts come from.
    pub seed: u64,
    /// No step is before another.
    pub last_step: Option<Timestamp>,
    /// Which time counts.
    #[serde(default)]
    pub clock: ListeningClock,
}

/// Rollouts and attempts that a store which went back may have lost, and whose numbers hosts know: more than a fleet makes between
/// two backups.
pub(crate) const MOST_LOST: u32 = 1000;

/// What stopped everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HaltCause {
    /// An operator.
    #[default]
    Operator,
    /// A restore: an older target would send hosts back.
    Restore,
    /// The store lost decisions, perhaps a stop.
    StoreLost,
}

impl HaltCause {
    /// The rule by which it halts a group.
    pub fn rule(self) -> HaltRule {
        match self {
            Self::Operator => HaltRule::ManualHalt,
            Self::Restore => HaltRule::Restored,
            Self::StoreLost => HaltRule::StoreLost,
        }
    }

    fn is_operator(self) -> bool {
        self == Self::Operator
    }
}

/// What is stopped, each by its name. It survives a new target and a restart; `run` of that name ends it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Holds {
    /// Every group.
    pub all: bool,
    /// What stopped every group.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub cause: HaltCause,
    /// Beneath a hold that is no operator's an operator's lasts: it has an end of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_operator: bool,
    /// These groups.
    pub groups: BTreeSet<String>,
    /// Who belonged to them, in each rollout that had them since: the policy may forget a group whose hold lasts, or call others so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub rules: Vec<Membership>,
    /// What versions before this kept of that, until there is a rollout.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub reach: BTreeMap<String, HoldMembers>,
    /// Groups that were let go again, by name, while all others are held.
    pub released: BTreeSet<String>,
}

/// Whom a held group took in, beside those that declare its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HoldMembers {
    /// By label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Members>,
    /// Hosts of no group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_rest: bool,
}

impl HoldMembers {
    /// The same of the group called `name`, where groups are as in `now`.
    fn membership(&self, name: &str, now: &[Rule]) -> Membership {
        let mut groups = if self.takes_rest { now.to_vec() } else { Vec::new() };
        groups.retain(|rule| rule.name != name);
        groups.push(Rule { name: name.to_owned(), members: self.members.clone() });
        let rest = self.takes_rest.then(|| name.to_owned());
        Membership { held: BTreeSet::from([name.to_owned()]), groups, rest }
    }
}

impl Holds {
    /// Notes who belongs to the held groups that `rollout` has.
    fn note(&mut self, rollout: &Rollout) {
        if self.groups.is_empty() {
            return;
        }
        let is_here = |name: &&String| rollout.find(name).is_some();
        let now = rollout.membership(self.groups.iter().filter(is_here).cloned().collect());
        let are_by_name =
            rollout.schedule != Schedule::Immediate && now.groups.iter().all(|rule| rule.members.is_none());
        for (name, mut reach) in std::mem::take(&mut self.reach) {
            let is_as_now = |rule: &Rule| rule.name == name && rule.members == reach.members;
            if now.groups.iter().any(is_as_now) && (!reach.takes_rest || now.rest.as_ref() == Some(&name)) {
                continue;
            }
            // With none by name, hosts of no group are not told from others.
            if reach.takes_rest && !are_by_name {
                self.reach.insert(name.clone(), reach.clone());
                reach.takes_rest = false;
            }
            self.keep(reach.membership(&name, &now.groups));
        }
        self.keep(now);
    }

    fn keep(&mut self, rule: Membership) {
        let is_same = |kept: &&mut Membership| (&kept.groups, &kept.rest) == (&rule.groups, &rule.rest);
        match self.rules.iter_mut().find(is_same) {
            Some(kept) => kept.held.extend(rule.held),
            None if rule.held.is_empty() => {}
            None => self.rules.push(rule),
        }
    }

    /// The names of all groups that decide who is held.
    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.groups.iter().chain(self.rules.iter().flat_map(|rule| &rule.groups).map(|rule| &rule.name))
    }

    /// Whether the group called `name` is held.
    pub fn has(&self, name: &str) -> bool {
        self.groups.contains(name) || (self.all && !self.released.contains(name))
    }

    /// By which rule the group called `name` is held: an operator who named it, else what stopped everything.
    pub(crate) fn rule_of(&self, name: &str) -> HaltRule {
        if self.groups.contains(name) { HaltRule::ManualHalt } else { self.cause.rule() }
    }

    /// Holds every group, of rollouts to come as well.
    pub fn hold_all(&mut self, cause: HaltCause) {
        let is_operators = cause.is_operator() || self.by_operator || (self.all && self.cause.is_operator());
        if !cause.is_operator() || !self.all {
            self.cause = cause;
        }
        self.by_operator = is_operators && !self.cause.is_operator();
        self.all = true;
        self.released.clear();
    }

    /// Ends what stopped every group last, and nothing else. False: nothing did.
    pub(crate) fn release_all(&mut self) -> bool {
        let was_held = self.all;
        (self.all, self.cause, self.by_operator) = (self.by_operator, HaltCause::Operator, false);
        self.released.clear();
        was_held
    }

    /// Holds what another state held too.
    pub fn join(&mut self, other: &Self) {
        self.groups.extend(other.groups.iter().cloned());
        self.reach.extend(other.reach.clone());
        other.rules.iter().cloned().for_each(|rule| self.keep(rule));
        let by_operator = (other.all && other.cause.is_operator()) || other.by_operator;
        for cause in (other.all.then_some(other.cause)).into_iter().chain(by_operator.then_some(HaltCause::Operator)) {
            self.hold_all(cause);
        }
    }

    /// Holds a group.
    pub fn hold(&mut self, name: &str) {
        self.groups.insert(name.to_owned());
        self.released.remove(name);
    }

    /// Lets a group go again.
    pub fn release(&mut self, name: &str) {
        self.groups.remove(name);
        self.reach.remove(name);
        self.rules.retain_mut(|rule| !(rule.held.remove(name) && rule.held.is_empty()));
        if self.all {
            self.released.insert(name.to_owned());
        }
    }
}

impl RolloutState {
    /// The store went back: no number is given again that a rollout or an attempt may have had since, for a host that failed in that
    /// refuses it silently. `given`: the highest of a rollout, where that is known.
    pub fn lose_numbers(&mut self, given: Option<u64>) {
        self.numbers_lost = given.unwrap_or_else(|| self.given() + u64::from(MOST_LOST)).max(self.given());
        let groups = self.rollout.iter_mut().flat_map(|rollout| &mut rollout.groups);
        groups.for_each(|group| group.attempts_lost = true);
    }

    /// Whether a directive has `version` already.
    pub(crate) fn has_target(&self, version: &Version) -> bool {
        self.policy.iter().flat_map(Policy::all_groups).flat_map(GroupPolicy::versions).any(|known| known == version)
    }

    /// The highest number of a rollout that may have been given.
    pub fn given(&self) -> u64 {
        self.number.max(self.numbers_lost)
    }

    /// Notes who belongs to the held groups of the rollout.
    pub(crate) fn note_members(&mut self) {
        if let Some(rollout) = &self.rollout {
            self.holds.note(rollout);
        }
    }

    /// The names of all groups, of the policy and of the rollout; without a configuration that of Managed Updates' group.
    pub fn group_names(&self) -> Vec<&str> {
        let of_policy: Vec<&GroupPolicy> = self.policy.iter().flat_map(Policy::all_groups).collect();
        let of_rollout = self.rollout.iter().flat_map(|rollout| &rollout.groups).map(|group| &group.policy);
        let mut known: Vec<&str> = if of_policy.is_empty() { vec![DEFAULT_GROUP] } else { Vec::new() };
        for GroupPolicy { name, .. } in of_policy.into_iter().chain(of_rollout) {
            if !name.is_empty() && !known.contains(&name.as_str()) {
                known.push(name);
            }
        }
        known
    }

    /// Why nobody new gets `version`; `None`: they do.
    pub(crate) fn block_of(&self, version: &Version) -> Option<&str> {
        self.blocks.get(&version.to_string()).map(String::as_str)
    }

    /// The last version whose rollout was done and that is not blocked.
    pub(crate) fn last_good(&self) -> Option<&Version> {
        self.done().find(|version| self.block_of(version).is_none())
    }

    /// The versions whose rollouts were done, the last one first.
    fn done(&self) -> impl Iterator<Item = &Version> {
        self.last_done.iter().chain(&self.done_before)
    }

    /// The block of the version from which `rollout` starts.
    pub(crate) fn block_of_start(&self, rollout: &Rollout) -> Option<StartBlock> {
        let reason = self.block_of(&rollout.start)?.to_owned();
        // Who waits for the target does not get it in place of the start.
        let is_good = |version: &&Version| **version != rollout.target && self.block_of(version).is_none();
        Some(StartBlock { reason, instead: self.done().find(is_good).cloned() })
    }

    /// What stops every host, also those without a group.
    pub(crate) fn held_everywhere(&self) -> Option<Why> {
        let halted = |rule| Some(Halt::decided(rule, Timestamp::UNIX_EPOCH, State::default()).why());
        match (&self.blocked, self.holds.all, self.holds.cause) {
            (Some(_), _, _) => halted(HaltRule::ReleaseBlocked),
            (None, true, HaltCause::Operator) => Some(Why::Held),
            (None, true, cause) => halted(cause.rule()),
            (None, false, _) => None,
        }
    }

    /// Since when most of the fleet is not seen, all at once, as of the last step; `None`: it is.
    pub fn silent_since(&self) -> Option<Timestamp> {
        self.clock.silent_since(self.last_step?)
    }

    /// The listening clock at `now`.
    pub fn listening(&self, now: Timestamp) -> Listening<'_> {
        self.clock.at(now)
    }

    /// All hosts were heard until `now`, though no step was due.
    pub fn listens(&mut self, now: Timestamp) {
        let now = self.last_step.map_or(now, |last| last.max(now));
        self.last_step = Some(now);
        self.clock.set(now);
        if let Some(rollout) = &mut self.rollout {
            rollout.last_step = now;
        }
    }

    /// The server starts at `now`: what hosts said since the last step was not heard, however short ago that was.
    pub fn starts(&mut self, now: Timestamp) {
        if let Some(last) = self.last_step {
            self.clock.start(last, now);
        }
    }
}

impl Policy {
    /// What holds where nobody wrote a configuration: Managed Updates' `default` group, Monday to Thursday at 12:00 UTC.
    pub fn absent() -> Self {
        Self {
            mode: Mode::Enabled,
            regular: vec![default_group(None)],
            unassigned: Unassigned::Last,
            ..Self::default()
        }
    }

    /// The groups of a version of this schedule, and whether their windows do not count.
    pub(crate) fn groups(&self, schedule: Schedule) -> (Vec<GroupPolicy>, bool) {
        let everybody = || {
            let mut group = GroupPolicy::v2("", WindowOpening { days: Days::EVERY, hour: 0, zone: Zone::UTC });
            group.pace.jitter =
                self.ungrouped.as_ref().map_or(group.pace.jitter, |ungrouped| ungrouped.immediate_jitter);
            group
        };
        let regular = || {
            let is_empty = self.regular.is_empty() && self.strategy != Strategy::Requires;
            if is_empty { Self::absent().regular } else { self.regular.clone() }
        };
        match schedule {
            Schedule::Regular => (regular(), false),
            Schedule::Critical if self.critical.is_empty() => (regular(), true),
            Schedule::Critical => (self.critical.clone(), false),
            Schedule::Immediate => (vec![everybody()], true),
        }
    }
}
