//! A look at the agent, as [`super::judge`] and [`super::watch`] want it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Whom to look at.
#[derive(Debug, Clone)]
pub(crate) struct Probe<'a> {
    /// What runs the agent.
    pub service: &'a Service,
    /// The new version's `teleport`, in the versions directory.
    pub new_binary: PathBuf,
    /// The agent's data directory, with its readiness socket.
    pub data_dir: PathBuf,
    /// The main process just before the reload ([`Service::reaper`]); `None` if there was no reload.
    pub before_reload: Option<Reaper>,
}

use super::judge::{Main, Sample, UnitSample};
use super::{MainHint, Service, readiness, stopped, systemd};
use crate::host::durable;
use crate::host::layout::DATABASE;
use crate::host::process::{self, FileId, Process, ProcessId, Reaper};
use crate::report::{Code, Error, Result};

/// What one look may take: a question to the agent, and one to the service manager, on a loaded host.
const LOOK: Duration = Duration::from_secs(2);

/// So long the service manager's last word stands while it does not answer: it is busy, or starts itself anew.
const UNIT_STANDS: Duration = Duration::from_secs(10);

/// Looks again and again.
pub(super) struct Sampler<'a> {
    probe: &'a Probe<'a>,
    new_file: FileId,
    /// When the clock was last looked at, and the time that counted until then.
    clock: (Instant, Duration),
    longest: Duration,
    unit: Option<(UnitSample, MainHint)>,
    unit_asked: Option<Duration>,
    unit_answered: Duration,
    /// Every process of the new binary that was or wanted to become the main process.
    known: BTreeSet<ProcessId>,
}

impl<'a> Sampler<'a> {
    /// `longest`: the pause between two looks.
    ///
    /// Errors: [`Code::Damaged`] when the new binary is not there.
    pub(super) fn new(probe: &'a Probe<'a>, longest: Duration) -> Result<Self> {
        let new_file = FileId::find(&probe.new_binary)?
            .ok_or_else(|| Error::new(Code::Damaged, format!("{} does not exist", probe.new_binary.display())))?;
        let (clock, unit_answered) = ((Instant::now(), Duration::ZERO), Duration::ZERO);
        let known = BTreeSet::new();
        Ok(Self { probe, new_file, clock, longest, unit: None, unit_asked: None, unit_answered, known })
    }

    /// Time since the service action, which is just over when this is made. Time in which nobody looked, because this process
    /// stood still, counts against nobody.
    pub(super) fn now(&mut self) -> Duration {
        let (last, counted) = self.clock;
        let now = Instant::now();
        self.clock = (now, counted + (now - last).min(self.longest + LOOK));
        self.clock.1
    }

    /// Looks, at the time `at`. What the service manager said may be as old as `unit_age`: asking it costs a process.
    ///
    /// Errors: [`Code::Permission`] when it cannot be seen what the main process runs.
    pub(super) fn look(&mut self, at: Duration, unit_age: Duration) -> Result<Sample> {
        let (unit, hint) = self.look_at_unit(at, unit_age)?;
        let main = self.main(&hint)?;
        match &main {
            // Which version it is of cannot be told, and so nothing be said against the new one.
            Some(unseen) if unseen.hidden => return Err(stopped::hidden(unseen)),
            Some(process) if self.is_new(process)? => drop(self.known.insert(process.id())),
            Some(old) => self.known.extend(self.successors(old)?),
            None => self.known.extend(self.starting()?),
        }
        let main = main.map(|process| Main { id: process.id(), is_new: self.known.contains(&process.id()) });
        for id in std::mem::take(&mut self.known) {
            if id.is_alive()? {
                self.known.insert(id);
            }
        }
        let readiness = main.is_some_and(|main| main.is_new).then(|| readiness::probe(&self.probe.data_dir));
        let reaped = self.probe.before_reload.as_ref().map_or(Ok(false), Reaper::has_reaped)?;
        Ok(Sample { at, main, new_alive: self.known.clone(), reaped, unit, readiness })
    }

    fn look_at_unit(&mut self, at: Duration, age: Duration) -> Result<(Option<UnitSample>, MainHint)> {
        Ok(match self.probe.service {
            Service::Systemd(systemd) => {
                if self.unit_asked.is_none_or(|asked| at >= asked + age) {
                    self.unit_asked = Some(at);
                    match systemd.show() {
                        Ok(state) => {
                            self.unit = Some((systemd::sample(&state), systemd::hint(&state)));
                            self.unit_answered = at;
                        }
                        // Without an answer the last one stands for a while. That there is none tells nothing about the agent.
                        Err(error) if self.unit.is_none() || at >= self.unit_answered + UNIT_STANDS => {
                            return Err(error);
                        }
                        Err(_) => {}
                    }
                }
                self.unit.clone().map(|(sample, hint)| (Some(sample), hint)).unwrap_or_default()
            }
            Service::Commands(commands) => {
                // Its stop command removes the pid file, a crash leaves it.
                let stopped = Some(!durable::exists(&commands.pid_file)?);
                let sample = UnitSample { stopped, ..UnitSample::default() };
                (Some(sample), MainHint { pid_file: Some(commands.pid_file.clone()), main_pid: None })
            }
            Service::None => Default::default(),
        })
    }

    /// The pid file's process if it is the new one: systemd learns of a successor only when the old main process ends.
    fn main(&self, hint: &MainHint) -> Result<Option<Process>> {
        match (hint.by_file()?, hint.main_pid) {
            (Some(process), None) => Ok(Some(process)),
            (Some(process), Some(_)) if self.is_new(&process)? => Ok(Some(process)),
            (_, Some(main)) => Process::by_pid(main)?.map(Process::behind_emulator).transpose(),
            (None, None) => Ok(None),
        }
    }

    /// Children of the old main process that run the new binary in the same way: not the helpers of a session.
    fn successors(&self, old: &Process) -> Result<Vec<ProcessId>> {
        let args = old.args()?;
        self.new_among(|process| Ok(process.ppid == old.pid && process.args()? == args))
    }

    /// Agents that commands have started and that have not written their pid file yet: they do so when they are ready.
    fn starting(&self) -> Result<Vec<ProcessId>> {
        match self.probe.service {
            Service::Commands(_) => self.new_among(stopped::is_agent),
            Service::Systemd(_) | Service::None => Ok(Vec::new()),
        }
    }

    /// The processes of the new binary that are `wanted`. Not those of a user who does not own the agent's database: what he
    /// runs says nothing about the version.
    fn new_among(&self, wanted: impl Fn(&Process) -> Result<bool>) -> Result<Vec<ProcessId>> {
        let owners = process::owners(&self.probe.data_dir.join(DATABASE))?;
        let mut found = Vec::new();
        for process in process::all()?.into_iter().filter(|process| process.is_of(&owners)) {
            let process = process.behind_emulator()?;
            if self.is_new(&process)? && wanted(&process)? {
                found.push(process.id());
            }
        }
        Ok(found)
    }

    fn is_new(&self, process: &Process) -> Result<bool> {
        Ok(process.exe_id()? == Some(self.new_file))
    }
}
