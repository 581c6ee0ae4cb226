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
        self.first_restarts = match (self.first_restarts, restarts) {
            // A restart by hand sets the counter back.
            (Some(first), Some(now)) => Some(first.min(now)),
            (first, now) => first.or(now),
        };
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

    fn running(at: f64, pid: u32, readiness: Readiness) -> Sample {
        let id = ProcessId { pid, start_time: 2 };
        Sample {
            at: Duration::from_secs_f64(at),
            main: Some(Main { id, is_new: true }),
            new_alive: [id].into(),
            reaped: false,
            unit: Some(UnitSample { active: true, restarts: Some(1), ..UnitSample::default() }),
            readiness: Some(readiness),
        }
    }

    fn down(at: f64, unit: UnitSample) -> Sample {
        Sample { main: None, new_alive: BTreeSet::new(), unit: Some(unit), readiness: None, ..running(at, 1, READY) }
    }

    const FELL: UnitSample = UnitSample {
        failed: None,
        auto_restart: false,
        restart_after: None,
        active: false,
        restarts: None,
        stopped: Some(false),
        unstarted: false,
    };

    const READY: Readiness = Readiness::Ready { pid: None };

    fn watched(sample: impl Fn(f64) -> Sample) -> (f64, bool) {
        let samples: Vec<Sample> = (0..=1000).map(|tenth| sample(f64::from(tenth) / 10.0)).collect();
        let (at, verdict) = fed(&samples, false).expect("no verdict");
        assert_eq!(fed(&samples, true), Some((at, verdict.clone())));
        (at.as_millis() as f64 / 1000.0, matches!(verdict, Verdict::Healthy { .. }))
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
    fn a_process_that_runs_on_passes_with_and_without_readiness() {
        assert_eq!(watched(|at| running(at, 7, READY)), (60.0, true));
        assert_eq!(watched(|at| running(at, 7, Readiness::NoSocket)), (60.0, true));
    }

    #[test]
    fn one_restart_by_an_operator_is_no_failure() {
        let sample = |at: f64| match at {
            at if at < 20.0 => running(at, 7, READY),
            at if at < 25.0 => down(at, UnitSample { active: true, ..UnitSample::default() }),
            at => running(at, 8, READY),
        };
        assert_eq!(watched(sample), (60.0, true));
    }

    #[test]
    fn any_number_of_restarts_and_reloads_by_hand_is_no_failure_and_neither_is_a_slow_one() {
        assert_eq!(watched(|at| running(at, 10 + (at / 5.0) as u32, READY)), (60.0, true));
        let preparing = UnitSample { active: true, restarts: Some(0), ..UnitSample::default() };
        let slow =
            |at: f64| if (10.0..40.0).contains(&at) { down(at, preparing.clone()) } else { running(at, 7, READY) };
        assert_eq!(watched(slow), (60.0, true));
        let looping = UnitSample { auto_restart: true, ..preparing.clone() };
        let down_again = |at: f64| if at < 10.0 { running(at, 7, READY) } else { down(at, looping.clone()) };
        assert_eq!(watched(down_again), (20.0, false));
    }

    #[test]
    fn a_stop_by_an_operator_is_no_failure() {
        let stopped = UnitSample { stopped: Some(true), ..UnitSample::default() };
        let sample = |at: f64| if at < 20.0 { running(at, 7, READY) } else { down(at, stopped.clone()) };
        assert_eq!(watched(sample), (60.0, true));
    }

    #[test]
    fn a_failed_unit_is_a_failure_at_once() {
        let failed = UnitSample { failed: Some("signal".to_owned()), ..UnitSample::default() };
        let sample = |at: f64| if at < 20.0 { running(at, 7, READY) } else { down(at, failed.clone()) };
        assert_eq!(watched(sample), (20.0, false));
    }

    #[test]
    fn a_process_that_is_down_for_ten_seconds_is_a_failure() {
        let sample = |at: f64| if at < 20.0 { running(at, 7, READY) } else { down(at, FELL) };
        assert_eq!(watched(sample), (30.0, false));
        let late = |at: f64| if at < 55.0 { running(at, 7, READY) } else { down(at, FELL) };
        assert_eq!(watched(late), (65.0, false));
    }

    #[test]
    fn three_restarts_are_a_failure() {
        let uncounted = |at: f64| {
            let unit = UnitSample { active: true, ..UnitSample::default() };
            Sample { unit: Some(unit), ..running(at, 10 + (at / 10.0) as u32, READY) }
        };
        assert_eq!(watched(uncounted), (30.0, false));
        let counted = |at: f64| {
            let unit = UnitSample { active: true, restarts: Some((at / 5.0) as u32), ..UnitSample::default() };
            Sample { unit: Some(unit), ..running(at, 7, READY) }
        };
        assert_eq!(watched(counted), (15.0, false));
    }

    #[test]
    fn losing_readiness_for_long_is_a_failure_and_for_a_moment_is_none() {
        let lost = |from: f64, to: f64| {
            move |at: f64| match at {
                at if at >= from && at < to => running(at, 7, Readiness::NoSocket),
                at => running(at, 7, READY),
            }
        };
        assert_eq!(watched(lost(10.0, 100.0)), (40.0, false));
        assert_eq!(watched(lost(10.0, 35.0)), (60.0, true));
        // Also where the watch would end before it is decided.
        assert_eq!(watched(lost(50.0, 70.0)), (70.0, true));
        assert_eq!(watched(lost(50.0, 100.0)), (80.0, false));
    }
}
