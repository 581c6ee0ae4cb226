//! A look at the agent, as [`super::judge`] and [`super::watch`] want it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::health::Probe;
use super::judge::{Main, Sample, UnitSample};
use super::readiness;
use super::{MainHint, Service, pid_file_process, stopped, systemd};
use crate::host::events::Events;
use crate::host::process::{self, FileId, Process, ProcessId};
use crate::report::{Code, Error, Result};

/// Looks again and again, and listens for what makes another look worth while.
pub(super) struct Sampler<'a> {
    probe: &'a Probe<'a>,
    new_file: FileId,
    start: Instant,
    unit: Option<(UnitSample, MainHint)>,
    unit_asked: Option<Duration>,
    /// Every process of the new binary that was or wanted to become the main process.
    known: BTreeSet<ProcessId>,
    events: Events,
}

impl<'a> Sampler<'a> {
    /// `starts`: executions of the new binary are worth a look.
    ///
    /// Errors: [`Code::Damaged`] when the new binary is not there.
    pub(super) fn new(probe: &'a Probe<'a>, starts: bool) -> Result<Self> {
        let new_file = FileId::of(&probe.new_binary)
            .ok_or_else(|| Error::new(Code::Damaged, format!("{} is not there", probe.new_binary.display())))?;
        let mut events = Events::new();
        if starts {
            events.listen_to_use(&probe.new_binary);
        }
        let start = Instant::now();
        Ok(Self { probe, new_file, start, unit: None, unit_asked: None, known: BTreeSet::new(), events })
    }

    /// Time since the service action, which is just over when this is made.
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits at most `timeout` for something to happen; true if it did. A signal to us ends the wait as well.
    pub(super) fn wait(&mut self, timeout: Duration) -> bool {
        self.events.wait(timeout)
    }

    /// Looks, at the time `at`. What the service manager said may be as old as `unit_age`: asking it costs a process.
    /// What happens meanwhile ends the next wait at once.
    ///
    /// Errors: [`Code::Permission`] when it cannot be seen what the main process runs.
    pub(super) fn look(&mut self, at: Duration, unit_age: Duration) -> Result<Sample> {
        self.events.listen_to_name(&self.probe.data_dir.join(readiness::SOCKET));
        let (unit, hint) = self.look_at_unit(at, unit_age);
        if let Some(pid_file) = &hint.pid_file {
            self.events.listen_to_name(pid_file);
        }
        let main = self.main(&hint);
        match &main {
            // Which version it is of cannot be told, and so nothing be said against the new one.
            Some(unseen) if unseen.hidden => return Err(stopped::hidden(unseen)),
            Some(process) if self.is_new(process) => drop(self.known.insert(process.id())),
            Some(old) => self.known.extend(self.successors(old)),
            None => self.known.extend(self.starting()),
        }
        let main = main.map(|process| Main { id: process.id(), is_new: self.known.contains(&process.id()) });
        self.known.retain(|id| id.is_alive());
        self.events.listen_to_ends(&self.known.iter().copied().chain(main.map(|main| main.id)).collect());
        if !self.events.hears_ends() {
            // A process lets go of its program when it ends, which every kernel tells.
            self.events.listen_to_use(&self.probe.new_binary);
        }
        let readiness = main.is_some_and(|main| main.is_new).then(|| readiness::ask(&self.probe.data_dir));
        let reaped = self.probe.before_reload.is_some_and(|old| old.has_reaped());
        Ok(Sample { at, main, new_alive: self.known.clone(), reaped, unit, readiness })
    }

    fn look_at_unit(&mut self, at: Duration, age: Duration) -> (Option<UnitSample>, MainHint) {
        match self.probe.service {
            Service::Systemd(systemd) => {
                if self.unit_asked.is_none_or(|asked| at >= asked + age) {
                    self.unit_asked = Some(at);
                    // Without an answer the last one stands.
                    if let Ok(state) = systemd.show() {
                        self.unit = Some((systemd::sample(&state), systemd::hint(&state)));
                    }
                }
                self.unit.clone().map_or_else(Default::default, |(sample, hint)| (Some(sample), hint))
            }
            Service::Commands(commands) => {
                // Its stop command removes the pid file, a crash leaves it.
                let sample = UnitSample { stopped: !commands.pid_file.exists(), ..UnitSample::default() };
                (Some(sample), MainHint { pid_file: Some(commands.pid_file.clone()), main_pid: None })
            }
            Service::None => Default::default(),
        }
    }

    /// The pid file's process if it is the new one: systemd learns of a successor only when the old main process ends.
    fn main(&self, hint: &MainHint) -> Option<Process> {
        let by_file = hint.pid_file.as_deref().and_then(pid_file_process);
        match by_file {
            Some(process) if self.is_new(&process) || hint.main_pid.is_none() => Some(process),
            _ => hint.main_pid.and_then(Process::by_pid),
        }
    }

    /// Children of the old main process that run the new binary in the same way: not the helpers of a session.
    fn successors(&self, old: &Process) -> Vec<ProcessId> {
        let children = process::all().into_iter().filter(|process| process.ppid == old.pid && self.is_new(process));
        children.filter(|process| process.args() == old.args()).map(|process| process.id()).collect()
    }

    /// Agents that commands have started and that have not written their pid file yet: they do so when they are ready.
    fn starting(&self) -> Vec<ProcessId> {
        match self.probe.service {
            Service::Commands(_) => {
                let agents = process::all().into_iter().filter(|process| self.is_new(process));
                agents.filter(stopped::is_agent).map(|process| process.id()).collect()
            }
            Service::Systemd(_) | Service::None => Vec::new(),
        }
    }

    fn is_new(&self, process: &Process) -> bool {
        process.exe_id() == Some(self.new_file)
    }
}
