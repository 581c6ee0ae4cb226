//! Is the new version healthy? The rules of SPEC §6 as a pure state machine over what was seen when.
//!
//! It reads no clock and no `/proc`: [`super::health`] feeds it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::readiness::Readiness;
use crate::host::process::ProcessId;

/// More new processes than this dying in one judgement is a restart loop.
const DEATHS: usize = 2;
/// More automatic restarts than this since the judgement began is a restart loop.
const RESTARTS: u32 = 2;
/// After the last new process vanished another may follow (RestartSec= is 100 ms by default); after this none is coming
/// soon, and the verdict on a process that exits at once is still given within 5 s.
const SUCCESSOR_WAIT: Duration = Duration::from_secs(2);
/// The agent ended, and systemd will start it again only after [`SUCCESSOR_WAIT`] or later. Then nothing can come before,
/// but a start that was queued already when we came: systemd begins such a one within this time.
const DOOMED_WAIT: Duration = Duration::from_millis(500);
/// A process that took over, or got ready, must go on for this long, however old it is: what goes wrong at that point
/// does so at once. A version that is ready within 4 s is still believed within 6 s.
const SETTLE: Duration = Duration::from_secs(2);
/// Without any main process for so long, nothing was started at all.
const START_WAIT: Duration = Duration::from_secs(4);
/// The successor is forked as soon as the signal comes: when a child was reaped and no other came in this time, that was
/// it.
const FORK_WAIT: Duration = Duration::from_secs(4);

/// How long to look, all configurable (SPEC §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthSettings {
    /// The process must have stood this long.
    pub stable: Duration,
    /// Where the agent does not serve readiness, it must have stood this long as the main process instead.
    pub without_readiness: Duration,
    /// By then the new version must be the main process, and ready.
    pub deadline: Duration,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            stable: Duration::from_secs(5),
            without_readiness: Duration::from_secs(30),
            deadline: Duration::from_secs(60),
        }
    }
}

/// What was seen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Time since the service action.
    pub at: Duration,
    /// The main process: the pid file's if it runs the new binary, else the unit's.
    pub main: Option<Main>,
    /// Living processes of the new binary that are, were, or want to become the main process.
    pub new_alive: BTreeSet<ProcessId>,
    /// The old main process is still there, and has waited for a dead child since before the reload.
    pub reaped: bool,
    /// What the service manager says, where there is one.
    pub unit: Option<UnitSample>,
    /// The agent's own last word; `None` while the main process is not the new one.
    pub readiness: Option<Readiness>,
}

/// The main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Main {
    /// Which.
    pub id: ProcessId,
    /// It runs the new version's binary.
    pub is_new: bool,
}

/// The unit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct UnitSample {
    /// Given up by the manager, with its reason.
    pub failed: Option<String>,
    /// Ended, and waiting for its next start.
    pub auto_restart: bool,
    /// How long it waits for that; `None` where the manager does not tell.
    pub restart_after: Option<Duration>,
    /// Something of it runs, if only a preparation.
    pub active: bool,
    /// Automatic restarts; `None` before systemd 235.
    pub restarts: Option<u32>,
    /// Somebody asked for its last end; `None` where that is not known.
    pub stopped: Option<bool>,
    /// No process of its own has run since it was stopped, as far as the manager tells.
    pub unstarted: bool,
}

/// The end of a judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The new version works.
    Healthy {
        /// Time since the service action.
        after: Duration,
    },
    /// It does not: put the old version back.
    Failed {
        /// For the operator.
        reason: String,
    },
    /// It does not work, but the agent did not work before either, or somebody has stopped it: no reason to go back.
    Unproven {
        /// For the operator.
        reason: String,
    },
    /// Nothing of it was ever started, which tells nothing about it.
    Unstarted {
        /// For the operator.
        reason: String,
    },
}

/// The state of a judgement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judge {
    settings: HealthSettings,
    baseline_failing: bool,
    readiness_served: bool,
    /// The agent ran as the service's since the service action: a stop from then on is not that action's.
    ran: bool,
    first_restarts: Option<u32>,
    /// Every new process, and when it was seen first.
    seen: BTreeMap<ProcessId, Duration>,
    /// The main process if it is a new one, and since when it is that.
    standing: Option<(ProcessId, Duration)>,
    /// Since when that process answers that it is ready.
    ready_since: Option<Duration>,
    none_since: Option<Duration>,
    down_since: Option<Duration>,
    last_word: Option<String>,
}

