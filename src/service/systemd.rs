//! The agent as a unit of systemd.

use std::cell::OnceCell;
use std::time::Duration;

use super::judge::UnitSample;
use super::{AgentState, MainHint, Reloaded};
use crate::host::systemctl::{StartLine, Systemctl, UnitState, longest_stop};
use crate::host::{process, session};
use crate::report::{Code, Error, Result};

/// This many automatic restarts make a loop: one or two are bad luck.
const LOOP_RESTARTS: u32 = 3;
/// A process older than this has left the loop that it was in.
const LOOP_AGE: Duration = Duration::from_secs(30);

/// What is wrong with a unit at one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// systemd has given it up.
    Failed,
    /// It restarts again and again: systemd has counted so many automatic restarts since the last start by hand, the last of them a
    /// moment ago.
    Looping,
    /// It waits for its next automatic start, or has had one a moment ago. A single look cannot tell a loop from one restart
    /// after months: systemd counts restarts since the last start by hand, and before version 235 not at all.
    Restarting,
}

/// A unit of the booted systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Systemd {
    unit: String,
    /// Its own name: `unit` can be an alias, and the control group has no other.
    id: OnceCell<String>,
    ctl: Systemctl,
}

impl Systemd {
    /// `unit` with `.service`.
    pub fn new(unit: &str) -> Self {
        Self { unit: unit.to_owned(), id: OnceCell::new(), ctl: Systemctl::default() }
    }

    /// What systemd says of the unit.
    pub fn show(&self) -> Result<UnitState> {
        let unit = self.ctl.show(&self.unit)?;
        if !unit.id.is_empty() {
            self.id.get_or_init(|| unit.id.clone());
        }
        Ok(unit)
    }

    /// What the unit starts.
    pub fn start_line(&self) -> Result<StartLine> {
        self.ctl.start_line(&self.unit)
    }

    /// What is wrong with the unit at this moment, by what systemd says.
    pub fn trouble(&self) -> Result<Option<Trouble>> {
        let unit = self.show()?;
        Ok(trouble(&unit, main_age(&unit)?))
    }

    pub(super) fn state(&self) -> Result<AgentState> {
        let unit = self.show()?;
        let trouble = trouble(&unit, main_age(&unit)?);
        Ok(AgentState {
            running: unit.is_active(),
            main_pid: hint(&unit).pid()?,
            enabled: unit.is_enabled(),
            failed: unit.is_auto_restart() || matches!(trouble, Some(Trouble::Failed | Trouble::Looping)),
            stopped: unit.is_inactive() && unit.was_stopped() == Some(true),

            unmanaged: Vec::new(),
        })
    }

    pub(super) fn main_pid(&self) -> Result<Option<u32>> {
        hint(&self.show()?).pid()
    }

    /// Asks systemd to stop the unit; one that it does not know or that is inactive needs no asking.
    pub(super) fn stop(&self) -> Result<()> {
        let unit = self.show()?;
        // A unit whose file vanished still runs, and can still be stopped.
        if unit.is_inactive() {
            return Ok(());
        }
        self.ctl.stop(&self.unit, unit.stop_timeout).or_else(|error| self.wait_for_stop(unit.stop_timeout, error))
    }

    /// A stop whose caller has failed may be queued all the same: it is waited out.
    fn wait_for_stop(&self, stop_timeout: Option<Duration>, error: Error) -> Result<()> {
        let is_stopping = || {
            let unit = self.show()?;
            Ok((unit.has_job || unit.active_state == "deactivating").then(|| error.clone()))
        };
        super::wait_while(is_stopping, longest_stop(stop_timeout), &|| false)?;
        if self.is_inactive() { Ok(()) } else { Err(error) }
    }

    pub(super) fn start(&self) -> Result<()> {
        // Forgets the start limit; the unit may not have failed at all, which old versions report as an error.
        let _ = self.ctl.tell("reset-failed", &self.unit);
        self.ctl.start(&self.unit).or_else(|error| match self.show() {
            // A unit that was masked while it runs is not started, and runs on.
            Ok(unit) if matches!(unit.active_state.as_str(), "active" | "reloading") && !unit.has_job => Ok(()),
            _ => Err(error),
        })
    }

