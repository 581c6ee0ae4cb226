//! Follows the agent after a service action until [`super::judge`] or [`super::watch`] has a verdict: looks again and
//! again, soon after something happened, and when a rule's time is up.

use std::ops::ControlFlow;
use std::time::Duration;

use super::Service;
use super::judge::{HealthSettings, Judge, Sample, Verdict};
use super::sampler::{Probe, Sampler};
use super::watch::Watcher;
use crate::host::signal::{self, Cancelled};
use crate::report::{Code, Error, Result};

/// How often to look. After something happened more is to be expected, so the time to the next look is half of the
/// quiet since, within these bounds: that finds soon what happens, and costs little where nothing does.
struct Pace {
    /// Shortest time between two looks.
    shortest: Duration,
    /// Longest time between two looks.
    longest: Duration,
    /// Longest time between two runs of systemctl, which cost a process each.
    unit: Duration,
}

/// For a verdict. A successor that dies at once lives for some tens of milliseconds; one that no look sees, systemd and the old main
/// process have seen.
const JUDGING: Pace =
    Pace { shortest: Duration::from_millis(25), longest: Duration::from_millis(100), unit: Duration::from_secs(2) };
/// For the later watch, whose rules wait 10 s at least. Restarts are counted by systemd, before 235 by looks.
const WATCHING: Pace =
    Pace { shortest: Duration::from_millis(250), longest: Duration::from_secs(1), unit: Duration::from_secs(10) };
/// Shortest time between two runs of systemctl: systemd itself needs some to take note of a death.
const UNIT_SHORTEST: Duration = Duration::from_millis(50);

/// Judges the new version after the service action that just ended (SPEC §6, health). Takes some seconds for a verdict
/// on a good version, at most `deadline` plus `without_readiness` of the settings, and 2 s.
///
/// `served_before`: the agent answered on its socket before the update ([`super::readiness::Readiness::is_served`]).
/// `baseline_failing`: it was failing before; then the verdict is never `Failed`.
///
/// Errors: [`Code::Interrupted`] when `cancelled` says so; [`Code::Damaged`] when the new binary is not there;
/// [`Code::Permission`] when it cannot be seen what the main process runs.
pub(crate) fn observe(
    probe: &Probe<'_>,
    settings: HealthSettings,
    served_before: bool,
    baseline_failing: bool,
    cancelled: Cancelled<'_>,
) -> Result<Verdict> {
    let reloaded = probe.before_reload.is_some() && matches!(probe.service, Service::Systemd(_));
    let mut judge = Judge::new(settings, served_before, baseline_failing, reloaded);
    follow(probe, &JUDGING, cancelled, |sample| {
        judge.feed(sample).map_or_else(|| ControlFlow::Continue(judge.due(sample.at)), ControlFlow::Break)
    })
}

/// Watches a version that was found healthy for another `length`; needs no lock (SPEC §6).
///
/// Errors as for [`observe`].
pub(crate) fn watch(probe: &Probe<'_>, length: Duration, cancelled: Cancelled<'_>) -> Result<Verdict> {
    let mut watcher = Watcher::new(length);
    follow(probe, &WATCHING, cancelled, |sample| {
        watcher.feed(sample).map_or_else(|| ControlFlow::Continue(watcher.due(sample.at)), ControlFlow::Break)
    })
}

/// `feed` answers with a verdict, or with when there can be one although nothing happens.
fn follow(
    probe: &Probe<'_>,
    pace: &Pace,
    cancelled: Cancelled<'_>,
    mut feed: impl FnMut(&Sample) -> ControlFlow<Verdict, Duration>,
) -> Result<Verdict> {
    let mut sampler = Sampler::new(probe, pace.longest)?;
    let mut last: Option<Sample> = None;
    let (mut happened, mut due) = (Duration::ZERO, Duration::ZERO);
    while !cancelled() {
        let at = sampler.now();
        // A verdict that time alone brings is given on fresh evidence.
        let unit_age = if at >= due { Duration::ZERO } else { (at - happened).clamp(UNIT_SHORTEST, pace.unit) };
        let sample = sampler.look(at, unit_age)?;
        match feed(&sample) {
            ControlFlow::Break(verdict) => return Ok(verdict),
            ControlFlow::Continue(next) => due = next,
        }
        if last.as_ref().is_some_and(|last| differ(last, &sample)) {
            happened = at;
        }
        last = Some(sample);
        let now = sampler.now();
        let rest = ((now - happened) / 2).clamp(pace.shortest, pace.longest).min(due.saturating_sub(now));
        if !cancelled() {
            signal::pause(rest);
        }
    }
    Err(Error::new(Code::Interrupted, "interrupted while watching the new version"))
}

/// Whether something happened between two looks.
fn differ(one: &Sample, other: &Sample) -> bool {
    *one != Sample { at: one.at, ..other.clone() }
}

#[cfg(test)]
mod tests;
