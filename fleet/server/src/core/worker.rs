//! What the core's thread does besides what it is asked for: it takes notice of questions, steps, writes, and forgets.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use fleet_engine::host::{Host, HostId};
use fleet_engine::moment::Moment;
use fleet_engine::tally::DEPARTED_AFTER;
use fleet_wire::api::{ApiError, AuditEntry, Code};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::snapshot::HostContact;
use super::state::MOST_NAMES;
use super::tx::{Ledger, PendingStop, Tx};
use super::{changes, commands, hosts};

/// Between two steps where nothing happens (FLEET §3).
const STEP_EVERY: Duration = Duration::from_secs(60);
/// Most hosts that only ask, where fewer are enrolled (FLEET §5).
const MOST_ASKING: usize = 100_000;
/// A surplus of one in so many is taken away at once, so that not each newcomer costs a walk through all.
const FORGET_SHARE: usize = 50;
/// Between two looks for what strangers left here.
const CLEAR_EVERY: SignedDuration = SignedDuration::from_hours(1);
/// How long a key waits for an admin: over a week's absence. Who still reports by it then waits anew.
const WAITS_FOR: SignedDuration = SignedDuration::from_hours(10 * 24);

/// What the core's thread works with.
pub(super) struct Worker {
    pub(super) ledger: Ledger,
    /// Requests of strangers that were counted.
    strangers: u64,
    /// When it was looked last for what strangers left here.
    cleared: Timestamp,
}

