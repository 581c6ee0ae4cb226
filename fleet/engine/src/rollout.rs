//! A rollout: one target, and how far each group is on its way there.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::installer::Installer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::{Blackout, blackout_at};
use crate::counts::Tally;
use crate::host::{GroupPlace, HOSTNAME, Host, HostId, NamedHost};
use crate::labels::Expression;
use crate::listening::{Listening, ListeningClock};
use crate::membership::{Membership, MembershipFacts, Rule};
use crate::moment::Moment;
use crate::names::NameTable;
use crate::order;
use crate::policy::{DirectiveTerms, GroupPolicy, Mode, Schedule, Selector, Strategy, Unassigned, Ungrouped};
use crate::reason::{HaltRule, WaitReason, Why};
use crate::selection::{Choice, Chooser, TargetRules};

named! { name[] self of 6:
/// State of a group, and of a rollout (Managed Updates v2, and `halted`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum State {
    /// Its gate has not opened.
    #[default]
    Unstarted = "unstarted",
    /// Its canaries update.
    Canary = "canary",
    /// Its hosts update.
    Active = "active",
    /// It is done; late-comers update.
    Done = "done",
    /// Its hosts go back to the start version.
    RolledBack = "rolledback",
    /// Nobody is allowed to update any more.
    Halted = "halted",
}
}

impl State {
    /// Whether its hosts have been allowed to update, or may be.
    pub fn has_started(self) -> bool {
        matches!(self, Self::Canary | Self::Active | Self::Done)
    }
}

/// A value in the order of hosts: everything up to it is let go. Ties of the key are told apart by the host's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cursor {
    /// The key of the last host that is let go.
    pub key: u64,
    /// Its id.
    pub id: HostId,
}

impl Cursor {
    /// Of a host in the present rollout.
    pub fn of(host: &Host) -> Self {
        Self { key: host.key, id: host.id }
    }
}

/// How far hosts of a group are let go one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RolloutPass {
    /// How far the pass is.
    pub cursor: Option<Cursor>,
    /// Hosts that arrived up to this were all let go in earlier passes.
    pub(crate) complete_to: u64,
    /// Hosts that arrived up to this are members of the pass.
    pub(crate) pass_to: u64,
}

/// A host that updates before the others of its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Its updater's id.
    pub updater_id: u128,
    /// Its UUID.
    pub host_id: HostId,
    /// It ran the target once; that stays so.
    pub success: bool,
    /// There was room for it in the cap.
    pub let_go: bool,
}

/// Why a group is halted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// The rule.
    pub rule: HaltRule,
    /// How many hosts.
    pub count: u64,
    /// Of how many.
    pub of: u64,
    /// Their commonest error code.
    pub error: Option<String>,
    /// Some of them: UUIDs of at most [`Halt::SAMPLE`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sample: Vec<String>,
    /// The same with their names, as they were then; a halt of before has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<NamedHost>,
    /// It would have sent its hosts back, and stopped: the start version is blocked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_way_back: bool,
    /// When.
    pub at: Timestamp,
    /// The state before it, to which a `run` leads back.
    pub from: State,
}

impl Halt {
    /// Most hosts that it names: enough for somebody to look.
    pub const SAMPLE: usize = 3;

    /// By a decision, and not by what hosts did.
    pub(crate) fn decided(rule: HaltRule, at: Timestamp, from: State) -> Self {
        let (sample, hosts) = (Vec::new(), Vec::new());
        Self { rule, count: 0, of: 0, error: None, sample, hosts, no_way_back: false, at, from }
    }

    /// The reason, as a group and its hosts have it.
    pub(crate) fn why(&self) -> Why {
        let Self { rule, count, of, error, sample, hosts, no_way_back, at: _, from: _ } = self.clone();
        Why::Halted { rule, count, of, error, sample, hosts, no_way_back }
    }
}

/// What an external check said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateAnswer {
    /// The group may start.
    Go,
    /// Not yet.
    Wait,
    /// The group halts.
    Stop,
}

/// A group as it was until it turned round: who was let go then may be on its way, and nobody has written yet that it was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FormerCourse {
    /// Since then nobody was let go by it.
    pub(crate) end: Moment,
    /// What of it decides who was.
    pub(crate) group: GroupStatus,
}

