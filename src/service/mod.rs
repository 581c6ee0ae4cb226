//! What runs the agent: systemd, plain commands (OpenRC, containers), or nobody we know. Whether it is stopped is looked at,
//! never believed; whether a version is healthy is judged in [`health`].

pub(crate) mod commands;
pub(crate) mod health;
pub(crate) mod judge;
pub(crate) mod readiness;
mod reload_chain;
pub(crate) mod sampler;
pub(crate) mod stopped;
pub(crate) mod systemd;
pub(crate) mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) use commands::Commands;
pub(crate) use judge::{HealthSettings, Verdict};
pub(crate) use stopped::StopProof;
pub(crate) use systemd::{Systemd, Trouble};

use reload_chain::ReloadChain;
use stopped::Seen;

use crate::host::machine;
use crate::host::process::{self, Process, Reaper};
use crate::host::signal::Cancelled;
use crate::report::{Code, Error, Result};
use crate::store::contents::AGENT;

/// What runs the agent on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Service {
    /// A unit of the booted systemd.
    Systemd(Systemd),
    /// The configured commands.
    Commands(Commands),
    /// Nobody: an image, or a host without systemd and without configured commands. Nothing is ever started here.
    None,
}

/// The agent as it is at present.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentState {
    /// The service runs.
    pub running: bool,
    /// Its main process.
    pub main_pid: Option<u32>,
    /// It is started at boot; for commands: it has been started and not been stopped by them.
    pub enabled: bool,
    /// It failed, waits for its next start, or restarts again and again.
    pub failed: bool,
    /// Somebody has stopped it.
    pub stopped: bool,

    /// Agents of this installation that run outside the service.
    pub unmanaged: Vec<u32>,
}

/// What a reload turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    /// SIGHUP: the agent starts its successor itself, connections stay.
    Reloaded,
    /// It could not be reloaded: stopped and started, connections dropped.
    Restarted,
}

impl Service {
    /// What runs `unit` (with `.service`). An image has no service; configured commands go before systemd.
    pub fn detect(unit: &str, commands: Option<Commands>, is_image: bool) -> Self {
        match commands {
            _ if is_image => Self::None,
            Some(commands) => Self::Commands(commands),
            None if machine::is_systemd_booted() => Self::Systemd(Systemd::new(unit)),
            None => Self::None,
        }
    }

    /// The agent's present state; `proof` tells which binaries are ours.
    pub fn state(&self, proof: &StopProof) -> Result<AgentState> {
        let mut state = match self {
            Self::Systemd(systemd) => systemd.state()?,
            Self::Commands(commands) => commands.state()?,
            Self::None => AgentState::default(),
        };
        let seen = proof.see_some()?;
        state.unmanaged = seen.apart(&self.members(&seen.ours)?)?.iter().map(|agent| agent.pid).collect();
        Ok(state)
    }

    /// The agents: those that the service manager runs, and those that have this database open for writing.
    ///
    /// Errors: [`Code::Io`].
    pub fn agents(&self, proof: &StopProof) -> Result<Vec<Process>> {
        let seen = proof.see_some()?;
        seen.agents(&self.members(&seen.ours)?)
    }

    /// The main process: the pid file's, else the unit's.
    ///
    /// Errors: the service manager does not answer; [`Code::Io`].
    pub fn main_pid(&self) -> Result<Option<u32>> {
        match self {
            Self::Systemd(systemd) => systemd.main_pid(),
            Self::Commands(commands) => commands.main_pid(),
            Self::None => Ok(None),
        }
    }

    /// The main process with its mark, for telling after a reload whether its successor died.
    ///
    /// Errors: as [`Service::main_pid`].
    pub fn reaper(&self) -> Result<Option<Reaper>> {
        self.main_pid()?.map_or(Ok(None), Reaper::by_pid)
    }

    /// Waits until nobody but the agent has the database open, at most `timeout`: whoever has it open when it is replaced goes on
    /// with the file that is replaced, and is better asked while the agent still works.
    ///
    /// Errors: [`Code::DatabaseBusy`] naming the processes; [`Code::Interrupted`] as soon as `cancelled` says so.
    pub fn wait_for_strangers(&self, proof: &StopProof, timeout: Duration, cancelled: Cancelled<'_>) -> Result<()> {
        wait_while(&|| self.has_strangers(proof, &proof.see()?), timeout, cancelled)
    }

