//! The agent as a unit of systemd.

use std::time::Duration;

use super::judge::UnitSample;
use super::{AgentState, MainHint, Reloaded};
use crate::host::process;
use crate::host::session;
use crate::host::systemctl::{StartLine, Systemctl, UnitState};
use crate::host::systemd_bus::SystemdBus;
use crate::report::Result;

/// This many automatic restarts make a loop: one or two are bad luck.
const LOOP_RESTARTS: u32 = 3;
/// A process older than this has left the loop that it was in.
const LOOP_AGE: Duration = Duration::from_secs(30);

/// A unit of the booted systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Systemd {
    unit: String,
    ctl: Systemctl,
}

impl Systemd {
    /// `unit` with `.service`.
    pub fn new(unit: &str) -> Self {
        Self { unit: unit.to_owned(), ctl: Systemctl::host() }
    }

    /// What systemd says of the unit.
    pub fn show(&self) -> Result<UnitState> {
        self.ctl.show(&self.unit)
    }

    /// What the unit starts.
    pub fn start_line(&self) -> Result<StartLine> {
        self.ctl.start_line(&self.unit)
    }

    /// Whether the unit has failed, or restarts again and again.
    pub fn is_failing(&self) -> Result<bool> {
        is_failing(&self.show()?)
    }

    pub(super) fn state(&self) -> Result<AgentState> {
        let unit = self.show()?;
        Ok(AgentState {
            running: unit.is_active(),
            main_pid: hint(&unit).pid()?,
            enabled: unit.is_enabled(),
            failed: is_failing(&unit)?,
            known: unit.is_loaded(),
            unmanaged: Vec::new(),
        })
    }

    pub(super) fn main_pid(&self) -> Result<Option<u32>> {
        hint(&self.show()?).pid()
    }

    pub(super) fn is_running(&self) -> Result<bool> {
        Ok(self.show()?.is_active())
    }

    /// Asks systemd to stop the unit; one that it does not know or that is inactive needs no asking.
    pub(super) fn stop(&self) -> Result<()> {
        // For the start that follows, which then has nothing to wait for.
        let _ = self.ctl.reset_failed(&self.unit);
        let unit = self.show()?;
        // A unit whose file vanished still runs, and can still be stopped.
        if unit.is_inactive() { Ok(()) } else { self.ctl.stop(&self.unit) }
    }

    pub(super) fn start(&self) -> Result<()> {
        // Forgets the start limit; the unit may not have failed at all, which old versions report as an error.
        let _ = self.ctl.reset_failed(&self.unit);
        self.ctl.start(&self.unit)
    }

    /// After [`Systemd::stop`], which has made it forget the start limit.
    pub(super) fn start_stopped(&self, bus: Option<SystemdBus>) -> Result<()> {
        match bus.map(|bus| bus.start(&self.unit)) {
            Some(Ok(())) => Ok(()),
            _ => self.ctl.start(&self.unit),
        }
    }

    pub(super) fn reload(&self) -> Result<Reloaded> {
        let unit = self.show()?;
        if unit.can_reload && unit.active_state == "active" && self.ctl.reload(&self.unit).is_ok() {
            return Ok(Reloaded::Reloaded);
        }
        self.restart().map(|()| Reloaded::Restarted)
    }

    pub(super) fn restart(&self) -> Result<()> {
        let _ = self.ctl.reset_failed(&self.unit);
        self.ctl.restart(&self.unit)
    }

    pub(super) fn daemon_reload(&self) -> Result<()> {
        self.ctl.daemon_reload()
    }

    /// True when systemd is reachable and nothing of the unit runs.
    pub(super) fn is_inactive(&self) -> bool {
        self.show().is_ok_and(|unit| unit.is_inactive())
    }

    pub(super) fn contains(&self, pid: u32) -> Result<bool> {
        let manager = process::cgroup(process::FIRST)?.unwrap_or_default();
        Ok(process::cgroup(pid)?.is_some_and(|text| session::inside_unit(&self.unit, &manager, &text)))
    }
}

fn is_failing(unit: &UnitState) -> Result<bool> {
    let looping = match unit.main_pid.filter(|_| unit.n_restarts.is_some_and(|count| count >= LOOP_RESTARTS)) {
        Some(main) => process::age(main)?.is_some_and(|age| age < LOOP_AGE),
        None => false,
    };
    Ok(unit.is_failed() || unit.is_auto_restart() || looping)
}

/// Where to find the main process of a unit in this state.
pub(super) fn hint(unit: &UnitState) -> MainHint {
    MainHint { pid_file: unit.pid_file.clone(), main_pid: unit.main_pid }
}

/// What a unit in this state tells of its health.
pub(super) fn sample(unit: &UnitState) -> UnitSample {
    UnitSample {
        // With a job that waits, or has not begun, it shows how it was left.
        failed: (unit.is_failed() && !unit.has_job).then(|| unit.result.clone()),
        auto_restart: unit.is_auto_restart(),
        restart_after: unit.restart_after,
        active: unit.is_active() || (unit.has_job && !unit.is_auto_restart()),
        restarts: unit.n_restarts,
        stopped: unit.active_state == "inactive" && unit.result == "success" && !unit.has_job,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_whose_job_is_queued_is_neither_failed_nor_stopped_but_on_its_way() {
        for (active_state, result) in [("failed", "signal"), ("inactive", "success")] {
            let left = UnitState { active_state: active_state.into(), result: result.into(), ..UnitState::default() };
            let queued = sample(&UnitState { has_job: true, ..left.clone() });
            assert_eq!((queued.failed, queued.stopped, queued.active), (None, false, true));
            let left = sample(&left);
            assert_eq!((left.failed.is_some(), left.stopped), (active_state == "failed", active_state == "inactive"));
            assert!(!left.active);
        }
    }
}
