//! Waiting that a signal ends.

use std::time::{Duration, Instant};

use error::{Code, Error, Result};

/// Asked by all that takes long, between its steps: `true` ends it. What has a result fails with `interrupted` then.
pub type Cancelled<'a> = &'a dyn Fn() -> bool;

/// How often a wait looks whether it was cancelled: an operator's Ctrl-C should feel immediate.
pub(super) const SLICE: Duration = Duration::from_millis(100);

/// Waits in short slices. Errors: [`Code::Interrupted`].
pub fn pause(wait: Duration, cancelled: Cancelled<'_>) -> Result<()> {
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

/// What [`Cancelled`] ended. [`Code::Interrupted`].
pub fn interrupted() -> Error {
    Error::new(Code::Interrupted, "stopped by a signal")
}
