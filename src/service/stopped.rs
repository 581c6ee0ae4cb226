//! Who is the agent, and who else has its database open: a look at `/proc` (SPEC §6, stopped).
//!
//! The agent is what the service manager runs, and who has **this** database open for writing. Neither a name, nor a path, nor a
//! control group makes a process the agent. A look that fails is an error, never an empty one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::database;
use crate::host::process::{self, Open, Process};
use crate::host::session::{self, unit_of};
use crate::host::{Layout, machine};
use crate::report::{Code, Error, Result};
use crate::store::contents::AGENT;

/// Between two looks: a look costs some milliseconds on a busy host.
pub(super) const SLICE: Duration = Duration::from_millis(100);
/// Between the first two looks after a stop, milliseconds: most agents are gone by then, and someone waits for them. The
/// pauses double up to [`SLICE`].
pub(super) const FIRST_SLICE: Duration = Duration::from_millis(3);
/// The argument that makes a `teleport` process an agent: of `teleport start`, and of `teleport app start` and the like.
const AGENT_VERB: &[u8] = b"start";

/// What tells the agent's processes from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopProof {
    /// The versions directory: a `teleport` below it is a binary of ours.
    pub versions_dir: PathBuf,
    /// Where the agent's link goes: before the first switch a plain binary can stand there.
    pub plain_binary: PathBuf,
    /// The agent's database.
    pub database: PathBuf,
    /// The look is the boot-time recovery's: of what cannot be seen the name counts, or nothing could be undone before the
    /// agent starts.
    pub at_boot: bool,
}

/// What one look has found.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Processes that run a binary of ours.
    pub ours: Vec<Process>,
    /// Who has the database open.
    open: Open,
}

impl Seen {
    /// The agents among them: of the service's `members`, or with the database open for writing.
    ///
    /// Errors: [`Code::Io`].
    pub(super) fn agents(&self, members: &BTreeSet<u32>) -> Result<Vec<Process>> {
        let mut found = Vec::new();
        for process in &self.ours {
            if self.writes(process) || (members.contains(&process.pid) && is_agent(process)?) {
                found.push(process.clone());
            }
        }
        Ok(found)
    }

    /// The agents that a stop of the service would not end.
    ///
    /// Errors: [`Code::Io`].
    pub(super) fn apart(&self, members: &BTreeSet<u32>) -> Result<Vec<Process>> {
        let mut agents = self.agents(members)?;
        agents.retain(|process| !members.contains(&process.pid));
        Ok(agents)
    }

    /// Who has the database open and neither runs a binary of ours nor is a child of one, such as a `sqlite3` shell.
    pub(super) fn strangers(&self) -> Vec<Process> {
        let ours: Vec<u32> = self.ours.iter().map(|process| process.pid).collect();
        let is_strange = |process: &&Process| !ours.contains(&process.pid) && !ours.contains(&process.ppid);
        self.open.by.iter().map(|opener| &opener.process).filter(is_strange).cloned().collect()
    }

    fn writes(&self, process: &Process) -> bool {
        self.open.by.iter().any(|opener| opener.writes && opener.process.pid == process.pid)
    }
}

impl StopProof {
    /// That of the installation in `layout`, whose agent has its data in `data_dir`; of a running system.
    pub fn of(layout: &Layout, data_dir: &Path) -> Self {
        Self {
            versions_dir: layout.versions.clone(),
            plain_binary: layout.link_dir.join(AGENT),
            database: layout.database(data_dir),
            at_boot: false,
        }
    }

    /// Who runs a binary of ours, and who has the database open. Others than root see little, and change nothing.
    ///
    /// Errors: [`Code::Permission`] where root may not see that; [`Code::Io`].
    pub(super) fn see(&self) -> Result<Seen> {
        let seen = self.see_some()?;
        match seen.open.unknown.iter().find(|process| !self.is_believed(process)) {
            Some(unseen) if machine::is_root() => Err(hidden(unseen)),
            _ => Ok(seen),
        }
    }

    /// The same, of what can be seen: an undo does not end at what is hidden.
    ///
    /// Errors: [`Code::Io`].
    pub(super) fn see_some(&self) -> Result<Seen> {
        let all = process::all()?;
        let owners = process::owners(&self.database)?;
        let open = match process::with_open(&all, &owners, &database::files(&self.database)) {
            Err(error) if error.code == Code::Permission && !machine::is_root() => Open::default(),
            open => open?,
        };
        let mut able = Vec::new();
        for process in all {
            if process.is_of(&owners) {
                able.push(process.behind_emulator()?);
            } else if open.by.iter().any(|opener| opener.process.pid == process.pid) {
                able.push(process);
            }
        }
        let ours = process::running(&able, &self.versions_dir, AGENT, &self.plain_binary)?;
        Ok(Seen { ours, open })
    }

