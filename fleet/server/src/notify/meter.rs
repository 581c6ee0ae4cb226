//! How far receivers were told, for `/metrics`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use jiff::Timestamp;

/// Of all receivers, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meters(Vec<(&'static str, Arc<Meter>)>);

/// Of a receiver.
#[derive(Debug, Default)]
pub(super) struct Meter {
    delivered: AtomicU64,
    failed: AtomicU64,
    /// When the event happened that is to be told next, seconds since 1970; 0: none is.
    oldest: AtomicI64,
}

/// What a meter shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The receiver.
    pub(crate) name: &'static str,
    /// Messages that it took.
    pub(crate) delivered: u64,
    /// Attempts that failed.
    pub(crate) failed: u64,
    /// Age of the oldest message that it has not taken, seconds; 0: none.
    pub(crate) oldest: u64,
}

impl Meters {
    /// A meter for another receiver.
    pub(super) fn add(&mut self, name: &'static str) -> Arc<Meter> {
        let meter = Arc::new(Meter::default());
        self.0.push((name, Arc::clone(&meter)));
        meter
    }

    /// What they show at `now`.
    pub(crate) fn shown(&self, now: Timestamp) -> impl Iterator<Item = Shown> {
        self.0.iter().map(move |(name, meter)| {
            let oldest = meter.oldest.load(Ordering::Relaxed);
            let age = if oldest == 0 { 0 } else { u64::try_from(now.as_second() - oldest).unwrap_or(0) };
            let (delivered, failed) = (meter.delivered.load(Ordering::Relaxed), meter.failed.load(Ordering::Relaxed));
            Shown { name, delivered, failed, oldest: age }
        })
    }
}

impl Meter {
    /// An event of `time` is to be told.
    pub(super) fn begin(&self, time: Timestamp) {
        self.oldest.store(time.as_second(), Ordering::Relaxed);
    }

    /// An attempt failed.
    pub(super) fn fail(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// It was told.
    pub(super) fn end(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.oldest.store(0, Ordering::Relaxed);
    }
}
