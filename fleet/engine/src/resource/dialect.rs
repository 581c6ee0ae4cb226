//! The two dialects of a configuration, and what a group means in each where it says nothing.

use crate::calendar::Days;
use crate::percent::Percent;

/// Whose words a configuration uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyDialect {
    /// Managed Updates v2: `autoupdate_config`, and an `autoupdate_version` with `spec.agents`.
    V2,
    /// RFD 0169: `cluster_maintenance_config`, and a flat `autoupdate_version`.
    Rfd0169,
}

/// What a group means where it says nothing.
#[derive(Debug)]
pub(super) struct Defaults {
    /// `days`.
    pub(super) days: Days,
    /// `jitter_seconds`.
    pub(super) jitter: u32,
    /// `timeout_seconds`; `None`: off.
    pub(super) timeout: Option<u32>,
    /// `max_failed_before_halt`.
    pub(super) max_failed: Percent,
    /// `max_timeout_before_halt`.
    pub(super) max_timeout: Percent,
    /// `max_failed_of_ended`.
    pub(super) max_failed_of_ended: Percent,
}

/// `max_silent` in both dialects.
pub(super) const MAX_SILENT: Percent = percent(10);

/// v2 never halts by itself; a server that knows of failures must not look away (FLEET §2).
const V2: Defaults = Defaults {
    days: Days::WORK_START,
    jitter: 60,
    timeout: None,
    max_failed: percent(10),
    max_timeout: Percent::ALL,
    max_failed_of_ended: percent(50),
};

/// As the comments of the RFD's resource say; `max_failed_of_ended` is ours, and off.
const RFD0169: Defaults = Defaults {
    days: Days::EVERY,
    jitter: 0,
    timeout: Some(60),
    max_failed: Percent::ZERO,
    max_timeout: percent(10),
    max_failed_of_ended: Percent::ALL,
};

impl PolicyDialect {
    pub(super) const fn defaults(self) -> &'static Defaults {
        match self {
            Self::V2 => &V2,
            Self::Rfd0169 => &RFD0169,
        }
    }
}

const fn percent(number: u8) -> Percent {
    match Percent::new(number) {
        Some(percent) => percent,
        None => Percent::ALL,
    }
}