/// Most former courses of a group, of which the oldest go: a person turns it round, and each is over after an hour.
const MOST_COURSES: usize = 8;

/// Hosts let go in the present hour ([`crate::policy::Rate`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateAccount {
    /// When the hour began.
    pub hour: Timestamp,
    /// Hosts let go in it.
    pub granted: u64,
    /// Hosts that it allows.
    pub allowed: u64,
    /// Updated hosts when it began.
    pub updated: u64,
    /// Failed and timed out hosts when it began.
    pub failed: u64,
}

/// The start version is blocked: nobody new gets it, and nobody is sent back to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartBlock {
    /// What the operator wrote.
    pub reason: String,
    /// What whoever is new gets in its place; `None`: nothing.
    pub instead: Option<Version>,
}

/// A group of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupStatus {
    /// As the policy had it when the rollout began; pace, proof and freezes as it has them now.
    pub policy: GroupPolicy,
    /// Its state.
    pub state: State,
    /// When it last began: entered canary or active.
    pub start_time: Option<Timestamp>,
    /// When it was last done.
    pub done_time: Option<Timestamp>,
    /// When state or reason last changed.
    pub last_update_time: Timestamp,
    /// Managed Updates' reason, or the rule of a halt.
    pub last_update_reason: String,
    /// Present hosts when it started.
    pub initial_count: u64,
    /// Hosts that had asked for it then, and did not report.
    #[serde(default)]
    pub initial_asking: u64,
    /// Somebody was enrolled in it once since the rollout was made: then it is never done because nobody is there.
    #[serde(default)]
    pub was_known: bool,
    /// Present hosts.
    pub present_count: u64,
    /// Those on the target.
    pub up_to_date_count: u64,
    /// Its canaries.
    pub canaries: Vec<Canary>,
    /// How far the pass of its enrolled hosts is.
    pub cursor: Option<Cursor>,
    /// See [`RolloutPass`].
    pub(crate) complete_to: u64,
    /// See [`RolloutPass`].
    pub(crate) pass_to: u64,
    /// That of hosts that only ask: they stand behind all others.
    #[serde(default, rename = "strangers")]
    pub(crate) unknown: RolloutPass,
    /// How far those are let go again that failed or timed out before this attempt.
    #[serde(rename = "retry")]
    pub retry_cursor: Option<Cursor>,
    /// Hosts that arrived up to this are among them.
    pub(crate) retry_to: u64,
    /// For which attempt, and whether after the end of the group.
    pub(crate) retry_for: (u32, bool),
    /// Hosts that were enrolled up to this count in thresholds.
    pub(crate) counted_to: u64,
    /// Counted from 1; `run` and `rollback` begin another one.
    pub attempt: u32,
    /// See [`crate::rollout_state::RolloutState::lose_numbers`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) attempts_lost: bool,
    /// When it began.
    pub(crate) attempt_began: Moment,
    /// It is halted.
    pub halt: Option<Halt>,
    /// Its courses before it turned round, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) courses: Vec<FormerCourse>,
    /// It was marked as done while it was halted: who was not let go stays.
    #[serde(rename = "is_closed")]
    pub done_while_halted: bool,
    /// When it was started by force: the freezes of that time do not keep its hosts.
    pub forced: Option<Timestamp>,
    /// When an operator last started it.
    #[serde(default)]
    pub(crate) started_by_hand: Option<Timestamp>,
    /// A rollback without the cap.
    pub at_once: bool,
    /// What there is to see of it: a digest of its policy.
    #[serde(default)]
    pub digest: u64,
    /// What was seen when its gate's approval was given: it is of that, and of nothing else.
    #[serde(default, rename = "approved_digest")]
    pub approved: Option<u64>,
    /// What its external check said last.
    pub gate: Option<GateAnswer>,
    /// Its rate.
    pub rate: Option<RateAccount>,
    /// Hosts let go so far.
    pub let_go_count: u64,
    /// Its hosts by state.
    pub tally: Tally,
    /// Why it is as it is.
    pub reason: WaitReason,
}

