//! The proof that the agent is stopped (SPEC §6): a look at `/proc`, whatever the service manager says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::host::machine;
use crate::host::process::{self, Open, Process, Reach};
use crate::host::session::unit_of;
use crate::report::{Code, Error, Result};

/// Between two looks: a look costs some milliseconds on a busy host.
pub(super) const SLICE: Duration = Duration::from_millis(100);
/// Between the first two looks after a stop, milliseconds: most agents are gone by then, and someone waits for them. The
/// pauses double up to [`SLICE`].
const FIRST_SLICE: Duration = Duration::from_millis(3);
/// The agent's file name in a version.
pub(super) const AGENT: &str = "teleport";
/// The argument that makes a `teleport` process an agent, and not a `teleport version` by hand.
const AGENT_VERB: &[u8] = b"start";

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
}

impl StopProof {
    /// The processes that run a binary of ours or have the database open.
    ///
    /// Errors: [`Code::Permission`] where that cannot be seen.
    pub fn leftovers(&self) -> Result<Vec<Process>> {
        let all = self.look()?;
        let mut found: BTreeMap<u32, Process> =
            self.running(&all).into_iter().map(|found| (found.pid, found)).collect();
        found.extend(self.open(&all)?.into_iter().map(|process| (process.pid, process)));
        Ok(found.into_values().collect())
    }

    /// The processes that have the database open and are neither ours nor children of ours, such as a `sqlite3` shell.
    pub(super) fn strangers(&self) -> Result<Vec<Process>> {
        let all = self.look()?;
        let ours: Vec<u32> = self.running(&all).iter().map(|process| process.pid).collect();
        let is_ours = |process: &Process| ours.contains(&process.pid) || ours.contains(&process.ppid);
        let mut open = self.open(&all)?;
        open.retain(|process| !is_ours(process));
        Ok(open)
    }

    /// The agents among the processes that can be seen to run a binary of ours.
    pub fn agents(&self) -> Vec<Process> {
        let mut found = self.running(&process::all());
        found.retain(is_agent);
        found
    }

    /// Whether every process that might be ours or have the database open can be looked at; asked before a run whose
    /// proof would need it.
    ///
    /// Errors: [`Code::Permission`] naming one that cannot.
    pub fn check_sight(&self) -> Result<()> {
        self.look().map(|_| ())
    }

    /// Every process, if all that matter can be seen. Others than root see little, and change nothing.
    fn look(&self) -> Result<Vec<Process>> {
        let all = process::all();
        if machine::is_root() && all.iter().any(|process| process.hidden) {
            let reach = Reach::of(&self.database);
            let concerns = |process: &&Process| process.may_concern(AGENT, &reach) && !self.is_believed(process);
            if let Some(process) = all.iter().find(concerns) {
                return Err(hidden(process));
            }
        }
        Ok(all)
    }

    /// Where no capability is missing, only what shields itself is hidden, and at boot the agent has not been started: there
    /// the name alone tells.
    fn is_believed(&self, process: &Process) -> bool {
        let is_other = !process.comm.is_empty() && process.comm != AGENT;
        is_other && (self.at_boot || process::may_see_all())
    }

    fn open(&self, all: &[Process]) -> Result<Vec<Process>> {
        let Open { by, unknown } = process::with_open(all, &self.database);
        match unknown.first() {
            Some(process) if machine::is_root() && !self.is_believed(process) => Err(hidden(process)),
            _ => Ok(by),
        }
    }

    /// Waits until nothing is left and `is_inactive` agrees, at most `timeout`, looking at least once. `again` is called
    /// before each further look.
    pub(super) fn wait(
        &self,
        timeout: Duration,
        is_inactive: &dyn Fn() -> bool,
        again: &mut dyn FnMut(),
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
            again();
            std::thread::sleep(slice);
            slice = SLICE.min(slice * 2);
        }
    }

    /// One more look, directly before a file is replaced: for an agent that was started after the proof of the stop, and for
    /// whoever has the database open. A `teleport version` by hand does no harm.
    ///
    /// Errors: [`Code::DatabaseBusy`] naming the processes; [`Code::Permission`].
    pub fn look_again(&self) -> Result<()> {
        let all = self.look()?;
        let mut found = self.open(&all)?;
        found.extend(self.running(&all).into_iter().filter(is_agent));
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        if found.is_empty() {
            return Ok(());
        }
        let what = format!("started while the agent was stopped for the update: {}", named(&found));
        Err(Error::new(Code::DatabaseBusy, what).advise(
            "find what starts it (a supervisor, Upholds= of another unit), stop that and run the command again",
        ))
    }

    fn running(&self, all: &[Process]) -> Vec<Process> {
        let mut found = process::running_below(all, &self.versions_dir, AGENT);
        if let Some(plain) = &self.plain_binary {
            found.extend(process::running_file(all, plain));
        }
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        found
    }
}

/// Whether a process that runs a binary of ours is an agent.
pub(super) fn is_agent(process: &Process) -> bool {
    process.args().first().is_some_and(|verb| verb == AGENT_VERB)
}

fn not_stopped(left: &[Process]) -> Error {
    let what = match left.is_empty() {
        true => "the agent is not stopped: its unit is still active".to_owned(),
        false => format!("the agent is not stopped: {}", named(left)),
    };
    Error::new(Code::AgentNotStopped, what).advise("end what still runs and try again")
}

/// What cannot be looked at is never taken for somebody else's.
pub(super) fn hidden(process: &Process) -> Error {
    let why = match process::may_see_all() {
        true => "a security module forbids it",
        false => "CAP_SYS_PTRACE is missing in this unit or container",
    };
    let what = format!("cannot see what {} runs: {why}", named(std::slice::from_ref(process)));
    Error::new(Code::Permission, what)
        .advise("nothing is replaced unseen: add it, or see \"Containers\" in docs/units.md")
}

/// Processes for a message, each with its number, name and unit.
pub(super) fn named(processes: &[Process]) -> String {
    let name = |process: &Process| {
        let cgroup = process::cgroup(process.pid).unwrap_or_default();
        match unit_of(&cgroup) {
            Some(unit) => format!("pid {} ({}, {unit})", process.pid, process.comm),
            None if process.comm.is_empty() => format!("pid {}", process.pid),
            None => format!("pid {} ({})", process.pid, process.comm),
        }
    };
    processes.iter().map(name).collect::<Vec<_>>().join(", ")
}
