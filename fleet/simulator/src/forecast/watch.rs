//! Watches a rollout: curves, halts, and whether it is over.

use fleet_engine::policy::Schedule;
use fleet_engine::reason::HaltRule;
use fleet_engine::rollout::{GroupStatus, Rollout, State};
use jiff::Timestamp;

use super::curve::{CurveSample, GroupCurve, ServerLoad};
use super::hosts::ForecastHost;
use super::{Group, Halted, Outcome, seconds};

/// A group, as the simulation sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct GroupWatch {
    pub(super) hosts: u64,
    pub(super) told: u64,
    pub(super) on_target: u64,
    pub(super) broken: u64,
    pub(super) lost: u64,
    /// Since the last step.
    pub(super) new_failures: u64,
    most_in_flight: u64,
    start: Option<Timestamp>,
    halt: Option<Halted>,
    /// By the engine.
    failed: u64,
    timed_out: u64,
    state: Option<State>,
    curve: GroupCurve,
}

/// All groups; the last one has the hosts that belong to none.
#[derive(Default)]
pub(super) struct GroupWatches {
    begin: Timestamp,
    pub(super) groups: Vec<GroupWatch>,
    pub(super) load: ServerLoad,
    /// When something last changed.
    pub(super) changed: Timestamp,
    /// The time is over.
    pub(super) is_late: bool,
    is_immediate: bool,
    /// Hosts without a group have a schedule.
    is_ungrouped: bool,
    pub(super) decided: Option<Timestamp>,
}

impl GroupWatches {
    pub(super) fn new(begin: Timestamp, load: ServerLoad) -> Self {
        Self { begin, load, changed: begin, ..Self::default() }
    }

    /// Takes the groups of the rollout, and their hosts.
    pub(super) fn begin(&mut self, rollout: &Rollout, members: &[ForecastHost], is_ungrouped: bool) {
        self.is_immediate = rollout.schedule == Schedule::Immediate;
        self.is_ungrouped = is_ungrouped;
        self.groups = vec![GroupWatch::default(); rollout.groups.len() + 1];
        for member in members {
            self.of(member.group, |watched| watched.hosts += 1);
        }
    }

    /// Counts something of a group.
    pub(super) fn of(&mut self, group: usize, count: impl FnOnce(&mut GroupWatch)) {
        if let Some(watched) = self.groups.get_mut(group) {
            count(watched);
        }
    }

    /// Whether the answer to a host's question can be of use.
    pub(super) fn wants(&self, group: usize, on_target: bool) -> bool {
        match self.groups.get(group).and_then(|watched| watched.state) {
            Some(State::Halted) => false,
            Some(State::Done) => !on_target,
            Some(_) => true,
            None => self.is_ungrouped && !on_target,
        }
    }

    /// Hosts without a group may still go by their schedule.
    pub(super) fn waits_without_group(&self) -> bool {
        let is_behind = |watched: &GroupWatch| watched.on_target + watched.broken + watched.lost < watched.hosts;
        self.is_ungrouped && self.groups.last().is_some_and(is_behind)
    }

    /// Whether nothing is left to do in a group of which nobody is on the way.
    pub(super) fn is_over(&self, group: &GroupStatus) -> bool {
        match group.state {
            State::Done => group.tally.pending + group.tally.in_flight() == 0 || group.done_while_halted,
            State::Halted => true,
            State::RolledBack => group.tally.pending == 0,
            State::Active => self.is_immediate && group.tally.pending == 0,
            State::Unstarted | State::Canary => false,
        }
    }

    /// Sees what a step did.
    pub(super) fn look(&mut self, rollout: &Rollout, at: Timestamp) {
        let since = seconds(self.begin, at);
        let hit: u64 = self.groups.iter().map(|watched| watched.broken + watched.lost).sum();
        let mut changed = false;
        for (watched, group) in self.groups.iter_mut().zip(&rollout.groups) {
            changed |= watched.look(group, since, hit, at);
        }
        // Those without a group: what the simulation itself knows of them.
        if let Some(last) = self.groups.last_mut().filter(|last| last.hosts > 0) {
            let before = last.curve.samples().len();
            let failed = last.broken + last.lost;
            last.curve.add(CurveSample { at: since, let_go: last.told, updated: last.on_target, failed });
            changed |= last.curve.samples().len() != before;
        }
        if changed {
            self.changed = at;
        }
        let is_decided = self.groups.iter().any(|watched| watched.halt.is_some())
            || rollout.state() == Some(State::Done)
            || (self.is_immediate && rollout.groups.iter().all(|group| group.tally.in_flight() == 0));
        if is_decided && since > 0 {
            self.decided = self.decided.or(Some(at));
        }
    }