/// A rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// 128 bits of the seed: with them nobody can choose to be first.
    pub id: u128,
    /// Counted from 1; an updater disregards a lower one than it has seen.
    pub number: u64,
    /// The version before.
    pub start: Version,
    /// It is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_block: Option<StartBlock>,
    /// The version after; of a directive the highest of its targets.
    pub target: Version,
    /// When its directive lets hosts go at all; `None`: it is of no directive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directive: Option<DirectiveTerms>,
    /// By what its groups' targets are chosen.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub rules: TargetRules,
    /// How soon.
    pub schedule: Schedule,
    /// The lower of the modes of policy and version.
    pub mode: Mode,
    /// How groups follow one another.
    pub strategy: Strategy,
    /// How long windows of [`Strategy::TimeBased`] are.
    pub window: SignedDuration,
    /// The regular groups roll out a critical version: their windows do not count.
    pub without_windows: bool,
    /// Where hosts go that belong to no group.
    pub unassigned: Unassigned,
    /// RFD 0169's schedule without groups.
    pub ungrouped: Option<Ungrouped>,
    /// The groups; of an immediate rollout one without a name, with everybody in it.
    pub groups: Vec<GroupStatus>,
    /// When it began.
    pub start_time: Timestamp,
    /// When it was last stepped; no step is before another.
    pub last_step: Timestamp,
    /// [`crate::rollout_state::RolloutState::clock`], as of the last step.
    #[serde(default)]
    pub clock: ListeningClock,
}

impl Rollout {
    /// The version that hosts of `group` get by this choice; `None`: nothing.
    pub fn target_of<'a>(&'a self, group: &'a GroupStatus, choice: Choice) -> Option<&'a Version> {
        if group.policy.targets.is_empty() {
            return Some(&self.target);
        }
        group.policy.target_of(choice).map(|target| &target.version)
    }

    /// The version that hosts of `group` run before their turn, and go back to.
    pub fn start_of<'a>(&'a self, group: &'a GroupStatus) -> &'a Version {
        group.policy.start.as_ref().unwrap_or(&self.start)
    }

    /// Whether `group` has a version to go back to: before a first directive was done only its entry can name one.
    pub(crate) fn has_way_back(&self, group: &GroupStatus) -> bool {
        let is_target = |version: &Version| {
            group.policy.targets.iter().all(|target| target.version.precedes(version) || target.version == *version)
        };
        self.directive.is_none()
            || group.policy.start.is_some()
            || !(self.start == self.target || is_target(&self.start))
    }

    /// Why nobody goes back to the start version of `group`, nor is given it anew.
    pub(crate) fn start_block_of(&self, group: &GroupStatus) -> Option<StartBlock> {
        let Some(start) = &group.policy.start else { return self.start_block.clone() };
        let reason = self.rules.blocks.get(&start.to_string())?.clone();
        Some(StartBlock { reason, instead: None })
    }

    /// Tells what a directive's groups mean from what others mean; 0: it is of no directive.
    pub(crate) fn digest_of_directive(&self) -> u64 {
        if self.directive.is_none() {
            return 0;
        }
        let groups: Vec<&GroupPolicy> = self.groups.iter().map(|group| &group.policy).collect();
        order::digest_of(&(groups, &self.rules, &self.target)).max(1)
    }

    /// The versions of groups that have their own.
    pub(crate) fn versions_of_groups(&self) -> impl Iterator<Item = &Version> {
        self.groups.iter().flat_map(|group| group.policy.versions())
    }

    /// What nobody may be told at all for, whatever groups say; and until when.
    pub(crate) fn stop(&self, now: Timestamp) -> Option<(Why, Option<Timestamp>)> {
        let terms = match self.mode {
            Mode::Disabled => return Some((Why::Disabled, None)),
            Mode::Suspended => return Some((Why::Suspended, None)),
            Mode::Enabled => self.directive.as_ref()?,
        };
        if terms.disabled {
            return Some((Why::DirectiveDisabled, None));
        }
        if terms.not_after.is_some_and(|end| end <= now) {
            return Some((Why::DirectiveOver, None));
        }
        let start = terms.not_before.filter(|start| *start > now)?;
        Some((Why::NotBefore, Some(start)))
    }

