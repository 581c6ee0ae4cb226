//! The clock.

use std::sync::LazyLock;
use std::time::Instant;

use jiff::Timestamp;

/// When it was first asked how long this process runs.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Now.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// For how long this process runs, seconds: what is measured by that is right whoever sets the clock.
pub(crate) fn up() -> i64 {
    i64::try_from(BEGAN.elapsed().as_secs()).unwrap_or(i64::MAX)
}
