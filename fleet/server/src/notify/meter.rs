//! How far the receiver was told, for `/metrics`.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

use crate::core::Counter;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Messages that it took.
    pub(crate) delivered: Counter,
    /// Attempts that failed.
    pub(crate) failed: Counter,
    /// When the event happened that is to be told next, seconds since 1970; 0: none is.
    oldest: AtomicI64,
}

impl Meter {
    /// An event of `time` is to be told.
    pub(super) fn begin(&self, time: Timestamp) {
        self.oldest.store(time.as_second(), Ordering::Relaxed);
    }

    /// It was told, or another server tells it.
    pub(super) fn leave(&self) {
        self.oldest.store(0, Ordering::Relaxed);
    }

    /// Age at `now` of the oldest message that it has not taken, seconds; 0: none.
    pub(crate) fn oldest(&self, now: Timestamp) -> u64 {
        let oldest = self.oldest.load(Ordering::Relaxed);
        if oldest == 0 { 0 } else { u64::try_from(now.as_second() - oldest).unwrap_or(0) }
    }
}