    /// Whether the windows of `group` do not count.
    pub(crate) fn is_without_window(&self, group: &GroupStatus) -> bool {
        self.without_windows || group.policy.gate.at_any_time
    }

    /// What `host` gets of the group at `place`, and whether that is to tell it nothing.
    pub(crate) fn choose(&self, host: &Host, place: GroupPlace, names: &NameTable) -> (Choice, bool) {
        let group = self.group(place).filter(|group| !group.policy.targets.is_empty());
        let Some(group) = group else { return (Choice::default(), false) };
        let choice = self.with_chooser(host, group, names, |chooser| chooser.choose(&group.policy));
        let recommends = || group.policy.installer_of(choice) == Some(Installer::Notify);
        (choice, !choice.is_some() || recommends())
    }

    /// Why `host` is told nothing by its group.
    pub fn why_nothing(&self, host: &Host, group: &GroupStatus, names: &NameTable) -> Why {
        if host.choice.is_some() {
            return Why::Recommended;
        }
        self.with_chooser(host, group, names, |chooser| chooser.why_none(&group.policy))
    }

    fn with_chooser<T>(
        &self,
        host: &Host,
        group: &GroupStatus,
        names: &NameTable,
        ask: impl FnOnce(&Chooser<'_>) -> T,
    ) -> T {
        let facts = MembershipFacts::of(host, host.declared, names);
        let version = names.text(host.version).parse::<Version>().ok();
        let under_way = host.last().filter(|last| last.outcome.is_under_way()).map(|last| names.text(last.to));
        ask(&Chooser {
            version: version.as_ref(),
            goes_to: under_way,
            build: facts.build(),
            permits_prerelease: facts.permits_prerelease(group.policy.members.as_ref()),
            rules: &self.rules,
        })
    }

    /// The listening clock at `now`.
    pub fn listening(&self, now: Timestamp) -> Listening<'_> {
        self.clock.at(now)
    }

    /// The state of the whole; `None` where there are no groups, and for an immediate one that is not halted.
    pub fn state(&self) -> Option<State> {
        let has = |state: State| self.groups.iter().any(|group| group.state == state);
        let all = |state: State| self.groups.iter().all(|group| group.state == state);
        if self.groups.is_empty() {
            return None;
        }
        if self.schedule == Schedule::Immediate {
            return has(State::Halted).then_some(State::Halted);
        }
        let of_one = [State::RolledBack, State::Halted].into_iter().find(|state| has(*state));
        let of_all = || [State::Done, State::Unstarted].into_iter().find(|state| all(*state));
        Some(of_one.or_else(of_all).unwrap_or(State::Active))
    }

    /// The index of the group called `name`. An immediate rollout has none.
    pub fn find(&self, name: &str) -> Option<usize> {
        if self.schedule == Schedule::Immediate {
            return None;
        }
        self.groups.iter().position(|group| group.policy.name == name)
    }

    /// The group at `place`.
    pub fn group(&self, place: GroupPlace) -> Option<&GroupStatus> {
        self.groups.get(self.index_of(place)?)
    }

    /// The index of the group at `place`.
    pub(crate) fn index_of(&self, place: GroupPlace) -> Option<usize> {
        match place {
            GroupPlace::Group(index) => Some(usize::from(index)).filter(|index| *index < self.groups.len()),
            GroupPlace::Ungrouped | GroupPlace::Nowhere => None,
        }
    }

    /// Where `host` belongs: by an operator's assignment, else to the first group that matches, else where
    /// [`Unassigned`] says.
    pub(crate) fn place_of(&self, host: &Host, names: &NameTable) -> GroupPlace {
        if !host.assigned.is_none()
            && let Some(place) = self.place_named(names.text(host.assigned))
        {
            return place;
        }
        self.place_by(&MembershipFacts::of(host, host.declared, names))
    }

    /// Where a host belongs of which only its group's name is known.
    pub fn place_of_name(&self, group: &str, names: &NameTable) -> GroupPlace {
        self.place_by(&MembershipFacts::of_name(group, names))
    }