    /// Waits as [`Service::wait_for_strangers`], and also until no agent runs that would go on when the service is stopped.
    ///
    /// Errors: the same; [`Code::AgentNotStopped`] naming the processes.
    pub fn wait_until_alone(&self, proof: &StopProof, timeout: Duration, cancelled: Cancelled<'_>) -> Result<()> {
        let found = || {
            let seen = proof.see()?;
            Ok(self.has_strangers(proof, &seen)?.or(self.has_agent_apart(&seen)?))
        };
        wait_while(&found, timeout, cancelled)
    }

    /// What another program has the database open means for a stop.
    fn has_strangers(&self, proof: &StopProof, seen: &Seen) -> Result<Option<Error>> {
        let mut strangers = Vec::new();
        for process in seen.strangers() {
            if !matches!(self, Self::Systemd(systemd) if systemd.contains(process.pid)?) {
                strangers.push(process);
            }
        }
        let what = || format!("{} is in use by {}", proof.database.display(), stopped::named(&strangers));
        let error = || Error::new(Code::DatabaseBusy, what()).advise("stop that program and try again");
        Ok((!strangers.is_empty()).then(error))
    }

    /// What an agent means that the service does not run.
    fn has_agent_apart(&self, seen: &Seen) -> Result<Option<Error>> {
        let apart = seen.apart(&self.members(&seen.ours)?)?;
        Ok((!apart.is_empty()).then(|| stopped::apart(&apart)))
    }

    /// The numbers of those of `ours`, all of our binaries, that a stop of the service ends.
    fn members(&self, ours: &[Process]) -> Result<BTreeSet<u32>> {
        let mut found = BTreeSet::new();
        match self {
            Self::Systemd(systemd) => {
                for process in ours {
                    if systemd.contains(process.pid)? {
                        found.insert(process.pid);
                    }
                }
            }
            Self::Commands(commands) => found.extend(ReloadChain::members(commands.main_pid()?, ours)),
            Self::None => {}
        }
        Ok(found)
    }

    /// Stops the agent: its service is inactive, and no agent is left (SPEC §6). The service manager has as long as its
    /// own settings give it; `timeout` is for what is left then. An agent apart from the service is waited for before the stop,
    /// as long: none is stopped in vain. Who else has the database open does not matter here.
    ///
    /// Errors: [`Code::AgentNotStopped`] naming the processes that are left.
    pub fn stop(&self, proof: &StopProof, timeout: Duration) -> Result<()> {
        wait_while(&|| self.has_agent_apart(&proof.see_some()?), timeout, &|| false)?;
        let seen = proof.see_some()?;
        let mut before = seen.agents(&self.members(&seen.ours)?)?;
        if let (Self::Commands(_), Some(main)) = (self, self.main_pid()?) {
            before.extend(Process::by_pid(main)?);
        }
        let mut reload_chain = None;
        let asked = match self {
            Self::Systemd(systemd) => systemd.stop(),
            Self::Commands(commands) => {
                reload_chain = Some(ReloadChain::of(commands.main_pid()?, &seen.ours));
                commands.stop()
            }
            Self::None => Ok(()),
        };
        let left = || {
            // The manager is asked first: what it has started by then is seen. What it says it has stopped it need not be asked
            // about again.
            let is_inactive = asked.is_ok() || self.is_inactive();
            let seen = proof.see_some()?;
            let mut members = self.members(&seen.ours)?;
            if let Some(reload_chain) = &mut reload_chain {
                members.extend(reload_chain.end(&seen.ours)?);
            }
            let mut left = seen.agents(&members)?;
            // While the kernel ends a process, its program is gone before its files and locks are.
            for agent in &before {
                if !left.iter().any(|other| other.id() == agent.id()) && agent.id().is_alive()? {
                    left.push(agent.clone());
                }
            }
            Ok((!is_inactive || !left.is_empty()).then(|| stopped::not_stopped(&left)))
        };
        // Why the manager did not help is worth telling.
        wait_while(left, timeout, &|| false).map_err(|error| match &asked {
            Err(reason) => Error { what: format!("{} ({})", error.what, reason.what), ..error },
            Ok(())
                if error.code == Code::AgentNotStopped && matches!(self, Self::Systemd(_)) && !self.is_inactive() =>
            {
                Error {
                    what: format!("{} (its unit was stopped, but something started it again)", error.what),
                    ..error
                }
                .advise("find what starts it (a supervisor, Upholds= of another unit), stop that and try again")
            }
            Ok(()) => error,
        })
    }

