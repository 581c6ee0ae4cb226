//! What one connection is doing, and since when: written by the connection, read by the accept loop, without a lock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{LINGER, ListenerLimits};

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Agrees on TLS.
    Handshake,
    /// Waits for the rest of a request's head.
    Head,
    /// Waits for the next request.
    Idle,
    /// Waits for the rest of a request's body.
    Receiving,
    /// A request is being answered.
    Working,
    /// Is answered and closed on our side; the client may still send.
    Lingering,
    /// Is to be closed.
    Condemned,
}

const PHASES: [Phase; 7] =
    [Phase::Handshake, Phase::Head, Phase::Idle, Phase::Receiving, Phase::Working, Phase::Lingering, Phase::Condemned];

/// The phase is in the low bits, its beginning in the others.
const PHASE_BITS: u32 = 3;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct PhaseCell {
    epoch: Instant,
    /// Phase, and microseconds from `epoch` to its beginning.
    cell: AtomicU64,
    /// Microseconds from `epoch` to when the client stopped reading, plus 1; 0: it reads.
    blocked: AtomicU64,
    /// A request's body was not read to its end.
    unread: AtomicBool,
}

/// A [`PhaseCell`] as it was at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseReading {
    cell: u64,
    blocked: Option<u64>,
}

impl PhaseCell {
    /// Begins with the handshake. `epoch` is the same for all connections that are compared.
    pub(crate) fn new(epoch: Instant) -> Self {
        let state = Self { epoch, cell: AtomicU64::new(0), blocked: AtomicU64::new(0), unread: AtomicBool::new(false) };
        state.enter(Phase::Handshake);
        state
    }

    /// Microseconds since the epoch.
    fn now(&self) -> u64 {
        micros(self.epoch.elapsed())
    }

    /// From now on in `phase`.
    pub(crate) fn enter(&self, phase: Phase) {
        // Work has no limit, and each reading of the clock costs every request.
        let since = if phase == Phase::Working { 0 } else { self.now() };
        self.cell.store((since << PHASE_BITS) | phase as u64, Ordering::Relaxed);
    }

    /// The client sent something: an idle connection has begun a request.
    pub(crate) fn heard(&self) {
        if self.look().phase() == Phase::Idle {
            self.enter(Phase::Head);
        }
    }

    /// The request's body is here, or nobody wants it (`complete` is false).
    pub(crate) fn received(&self, complete: bool) {
        if !complete {
            self.unread.store(true, Ordering::Relaxed);
        }
        if self.look().phase() == Phase::Receiving {
            self.enter(Phase::Working);
        }
    }

    /// Whether a request's body was not read to its end.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// The client takes no more bytes.
    pub(crate) fn write_blocked(&self) {
        if self.blocked.load(Ordering::Relaxed) == 0 {
            self.blocked.store(self.now() + 1, Ordering::Relaxed);
        }
    }

    /// The client took bytes.
    pub(crate) fn write_progressed(&self) {
        if self.blocked.load(Ordering::Relaxed) != 0 {
            self.blocked.store(0, Ordering::Relaxed);
        }
    }

    /// The state now.
    pub(crate) fn look(&self) -> PhaseReading {
        let blocked = self.blocked.load(Ordering::Relaxed).checked_sub(1);
        PhaseReading { cell: self.cell.load(Ordering::Relaxed), blocked }
    }