    fn place_by(&self, host: &MembershipFacts<'_>) -> GroupPlace {
        if self.schedule == Schedule::Immediate {
            return index(0);
        }
        if let Some(number) = self.groups.iter().position(|group| group.takes(host)) {
            return index(number);
        }
        if self.ungrouped.is_some() {
            return GroupPlace::Ungrouped;
        }
        self.rest().and_then(|name| self.place_named(name)).unwrap_or(GroupPlace::Nowhere)
    }

    /// Whether a group of it can be sent back by hand.
    pub fn goes_back(&self) -> bool {
        self.takes_commands() && self.start_block.is_none()
    }

    /// The group of hosts that belong to none.
    pub fn rest(&self) -> Option<&String> {
        match &self.unassigned {
            _ if self.ungrouped.is_some() => None,
            Unassigned::Hold => None,
            Unassigned::Last => self.groups.last().map(|last| &last.policy.name),
            Unassigned::Group(name) => Some(name),
        }
    }

    /// Whether a group may take hosts by their names, of which each has its own.
    pub(crate) fn asks_for_hostnames(&self) -> bool {
        let selects = |selector: &Selector| selector.labels.contains_key(HOSTNAME);
        self.selectors().any(selects) || self.expressions().any(|expression| expression.text().contains(HOSTNAME))
    }

    /// Whether a group may take hosts by their labels.
    pub(crate) fn asks_for_labels(&self) -> bool {
        self.selectors().next().is_some() || self.expressions().any(Expression::asks_for_labels)
    }

    fn selectors(&self) -> impl Iterator<Item = &Selector> {
        let members = self.groups.iter().filter_map(|group| group.policy.members.as_ref());
        members.flat_map(|members| &members.selectors)
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let members = self.groups.iter().filter_map(|group| group.policy.members.as_ref());
        let of_selectors = self.selectors().filter_map(|selector| selector.expression.as_ref());
        members.flat_map(|members| [&members.node, &members.instance]).flatten().chain(of_selectors)
    }

    /// Who belongs to which of its groups, of which these are `held`.
    pub(crate) fn membership(&self, held: BTreeSet<String>) -> Membership {
        let policies = self.groups.iter().map(|group| &group.policy);
        let rule = |policy: &GroupPolicy| Rule { name: policy.name.clone(), members: policy.members.clone() };
        Membership { held, groups: policies.map(rule).collect(), rest: self.rest().cloned() }
    }

    /// The place of the group called `name`.
    pub(crate) fn place_named(&self, name: &str) -> Option<GroupPlace> {
        self.find(name).map(index)
    }
}

fn index(number: usize) -> GroupPlace {
    u8::try_from(number).map_or(GroupPlace::Nowhere, GroupPlace::Group)
}

impl GroupStatus {
    pub(crate) fn takes(&self, host: &MembershipFacts<'_>) -> bool {
        host.is_member(&self.policy.name, self.policy.members.as_ref())
    }

    /// A group that has not begun, of a rollout that begins at `now`.
    pub fn new(policy: GroupPolicy, now: Timestamp) -> Self {
        Self {
            policy,
            last_update_time: now,
            last_update_reason: "created".to_owned(),
            retry_for: (1, false),
            attempt: 1,
            attempt_began: Moment::of(now),
            reason: WaitReason { why: Why::OutsideWindow, since: now, until: None },
            ..Self::default()
        }
    }

    /// The freeze that keeps its hosts, unless it was started by force while that lasted. None keeps hosts from going back.
    pub(crate) fn blackout(&self, now: Timestamp) -> Option<&Blackout> {
        let is_passed =
            |freeze: &&Blackout| self.state == State::RolledBack || self.forced.is_some_and(|at| freeze.covers(at));
        blackout_at(&self.policy.gate.blackout, now).filter(|freeze| !is_passed(freeze))
    }

    /// Whether its hosts are let go by a cursor; else all at once.
    pub(crate) fn is_capped(&self) -> bool {
        !self.at_once && (self.policy.pace.max_in_flight.get() < 100 || self.policy.pace.rate.is_some())
    }

    /// Whether what there is to see of it was approved.
    pub fn is_approved(&self) -> bool {
        self.approved == Some(self.digest)
    }

