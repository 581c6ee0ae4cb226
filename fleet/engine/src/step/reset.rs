//! Adopting what is wanted: a new rollout, or new settings of the present one.

use jiff::Timestamp;

use crate::listening::ListeningClock;
use crate::order;
use crate::policy::{Mode, Policy, RolloutTarget, Schedule, Strategy};
use crate::rollout::{GroupStatus, Halt, Rollout, State};
use crate::rollout_state::RolloutState;

impl RolloutState {
    /// Start, target, schedule or strategy changed: another rollout, whatever the present one was doing. Otherwise mode, pace,
    /// proof and freezes act from now on; groups, members, order, windows and canaries with the next rollout.
    pub(super) fn adopt(&mut self, now: Timestamp) {
        let Some(target) = &self.target else {
            self.rollout = None;
            return;
        };
        let absent = Policy::absent();
        let policy = self.policy.as_ref().unwrap_or(&absent);
        let is_same = self.rollout.as_ref().is_some_and(|rollout| rollout.is_of(target, policy.strategy));
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
            rollout.follow(target, policy);
        }
    }
}

impl Rollout {
    fn is_of(&self, target: &RolloutTarget, strategy: Strategy) -> bool {
        (&self.start, &self.target, self.schedule, self.strategy)
            == (&target.start, &target.target, target.schedule, strategy)
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
        let (groups, _) = policy.groups(target.schedule);
        for wanted in groups {
            let Some(group) = self.groups.iter_mut().find(|group| group.policy.name == wanted.name) else { continue };
            let canaries = group.policy.pace.canaries;
            group.policy.pace = wanted.pace;
            group.policy.pace.canaries = canaries;
            group.policy.proof = wanted.proof;
            group.policy.gate.blackout = wanted.gate.blackout;
        }
        for group in self.groups.iter_mut().filter(|group| group.policy.gate.approval.is_some()) {
            group.digest = order::digest_of(&group.policy);
        }
    }
}
