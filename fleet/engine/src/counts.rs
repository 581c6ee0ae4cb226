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
    /// Those of them that somebody on the host sent back.
    #[serde(default)]
    pub by_hand: u64,
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
    /// Hosts that were told and fell silent, of those counted.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub counted_churned: u64,
    /// Hosts of a sub-directive for whom it has nothing, or a recommendation alone.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub without: u64,
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
    #[serde(default, rename = "strangers")]
    pub(crate) unknown: u64,
    /// Let go or told once in this rollout, whatever became of them.
    pub(crate) ever_let_go: u64,
    /// By whom it is judged whether the group is done.
    #[serde(default)]
    pub(crate) proof: GroupEvidence,
}

/// Members that prove a release, or fail to: those that count, while one of them has not left; where there is none, all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GroupEvidence {
    /// Those that have not left, excluded ones too.
    pub(crate) members: u64,
    /// On the wanted version.
    pub(crate) updated: u64,
    /// Of these, not present: another may be in their place.
    pub(crate) left: u64,
    /// On the way, or not let go.
    pub(crate) to_go: u64,
    /// Failed or timed out.
    pub(crate) failed: u64,
    /// Silent.
    pub(crate) silent: u64,
    /// See [`Tally::present`].
    pub(crate) present: u64,
    /// See [`Tally::up_to_date`].
    pub(crate) up_to_date: u64,
}

impl Tally {
    /// When all members are counted: who came later is in the place of one that updated and went, and proves nothing else.
    pub(crate) fn judge(&mut self) {
        let proof = &mut self.proof;
        if proof.members > 0 {
            let replaced = (self.up_to_date - proof.up_to_date).min(proof.left);
            proof.present += replaced;
            proof.up_to_date += replaced;
            return;
        }
        *proof = GroupEvidence {
            members: 0,
            updated: self.updated,
            left: 0,
            to_go: self.pending + self.let_go + self.told,
            failed: self.failed + self.timed_out,
            silent: self.silent,
            present: self.present,
            up_to_date: self.up_to_date,
        };
    }

    /// All that are not excluded.
    pub fn of(&self) -> u64 {
        self.pending + self.in_flight() + self.updated + self.failed + self.timed_out + self.silent
    }

    /// Enrolled hosts that take a slot of the cap.
    pub fn in_flight(&self) -> u64 {
        self.let_go + self.told
    }

    /// All hosts that take one.
    pub(crate) fn slots(&self) -> u64 {
        self.in_flight() + self.unknown
    }
}
