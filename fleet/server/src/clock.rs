//! The clock.

use jiff::Timestamp;

/// Now.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
