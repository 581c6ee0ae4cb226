//! The clock.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

/// When it was first asked how long this process runs.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How much later it is at the store, milliseconds.
static OFFSET: AtomicI64 = AtomicI64::new(0);

/// Now, by the store's clock: servers that share one agree on the time, whatever their own clocks say.
pub(crate) fn now() -> Timestamp {
    let (now, offset) = (Timestamp::now(), SignedDuration::from_millis(OFFSET.load(Ordering::Relaxed)));
    now.checked_add(offset).unwrap_or(now)
}

/// It is so much later at the store.
pub(crate) fn set_offset(offset: SignedDuration) {
    let offset = i64::try_from(offset.as_millis()).unwrap_or(0);
    OFFSET.store(offset, Ordering::Relaxed);
}

/// For how long this process runs, seconds: what is measured by that is right whoever sets the clock.
pub(crate) fn up() -> i64 {
    i64::try_from(BEGAN.elapsed().as_secs()).unwrap_or(i64::MAX)
}

/// How much later it is by the clock that the fleet goes by than by this host's, milliseconds.
pub(crate) fn offset() -> i64 {
    OFFSET.load(Ordering::Relaxed)
}