    /// Whether this process lives in a session of the agent, and may end with it: an ancestor of its own or of its
    /// terminal's first process runs a binary of ours (there can be shells and sudo in between), or one is in the same
    /// login session, into which PAM moves both.
    ///
    /// Errors: [`Code::Io`].
    pub fn carries_us(&self) -> Result<bool> {
        let running = self.see_some()?.ours;
        if running.is_empty() {
            return Ok(false);
        }
        let all = process::all()?;
        let parent = |pid: &u32| all.iter().find(|process| process.pid == *pid).map(|process| process.ppid);
        for first in process::parent_and_session()? {
            // A list that was read while processes came and went may go round in a circle.
            let line = std::iter::successors(Some(first), parent).take(all.len() + 1);
            if line.into_iter().any(|pid| running.iter().any(|process| process.pid == pid)) {
                return Ok(true);
            }
        }
        let groups = |pid| Ok::<_, Error>(process::cgroup(pid)?.unwrap_or_default());
        let own = groups(std::process::id())?;
        let Some(login) = session::login_of(&own) else { return Ok(false) };
        for process in &running {
            if session::login_of(&groups(process.pid)?) == Some(login) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether every process that might be ours or have the database open can be looked at; asked before a run whose
    /// proof would need it.
    ///
    /// Errors: [`Code::Permission`] naming one that cannot; [`Code::Io`].
    pub fn check_sight(&self) -> Result<()> {
        self.see().map(|_| ())
    }

    /// Where no capability is missing, only what shields itself is hidden, and at boot the agent has not been started: there
    /// the name alone tells.
    fn is_believed(&self, process: &Process) -> bool {
        let is_other = !process.comm.is_empty() && process.comm != AGENT;
        is_other && (self.at_boot || process::may_see_all())
    }
}

/// Whether a process that runs a binary of ours is an agent.
///
/// Errors: [`Code::Io`].
pub(super) fn is_agent(process: &Process) -> Result<bool> {
    Ok(process.args()?.iter().any(|word| word == AGENT_VERB))
}

/// Agents outside of the service.
pub(super) fn apart(others: &[Process]) -> Error {
    let verb = if others.len() == 1 { "runs" } else { "run" };
    let what = format!("the agent is not stopped: {} {verb} outside of its service", named(others));
    Error::new(Code::AgentNotStopped, what).advise("stop these processes and try again")
}

/// What is left of the agent after its stop.
pub(crate) fn not_stopped(left: &[Process]) -> Error {
    let what = if left.is_empty() {
        "the agent is not stopped: its unit is still active".to_owned()
    } else {
        format!("the agent is not stopped: {}", named(left))
    };
    Error::new(Code::AgentNotStopped, what).advise("stop what is still running and try again")
}

/// What cannot be looked at is never taken for somebody else's.
pub(super) fn hidden(process: &Process) -> Error {
    let (why, how) = if process::may_see_all() {
        (
            "a security module forbids it",
            "allow teleport-update in that module's policy (SELinux, AppArmor) to read /proc/PID/exe and /proc/PID/fd",
        )
    } else {
        (
            "CAP_SYS_PTRACE is missing in this unit or container",
            "start the container with this capability (`--cap-add=SYS_PTRACE`), or let the unit keep all \
         capabilities of the container (\"Containers without CAP_SYS_PTRACE\" in docs/units.md of the project)",
        )
    };
    let process = named(std::slice::from_ref(process));
    let what = format!("cannot find out which program {process} runs or which files it has open: {why}");
    Error::new(Code::Permission, what).advise(how)
}

/// Processes for a message, each with its number, name and unit.
pub(super) fn named(processes: &[Process]) -> String {
    let name = |process: &Process| {
        // For a message alone.
        let cgroup = process::cgroup(process.pid).ok().flatten().unwrap_or_default();
        match unit_of(&cgroup) {
            Some(unit) => format!("pid {} ({}, {unit})", process.pid, process.comm),
            None if process.comm.is_empty() => format!("pid {}", process.pid),
            None => format!("pid {} ({})", process.pid, process.comm),
        }
    };
    processes.iter().map(name).collect::<Vec<_>>().join(", ")
}
