//! Adopting what is wanted: a new rollout, or new settings of the present one.

use jiff::Timestamp;
use protocol::Version;

use crate::listening::ListeningClock;
use crate::order;
use crate::policy::{GroupPolicy, Mode, Policy, RolloutPace, RolloutTarget, Schedule, Strategy};
use crate::rollout::{GroupStatus, Halt, Rollout, State};
use crate::rollout_state::RolloutState;
use crate::selection::TargetRules;

impl RolloutState {
    /// Whether `version`, or another build of it, halted here.
    pub fn has_halted(&self, version: &Version) -> bool {
        has_halted(&self.halted, version)
    }

    /// Start, target, schedule or strategy changed: another rollout, whatever the present one was doing. Otherwise mode, pace,
    /// proof and freezes act from now on; groups, members, order, windows and canaries with the next rollout.
    pub(crate) fn adopt(&mut self, now: Timestamp) {
        let Some(target) = &self.target else {
            self.rollout = None;
            return;
        };
        let absent = Policy::absent();
        let policy = self.policy.as_ref().unwrap_or(&absent);
        let is_directive = policy.directive.is_some();
        let is_same = self.rollout.as_ref().is_some_and(|rollout| {
            rollout.directive.is_some() == is_directive && (is_directive || rollout.is_of(target, policy.strategy))
        });
        if !is_same {
            self.number = self.given() + 1;
            let id = order::rollout_id(self.seed, self.number, &target.start.to_string(), &target.target.to_string());
            let mut rollout = Rollout::new(id, self.number, target, policy, now);
            if let Some(before) = self.rollout.take().filter(|before| before.is_of(target, before.strategy)) {
                rollout.stay_stopped(&before, now);
            }
            self.rollout = Some(rollout);
            self.holds.released.clear();
        }
        if let Some(rollout) = &mut self.rollout {
            if is_directive {
                rollout.amend(target, policy, &self.halted, now);
                rollout.rules.clone_from(&self.rules);
            }
            rollout.follow(target, policy);
        }
    }
}

/// Whether `wanted` has a version for which a group of the policy `was` is stopped.
fn shares_stopped(was: &GroupPolicy, wanted: &GroupPolicy, halted: &[Version]) -> bool {
    let versions = || was.targets.iter().map(|target| &target.version);
    let has_failed = |version: &Version| has_halted(halted, version);
    let some_failed = versions().any(has_failed);
    let mut stopped = versions().filter(|version| !some_failed || has_failed(version));
    stopped.any(|version| wanted.targets.iter().any(|target| is_same(&target.version, version)))
}

/// Whether `version` is one of those that `halted`.
fn has_halted(halted: &[Version], version: &Version) -> bool {
    halted.iter().any(|halted| is_same(halted, version))
}

/// Another build of a version is the version.
fn is_same(one: &Version, other: &Version) -> bool {
    !one.precedes(other) && !other.precedes(one)
}

impl Rollout {
    fn is_of(&self, target: &RolloutTarget, strategy: Strategy) -> bool {
        (&self.start, &self.target, self.schedule, self.strategy)
            == (&target.start, &target.target, target.schedule, strategy)
    }

    /// One of a directive that nobody carries out, by which its targets can be chosen; `None`: it has none.
    pub(crate) fn imagined(
        newest: Option<&Version>,
        policy: &Policy,
        rules: TargetRules,
        now: Timestamp,
    ) -> Option<Self> {
        let (start, target) = (newest?.clone(), newest?.clone());
        let target = RolloutTarget { start, target, schedule: Schedule::Regular, mode: Mode::Enabled };
        Some(Self { rules, ..Self::new(0, 0, &target, policy, now) })
    }

    fn new(id: u128, number: u64, target: &RolloutTarget, policy: &Policy, now: Timestamp) -> Self {
        let (groups, without_windows) = policy.groups(target.schedule);
        let mut groups: Vec<GroupStatus> = groups.into_iter().map(|group| GroupStatus::new(group, now)).collect();
        if target.schedule == Schedule::Immediate {
            for everybody in &mut groups {
                everybody.state = State::Active;
                everybody.start_time = Some(now);
                everybody.counted_to = u64::MAX;
            }
        }
        Self {
            id,
            number,
            start: target.start.clone(),
            start_block: None,
            target: target.target.clone(),
            directive: policy.directive.clone(),
            rules: TargetRules::default(),
            schedule: target.schedule,
            mode: Mode::Disabled,
            strategy: policy.strategy,
            window: policy.window,
            without_windows,
            unassigned: policy.unassigned.clone(),
            ungrouped: policy.ungrouped.clone(),
            groups,
            start_time: now,
            last_step: now,
            clock: ListeningClock::default(),
        }
    }

