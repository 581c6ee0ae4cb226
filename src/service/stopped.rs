//! The proof that the agent is stopped (SPEC §6): a look at `/proc`, whatever the service manager says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::host::process::{self, Process};
use crate::host::session::unit_of;
use crate::report::{Code, Error, Result};

/// Between two looks: a look costs some milliseconds on a busy host.
pub(super) const SLICE: Duration = Duration::from_millis(100);
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
}

impl StopProof {
    /// The processes that run a binary of ours or have the database open.
    pub fn leftovers(&self) -> Vec<Process> {
        let mut found: BTreeMap<u32, Process> = self.running().into_iter().map(|found| (found.pid, found)).collect();
        for process in process::with_open(&self.database).into_iter().filter_map(Process::by_pid) {
            found.insert(process.pid, process);
        }
        found.into_values().collect()
    }

    /// The processes that have the database open and are neither ours nor children of ours, such as a `sqlite3` shell.
    pub(super) fn strangers(&self) -> Vec<Process> {
        let ours: Vec<u32> = self.running().iter().map(|process| process.pid).collect();
        let is_ours = |process: &Process| ours.contains(&process.pid) || ours.contains(&process.ppid);
        let open = process::with_open(&self.database).into_iter().filter_map(Process::by_pid);
        open.filter(|process| !is_ours(process)).collect()
    }

    /// The agents among the processes that run a binary of ours.
    pub fn agents(&self) -> Vec<Process> {
        let mut found = self.running();
        found.retain(|process| process.args().first().is_some_and(|verb| verb == AGENT_VERB));
        found
    }

    /// Waits until nothing is left and `is_inactive` agrees, at most `timeout`, looking at least once.
    pub(super) fn wait(&self, timeout: Duration, is_inactive: &dyn Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = self.leftovers();
            // The manager is asked second: it could start the agent again after the look.
            if left.is_empty() && is_inactive() && self.leftovers().is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(not_stopped(&left));
            }
            std::thread::sleep(SLICE);
        }
    }

    fn running(&self) -> Vec<Process> {
        let mut found = process::running_below(&self.versions_dir, AGENT);
        if let Some(plain) = &self.plain_binary {
            found.extend(process::running_file(plain));
        }
        found.sort_by_key(|process| process.pid);
        found.dedup_by_key(|process| process.pid);
        found
    }
}

fn not_stopped(left: &[Process]) -> Error {
    let what = match left.is_empty() {
        true => "the agent is not stopped: its unit is still active".to_owned(),
        false => format!("the agent is not stopped: {}", named(left)),
    };
    Error::new(Code::AgentNotStopped, what).advise("end what still runs and try again")
}

/// Processes for a message, each with its number, name and unit.
pub(super) fn named(processes: &[Process]) -> String {
    let name = |process: &Process| {
        let cgroup = process::cgroup(process.pid).unwrap_or_default();
        match unit_of(&cgroup) {
            Some(unit) => format!("pid {} ({}, {unit})", process.pid, process.comm),
            None => format!("pid {} ({})", process.pid, process.comm),
        }
    };
    processes.iter().map(name).collect::<Vec<_>>().join(", ")
}