    /// What became of it, and of its groups.
    pub(super) fn end(&self, rollout: Option<&Rollout>) -> (Outcome, Vec<Group>) {
        let statuses = rollout.map(|rollout| rollout.groups.as_slice()).unwrap_or_default();
        let mut groups: Vec<Group> =
            self.groups.iter().zip(statuses).map(|(watched, group)| watched.group(group, self.is_immediate)).collect();
        let outcome = self.outcome(rollout, &groups);
        let without = self.groups.last().filter(|last| last.hosts > 0);
        groups.extend(without.map(|without| without.without_group(self.is_ungrouped)));
        (outcome, groups)
    }

    fn outcome(&self, rollout: Option<&Rollout>, groups: &[Group]) -> Outcome {
        let halted = || groups.iter().filter_map(|group| group.halt.as_ref());
        if halted().any(|halt| halt.goes_back) {
            return Outcome::RolledBack;
        }
        if halted().next().is_some() {
            return Outcome::Halted;
        }
        let is_done = rollout.is_some_and(|rollout| {
            rollout.state() == Some(State::Done)
                || (self.is_immediate && rollout.groups.iter().all(|group| self.is_over(group)))
        });
        match (is_done, self.is_late) {
            (true, _) => Outcome::Done,
            (false, true) => Outcome::Unfinished,
            (false, false) => Outcome::Stuck,
        }
    }
}

impl GroupWatch {
    /// Sees what a step did to the group; whether something changed.
    fn look(&mut self, group: &GroupStatus, since: u64, hit: u64, at: Timestamp) -> bool {
        let tally = &group.tally;
        self.new_failures = 0;
        self.most_in_flight = self.most_in_flight.max(tally.in_flight());
        self.start = self.start.or(group.start_time);
        let is_back = group.state == State::RolledBack;
        if !is_back {
            (self.failed, self.timed_out) = (tally.failed + tally.timed_out, tally.timed_out);
        }
        if self.halt.is_none() {
            self.halt = halt(group, self.broken, hit, at);
        }
        let before = self.curve.samples().len();
        let let_go = group.let_go_count.max(self.told);
        self.curve.add(CurveSample { at: since, let_go, updated: self.on_target, failed: self.failed });
        let has_moved = self.state.replace(group.state) != Some(group.state);
        has_moved || self.curve.samples().len() != before
    }

    fn group(&self, group: &GroupStatus, is_immediate: bool) -> Group {
        let pace = &group.policy.pace;
        let counted = if group.tally.counted == 0 { self.hosts } else { group.tally.counted };
        Group {
            name: if is_immediate { "everybody".to_owned() } else { group.policy.name.clone() },
            done: group.done_time.filter(|_| group.state == State::Done),
            canaries: pace.canaries,
            cap: (pace.max_in_flight.get() < 100).then(|| pace.max_in_flight.cap(counted)),
            ..self.without_name(group.state, &fleet_wire::reason::sentence(&group.reason.why))
        }
    }

    fn without_group(&self, has_schedule: bool) -> Group {
        let state = if self.on_target == self.hosts { State::Done } else { State::Unstarted };
        let why = if has_schedule {
            "by the schedule without groups"
        } else {
            "belongs to no group: it is not allowed to update"
        };
        self.without_name(state, why)
    }

    /// What is known of it without the engine's words; `why` it is in `state`, if it is not done.
    fn without_name(&self, state: State, why: &str) -> Group {
        Group {
            name: String::new(),
            hosts: self.hosts,
            state,
            start: self.start,
            done: None,
            halt: self.halt.clone(),
            why: if state == State::Done { String::new() } else { why.to_owned() },
            canaries: 0,
            cap: None,
            most_in_flight: self.most_in_flight,
            told: self.told,
            updated: self.on_target,
            broken: self.broken,
            lost: self.lost,
            timed_out: self.timed_out,
            curve: self.curve.clone(),
        }
    }
}

/// The halt of a group, where it has one; or the rule by which it goes back.
fn halt(group: &GroupStatus, broken: u64, hit: u64, at: Timestamp) -> Option<Halted> {
    if let Some(halt) = &group.halt {
        return Some(Halted { at, rule: halt.rule, count: halt.count, of: halt.of, hit, goes_back: false });
    }
    let rules = [HaltRule::FailedThreshold, HaltRule::CanaryFailed, HaltRule::SoakFailed];
    let rule = rules.into_iter().find(|rule| rule.name() == group.last_update_reason)?;
    let is_back = group.state == State::RolledBack;
    is_back.then_some(Halted { at, rule, count: broken, of: group.tally.counted, hit, goes_back: true })
}