impl Judge {
    /// `served_before`: the agent answered on its readiness socket before the update, so it must again.
    /// `baseline_failing`: the agent was failing before the update. `reloaded`: it ran on through the service action.
    pub(crate) fn new(settings: HealthSettings, served_before: bool, baseline_failing: bool, reloaded: bool) -> Self {
        Self { settings, baseline_failing, readiness_served: served_before, ran: reloaded, ..Self::default() }
    }

    /// Takes the next sample (in order of time); `None` = go on.
    pub(crate) fn feed(&mut self, sample: &Sample) -> Option<Verdict> {
        self.remember(sample);
        let unit = sample.unit.as_ref();
        let is_stopped = unit.is_some_and(|unit| unit.stopped == Some(true) && !unit.auto_restart);
        if self.ran && self.down_since.is_some() && is_stopped {
            // Where it is on its way again, that is judged.
            let is_over = !unit.is_some_and(|unit| unit.active) || sample.at >= self.settings.deadline;
            let reason = "somebody stopped the agent meanwhile; it stays stopped".to_owned();
            return is_over.then_some(Verdict::Unproven { reason });
        }
        if let Some(reason) = self.failure(sample) {
            let is_unstarted = self.seen.is_empty() && sample.main.is_none() && unit.is_some_and(|unit| unit.unstarted);
            return Some(match self.baseline_failing {
                true => {
                    Verdict::Unproven { reason: format!("the agent was already failing before this update: {reason}") }
                }
                false if is_unstarted => Verdict::Unstarted { reason },
                false => Verdict::Failed { reason },
            });
        }
        self.is_healthy(sample).then_some(Verdict::Healthy { after: sample.at })
    }

    fn remember(&mut self, sample: &Sample) {
        let new_main = sample.main.filter(|main| main.is_new).map(|main| main.id);
        for id in sample.new_alive.iter().copied().chain(new_main) {
            self.seen.entry(id).or_insert(sample.at);
        }
        let since = |condition: bool, since: Option<Duration>| condition.then(|| since.unwrap_or(sample.at));
        self.ran |= new_main.is_some();
        let same = self.standing.filter(|(id, _)| Some(*id) == new_main);
        self.standing = same.or(new_main.map(|id| (id, sample.at)));
        let is_of = |pid: &Option<u32>, id: ProcessId| pid.is_none_or(|pid| pid == id.pid);
        let is_ready =
            new_main.is_some_and(|id| matches!(&sample.readiness, Some(Readiness::Ready { pid }) if is_of(pid, id)));
        self.ready_since = since(is_ready, self.ready_since.filter(|_| same.is_some()));
        self.none_since = since(sample.new_alive.is_empty() && new_main.is_none(), self.none_since);
        self.down_since = since(sample.main.is_none() && sample.new_alive.is_empty(), self.down_since);
        // The old process may still answer on a socket that the new one does not serve.
        let by_other = |pid: &Option<u32>| pid.is_some() && *pid != new_main.map(|id| id.pid);
        match &sample.readiness {
            Some(Readiness::Ready { pid } | Readiness::NotReady { pid, .. }) if by_other(pid) => {
                self.last_word = Some("another process answers on its readiness socket".to_owned());
            }
            Some(Readiness::NotReady { text, .. }) => {
                self.readiness_served = true;
                self.last_word = Some(format!("/readyz says: {text}"));
            }
            Some(Readiness::Ready { .. }) => self.readiness_served = true,
            Some(_) if self.readiness_served => {
                self.last_word = Some("its readiness socket does not answer".to_owned());
            }
            _ => {}
        }
        let restarts = sample.unit.as_ref().and_then(|unit| unit.restarts);
        // A start by hand sets the counter back.
        self.first_restarts = self.first_restarts.into_iter().chain(restarts).min();
    }

