//! The later watch over a version that was found healthy (SPEC §6): pure, like [`super::judge`].
//!
//! It is slower to condemn: an operator may restart or stop the agent meanwhile, and neither is the version's fault.

use std::collections::BTreeSet;
use std::time::Duration;

use super::judge::{Sample, UnitSample, Verdict};
use super::readiness::Readiness;
use crate::host::process::ProcessId;

/// So many restarts are no operator's.
const RESTARTS: u32 = 3;
/// Without a main process for so long it is not restarting, it is down.
const DOWN_WAIT: Duration = Duration::from_secs(10);
/// Not ready for so long, after it was: longer than a reconnection to the cluster takes.
const NOT_READY_WAIT: Duration = Duration::from_secs(30);

/// The state of a watch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watcher {
    length: Duration,
    first_restarts: Option<u32>,
    mains: BTreeSet<ProcessId>,
    down_since: Option<Duration>,
    not_ready_since: Option<Duration>,
    was_ready: bool,
}

impl Watcher {
    /// A watch of `length`.
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, ..Self::default() }
    }

    /// Takes the next sample (in order of time); `None` = go on. `Healthy` at the end of the watch, if the agent runs and is
    /// ready then.
    pub(crate) fn feed(&mut self, sample: &Sample) -> Option<Verdict> {
        self.remember(sample);
        if let Some(reason) = self.failure(sample) {
            return Some(Verdict::Failed { reason });
        }
        // What is not decided yet at the end of the watch is waited for.
        let is_open = self.down_since.is_some() || self.not_ready_since.is_some();
        (sample.at >= self.length && !is_open).then_some(Verdict::Healthy { after: sample.at })
    }

    /// The earliest time after `at`, the last sample's, at which there can be a verdict if nothing happens until then.
    pub(crate) fn due(&self, at: Duration) -> Duration {
        let down = self.down_since.map(|since| since + DOWN_WAIT);
        let not_ready = self.not_ready_since.map(|since| since + NOT_READY_WAIT);
        let end = (at < self.length).then_some(self.length);
        let times = [down, not_ready, end].into_iter().flatten();
        times.filter(|time| *time > at).min().unwrap_or(self.length)
    }

    fn remember(&mut self, sample: &Sample) {
        let since = |condition: bool, since: Option<Duration>| condition.then(|| since.unwrap_or(sample.at));
        // Somebody has stopped it, or starts it right now.
        let is_by_hand = |unit: &UnitSample| !unit.auto_restart && (unit.active || unit.stopped != Some(false));
        let is_by_hand = sample.unit.as_ref().is_some_and(is_by_hand);
        self.down_since = since(sample.main.is_none() && !is_by_hand, self.down_since);
        self.mains.extend(sample.main.map(|main| main.id));
        let is_ready = matches!(sample.readiness, Some(Readiness::Ready { .. }));
        self.was_ready |= is_ready;
        let asked = sample.readiness.is_some();
        self.not_ready_since = since(self.was_ready && asked && !is_ready, self.not_ready_since);
        let restarts = sample.unit.as_ref().and_then(|unit| unit.restarts);
        // A restart by hand sets the counter back.
        self.first_restarts = self.first_restarts.into_iter().chain(restarts).min();
    }

    fn failure(&self, sample: &Sample) -> Option<String> {
        let unit = sample.unit.as_ref();
        if let Some(result) = unit.and_then(|unit| unit.failed.as_ref()) {
            return Some(format!("the service failed ({result}) after it had been healthy"));
        }
        // The service manager knows which restarts are its own; where it does not count them, none is told from an operator's.
        let restarts = match unit.and_then(|unit| unit.restarts) {
            Some(counted) => counted.saturating_sub(self.first_restarts.unwrap_or(0)),
            None => u32::try_from(self.mains.len().saturating_sub(1)).unwrap_or(u32::MAX),
        };
        if restarts >= RESTARTS {
            return Some("the new version exited several times after it had been healthy".to_owned());
        }
        let passed = |since: Option<Duration>, wait: Duration| since.is_some_and(|since| sample.at >= since + wait);
        if passed(self.down_since, DOWN_WAIT) {
            return Some("the new version exited after it had been healthy".to_owned());
        }
        passed(self.not_ready_since, NOT_READY_WAIT).then(|| "the new version did not stay ready".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::Main;
    use super::*;

    fn running(pid: u32, readiness: Readiness) -> Sample {
        let id = ProcessId { pid, start_time: 2 };
        Sample {
            at: Duration::ZERO,
            main: Some(Main { id, is_new: true }),
            new_alive: [id].into(),
            reaped: false,
            unit: Some(UnitSample { active: true, restarts: Some(1), ..UnitSample::default() }),
            readiness: Some(readiness),
        }
    }

    fn ready(pid: u32) -> Sample {
        running(pid, Readiness::Ready { pid: None })
    }

    fn unready() -> Sample {
        running(7, Readiness::NoSocket)
    }

    fn down(unit: UnitSample) -> Sample {
        Sample { main: None, new_alive: BTreeSet::new(), unit: Some(unit), readiness: None, ..ready(1) }
    }

    /// What is seen from these times on, each 100 ms, leads to this verdict at this time.
    #[track_caller]
    fn ends(script: &[(f64, Sample)], at: f64, healthy: bool) {
        let seen = |at| script.iter().rfind(|(from, _)| *from <= at).unwrap().1.clone();
        let look =
            |tenth: u32| Sample { at: Duration::from_millis(u64::from(tenth) * 100), ..seen(f64::from(tenth) / 10.0) };
        let samples: Vec<Sample> = (0..=1000).map(look).collect();
        let (found, verdict) = fed(&samples, false).expect("no verdict");
        assert_eq!(fed(&samples, true), Some((found, verdict.clone())));
        let is_healthy = matches!(verdict, Verdict::Healthy { .. });
        assert_eq!((found, is_healthy), (Duration::from_millis((at * 1000.0) as u64), healthy), "{verdict:?}");
    }

    /// Feeds the samples, or those of them in which something happened or that are due.
    fn fed(samples: &[Sample], sparsely: bool) -> Option<(Duration, Verdict)> {
        let mut watcher = Watcher::new(Duration::from_secs(60));
        let (mut due, mut last) = (Duration::ZERO, samples[0].clone());
        samples.iter().find_map(|sample| {
            let quiet = *sample == Sample { at: sample.at, ..last.clone() };
            if sparsely && quiet && sample.at < due {
                return None;
            }
            last = sample.clone();
            let verdict = watcher.feed(sample);
            due = watcher.due(sample.at);
            Some((sample.at, verdict?))
        })
    }

    #[test]
    fn a_process_that_runs_on_or_that_an_operator_restarts_or_stops_has_not_fallen() {
        ends(&[(0.0, ready(7))], 60.0, true);
        ends(&[(0.0, unready())], 60.0, true);
        let preparing = || down(UnitSample { active: true, ..UnitSample::default() });
        ends(&[(0.0, ready(7)), (20.0, preparing()), (25.0, ready(8))], 60.0, true);
        let each_five_seconds: Vec<_> = (0..20).map(|turn| (f64::from(turn) * 5.0, ready(10 + turn))).collect();
        ends(&each_five_seconds, 60.0, true);
        let counted = || down(UnitSample { active: true, restarts: Some(0), ..UnitSample::default() });
        ends(&[(0.0, ready(7)), (10.0, counted()), (40.0, ready(7))], 60.0, true);
        let stopped = down(UnitSample { stopped: Some(true), ..UnitSample::default() });
        ends(&[(0.0, ready(7)), (20.0, stopped)], 60.0, true);
    }

    #[test]
    fn what_is_down_for_ten_seconds_or_has_failed_or_was_restarted_three_times_has_fallen() {
        let fell = || down(UnitSample { stopped: Some(false), ..UnitSample::default() });
        ends(&[(0.0, ready(7)), (20.0, fell())], 30.0, false);
        ends(&[(0.0, ready(7)), (55.0, fell())], 65.0, false);
        let looping = down(UnitSample { auto_restart: true, active: true, restarts: Some(0), ..UnitSample::default() });
        ends(&[(0.0, ready(7)), (10.0, looping)], 20.0, false);
        let failed = down(UnitSample { failed: Some("signal".to_owned()), ..UnitSample::default() });
        ends(&[(0.0, ready(7)), (20.0, failed)], 20.0, false);
        let unit = |restarts| Some(UnitSample { active: true, restarts, ..UnitSample::default() });
        let turns = |each: f64, look: &dyn Fn(u32) -> Sample| -> Vec<_> {
            (0..10).map(|turn| (f64::from(turn) * each, look(turn))).collect()
        };
        ends(&turns(10.0, &|turn| Sample { unit: unit(None), ..ready(10 + turn) }), 30.0, false);
        ends(&turns(5.0, &|turn| Sample { unit: unit(Some(turn)), ..ready(7) }), 15.0, false);
    }

    #[test]
    fn losing_readiness_for_long_is_a_failure_and_for_a_moment_is_none() {
        let lost = |from: f64, to: f64| [(0.0, ready(7)), (from, unready()), (to, ready(7))];
        ends(&lost(10.0, 100.0), 40.0, false);
        ends(&lost(10.0, 35.0), 60.0, true);
        // Also where the watch would end before it is decided.
        ends(&lost(50.0, 70.0), 70.0, true);
        ends(&lost(50.0, 100.0), 80.0, false);
    }
}
