//! Waiting that a signal ends.

use std::time::{Duration, Instant};

use crate::host::signal::Cancelled;
use crate::report::{Code, Error, Result};

/// How often a wait looks whether it was cancelled: an operator's Ctrl-C should feel immediate.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// Waits in short slices. Errors: [`Code::Interrupted`].
pub(crate) fn pause(wait: Duration, cancelled: Cancelled<'_>) -> Result<()> {
    let end = Instant::now() + wait;
    loop {
        if cancelled() {
            return Err(interrupted());
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(SLICE.min(left));
    }
}

pub(crate) fn interrupted() -> Error {
    Error::new(Code::Interrupted, "stopped by a signal")
}
