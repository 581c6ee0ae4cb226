//! One step of a rollout (FLEET §3): adopt what is wanted, count, open gates, let hosts go, halt.

pub(crate) mod canaries;
pub(crate) mod gate;
mod halt;
pub(crate) mod pace;
pub(crate) mod reasons;
mod reset;
mod strategy;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use jiff::Timestamp;
use protocol::Version;

use crate::counts::Tally;
use crate::fleet::{Fleet, ReportedCounts};
use crate::host::GroupPlace;
use crate::moment::Moment;
use crate::reason::HaltRule;
use crate::rollout::{GroupStatus, Rollout, State};
use crate::rollout_state::{Holds, RolloutState};
use crate::selection::Choice;
use crate::tally::TallyContext;

/// Versions that halted here, of which is known that they did.
const HALTED: usize = 100;

impl RolloutState {
    /// Whether places are free since the last step that hosts kept which were let go before their group turned round.
    pub fn frees_places(&self, now: Timestamp) -> bool {
        let (last, now) = (self.last_step.map(Moment::of), Moment::of(now));
        let courses = self.rollout.iter().flat_map(|rollout| &rollout.groups).flat_map(|group| &group.courses);
        courses.map(TallyContext::known_at).any(|known| known <= now && last.is_none_or(|last| last < known))
    }

    /// One step at `now`, which is never before the last one. The same state, fleet and time give the same state.
    pub fn step(&mut self, fleet: &mut Fleet, now: Timestamp) {
        let now = self.last_step.map_or(now, |last| last.max(now));
        self.clock.step(fleet.heard(), self.last_step.replace(now), fleet.terms.interval, now);
        self.note_members();
        self.adopt(now);
        self.note_members();
        let Some(mut rollout) = self.rollout.take() else { return };
        self.arrange_for(&rollout, fleet, now);
        rollout.last_step = now;
        rollout.clock.clone_from(&self.clock);
        rollout.start_block = self.block_of_start(&rollout);
        rollout.begin_retries(fleet);
        rollout.end_courses(now);
        rollout.count(fleet, now);
        let mut counted = rollout.groups.clone();
        rollout.hold(&self.holds, now);
        if self.blocked.is_some() {
            rollout.block(now);
        }
        rollout.halt(&self.holds, fleet, now);
        if rollout.stop(now).is_none() {
            strategy::pass(&mut rollout, fleet, now);
            rollout.begin_retries(fleet);
            rollout.recount(&mut counted, fleet, now);
            pace::let_go(&mut rollout, fleet, now);
        }
        rollout.recount(&mut counted, fleet, now);
        reasons::give(&mut rollout, now);
        self.remember(&rollout, fleet, now);
        self.rollout = Some(rollout);
    }

    /// Counts the hosts of each group at `now`, without a step.
    pub fn count(&mut self, fleet: &Fleet, now: Timestamp) {
        if let Some(rollout) = &mut self.rollout {
            rollout.count(fleet, now);
        }
    }

    /// Keeps the last target whose rollout was done; one that is taken back was not.
    fn remember(&mut self, rollout: &Rollout, fleet: &Fleet, now: Timestamp) {
        // One that was held before anybody got it says nothing of the version.
        let has_begun = |group: &&GroupStatus| group.halt.as_ref().is_some_and(|halt| halt.from.has_started());
        let halted =
            rollout.groups.iter().filter(has_begun).flat_map(|group| rollout.halted_versions(group, fleet, now));
        for version in halted.collect::<Vec<Version>>() {
            if self.halted.contains(&version) {
                continue;
            }
            self.halted.push(version);
            let surplus = self.halted.len().saturating_sub(HALTED);
            self.halted.drain(..surplus);
        }
        let is_last = self.last_done.as_ref() == Some(&rollout.target);
        match rollout.state() {
            Some(State::Done) if !is_last => {
                self.done_before = self.last_done.replace(rollout.target.clone());
            }
            Some(State::RolledBack) if is_last => self.last_done = self.done_before.take(),
            _ => {}
        }
    }
}

impl Rollout {
    fn begin_retries(&mut self, fleet: &Fleet) {
        self.groups.iter_mut().for_each(|group| group.begin_retries(fleet.arrivals()));
    }

    fn end_courses(&mut self, now: Timestamp) {
        let listening = self.clock.at(now);
        for group in &mut self.groups {
            group.courses.retain(|course| !TallyContext::is_over(course, listening));
        }
    }

