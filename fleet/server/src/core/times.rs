//! When the core does what is due.

use std::time::{Duration, Instant};

/// Between two writes to the store: what proves that it can be written. Answers are good for three of them and some seconds.
const PROVE_EVERY: Duration = Duration::from_secs(8);
/// Until what hosts said is durable (FLEET §7).
const FLUSH_EVERY: Duration = Duration::from_millis(800);
/// Between two attempts to reach a store that fails.
const RETRY_EVERY: Duration = Duration::from_secs(2);
/// Until the step after a report, a question of a new host, or another event of hosts (FLEET §3).
const STEP_SOON: Duration = Duration::from_secs(1);
/// After the step of another server: that one makes the next as well, if it is there.
const STEP_AFTER_ANOTHER: Duration = Duration::from_secs(62);
/// Between two looks whether another server wrote, where it does not tell: it is to be known within 2 s (FLEET §7).
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A step takes at most this part of the core's time: one in so many.
const STEP_SHARE: u32 = 10;

/// When what is due.
pub(super) struct Times {
    pub(super) step: Instant,
    pub(super) last_step_took: Duration,
    /// The next step is for what hosts did.
    is_soon: bool,
    flush: Option<Instant>,
    /// When it is looked next whether another server wrote.
    look: Instant,
    prove: Instant,
    retry: Instant,
}

impl Times {
    /// All of it is due at `now`.
    pub(super) fn due(now: Instant) -> Self {
        let last_step_took = Duration::ZERO;
        Self { step: now, last_step_took, is_soon: true, flush: None, look: now, prove: now, retry: now }
    }

    /// A step is due soon, because hosts did something.
    pub(super) fn step_soon(&mut self) {
        let soon = Instant::now() + STEP_SOON.max(self.last_step_took * STEP_SHARE);
        self.step = self.step.min(soon);
        self.is_soon = true;
    }

    /// A step was made: the next is due in `next`, if nothing happens.
    pub(super) fn stepped(&mut self, next: Duration) {
        self.step = Instant::now() + next;
        self.is_soon = false;
    }

    /// Another server made a step.
    pub(super) fn other_stepped(&mut self) {
        if !self.is_soon {
            self.stepped(STEP_AFTER_ANOTHER);
        }
    }

    /// Whether a step is due still, after another server may have made one.
    pub(super) fn is_step_due(&self) -> bool {
        self.is_soon || self.step <= Instant::now()
    }

    /// What hosts said is to be durable soon.
    pub(super) fn flush_soon(&mut self) {
        self.flush.get_or_insert(Instant::now() + FLUSH_EVERY);
    }

    /// Something that hosts said is not durable.
    pub(super) fn has_unwritten(&self) -> bool {
        self.flush.is_some()
    }

    /// Something is to be written, or the store to be proven.
    pub(super) fn is_write_due(&self, now: Instant) -> bool {
        now >= self.prove || self.flush.is_some_and(|due| now >= due)
    }

    /// All that is known is durable.
    pub(super) fn written(&mut self) {
        (self.flush, self.prove) = (None, Instant::now() + PROVE_EVERY);
    }

    /// It is to be looked whether another server wrote.
    pub(super) fn is_look_due(&self, now: Instant) -> bool {
        now >= self.look
    }

    /// What others wrote is known.
    pub(super) fn looked(&mut self) {
        self.look = Instant::now() + LOOK_EVERY;
    }

    /// A store that fails is to be tried again.
    pub(super) fn is_retry_due(&self) -> bool {
        Instant::now() >= self.retry
    }

    /// It was tried.
    pub(super) fn retried(&mut self) {
        self.retry = Instant::now() + RETRY_EVERY;
    }
}