    /// Has the agent run: also where a stop is queued or under way, which it cancels or waits out. Does nothing where it runs.
    pub fn ensure_started(&self) -> Result<()> {
        match self {
            Self::Systemd(systemd) => systemd.start(),
            Self::Commands(commands) if commands.main_pid()?.is_some() => Ok(()),
            Self::Commands(_) | Self::None => self.start(),
        }
    }

    /// Waits until the start that was asked for is over, at most `timeout`. Configured commands have waited themselves.
    ///
    /// Errors: the agent does not run.
    pub fn wait_for_start(&self, timeout: Duration) -> Result<()> {
        match self {
            Self::Systemd(systemd) => systemd.wait_for_start(timeout),
            Self::Commands(_) | Self::None => Ok(()),
        }
    }

    /// Starts the agent; a start limit reached before does not count. Does not wait: see [`health::observe`].
    pub fn start(&self) -> Result<()> {
        match self {
            Self::Systemd(systemd) => systemd.start(),
            Self::Commands(commands) => commands.start(),
            Self::None => Err(no_service("start")),
        }
    }

    /// Has the running agent replace itself (SIGHUP); restarts it where that cannot be done or fails.
    pub fn reload(&self) -> Result<Reloaded> {
        match self {
            Self::Systemd(systemd) => systemd.reload(),
            Self::Commands(commands) => commands.reload(),
            Self::None => Err(no_service("reload")),
        }
    }

    /// Has the service manager read the unit again, where there is one.
    pub fn daemon_reload(&self) -> Result<()> {
        match self {
            Self::Systemd(systemd) => systemd.daemon_reload(),
            Self::Commands(_) | Self::None => Ok(()),
        }
    }

    fn is_inactive(&self) -> bool {
        match self {
            Self::Systemd(systemd) => systemd.is_inactive(),
            Self::Commands(_) | Self::None => true,
        }
    }
}

/// Waits until `found` tells nothing any more, at most `timeout`; then what it tells is the error. The last look is made when
/// the time is up: time in which nobody looked decides nothing.
fn wait_while(
    mut found: impl FnMut() -> Result<Option<Error>>,
    timeout: Duration,
    cancelled: Cancelled<'_>,
) -> Result<()> {
    let deadline = Instant::now() + timeout;
    let mut slice = stopped::FIRST_SLICE;
    loop {
        let is_last = Instant::now() >= deadline;
        let Some(error) = found()? else { return Ok(()) };
        if cancelled() {
            let what = format!("interrupted while waiting for another program: {}", error.what);
            return Err(Error::new(Code::Interrupted, what));
        }
        if is_last {
            return Err(error);
        }
        std::thread::sleep(slice);
        slice = stopped::SLICE.min(slice * 2);
    }
}

/// The living agent that a pid file names. A process that is called otherwise has got a dead agent's number: it must
/// neither be believed nor signalled.
///
/// Errors: [`Code::Io`], [`Code::Permission`].
fn pid_file_process(path: &std::path::Path) -> Result<Option<Process>> {
    let pid = match process::pid_in_file(path) {
        // Others than root see less, and change nothing.
        Err(error) if error.code == Code::Permission && !machine::is_root() => None,
        pid => pid?,
    };
    let process = match pid.map_or(Ok(None), Process::by_pid)? {
        // The number can have become another user's, and he can call his program as he likes.
        Some(process) if process.is_of(&process::owners(path)?) => process.behind_emulator()?,
        _ => return Ok(None),
    };
    let is_called_so = match &process.exe {
        Some(exe) => exe.file_name() == Some(AGENT.as_ref()),
        None => process.hidden && process.comm == AGENT,
    };
    Ok(is_called_so.then_some(process))
}

/// Where the main process is found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct MainHint {
    /// The agent's pid file.
    pid_file: Option<PathBuf>,
    /// The unit's main process.
    main_pid: Option<u32>,
}

impl MainHint {
    /// The pid file's process first: systemd learns of a successor only when the old main process ends.
    fn pid(&self) -> Result<Option<u32>> {
        Ok(self.by_file()?.map(|process| process.pid).or(self.main_pid))
    }

    fn by_file(&self) -> Result<Option<Process>> {
        self.pid_file.as_deref().map_or(Ok(None), pid_file_process)
    }
}

fn no_service(verb: &str) -> Error {
    Error::new(Code::ServiceFailed, format!("cannot {verb} the agent: there is no systemd and no configured command"))
        .advise("set spec.service in updates.yaml to the commands that start and stop it")
}