impl Worker {
    /// Makes the first step.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) fn start(ledger: Ledger) -> Result<Self, String> {
        let mut worker = Self { ledger, strangers: 0, cleared: Timestamp::UNIX_EPOCH };
        let Ledger { state, .. } = &mut worker.ledger;
        // Nobody was heard meanwhile, however short it was.
        let now = state.now();
        state.rollouts.starts(now);
        if worker.ledger.is_behind() {
            let Ledger { state, .. } = &mut worker.ledger;
            state.rollouts.arrange(&mut state.fleet, now);
            worker.ledger.publish(now);
        } else {
            worker.step().map_err(|wrong| wrong.message)?;
        }
        Ok(worker)
    }

    /// Steps, writes and tries again, each when it is due.
    pub(super) fn do_what_is_due(&mut self) {
        if !self.decide_stops() {
            return;
        }
        let now = Instant::now();
        let is_step_due = now >= self.ledger.times.step;
        // An error was logged, and what it means is on the snapshot: it grows stale.
        if is_step_due && self.ledger.is_behind() {
            let last = self.ledger.state.rollouts.last_step;
            tracing::error!(
                ?last,
                "the clock is behind the newest decision: nobody new is allowed to update until it is right"
            );
            self.ledger.times.step = now + STEP_EVERY;
        } else if is_step_due {
            let _ = self.step();
        } else if self.ledger.is_flush_due(now) {
            let _ = Tx::new(&mut self.ledger).commit();
        }
    }

    /// Tries the stops that the store did not take, before anything else. Gives whether the store answers.
    pub(super) fn decide_stops(&mut self) -> bool {
        if !self.ledger.is_up() {
            return false;
        }
        let mut stops = std::mem::take(&mut self.ledger.undecided);
        while let Some((actor, stop)) = stops.pop_front() {
            let mut tx = Tx::new(&mut self.ledger);
            let done = match &stop {
                PendingStop::Halt(act) => commands::act(&mut tx, &actor, act).map(drop),
                PendingStop::Hold(host, decided) => hosts::decide(&mut tx, &actor, *host, decided).map(drop),
            };
            if done.is_err_and(|wrong| wrong.code == Code::StoreUnavailable) {
                break;
            }
        }
        self.ledger.undecided.extend(stops);
        if !self.ledger.undecided.is_empty() {
            self.ledger.snapshot.doubt();
        }
        let is_up = self.ledger.store().is_ok();
        if is_up {
            self.ledger.note_no_stop();
        }
        is_up
    }

    /// The engine steps, and what it did is kept.
    pub(super) fn step(&mut self) -> Result<(), ApiError> {
        let began = Instant::now();
        let Ledger { state, .. } = &mut self.ledger;
        let now = state.now();
        if state.fleet.names_of_questions() >= MOST_NAMES {
            // Some may be nobody's any more: then there is room again.
            state.fleet.free_names();
        }
        if now.duration_since(self.cleared) >= CLEAR_EVERY {
            self.cleared = now;
            self.forget_strangers(now);
        }
        self.count_strangers();
        let mut tx = Tx::new(&mut self.ledger);
        tx.step(now);
        tx.draft.records = tx.ledger.repeats.due(false);
        let done = tx.commit();
        if done.is_ok() {
            self.ledger.repeats.noted();
        }
        self.ledger.times.last_step_took = began.elapsed();
        self.ledger.times.step = Instant::now() + STEP_EVERY;
        done
    }

    fn count_strangers(&mut self) {
        let refused = self.ledger.snapshot.strangers.get();
        let detail = json!({ "code": Code::Unauthenticated });
        let record = changes::record(self.ledger.state.now(), "request", "admin API".to_owned(), detail);
        let record = AuditEntry { done: false, ..record };
        self.ledger.repeats.strangers(refused - self.strangers, record);
        self.strangers = refused;
    }

    /// What hosts said last is kept, and how many strangers were refused.
    pub(super) fn end(&mut self) {
        if !self.decide_stops() {
            return;
        }
        self.count_strangers();
        let mut tx = Tx::new(&mut self.ledger);
        tx.draft.records = tx.ledger.repeats.due(true);
        // An error was logged.
        let _ = tx.commit();
    }

    /// Takes notice of questions. Where the store is gone, what is known may have half of a decision that failed: nothing of it is
    /// answered, and hosts are asked to tell again when the store is back.
    pub(super) fn record_questions(&mut self, questions: impl Iterator<Item = HostContact>) {
        if self.ledger.store().is_err() {
            questions.for_each(drop);
            return;
        }
        let known = self.ledger.state.fleet.hosts().len();
        let mut heard: Vec<HostId> = questions.filter_map(|contact| self.record_question(contact)).collect();
        if heard.is_empty() {
            return;
        }
        self.ledger.times.flush_soon();
        let is_any_new = self.ledger.state.fleet.hosts().len() > known;
        if is_any_new {
            self.forget_surplus();
        }
        // What a host reported is answered from when it is durable.
        let reported: HashSet<HostId> = self.ledger.reported().into_iter().map(|(host, _)| host).collect();
        heard.retain(|id| !reported.contains(id));
        self.ledger.publish_some(&heard);
        if is_any_new {
            self.ledger.times.step_soon();
        }
    }

    /// The host that a question is noted of.
    fn record_question(&mut self, contact: HostContact) -> Option<HostId> {
        let HostContact { question, at, told, signed } = contact;
        let Ledger { state, snapshot, .. } = &mut self.ledger;
        // An updater of today names itself by its update id alone.
        let is_so = |host: &&Host| {
            host.id == question.update_id
                || question.group.is_empty()
                || state.fleet.names.text(host.declared) == question.group
        };
        let by_update_id = || state.fleet.by_update_id(question.update_id).filter(is_so).map(|host| host.id);
        let id = question.host.or_else(by_update_id).unwrap_or(question.update_id);
        // Nobody speaks in another one's name, and who may not enrol by himself is nobody yet.
        if !state.enrolments.takes_question(id, signed) || !state.may_meet(id) {
            // What was sent once before keeps nobody from being heard.
            snapshot.tell_again_of(id);
            return None;
        }
        let group = Some(question.group.as_str()).filter(|group| !group.is_empty() && state.may_keep(group));
        let rollout = state.rollouts.rollout.as_ref();
        state.fleet.question(id, group, question.update_id, rollout, at);
        // An answer of a rollout that is over is no mark in the next one.
        if let (Some(told), Some(rollout)) = (told, rollout)
            && told.rollout == rollout.number
        {
            state.fleet.tell(id, rollout, told.back, at);
        }
        Some(id)
    }

    /// Of hosts that only ask there are at most as many as there are enrolled ones, and 100,000: whoever asked longest ago goes,
    /// those that were not allowed to update before those that were (FLEET §5). Of whom somebody decided something stays.
    fn forget_surplus(&mut self) {
        let Ledger { state, .. } = &self.ledger;
        let number = state.rollouts.rollout.as_ref().map_or(0, |rollout| rollout.number);
        let rank = |host: &Host| {
            let was_told = host.mark.is_some_and(|mark| u64::from(mark.rollout) == number);
            is_stranger(host).then_some((was_told, host.heard))
        };
        let mut ranks: Vec<_> = state.fleet.hosts().iter().filter_map(rank).collect();
        let most = MOST_ASKING.max(state.fleet.hosts().len() - ranks.len());
        if ranks.len() <= most {
            return;
        }
        let surplus = ranks.len() - most + most / FORGET_SHARE;
        let (_, last, _) = ranks.select_nth_unstable(surplus.saturating_sub(1).min(most));
        let last = *last;
        let left = std::cell::Cell::new(surplus);
        self.ledger.forget(|host| {
            let goes = left.get() > 0 && rank(host).is_some_and(|rank| rank <= last);
            left.set(left.get() - usize::from(goes));
            goes
        });
        tracing::warn!(count = surplus - left.get(), "more hosts ask than can be remembered: the oldest are forgotten");
    }

    /// Forgets hosts that asked long before `now`, and keys that wait since long. Where hosts enrol by token or approval nobody only
    /// asks. Of whom somebody decided something stays.
    pub(super) fn forget_strangers(&mut self, now: Timestamp) {
        let Ledger { state, .. } = &mut self.ledger;
        state.enrolments.drop_waiting(|since| now.duration_since(since) >= WAITS_FOR);
        let is_old = |host: &Host| state.fleet.is_proven || Moment::of(now).since(host.heard) >= DEPARTED_AFTER;
        let goes = |host: &&Host| is_stranger(host) && is_old(host) && state.enrolments.waits(host.id).is_none();
        let gone: HashSet<HostId> = state.fleet.hosts().iter().filter(goes).map(|host| host.id).collect();
        if !gone.is_empty() {
            self.ledger.forget(|host| gone.contains(&host.id));
        }
    }
}

/// It only asks, and nobody decided anything on it.
fn is_stranger(host: &Host) -> bool {
    host.enrolled.is_none() && !host.flags.held && host.assigned.is_none()
}