    /// Claims the connection for closing; false if it went on since `seen`, e.g. with a request.
    pub(crate) fn condemn(&self, seen: PhaseReading) -> bool {
        let condemned = (seen.since() << PHASE_BITS) | Phase::Condemned as u64;
        self.cell.compare_exchange(seen.cell, condemned, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl PhaseReading {
    /// What it was doing.
    pub(crate) fn phase(self) -> Phase {
        let index = (self.cell & ((1 << PHASE_BITS) - 1)) as usize;
        PHASES.get(index).copied().unwrap_or(Phase::Condemned)
    }

    /// When that began: microseconds since the epoch.
    fn since(self) -> u64 {
        self.cell >> PHASE_BITS
    }

    /// Since when nothing happens unless the client does something, in microseconds since the epoch; `None`: we are at
    /// work.
    pub(crate) fn waiting_since(self) -> Option<u64> {
        if self.phase() == Phase::Working { self.blocked } else { Some(self.since()) }
    }

    /// Whether the client had its time, `now` microseconds after the epoch.
    pub(crate) fn is_overdue(self, now: u64, limits: &ListenerLimits) -> bool {
        let limit = match self.phase() {
            Phase::Handshake => Some(limits.handshake),
            Phase::Head => Some(limits.head),
            Phase::Idle => Some(limits.idle),
            Phase::Lingering => Some(LINGER),
            // The body has its own clock (body.rs), so that the handler can answer 408.
            Phase::Receiving | Phase::Working | Phase::Condemned => None,
        };
        let over = |since: u64, limit: Duration| now.saturating_sub(since) >= micros(limit);
        limit.is_some_and(|limit| over(self.since(), limit))
            || self.blocked.is_some_and(|since| over(since, limits.write))
    }
}

/// Whole microseconds; 584 000 years fit.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
impl PhaseCell {
    /// A state in `phase` since `since` microseconds.
    pub(crate) fn fixed(phase: Phase, since: u64) -> Self {
        let state = Self::new(Instant::now());
        state.set(phase, since);
        state
    }

    /// In `phase` since `since` microseconds.
    pub(crate) fn set(&self, phase: Phase, since: u64) {
        self.cell.store((since << PHASE_BITS) | phase as u64, Ordering::Relaxed);
    }

    /// The client stopped reading `since` microseconds.
    pub(crate) fn block_at(&self, since: u64) {
        self.blocked.store(since + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn each_phase_has_its_own_limit() {
        let limits = ListenerLimits::default();
        for (phase, seconds) in [(Phase::Handshake, 10), (Phase::Head, 10), (Phase::Idle, 75), (Phase::Lingering, 2)] {
            let look = PhaseCell::fixed(phase, 5 * SECOND).look();
            assert!(!look.is_overdue((5 + seconds) * SECOND - 1, &limits), "{phase:?} ended early");
            assert!(look.is_overdue((5 + seconds) * SECOND, &limits), "{phase:?} did not end");
        }
        for phase in [Phase::Receiving, Phase::Working] {
            assert!(!PhaseCell::fixed(phase, 0).look().is_overdue(1_000_000 * SECOND, &limits), "{phase:?}");
        }
    }

    #[test]
    fn a_client_that_does_not_read_is_overdue_even_while_we_work() {
        let state = PhaseCell::fixed(Phase::Working, 0);
        assert_eq!(state.look().waiting_since(), None);
        state.block_at(7 * SECOND);
        assert_eq!(state.look().waiting_since(), Some(7 * SECOND));
        assert!(!state.look().is_overdue(36 * SECOND, &ListenerLimits::default()));
        assert!(state.look().is_overdue(37 * SECOND, &ListenerLimits::default()));
        state.write_progressed();
        assert!(!state.look().is_overdue(37 * SECOND, &ListenerLimits::default()));
    }

    #[test]
    fn only_an_idle_connection_begins_a_request_by_being_heard() {
        for phase in PHASES {
            let state = PhaseCell::fixed(phase, 3);
            state.heard();
            let expected = if phase == Phase::Idle { Phase::Head } else { phase };
            assert_eq!(state.look().phase(), expected);
        }
    }

    #[test]
    fn a_connection_that_went_on_cannot_be_condemned() {
        let state = PhaseCell::fixed(Phase::Idle, 3);
        let seen = state.look();
        state.enter(Phase::Working);
        assert!(!state.condemn(seen));
        assert_eq!(state.look().phase(), Phase::Working);
        assert!(state.condemn(state.look()));
        assert_eq!(state.look().phase(), Phase::Condemned);
    }
}
