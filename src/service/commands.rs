//! The agent run by commands of the operator (OpenRC, runit, a supervisor in a container) and found by its pid file.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{AgentState, Reloaded, pid_file_process};
use crate::host::command::Command;
use crate::host::durable;
use crate::host::process::Process;
use crate::report::{Code, Error, IoContext, Result};

/// For one configured command: as long as a stop under systemd may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The commands of `spec.service` in `updates.yaml` (SPEC §2); each is a line for `/bin/sh -c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    /// Starts the agent and returns, such as `rc-service teleport start`. It may put the agent in the background.
    pub start: String,
    /// Stops the agent; without it SIGTERM to the pid file's process.
    pub stop: Option<String>,
    /// Has the agent replace itself; without it SIGHUP to the pid file's process.
    pub reload: Option<String>,
    /// Where the agent writes its pid (`teleport start --pid-file`).
    pub pid_file: PathBuf,
}

impl Commands {
    pub(super) fn state(&self) -> Result<AgentState> {
        let main_pid = self.main_pid()?;
        // A pid file that outlived its process: it was started and never stopped.
        let left_behind = main_pid.is_none() && durable::exists(&self.pid_file)?;
        Ok(AgentState {
            running: main_pid.is_some(),
            main_pid,
            enabled: main_pid.is_some() || left_behind,
            failed: left_behind,
            stopped: main_pid.is_none() && !left_behind,

            unmanaged: Vec::new(),
        })
    }

    pub(super) fn main_pid(&self) -> Result<Option<u32>> {
        Ok(self.agent()?.map(|agent| agent.pid))
    }

    pub(super) fn start(&self) -> Result<()> {
        shell(&self.start)
    }

    pub(super) fn stop(&self) -> Result<()> {
        match (&self.stop, self.agent()?) {
            // Also without a process: a supervisor may be about to start one.
            (Some(command), _) => shell(command),
            (None, Some(agent)) => signal(&agent, Signal::TERM),
            (None, None) => Ok(()),
        }
    }

    pub(super) fn reload(&self) -> Result<Reloaded> {
        let done = match (&self.reload, self.agent()?) {
            (_, None) => false,
            (Some(command), Some(_)) => shell(command).is_ok(),
            (None, Some(agent)) => signal(&agent, Signal::HUP).is_ok(),
        };
        if done {
            return Ok(Reloaded::Reloaded);
        }
        self.stop()?;
        self.start().map(|()| Reloaded::Restarted)
    }

    fn agent(&self) -> Result<Option<Process>> {
        pid_file_process(&self.pid_file)
    }
}

fn shell(line: &str) -> Result<()> {
    let output = Command::new("/bin/sh").args(["-c", line]).timeout(TIMEOUT).detached().run();
    let output = output.map_err(|error| Error { code: Code::ServiceFailed, ..error })?;
    if output.success() {
        Ok(())
    } else {
        Err(Error::new(Code::ServiceFailed, format!("`{line}` failed: {}", output.status))
            .advise("run it by hand to see why"))
    }
}

pub(super) fn signal(agent: &Process, signal: Signal) -> Result<()> {
    let pid = i32::try_from(agent.pid).ok().and_then(Pid::from_raw);
    pid.map_or(Ok(()), |pid| kill_process(pid, signal)).at("cannot signal", format!("process {}", agent.pid))
}