    /// Waits for a start that is queued or under way, at most `timeout`.
    ///
    /// Errors: the unit does not run, and why as far as systemd says.
    pub(super) fn wait_for_start(&self, timeout: Duration) -> Result<()> {
        let missing = || {
            let unit = self.show()?;
            if matches!(unit.active_state.as_str(), "active" | "reloading") {
                return Ok(None);
            }
            let (name, UnitState { active_state, sub_state, result, .. }) = (&self.unit, &unit);
            let what = format!("the agent does not run: {name} is {active_state} ({sub_state}, {result})");
            let error = Error::new(Code::ServiceFailed, what)
                .advise(format!("see `systemctl status {name}`, mend what it names and run `systemctl start {name}`"));
            if unit.has_job || unit.is_active() { Ok(Some(error)) } else { Err(error) }
        };
        super::wait_while(missing, timeout, &|| false)
    }

    pub(super) fn reload(&self) -> Result<Reloaded> {
        let unit = self.show()?;
        if unit.can_reload && unit.active_state == "active" && self.ctl.tell("reload", &self.unit).is_ok() {
            return Ok(Reloaded::Reloaded);
        }
        self.restart().map(|()| Reloaded::Restarted)
    }

    pub(super) fn restart(&self) -> Result<()> {
        let _ = self.ctl.tell("reset-failed", &self.unit);
        let before = self.show()?;
        self.ctl.restart(&self.unit)?;
        // The stop has as long as the unit gives it: nothing of the new version has begun, and no deadline of its own.
        let is_stopping = || {
            let unit = self.show()?;
            let is_old = unit.has_job && unit.main_pid == before.main_pid && unit.main_pid.is_some();
            let error = || Error::new(Code::ServiceFailed, format!("{} does not stop for its restart", self.unit));
            Ok((is_old || unit.active_state == "deactivating").then(error))
        };
        super::wait_while(is_stopping, longest_stop(before.stop_timeout), &|| false)
    }

    pub(super) fn daemon_reload(&self) -> Result<()> {
        self.ctl.daemon_reload()
    }

    /// True when systemd is reachable and nothing of the unit runs.
    pub(super) fn is_inactive(&self) -> bool {
        self.show().is_ok_and(|unit| unit.is_inactive())
    }

    /// Whether the process with this number is in the unit's control group.
    pub(crate) fn contains(&self, pid: u32) -> Result<bool> {
        if self.id.get().is_none() {
            self.show()?;
        }
        let unit = self.id.get().unwrap_or(&self.unit);
        let manager = process::cgroup(process::FIRST)?.unwrap_or_default();
        Ok(process::cgroup(pid)?.is_some_and(|text| session::inside_unit(unit, &manager, &text)))
    }
}

/// `main_age`: how long the main process has run.
fn trouble(unit: &UnitState, main_age: Option<Duration>) -> Option<Trouble> {
    let is_young = main_age.is_some_and(|age| age < LOOP_AGE);
    match unit.n_restarts {
        _ if unit.is_failed() => Some(Trouble::Failed),
        Some(count) if count >= LOOP_RESTARTS && (unit.is_auto_restart() || is_young) => Some(Trouble::Looping),
        _ if unit.is_auto_restart() => Some(Trouble::Restarting),
        // Without a count a start by hand looks the same.
        count => (is_young && count != Some(0)).then_some(Trouble::Restarting),
    }
}

/// How long the unit's main process has run; `None` without one.
fn main_age(unit: &UnitState) -> Result<Option<Duration>> {
    unit.main_pid.map_or(Ok(None), process::age)
}

/// Where to find the main process of a unit in this state.
pub(super) fn hint(unit: &UnitState) -> MainHint {
    MainHint { pid_file: unit.pid_file.clone(), main_pid: unit.main_pid }
}

