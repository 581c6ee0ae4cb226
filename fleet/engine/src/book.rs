//! Everything that decisions rest on, but for the hosts.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use serde::{Deserialize, Serialize};

use crate::calendar::{Days, Opening, Zone};
use crate::percent::Percent;
use crate::policy::{Gate, Group, Mode, OnHalt, Pace, Policy, Proof, Schedule, Strategy, Target, Unassigned};
use crate::rollout::Rollout;

/// What is wanted, what is stopped, and the rollout.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Book {
    /// How the fleet is updated; `None`: by the default group.
    pub policy: Option<Policy>,
    /// What it shall run; `None`: there is no rollout.
    pub target: Option<Target>,
    /// What operators stopped.
    pub holds: Holds,
    /// The rollout.
    pub rollout: Option<Rollout>,
    /// Rollouts so far.
    pub number: u64,
    /// The last target whose rollout was done.
    pub last_done: Option<Version>,
    /// The one before that.
    pub done_before: Option<Version>,
    /// Where ids of rollouts come from.
    pub seed: u64,
    /// No step is before another.
    pub last_step: Option<Timestamp>,
}

/// What operators stopped. It survives a new target and a restart; `run` ends it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Holds {
    /// Every group.
    pub all: bool,
    /// These groups.
    pub groups: BTreeSet<String>,
    /// Groups that were let go again, by name, while all others are held.
    pub released: BTreeSet<String>,
}

impl Holds {
    /// Whether the group called `name` is held.
    pub fn has(&self, name: &str) -> bool {
        self.groups.contains(name) || (self.all && !self.released.contains(name))
    }

    /// Holds a group.
    pub fn hold(&mut self, name: &str) {
        self.groups.insert(name.to_owned());
        self.released.remove(name);
    }

    /// Lets a group go again.
    pub fn release(&mut self, name: &str) {
        self.groups.remove(name);
        if self.all {
            self.released.insert(name.to_owned());
        }
    }
}

/// Seconds that a host waits at most, where nothing else is said: Managed Updates' constant.
const V2_JITTER: u32 = 60;
/// Managed Updates' hour of the default group.
const DEFAULT_HOUR: u8 = 12;
/// Failed hosts that halt a group whose configuration does not say (FLEET.md §2).
const V2_MAX_FAILED: u8 = 10;
/// Failed ones of those that ended, that do.
const V2_MAX_FAILED_OF_ENDED: u8 = 50;
/// Ended hosts from which on that share counts.
const V2_MIN_ENDED: u32 = 20;
/// Silent hosts that a done group may have.
const MAX_SILENT: u8 = 10;

impl Policy {
    /// What holds where nobody wrote a configuration: Managed Updates' `default` group, Monday to Thursday at 12:00 UTC.
    pub fn absent() -> Self {
        Self {
            mode: Mode::Enabled,
            strategy: Strategy::HaltOnError,
            window: SignedDuration::ZERO,
            regular: vec![Group::v2(
                "default",
                Opening { days: Days::WORK_START, hour: DEFAULT_HOUR, zone: Zone::UTC },
            )],
            critical: Vec::new(),
            unassigned: Unassigned::Last,
            ungrouped: None,
        }
    }

    /// The groups of a version of this schedule, and whether their windows do not count.
    pub(crate) fn groups(&self, schedule: Schedule) -> (Vec<Group>, bool) {
        let everybody = || {
            let mut group = Group::v2("", Opening { days: Days::EVERY, hour: 0, zone: Zone::UTC });
            group.pace.jitter =
                self.ungrouped.as_ref().map_or(group.pace.jitter, |ungrouped| ungrouped.immediate_jitter);
            group
        };
        let regular = || {
            let is_empty = self.regular.is_empty() && self.strategy != Strategy::Requires;
            if is_empty { Self::absent().regular } else { self.regular.clone() }
        };
        match schedule {
            Schedule::Regular => (regular(), false),
            Schedule::Critical if self.critical.is_empty() => (regular(), true),
            Schedule::Critical => (self.critical.clone(), false),
            Schedule::Immediate => (vec![everybody()], true),
        }
    }
}

impl Group {
    /// A group as Managed Updates v2 has it where nothing else is said.
    pub fn v2(name: &str, opening: Opening) -> Self {
        let percent = |number| Percent::new(number).unwrap_or(Percent::ALL);
        Self {
            name: name.to_owned(),
            members: None,
            gate: Gate {
                opening,
                wait_hours: 0,
                soak_hours: 0,
                requires: Vec::new(),
                blackout: Vec::new(),
                approval: None,
                external: None,
            },
            pace: Pace { canaries: 0, max_in_flight: Percent::ALL, jitter: V2_JITTER, window: None, rate: None },
            proof: Proof {
                timeout_seconds: None,
                failure_seconds: 0,
                max_failed: percent(V2_MAX_FAILED),
                max_timeout: Percent::ALL,
                max_failed_of_ended: percent(V2_MAX_FAILED_OF_ENDED),
                min_failed: 1,
                min_ended: V2_MIN_ENDED,
                max_silent: percent(MAX_SILENT),
                on_halt: OnHalt::Stop,
            },
        }
    }
}