    /// The digest of what is approved in the rollout with this id, as people and programs say it.
    pub fn shown_digest(&self, rollout: u128) -> String {
        format!("{:032x}", rollout ^ u128::from(self.digest))
    }

    /// The role whose approval it needs, and has not got. Nobody is asked whether hosts may go back.
    pub(crate) fn unapproved(&self) -> Option<&str> {
        self.policy.gate.approval.as_deref().filter(|_| !self.is_approved())
    }

    /// The same of one whose hosts are told already: its policy was changed after the approval.
    pub(crate) fn is_changed(&self) -> Option<&str> {
        self.unapproved().filter(|_| self.state.has_started())
    }

    /// Whether hosts of it may be allowed to update, or were until it was stopped.
    pub(crate) fn has_begun(&self) -> bool {
        self.state.has_started() || self.halt.as_ref().is_some_and(|halt| halt.from.has_started())
    }

    /// Only a person lets it go on.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, State::Halted | State::RolledBack)
    }

    /// Begins another round of those that failed or timed out, where an attempt or the end of the group has come since the last.
    pub(crate) fn begin_retries(&mut self, arrivals: u64) {
        let now = (self.attempt, self.state == State::Done);
        if self.retry_for != now {
            (self.retry_for, self.retry_to, self.retry_cursor) = (now, arrivals, None);
        }
    }

    /// Enters `state` for `reason`. The start is that of the last entry into canary or active.
    pub fn enter(&mut self, state: State, reason: &str, now: Timestamp) {
        if self.state != state && matches!(state, State::Canary | State::Active) {
            self.start_time = Some(now);
        }
        if self.state != state && state == State::Done {
            self.done_time = Some(now);
        }
        self.note(state, reason, now);
    }

    /// Keeps state and reason, and the time when one of them last changed.
    pub fn note(&mut self, state: State, reason: &str, now: Timestamp) {
        if self.state != state || self.last_update_reason != reason {
            self.last_update_time = now;
            reason.clone_into(&mut self.last_update_reason);
        }
        self.state = state;
    }

    /// It goes the other way from `now` on, or the same way anew. Whoever was let go so far keeps its slot until it is heard of.
    pub(crate) fn turn_round(&mut self, now: Timestamp) {
        let (end, state) = self.halt.as_ref().map_or((now, self.state), |halt| (halt.at, halt.from));
        if state == State::Unstarted || self.done_while_halted {
            return;
        }
        let (pace, proof) = (self.policy.pace.clone(), self.policy.proof.clone());
        let policy = GroupPolicy { pace, proof, ..GroupPolicy::default() };
        let (halt, courses, reason) = (None, Vec::new(), WaitReason::default());
        let group = Self { policy, state, halt, courses, reason, tally: Tally::default(), ..self.clone() };
        self.courses.push(FormerCourse { end: Moment::of(end), group });
        self.courses.drain(..self.courses.len().saturating_sub(MOST_COURSES));
    }

    /// Begins to let hosts go anew, with the same members of each pass.
    pub(crate) fn restart_passes(&mut self) {
        (self.cursor, self.complete_to) = (None, 0);
        (self.unknown.cursor, self.unknown.complete_to) = (None, 0);
    }

    /// The pass that `host` is let go by.
    pub(crate) fn pass_of(&self, host: &Host) -> RolloutPass {
        if host.enrolled.is_some() { self.pass() } else { self.unknown }
    }

    /// That of its enrolled hosts.
    pub(crate) fn pass(&self) -> RolloutPass {
        RolloutPass { cursor: self.cursor, complete_to: self.complete_to, pass_to: self.pass_to }
    }

    /// Whether the cursor has let `host` go, of those that did not fail before this attempt.
    pub(crate) fn has_passed(&self, host: &Host) -> bool {
        let (arrival, pass) = (host.arrival.get(), self.pass_of(host));
        arrival <= pass.complete_to
            || (arrival <= pass.pass_to && pass.cursor.is_some_and(|cursor| Cursor::of(host) <= cursor))
    }

    /// Whether `host` is a canary that was let go.
    pub(crate) fn is_canary(&self, id: HostId) -> bool {
        self.canaries.iter().any(|canary| canary.host_id == id && canary.let_go)
    }
}
