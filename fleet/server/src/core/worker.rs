//! What the core's thread does besides what it is asked for: it takes notice of questions, steps, writes, and forgets.

use std::time::{Duration, Instant};

use fleet_wire::api::{ApiError, AuditEntry, Code};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::actor::PendingStop;
use super::snapshot::HostContact;
use super::state::MOST_NAMES;
use super::tx::{Ledger, Tx};
use super::{changes, commands, dry_runs, hosts};

/// Between two steps where nothing happens (FLEET §3).
const STEP_EVERY: Duration = Duration::from_secs(60);
/// Between two looks for what strangers left here.
const CLEAR_EVERY: SignedDuration = SignedDuration::from_hours(1);

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
        if self.ledger.state.rollouts.frees_places(self.ledger.state.now()) {
            self.ledger.times.step = self.ledger.times.step.min(now);
        }
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
        } else if self.ledger.is_look_due(now) {
            let _ = Tx::new(&mut self.ledger).look();
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
        Tx::new(&mut self.ledger).begin()?;
        if !self.ledger.is_step_mine() {
            return Tx::new(&mut self.ledger).finish();
        }
        let Ledger { state, .. } = &mut self.ledger;
        let now = state.now();
        if state.fleet.names_of_questions() >= MOST_NAMES {
            // Some may be nobody's any more: then there is room again.
            state.fleet.free_names();
        }
        if now.duration_since(self.cleared) >= CLEAR_EVERY {
            self.cleared = now;
            self.ledger.forget_strangers(now);
        }
        self.count_strangers();
        let mut tx = Tx::new(&mut self.ledger);
        tx.step(now);
        if let Some((imagined, plan)) = dry_runs::due(tx.state()) {
            let now = tx.state().now();
            imagined.ask_for_dry_run(tx.change().1, plan, now);
        }
        tx.draft.records = tx.ledger.repeats.due(false);
        let done = tx.commit();
        if done.is_ok() {
            self.ledger.repeats.noted();
        }
        self.ledger.times.last_step_took = began.elapsed();
        self.ledger.times.stepped(STEP_EVERY);
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

    /// Takes notice of questions: at once; or where other servers hear hosts as well, when this one has its turn.
    pub(super) fn record_questions(&mut self, questions: impl Iterator<Item = Box<HostContact>>) {
        let questions = questions.map(|question| *question);
        if self.ledger.hears_later() {
            self.ledger.hear_questions(questions);
        } else {
            let heard = self.ledger.record_questions(questions);
            self.ledger.publish_some(&heard);
        }
    }
}
