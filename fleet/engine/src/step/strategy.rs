//! From group to group: the strategies of Managed Updates v2, and RFD 0169's `requires`.

use jiff::Timestamp;

use super::{canaries, gate};
use crate::fleet::Fleet;
use crate::policy::{Schedule, Strategy};
use crate::rollout::{GroupStatus, Rollout, State};

/// Hours after which an empty group is done.
const EMPTY_AFTER: u32 = 1;

/// Every group once, in the order of the list: one that is done lets the next one start in the same pass.
pub(super) fn pass(rollout: &mut Rollout, fleet: &Fleet, now: Timestamp) {
    if rollout.schedule == Schedule::Immediate {
        return;
    }
    for index in 0..rollout.groups.len() {
        let state = rollout.groups.get(index).map(|group| group.state);
        // What began in this very moment is looked at by the next step, as Managed Updates v2 does.
        let is_new = rollout.groups.get(index).is_some_and(|group| group.start_time == Some(now));
        match (state, rollout.strategy) {
            (Some(State::Unstarted), Strategy::HaltOnError | Strategy::Requires) => open(rollout, index, fleet, now),
            (Some(State::Canary), _) if is_new => canaries::choose(rollout, index, fleet, now),
            (Some(State::Canary), _) => prove(rollout, index, fleet, now),
            (Some(State::Active), Strategy::HaltOnError | Strategy::Requires) if !is_new => {
                finish_if_done(rollout, index, now);
            }
            (Some(State::Unstarted | State::Active | State::Done), Strategy::TimeBased) => {
                keep_time(rollout, index, fleet, now)
            }
            _ => {}
        }
    }
}

/// Starts a group whose gate is open.
fn open(rollout: &mut Rollout, index: usize, fleet: &Fleet, now: Timestamp) {
    let closed = gate::closed(rollout, index, now);
    let Some(group) = rollout.groups.get_mut(index) else { return };
    match closed {
        Some(why) => group.note(State::Unstarted, gate::v2_reason(&why), now),
        None => group.start(false, "can_start", fleet, now),
    }
    if group.state == State::Canary {
        canaries::choose(rollout, index, fleet, now);
    }
}

/// A group that waits for its canaries. Where nobody was there when it began, those count who come until they are done; it is done
/// if nobody does.
fn prove(rollout: &mut Rollout, index: usize, fleet: &Fleet, now: Timestamp) {
    let is_old = is_old(rollout, index, now);
    let Some(group) = rollout.groups.get_mut(index) else { return };
    // Nobody was ever in the group, and an hour is over.
    if is_old && group.is_empty() {
        group.enter(State::Done, "update_complete", now);
        return;
    }
    if group.initial_count == 0 {
        group.take_members(fleet);
    }
    canaries::check(rollout, index, fleet, now);
}

/// Whoever is in a group that began with nobody has had time to come.
fn is_old(rollout: &Rollout, index: usize, now: Timestamp) -> bool {
    let start = rollout.groups.get(index).and_then(|group| group.start_time);
    start.is_some_and(|start| end_if_empty(rollout, start, now) < now)
}

/// When a group that starts at `start` is done if nobody was ever in it.
pub(crate) fn end_if_empty(rollout: &Rollout, start: Timestamp, now: Timestamp) -> Timestamp {
    rollout.listening(now).end_of_wait(start, EMPTY_AFTER)
}

/// Calls an active group done, if it is; else notes that it goes on.
fn finish_if_done(rollout: &mut Rollout, index: usize, now: Timestamp) {
    let strategy = rollout.strategy;
    let is_old = is_old(rollout, index, now);
    let Some(group) = rollout.groups.get_mut(index) else { return };
    let is_done = (is_old && group.is_empty())
        || match strategy {
            Strategy::Requires => group.has_all_ended(),
            Strategy::HaltOnError | Strategy::TimeBased => group.has_nine_of_ten(is_old),
        };
    if is_done {
        group.enter(State::Done, "update_complete", now);
    } else {
        group.note(State::Active, "update_in_progress", now);
    }
}

