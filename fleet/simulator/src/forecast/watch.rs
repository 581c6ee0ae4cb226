//! Watches a rollout: curves, halts, and whether it is over.

use fleet_engine::policy::Schedule;
use fleet_engine::reason::HaltRule;
use fleet_engine::rollout::{GroupStatus, Rollout, State};
use jiff::Timestamp;

use super::curve::{CurveSample, ServerLoad};
use super::hosts::ForecastHost;
use super::{Group, Halted, Outcome, seconds};

/// A group, as the simulation sees it.
#[derive(Debug, Clone, Default)]
pub(super) struct GroupWatch {
    /// What became of it so far.
    pub(super) seen: Group,
    /// Since the last step.
    pub(super) new_failures: u64,
    /// By the engine.
    failed: u64,
    state: Option<State>,
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
            self.of(member.group, |watched| watched.seen.hosts += 1);
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
        let is_behind = |watched: &GroupWatch| watched.seen.updated + watched.seen.hit() < watched.seen.hosts;
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
        let hit: u64 = self.groups.iter().map(|watched| watched.seen.hit()).sum();
        let mut changed = false;
        for (watched, group) in self.groups.iter_mut().zip(&rollout.groups) {
            changed |= watched.look(group, since, hit, at);
        }
        // Those without a group: what the simulation itself knows of them.
        if let Some(GroupWatch { seen: last, .. }) = self.groups.last_mut().filter(|last| last.seen.hosts > 0) {
            let (let_go, updated, failed) = (last.told, last.updated, last.hit());
            changed |= last.curve.add(CurveSample { at: since, let_go, updated, failed });
        }
        if changed {
            self.changed = at;
        }
        let is_decided = self.groups.iter().any(|watched| watched.seen.halt.is_some())
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
        let without = self.groups.last().filter(|last| last.seen.hosts > 0);
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
        let (tally, seen) = (&group.tally, &mut self.seen);
        self.new_failures = 0;
        seen.most_in_flight = seen.most_in_flight.max(tally.in_flight());
        seen.start = seen.start.or(group.start_time);
        let is_back = group.state == State::RolledBack;
        if !is_back {
            (self.failed, seen.timed_out) = (tally.failed + tally.timed_out, tally.timed_out);
        }
        if seen.halt.is_none() {
            seen.halt = halt(group, seen.broken, hit, at);
        }
        let let_go = group.let_go_count.max(seen.told);
        let is_news = seen.curve.add(CurveSample { at: since, let_go, updated: seen.updated, failed: self.failed });
        let has_moved = self.state.replace(group.state) != Some(group.state);
        has_moved || is_news
    }

    fn group(&self, group: &GroupStatus, is_immediate: bool) -> Group {
        let pace = &group.policy.pace;
        let counted = if group.tally.counted == 0 { self.seen.hosts } else { group.tally.counted };
        Group {
            name: if is_immediate { "everybody".to_owned() } else { group.policy.name.clone() },
            done: group.done_time.filter(|_| group.state == State::Done),
            canaries: pace.canaries,
            cap: (pace.max_in_flight.get() < 100).then(|| pace.max_in_flight.cap(counted)),
            ..self.in_state(group.state, &fleet_wire::reason::sentence(&group.reason.why))
        }
    }

    fn without_group(&self, has_schedule: bool) -> Group {
        let state = if self.seen.updated == self.seen.hosts { State::Done } else { State::Unstarted };
        let why = if has_schedule {
            "by the schedule without groups"
        } else {
            "belongs to no group: it is not allowed to update"
        };
        self.in_state(state, why)
    }

    /// What became of it, which is in `state` and why, if it is not done.
    fn in_state(&self, state: State, why: &str) -> Group {
        let why = if state == State::Done { String::new() } else { why.to_owned() };
        Group { state, why, ..self.seen.clone() }
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
