//! What a rollout would do to a fleet (`simulate`, FLEET §6): the server's own engine, a virtual clock, hosts of an
//! inventory or made up, and failures that are chosen. Pure: the same [`ForecastPlan`] gives the same bytes.

mod axis;
mod curve;
mod engine;
mod hosts;
mod json;
mod plan;
mod setting;
mod svg;
#[cfg(test)]
mod tests;
mod text;
mod watch;
mod words;

use fleet_engine::reason::HaltRule;
use fleet_engine::rollout::State;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

pub use curve::{CurveSample, GroupCurve, ServerLoad};
pub use engine::run;
pub use plan::{Cut, ForecastPlan, HostShare, HostSource, KnownHost, Made, Span};

/// What became of the rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Versions before and after.
    pub versions: (String, String),
    /// When it began.
    pub begin: Timestamp,
    /// When the last group was done, or the first halted; `None`: neither came about.
    pub decided: Option<Timestamp>,
    /// When nothing changed any more, or the time that was asked for was over.
    pub end: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// The groups, in order; one without a name has the hosts that belong to none.
    pub groups: Vec<Group>,
    /// Hosts.
    pub hosts: u64,
    /// Hosts on which the release is bad, or that would never come back, told or not.
    pub at_risk: u64,
    /// What servers carry.
    pub load: ServerLoad,
    /// Times at which the server is down, or hosts are cut off.
    pub spans: Vec<(String, Timestamp, Timestamp)>,
    /// What was assumed or is worth knowing, a line each.
    pub notes: Vec<String>,
    /// From which all lots were drawn.
    pub seed: u64,
}

/// How a rollout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every group is done.
    Done,
    /// A group halted.
    Halted,
    /// A group halted and went back by itself.
    RolledBack,
    /// It waits for a person, or for hosts that do not come.
    Stuck,
    /// The time that was asked for was over.
    Unfinished,
}

/// What became of a group.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Its name; empty: hosts that belong to none.
    pub name: String,
    /// Its hosts.
    pub hosts: u64,
    /// Its state at the end.
    pub state: State,
    /// When it began.
    pub start: Option<Timestamp>,
    /// When it was done.
    pub done: Option<Timestamp>,
    /// Its first halt.
    pub halt: Option<Halted>,
    /// Why it is as it is at the end; empty: it is done.
    pub why: String,
    /// Canaries that it asks for.
    pub canaries: u32,
    /// Most hosts at once; `None`: all.
    pub cap: Option<u64>,
    /// Most hosts that were in flight at once.
    pub most_in_flight: u64,
    /// Hosts that were allowed to update.
    pub told: u64,
    /// Hosts on the target at the end.
    pub updated: u64,
    /// Hosts on which it broke.
    pub broken: u64,
    /// Hosts that never came back.
    pub lost: u64,
    /// Hosts that timed out, by the engine's clock, at the end.
    pub timed_out: u64,
    /// Its hosts over time.
    pub curve: GroupCurve,
}

/// A halt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Halted {
    /// When.
    pub at: Timestamp,
    /// By which rule.
    pub rule: HaltRule,
    /// How many hosts.
    pub count: u64,
    /// Of how many.
    pub of: u64,
    /// Hosts that were hit until then.
    #[serde(rename = "hit_before")]
    pub hit: u64,
    /// It sends its hosts back.
    #[serde(rename = "rolls_back")]
    pub goes_back: bool,
}

impl Group {
    /// Hosts that the release broke, or that never came back from it: the blast radius.
    pub fn hit(&self) -> u64 {
        self.broken + self.lost
    }
}

impl Forecast {
    /// The blast radius: hosts that the release broke, or that never came back from it.
    pub fn hit(&self) -> u64 {
        self.groups.iter().map(Group::hit).sum()
    }

    /// Hosts that were hit until the first halt; without one, all.
    pub fn hit_before_halt(&self) -> u64 {
        let first = self.groups.iter().filter_map(|group| group.halt.as_ref()).min_by_key(|halt| halt.at);
        first.map_or(self.hit(), |halt| halt.hit)
    }

    /// How long it took until it was done or halted.
    pub fn took(&self) -> SignedDuration {
        self.decided.unwrap_or(self.end).duration_since(self.begin)
    }

    /// Seconds from the beginning to `at`.
    fn second(&self, at: Timestamp) -> u64 {
        seconds(self.begin, at)
    }

    /// When the minute with most downloads began.
    fn busiest(&self) -> Timestamp {
        later(self.begin, self.load.busiest().0.saturating_mul(60))
    }
}

/// Seconds from `begin` to `at`; 0 if that is before it.
fn seconds(begin: Timestamp, at: Timestamp) -> u64 {
    u64::try_from(at.duration_since(begin).as_secs()).unwrap_or(0)
}

/// So many seconds after `begin`.
fn later(begin: Timestamp, seconds: u64) -> Timestamp {
    let length = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    begin.saturating_add(length).unwrap_or(Timestamp::MAX)
}
