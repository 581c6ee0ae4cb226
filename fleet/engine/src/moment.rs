//! A second in time, small enough for a million hosts.

use std::num::NonZeroU32;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A whole second between 1970 and 2106; four bytes, also where it is optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(NonZeroU32);

impl Moment {
    /// The second that `time` lies in; the nearest one that can be held.
    pub fn of(time: Timestamp) -> Self {
        let bounded = time.as_second().clamp(1, i64::from(u32::MAX));
        Self(u32::try_from(bounded).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN))
    }

    /// As a time.
    pub fn time(self) -> Timestamp {
        Timestamp::from_second(i64::from(self.0.get())).unwrap_or(Timestamp::MAX)
    }

    /// So many seconds later.
    pub fn after(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// Seconds from `earlier` to this; 0 if it is later.
    pub fn since(self, earlier: Self) -> u32 {
        self.0.get().saturating_sub(earlier.0.get())
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

/// Whole hours as a duration.
pub(crate) fn hours(hours: u32) -> SignedDuration {
    SignedDuration::from_hours(i64::from(hours))
}