    fn failure(&self, sample: &Sample) -> Option<String> {
        let unit = sample.unit.clone().unwrap_or_default();
        if let Some(result) = unit.failed {
            return Some(format!("the service failed ({result})"));
        }
        let main = sample.main.map(|main| main.id);
        let dead = self.seen.keys().filter(|id| !sample.new_alive.contains(id) && Some(**id) != main).count();
        let restarts = unit.restarts.unwrap_or(0).saturating_sub(self.first_restarts.unwrap_or(0));
        if dead > DEATHS || restarts > RESTARTS {
            return Some("the new version exited several times shortly after its start".to_owned());
        }
        let passed = |since: Option<Duration>, wait: Duration| since.is_some_and(|since| sample.at >= since + wait);
        if !self.seen.is_empty() && passed(self.none_since, SUCCESSOR_WAIT) {
            let old = if sample.main.is_some() { "; the old version keeps running" } else { "" };
            return Some(format!("the new version exited shortly after its start{old}"));
        }
        if self.seen.is_empty() && sample.reaped && main.is_some() && sample.at >= FORK_WAIT {
            let what = "the new version exited immediately after the reload; the old version keeps running";
            return Some(what.to_owned());
        }
        if unit.auto_restart && passed(self.down_since, restart_wait(&unit)) {
            return Some("the agent exited shortly after its start".to_owned());
        }
        if !unit.active && passed(self.down_since, START_WAIT) {
            return Some("the agent did not start".to_owned());
        }
        self.is_late(sample).then(|| self.late(sample))
    }

    fn is_late(&self, sample: &Sample) -> bool {
        let deadline = self.settings.deadline;
        match self.standing {
            // A new process that came late is given its time to stand, whatever the deadline.
            Some((_, since)) if since < deadline => {
                let needed = if self.readiness_served { self.settings.stable } else { self.settings.without_readiness };
                // One that is ready has only to go on.
                sample.at >= deadline.max(since + needed) && self.ready_since.is_none() && !self.is_healthy(sample)
            }
            _ => sample.at >= deadline,
        }
    }

    fn late(&self, sample: &Sample) -> String {
        let seconds = sample.at.as_secs();
        match (sample.main, &self.last_word) {
            (None, _) => format!("the agent was not running after {seconds} s"),
            (Some(main), _) if !main.is_new => format!("the old version was still running after {seconds} s"),
            (Some(_), Some(word)) => format!("the agent is not ready after {seconds} s: {word}"),
            (Some(_), None) => format!("the agent is not ready after {seconds} s"),
        }
    }

    fn is_healthy(&self, sample: &Sample) -> bool {
        self.healthy_at().is_some_and(|healthy| sample.at >= healthy)
    }

    /// When the present main process will have stood long enough; `None` if standing is not enough.
    fn healthy_at(&self) -> Option<Duration> {
        let HealthSettings { stable, without_readiness, .. } = self.settings;
        let (id, since) = self.standing?;
        match self.ready_since {
            Some(ready) => Some((*self.seen.get(&id)? + stable).max(ready + SETTLE.min(stable))),
            None => (!self.readiness_served).then(|| since + without_readiness.max(stable)),
        }
    }

    /// The earliest time after `at`, the last sample's, at which there can be a verdict if nothing happens until then.
    pub(crate) fn due(&self, at: Duration) -> Duration {
        let HealthSettings { stable, without_readiness, deadline } = self.settings;
        let standing = self.standing.map(|(_, since)| since);
        let times = [
            self.healthy_at(),
            self.none_since.map(|since| since + SUCCESSOR_WAIT),
            self.down_since.map(|since| since + DOOMED_WAIT),
            self.down_since.map(|since| since + SUCCESSOR_WAIT),
            self.down_since.map(|since| since + START_WAIT),
            Some(FORK_WAIT),
            Some(deadline),
            standing.map(|since| since + stable),
            standing.map(|since| since + without_readiness),
        ];
        times.into_iter().flatten().filter(|time| *time > at).min().unwrap_or(at + deadline)
    }
}

/// How long a unit that waits for its restart must have been down.
fn restart_wait(unit: &UnitSample) -> Duration {
    match unit.restart_after {
        Some(wait) if wait >= SUCCESSOR_WAIT => DOOMED_WAIT,
        _ => SUCCESSOR_WAIT,
    }
}

#[cfg(test)]
mod tests;