    /// Takes the entries of a directive: one that means the same keeps its state, halted or done, whoever writes the directive anew.
    /// Another one begins, as an attempt that hosts have not seen: the rollout's number stays, by which they disregard older words.
    /// `halted`: versions that failed here.
    fn amend(&mut self, target: &RolloutTarget, policy: &Policy, halted: &[Version], now: Timestamp) {
        self.target.clone_from(&target.target);
        let (wanted, before) = (&policy.regular, &self.groups);
        let is_same = |group: &GroupStatus, wanted: &GroupPolicy| group.policy.is_as(wanted);
        if before.len() == wanted.len() && before.iter().zip(wanted).all(|(group, wanted)| is_same(group, wanted)) {
            return;
        }
        let attempt = before.iter().map(|group| group.attempt).max().unwrap_or_default();
        let attempts_lost = before.iter().any(|group| group.attempts_lost);
        let mut before = std::mem::take(&mut self.groups);
        let stopped: Vec<GroupStatus> = before.iter().filter(|group| group.is_stopped()).cloned().collect();
        let kept: Vec<Option<GroupStatus>> = wanted
            .iter()
            .map(|wanted| before.iter().position(|group| is_same(group, wanted)).map(|at| before.remove(at)))
            .collect();
        let begin = |wanted: &GroupPolicy| {
            let mut group = GroupStatus { attempt, attempts_lost, ..GroupStatus::new(wanted.clone(), now) };
            group.try_again(now);
            // A stop is of the versions that failed, or of all where none did: no other name, selector or target ends it.
            let is_of_these = |was: &&GroupStatus| shares_stopped(&was.policy, wanted, halted);
            match stopped.iter().find(is_of_these).map(|was| (was, was.halt.as_ref())) {
                Some((was, None)) => group.roll_back(&was.last_update_reason, was.at_once, now),
                Some((_, Some(halt))) if !halt.rule.is_of_hold() => {
                    group.stop(Halt { from: group.state, ..halt.clone() });
                }
                _ => {}
            }
            group
        };
        self.groups =
            kept.into_iter().zip(wanted).map(|(kept, wanted)| kept.unwrap_or_else(|| begin(wanted))).collect();
    }

    /// A change of the policy alone ends no halt: of a group that is not there any more it stops all of them. Holds stop by
    /// themselves. Nor does it end a rollback: else the group would begin the same version again.
    fn stay_stopped(&mut self, before: &Self, now: Timestamp) {
        for group in &mut self.groups {
            let goes_back = |was: &&GroupStatus| was.policy.name == group.policy.name && was.state == State::RolledBack;
            if let Some(was) = before.groups.iter().find(goes_back) {
                group.roll_back(&was.last_update_reason, was.at_once, now);
            }
        }
        for (name, halt) in before.groups.iter().filter_map(|group| Some((&group.policy.name, group.halt.as_ref()?))) {
            if halt.rule.is_of_hold() {
                continue;
            }
            let is_there = self.groups.iter().any(|group| group.policy.name == *name);
            for group in self.groups.iter_mut().filter(|group| !is_there || group.policy.name == *name) {
                let from = group.halt.as_ref().map_or(group.state, |halt| halt.from);
                group.stop(Halt { from, ..halt.clone() });
            }
        }
    }

    /// What acts with the next step.
    fn follow(&mut self, target: &RolloutTarget, policy: &Policy) {
        self.mode = policy.mode.min(target.mode);
        self.window = policy.window;
        self.directive.clone_from(&policy.directive);
        let (groups, _) = policy.groups(target.schedule);
        for wanted in groups {
            let Some(group) = self.groups.iter_mut().find(|group| group.policy.name == wanted.name) else { continue };
            group.policy.pace = RolloutPace { canaries: group.policy.pace.canaries, ..wanted.pace };
            group.policy.proof = wanted.proof;
            group.policy.gate.blackout = wanted.gate.blackout;
        }
        for group in self.groups.iter_mut().filter(|group| group.policy.gate.approval.is_some()) {
            group.digest = order::digest_of(&group.policy);
        }
    }
}