/// Managed Updates' `time-based`: active within its window, done outside of it, and active again in the next one.
fn keep_time(rollout: &mut Rollout, index: usize, fleet: &Fleet, now: Timestamp) {
    let (window, without) = (rollout.window, rollout.without_windows);
    let closed = gate::closed(rollout, index, now);
    let Some(group) = rollout.groups.get_mut(index) else { return };
    let is_open = without || group.policy.gate.opening.is_open(now, window);
    match (group.state, is_open, closed) {
        (State::Active, true, _) => {}
        (State::Active, false, _) => group.enter(State::Done, "outside_window", now),
        (_, false, _) => group.note(group.state, "outside_window", now),
        (_, true, None) => group.start(true, "in_window", fleet, now),
        (_, true, Some(why)) => group.note(group.state, gate::v2_reason(&why), now),
    }
}

impl Rollout {
    /// Whether its groups are started and called done by hand.
    pub(crate) fn takes_commands(&self) -> bool {
        self.strategy != Strategy::TimeBased && self.schedule != Schedule::Immediate
    }
}

impl GroupStatus {
    /// Begins, with canaries first unless it is `forced`; who is enrolled now counts.
    pub(crate) fn start(&mut self, forced: bool, reason: &str, fleet: &Fleet, now: Timestamp) {
        self.initial_count = self.present_count;
        self.take_members(fleet);
        self.initial_asking = self.tally.asking;
        self.restart_passes();
        self.done_while_halted = false;
        // Also where nobody is there: who comes back must find others to go before him.
        let has_canaries = self.policy.pace.canaries > 0 && !forced;
        self.enter(if has_canaries { State::Canary } else { State::Active }, reason, now);
    }

    /// Who is enrolled now counts.
    fn take_members(&mut self, fleet: &Fleet) {
        self.counted_to = fleet.arrivals();
        self.pass_to = fleet.arrivals();
    }

    /// Nobody was ever in it, and nobody had asked for it when it began.
    pub(crate) fn is_empty(&self) -> bool {
        let asked = if self.state == State::Unstarted { self.tally.asking } else { self.initial_asking };
        !self.was_known && self.present_count == 0 && asked == 0
    }

    /// Of those that were there at its start, how many have not left since.
    pub(crate) fn staying(&self) -> u64 {
        self.initial_count.saturating_sub(self.tally.gone)
    }

    /// Nobody is in it that is not silent or excluded.
    pub(crate) fn has_nobody(&self) -> bool {
        let proof = &self.tally.proof;
        proof.updated + proof.failed + proof.to_go + proof.present == 0
    }

    /// It waits for members that are missing: too many for Managed Updates' rule, or all. Absence is no success.
    pub(crate) fn is_shrunk(&self, strategy: Strategy) -> bool {
        let is_few = u128::from(self.tally.proof.present) * 10 < u128::from(self.staying()) * 9;
        (self.was_known && self.has_nobody()) || (is_few && strategy == Strategy::HaltOnError)
    }

    /// It was done because its hosts run the target, or nobody was ever in it.
    pub(crate) fn was_run(&self) -> bool {
        self.done_time.is_some() && (!self.was_known || self.tally.proof.updated + self.tally.proof.up_to_date > 0)
    }

    /// Managed Updates v2: nine of ten that were present still are, and nine of ten of them are up to date. Where nobody was, the
    /// first who comes proves nothing of the others: not before the hour of an empty group.
    fn has_nine_of_ten(&self, is_old: bool) -> bool {
        let is_nine_of_ten = |part: u64, whole: u64| u128::from(part) * 10 >= u128::from(whole) * 9;
        let proof = &self.tally.proof;
        proof.present > 0
            && (self.staying() > 0 || is_old)
            && is_nine_of_ten(proof.present, self.staying())
            && is_nine_of_ten(proof.up_to_date, proof.present)
    }

    /// Nobody is left to go, and some failed: only another attempt changes that, or a person who calls it done.
    pub(crate) fn is_stuck(&self) -> bool {
        let tally = &self.tally;
        self.state == State::Active
            && tally.pending + tally.let_go + tally.told == 0
            && tally.failed + tally.timed_out > 0
    }

    /// RFD 0169: nobody is left to go, somebody arrived, and few are silent.
    fn has_all_ended(&self) -> bool {
        let (tally, proof) = (&self.tally, &self.tally.proof);
        let members = proof.updated + proof.failed + proof.silent;
        tally.pending + tally.let_go + tally.told == 0
            && proof.updated > 0
            && !self.policy.proof.max_silent.is_exceeded(proof.silent, members)
    }
}
