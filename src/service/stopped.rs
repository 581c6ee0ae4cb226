//! Who is the agent, and who else has its database open: a look at `/proc` (SPEC §6, stopped).
//!
//! The agent is what the service manager runs, and who has **this** database open for writing. Neither a name, nor a path, nor a
//! control group makes a process the agent. A look that fails is an error, never an empty one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::database;
use crate::host::process::{self, Access, FIRST, Open, Opener, Process, Reach, Watched};
use crate::host::session::{self, unit_of};
use crate::host::{Layout, machine, order};
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
    pub plain_binary: Option<PathBuf>,
    /// The agent's database.
    pub database: PathBuf,
    /// The look is the boot-time recovery's: of what cannot be seen the name counts, or nothing could be undone before the
    /// agent starts.
    pub at_boot: bool,
    /// The agent's unit (with `.service`).
    pub unit: String,
}

/// What one look has found.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Processes that run a binary of ours.
    pub ours: Vec<Process>,
    /// Who has the database open.
    pub openers: Vec<Opener>,
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
        self.openers.iter().map(|opener| &opener.process).filter(is_strange).cloned().collect()
    }

    fn writes(&self, process: &Process) -> bool {
        self.openers.iter().any(|opener| opener.writes && opener.process.pid == process.pid)
    }
}

impl StopProof {
    /// That of the installation in `layout`, whose agent has its data in `data_dir`; of a running system.
    pub fn of(layout: &Layout, data_dir: &Path) -> Self {
        Self {
            versions_dir: layout.versions.clone(),
            plain_binary: Some(layout.link_dir.join(AGENT)),
            database: layout.database(data_dir),
            at_boot: false,
            unit: layout.unit.clone(),
        }
    }

    /// Who runs a binary of ours, and who has the database open.
    ///
    /// Errors: [`Code::Permission`] where root may not see that; [`Code::Io`].
    pub(super) fn see(&self) -> Result<Seen> {
        let look = self.look()?;
        Ok(Seen { ours: self.running(&look.able)?, openers: self.open(&look)? })
    }

    /// The same, of what can be seen: an undo does not end at what is hidden.
    ///
    /// Errors: [`Code::Io`].
    pub(super) fn see_some(&self) -> Result<Seen> {
        let look = self.glance()?;
        let openers = match process::with_open(&look.able, &look.watched, &database::files(&self.database)) {
            Err(error) if error.code == Code::Permission && !machine::is_root() => Vec::new(),
            open => open?.by,
        };
        Ok(Seen { ours: self.running(&look.able)?, openers })
    }

    /// Whether this process lives in a session of the agent, and may end with it: an ancestor of its own or of its
    /// terminal's first process runs a binary of ours (there can be shells and sudo in between), or one is in the same
    /// login session, into which PAM moves both.
    ///
    /// Errors: [`Code::Io`].
    pub fn carries_us(&self) -> Result<bool> {
        let look = self.glance()?;
        let running = self.running(&look.able)?;
        if running.is_empty() {
            return Ok(false);
        }
        for first in process::parent_and_session()? {
            if look.line(first).any(|pid| running.iter().any(|process| process.pid == pid)) {
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
        self.look().map(|_| ())
    }

    /// What can be seen.
    fn glance(&self) -> Result<Look> {
        let all = process::all()?;
        let parents = all.iter().map(|process| (process.pid, process.ppid)).collect();
        let reach = Reach::of(&database::files(&self.database))?;
        let is_in_unit = self.membership()?;
        let (mut able, mut watched) = (Vec::new(), Vec::new());
        for process in all {
            match process.access(&reach)? {
                Access::Own => able.push(process.behind_emulator()?),
                // Without a right to look at others, who lent a program his files cannot be told, and must not be in the way.
                _ if process.hidden => {}
                Access::Lent { starter } => watched.push(Watched { process, of: Some(starter) }),
                Access::None if is_in_unit(&process)? => watched.push(Watched { process, of: None }),
                Access::None => {}
            }
        }
        Ok(Look { able, watched, parents })
    }

    /// The same, if all that matters can be seen. Others than root see little, and change nothing.
    fn look(&self) -> Result<Look> {
        let look = self.glance()?;
        match look.able.iter().find(|process| process.hidden && !self.is_believed(process)) {
            Some(unseen) if machine::is_root() => Err(hidden(unseen)),
            _ => Ok(look),
        }
    }

    /// Where no capability is missing, only what shields itself is hidden, and at boot the agent has not been started: there
    /// the name alone tells.
    fn is_believed(&self, process: &Process) -> bool {
        let is_other = !process.comm.is_empty() && process.comm != AGENT;
        is_other && (self.at_boot || process::may_see_all())
    }

    fn open(&self, look: &Look) -> Result<Vec<Opener>> {
        let Open { by, unknown } = process::with_open(&look.able, &look.watched, &database::files(&self.database))?;
        match unknown.iter().find(|process| !self.is_believed(process)) {
            Some(unseen) if machine::is_root() => Err(hidden(unseen)),
            _ => Ok(by),
        }
    }

    /// Those of `able` that run a binary of ours.
    fn running(&self, able: &[Process]) -> Result<Vec<Process>> {
        let mut found = process::running_below(able, &self.versions_dir, AGENT)?;
        if let Some(plain) = &self.plain_binary {
            found.extend(process::running_file(able, plain)?);
        }
        Ok(each_once(found))
    }

    /// Tells who is in the unit's control group; nobody is where systemd has not booted.
    fn membership(&self) -> Result<impl Fn(&Process) -> Result<bool>> {
        let manager = process::cgroup(FIRST)?.filter(|_| machine::is_systemd_booted());
        Ok(move |process: &Process| {
            let Some(manager) = &manager else { return Ok(false) };
            let groups = process::cgroup(process.pid)?.unwrap_or_default();
            Ok(session::inside_unit(&self.unit, manager, &groups))
        })
    }
}

/// What a look at all processes tells.
struct Look {
    /// Those that could open the database by rights of their own.
    able: Vec<Process>,
    /// Those that could by a program's rights; and in the unit's control group all others: on a mount with mapped users
    /// (systemd's `DynamicUser=`, containers) they can, and cannot be told from those that cannot.
    watched: Vec<Watched>,
    /// Everybody's parent, by process number.
    parents: BTreeMap<u32, u32>,
}

impl Look {
    /// `first`, its parent, and so on. A list that was read while processes came and went may go round in a circle.
    fn line(&self, first: u32) -> impl Iterator<Item = u32> {
        let parent = |pid: &u32| self.parents.get(pid).copied();
        std::iter::successors(Some(first), parent).take(self.parents.len() + 1)
    }
}

/// Whether a process that runs a binary of ours is an agent.
///
/// Errors: [`Code::Io`].
pub(super) fn is_agent(process: &Process) -> Result<bool> {
    Ok(process.args()?.iter().any(|word| word == AGENT_VERB))
}

fn each_once(mut processes: Vec<Process>) -> Vec<Process> {
    order::sort_by(&mut processes, |one, other| one.pid < other.pid);
    processes.dedup_by_key(|process| process.pid);
    processes
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