/// What a unit in this state tells of its health.
pub(super) fn sample(unit: &UnitState) -> UnitSample {
    let stopped = unit.was_stopped();
    UnitSample {
        // With a job that waits, or has not begun, it shows how it was left.
        failed: (unit.is_failed() && !unit.has_job && stopped != Some(true)).then(|| unit.result.clone()),
        auto_restart: unit.is_auto_restart(),
        restart_after: unit.restart_after,
        active: unit.is_active() || (unit.has_job && !unit.is_auto_restart()),
        restarts: unit.n_restarts,
        stopped,
        unstarted: stopped != Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_is_told_from_a_failure_and_from_a_start_by_hand_with_and_without_a_count() {
        let unit = |active_state: &str, sub_state: &str, n_restarts| UnitState {
            active_state: active_state.into(),
            sub_state: sub_state.into(),
            n_restarts,
            ..UnitState::default()
        };
        let (young, old) = (Some(LOOP_AGE - Duration::from_millis(1)), Some(LOOP_AGE));
        for (unit, age, expected) in [
            (unit("failed", "failed", Some(5)), None, Some(Trouble::Failed)),
            (unit("inactive", "dead", Some(5)), None, None),
            (unit("activating", "auto-restart", Some(1)), None, Some(Trouble::Restarting)),
            (unit("activating", "auto-restart", Some(2)), None, Some(Trouble::Restarting)),
            (unit("activating", "auto-restart", Some(3)), None, Some(Trouble::Looping)),
            (unit("active", "running", Some(3)), young, Some(Trouble::Looping)),
            (unit("active", "running", Some(3)), old, None),
            (unit("activating", "auto-restart", None), None, Some(Trouble::Restarting)),
            (unit("active", "running", Some(1)), young, Some(Trouble::Restarting)),
            (unit("active", "running", None), young, Some(Trouble::Restarting)),
            (unit("active", "running", Some(0)), young, None),
            (unit("active", "running", Some(90)), old, None),
            (unit("active", "running", None), old, None),
        ] {
            assert_eq!(trouble(&unit, age), expected, "{unit:?} {age:?}");
        }
    }

    #[test]
    fn a_unit_whose_job_is_queued_is_neither_failed_nor_stopped_but_on_its_way() {
        for (active_state, result) in [("failed", "signal"), ("inactive", "success")] {
            let left = UnitState { active_state: active_state.into(), result: result.into(), ..UnitState::default() };
            let queued = sample(&UnitState { has_job: true, ..left.clone() });
            assert_eq!((queued.failed, queued.active), (None, true));
            let left = sample(&left);
            assert_eq!((left.failed.is_some(), left.active), (active_state == "failed", false));
        }
    }

    #[test]
    fn a_stop_is_told_from_an_end_by_which_comes_first() {
        let sampled = |active_state: &str, active_exit, main_exit| {
            let (active_state, result) = (active_state.into(), "exit-code".into());
            let sample = sample(&UnitState { active_state, result, active_exit, main_exit, ..UnitState::default() });
            (sample.stopped, sample.failed.is_some(), sample.unstarted)
        };
        // A stop, also one in which the process had to be killed, and what ended by itself and is given up.
        assert_eq!(sampled("inactive", 7, 9), (Some(true), false, true));
        assert_eq!(sampled("failed", 7, 9), (Some(true), false, true));
        assert_eq!(sampled("inactive", 9, 7), (Some(false), false, false));
        assert_eq!(sampled("failed", 9, 9), (Some(false), true, false));
        // A start after it that has failed before the process; a disabled unit that was forgotten.
        assert_eq!(sampled("failed", 7, 0), (None, true, true));
        assert_eq!(sampled("inactive", 0, 0), (None, false, true));
        // A unit that goes on keeps the stamp of its last stop while a successor is taken over.
        assert_eq!(sampled("active", 7, 9), (Some(false), false, false));
    }
}
