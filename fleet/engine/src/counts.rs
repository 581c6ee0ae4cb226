//! How many hosts of a group are in which state.

use serde::{Deserialize, Serialize};

/// How many hosts of a group are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Pinned, disabled, held.
    pub excluded: u64,
    /// On the wanted version.
    pub updated: u64,
    /// Failed.
    pub failed: u64,
    /// Timed out.
    pub timed_out: u64,
    /// Told to update.
    pub told: u64,
    /// Silent.
    pub silent: u64,
    /// Let go, and not told yet.
    pub let_go: u64,
    /// Not let go.
    pub pending: u64,
    /// Those that count, excluded and departed ones left out.
    pub counted: u64,
    /// Failed ones that count.
    pub counted_failed: u64,
    /// Those of them that said so.
    pub(crate) counted_reported: u64,
    /// Timed out ones that count.
    pub(crate) counted_timed_out: u64,
    /// Counted ones that were told and came to an end.
    pub counted_ended: u64,
    /// Heard of by a report within three intervals.
    pub present: u64,
    /// Those of them that run the rollout's target.
    pub up_to_date: u64,
    /// They asked before the group started, and do not report.
    pub asking: u64,
    /// Enrolled, or excluded by somebody; those that have left too.
    #[serde(default)]
    pub(crate) known: u64,
    /// They were there when the group started, and have left since.
    #[serde(default)]
    pub(crate) gone: u64,
    /// Hosts that only ask, and take a slot.
    #[serde(default)]
    pub(crate) strangers: u64,
    /// Let go or told once in this rollout, whatever became of them.
    pub(crate) ever_let_go: u64,
}

impl Tally {
    /// Enrolled hosts that take a slot of the cap.
    pub fn in_flight(&self) -> u64 {
        self.let_go + self.told
    }

    /// All hosts that take one.
    pub(crate) fn slots(&self) -> u64 {
        self.in_flight() + self.strangers
    }
}
