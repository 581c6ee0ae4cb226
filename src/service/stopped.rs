//! The proof that the agent is stopped (SPEC §6): a look at `/proc`, whatever the service manager says.
//!
//! What an ordinary user runs, and has open, is nobody's business: only a process that could open the database for writing
//! is looked at, and counts if it has it open, runs a binary of ours, or is in the unit's control group. So nobody else can
//! lengthen a look, or keep it from ending. A look that fails is an error, never an empty one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::database;
use crate::host::process::{self, Access, FIRST, Open, Process, Reach, Watched};
use crate::host::session::{self, unit_of};
use crate::host::{Layout, machine, order};
use crate::report::{Code, Error, Result};
use crate::store::contents::AGENT;

/// Between two looks: a look costs some milliseconds on a busy host.
pub(super) const SLICE: Duration = Duration::from_millis(100);
/// Between the first two looks after a stop, milliseconds: most agents are gone by then, and someone waits for them. The
/// pauses double up to [`SLICE`].
const FIRST_SLICE: Duration = Duration::from_millis(3);
/// The argument that makes a `teleport` process an agent: of `teleport start`, and of `teleport app start` and the like.
const AGENT_VERB: &[u8] = b"start";
/// Commands of `teleport` that never open a database. Any other one may.
const HARMLESS_VERBS: [&[u8]; 3] = [b"version", b"help", b"configure"];