    /// The versions for which `group` is halted: of several targets those that failed.
    fn halted_versions(&self, group: &GroupStatus, fleet: &Fleet, now: Timestamp) -> Vec<Version> {
        let [_, _, ..] = group.policy.targets.as_slice() else {
            return self.target_of(group, Choice::default()).cloned().into_iter().collect();
        };
        let look = TallyContext::new(self, group, fleet, now);
        let index = self.find(&group.policy.name).unwrap_or(usize::MAX);
        let failed = fleet.members(index).filter(|host| look.has_failed(host)).map(|host| host.choice);
        let choices: HashSet<Choice> = failed.collect();
        choices.into_iter().filter_map(|choice| self.target_of(group, choice).cloned()).collect()
    }

    /// Counts the hosts of each group.
    pub(crate) fn count(&mut self, fleet: &Fleet, now: Timestamp) {
        self.count_those(&vec![true; self.groups.len()], fleet, now);
    }

    /// Counts the hosts of those groups that are not as they were when they were `counted`: the states of the others' hosts
    /// are what they were.
    fn recount(&mut self, counted: &mut Vec<GroupStatus>, fleet: &Fleet, now: Timestamp) {
        let has_changed: Vec<bool> =
            self.groups.iter().zip(counted.iter()).map(|(group, then)| group != then).collect();
        if has_changed.contains(&true) {
            self.count_those(&has_changed, fleet, now);
            counted.clone_from(&self.groups);
        }
    }

    fn count_those(&mut self, which: &[bool], fleet: &Fleet, now: Timestamp) {
        let look = |(group, is_wanted): (_, &bool)| is_wanted.then(|| TallyContext::new(self, group, fleet, now));
        let mut tallies: Vec<Option<(TallyContext<'_>, Tally)>> =
            self.groups.iter().zip(which).map(look).map(|look| Some((look?, Tally::default()))).collect();
        for host in fleet.hosts() {
            let GroupPlace::Group(index) = host.place else { continue };
            if let Some(Some((look, tally))) = tallies.get_mut(usize::from(index)) {
                tally.add(look, host);
            }
        }
        let tallies: Vec<Option<Tally>> = tallies.into_iter().map(|found| found.map(|(_, tally)| tally)).collect();
        let elsewhere = self.counted_elsewhere(fleet.counts(now));
        for ((group, tally), counted) in self.groups.iter_mut().zip(tallies).zip(elsewhere) {
            let Some(mut tally) = tally else { continue };
            tally.judge();
            let (present, up_to_date) = match counted {
                Some(counts) => {
                    // Who of those has left is not known.
                    tally.gone = 0;
                    (tally.proof.present, tally.proof.up_to_date) = counts;
                    counts
                }
                None => (tally.present, tally.up_to_date),
            };
            group.was_known |= tally.known > 0 || present > 0;
            (group.present_count, group.up_to_date_count) = (present, up_to_date);
            group.let_go_count = group.let_go_count.max(tally.ever_let_go);
            group.tally = tally;
        }
    }

    /// Present and up-to-date hosts of each group as another server counts them; the last group has all that have none.
    fn counted_elsewhere(&self, counts: Option<&ReportedCounts>) -> Vec<Option<(u64, u64)>> {
        let mut found = vec![None; self.groups.len()];
        let target = self.target.to_string();
        for (name, versions) in counts.into_iter().flatten() {
            let index = self.find(name).or(self.groups.len().checked_sub(1));
            let Some(slot) = index.and_then(|index| found.get_mut(index)) else { continue };
            let (present, up_to_date) = slot.get_or_insert((0_u64, 0_u64));
            *present += versions.values().sum::<u64>();
            let on_target = |(version, _): &(&String, &u64)| version.strip_prefix('v').unwrap_or(version) == target;
            *up_to_date += versions.iter().filter(on_target).map(|(_, count)| *count).sum::<u64>();
        }
        found
    }

    /// Halts the groups that are held. A closed one tells nobody anyway, and others may wait for it.
    fn hold(&mut self, holds: &Holds, now: Timestamp) {
        for group in &mut self.groups {
            // A rollback that was commanded after the hold goes on.
            if holds.has(&group.policy.name) && group.state != State::RolledBack {
                group.halt_by_decision(holds.rule_of(&group.policy.name), now);
            }
        }
    }

    /// Halts every group: nobody new gets a release that is blocked. Groups that go back do so: who runs it may leave it.
    fn block(&mut self, now: Timestamp) {
        for group in self.groups.iter_mut().filter(|group| group.state != State::RolledBack) {
            group.halt_by_decision(HaltRule::ReleaseBlocked, now);
        }
    }
}