/// What must not be in use when the agent is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopProof {
    /// The versions directory: nobody runs a `teleport` below it.
    pub versions_dir: PathBuf,
    /// Where the agent's link goes: before the first switch a plain binary can stand there.
    pub plain_binary: Option<PathBuf>,
    /// The agent's database: nobody has it open.
    pub database: PathBuf,
    /// The look is the boot-time recovery's: of what cannot be seen the name counts, or nothing could be undone before the
    /// agent starts.
    pub at_boot: bool,
    /// The agent's unit (with `.service`), whose control group must be empty; elsewhere than under systemd there is none.
    pub unit: String,
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

    /// The processes that could open the database and have it open, run a binary of ours, or are in the unit's control
    /// group.
    ///
    /// Errors: [`Code::Permission`] where that cannot be seen; [`Code::Io`].
    pub fn leftovers(&self) -> Result<Vec<Process>> {
        let look = self.look()?;
        let mut found = self.open(&look)?;
        for process in self.running(&look.able)? {
            if may_use_database(&process)? {
                found.push(process);
            }
        }
        found.extend(self.in_unit(&look.able)?);
        // Of one that the kernel is about to end only the name is left, and that can have begun since the look; its files
        // and locks go after its program.
        found.extend(look.able.iter().filter(|process| process.comm == AGENT && process.is_ending()).cloned());
        Ok(each_once(found))
    }

    /// Of the same, the processes that have the database open and are neither ours nor children of ours, such as a `sqlite3` shell.
    pub(super) fn strangers(&self) -> Result<Vec<Process>> {
        let look = self.look()?;
        let ours: Vec<u32> = self.running(&look.able)?.iter().map(|process| process.pid).collect();
        let is_ours = |process: &Process| ours.contains(&process.pid) || ours.contains(&process.ppid);
        let mut open = self.open(&look)?;
        open.retain(|process| !is_ours(process));
        Ok(open)
    }

    /// The processes that run a binary of ours, may use the database, and will not end with the service: they are none of
    /// `service` (its processes among those given), nor descendants of one.
    pub(super) fn others(&self, service: impl Fn(&[Process]) -> Result<BTreeSet<u32>>) -> Result<Vec<Process>> {
        let look = self.look()?;
        let running = self.running(&look.able)?;
        let service = service(&running)?;
        let mut others = Vec::new();
        for process in running {
            let is_of_service = look.line(process.pid).any(|pid| service.contains(&pid));
            if !is_of_service && may_use_database(&process)? {
                others.push(process);
            }
        }
        Ok(others)
    }

    /// The agents among the processes that can be seen to run a binary of ours and could open the database.
    ///
    /// Errors: [`Code::Io`].
    pub fn agents(&self) -> Result<Vec<Process>> {
        let mut found = Vec::new();
        for process in self.running(&self.glance()?.able)? {
            if is_agent(&process)? {
                found.push(process);
            }
        }
        Ok(found)
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

    fn open(&self, look: &Look) -> Result<Vec<Process>> {
        let Open { by, unknown } = process::with_open(&look.able, &look.watched, &database::files(&self.database))?;
        match unknown.iter().find(|process| !self.is_believed(process)) {
            Some(unseen) if machine::is_root() => Err(hidden(unseen)),
            _ => Ok(by),
        }
    }

    /// Waits until nothing is left and `is_inactive` agrees, at most `timeout`, looking at least once. `again` is called
    /// before each further look.
    pub(super) fn wait(
        &self,
        timeout: Duration,
        is_inactive: &dyn Fn() -> bool,
        again: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let mut slice = FIRST_SLICE;
        loop {
            // The manager is asked first: what it has started by then is seen.
            let inactive = is_inactive();
            let left = self.leftovers()?;
            if inactive && left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(not_stopped(&left));
            }
            again()?;
            std::thread::sleep(slice);
            slice = SLICE.min(slice * 2);
        }
    }

    /// One more look, directly before a file is replaced: for an agent that was started after the proof of the stop, and for
    /// whoever has the database open. A `teleport version` by hand does no harm.
    ///
    /// Errors: [`Code::DatabaseBusy`] naming the processes; [`Code::Permission`]; [`Code::Io`].
    pub fn look_again(&self) -> Result<()> {
        let look = self.look()?;
        let mut found = self.open(&look)?;
        for process in self.running(&look.able)? {
            if is_agent(&process)? {
                found.push(process);
            }
        }
        let found = each_once(found);
        if found.is_empty() {
            return Ok(());
        }
        let found = named(&found);
        let what = format!(
            "these processes started, or opened the database, while the agent was stopped for the update: {found}"
        );
        Err(Error::new(Code::DatabaseBusy, what).advise(
            "find what starts it (a supervisor, Upholds= of another unit), stop that and run the command again",
        ))
    }

    /// Those of `able` that run a binary of ours.
    fn running(&self, able: &[Process]) -> Result<Vec<Process>> {
        let mut found = process::running_below(able, &self.versions_dir, AGENT)?;
        if let Some(plain) = &self.plain_binary {
            found.extend(process::running_file(able, plain)?);
        }
        Ok(each_once(found))
    }

    /// Those of `able` that are in the unit's control group.
    fn in_unit(&self, able: &[Process]) -> Result<Vec<Process>> {
        let is_in_unit = self.membership()?;
        let mut found = Vec::new();
        for process in able {
            if is_in_unit(process)? {
                found.push(process.clone());
            }
        }
        Ok(found)
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

/// Whether a process that runs a binary of ours may open the database yet: not an operator's `teleport version`.
fn may_use_database(process: &Process) -> Result<bool> {
    Ok(process.args()?.first().is_none_or(|verb| !HARMLESS_VERBS.contains(&verb.as_slice())))
}

fn each_once(mut processes: Vec<Process>) -> Vec<Process> {
    order::sort_by(&mut processes, |one, other| one.pid < other.pid);
    processes.dedup_by_key(|process| process.pid);
    processes
}

/// Those that run a binary of ours outside of the service.
pub(super) fn apart(others: &[Process]) -> Error {
    let verb = if others.len() == 1 { "runs" } else { "run" };
    let what = format!("the agent is not stopped: {} {verb} outside of its service", named(others));
    Error::new(Code::AgentNotStopped, what).advise("stop these processes and try again")
}

fn not_stopped(left: &[Process]) -> Error {
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
