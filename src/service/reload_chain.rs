//! The processes of an agent that reloads: each is started by its predecessor, which serves its own connections to their end.
//!
//! systemd stops them together, by their control group. A command stops the one that the pid file names, and a reload that
//! comes to its end meanwhile leaves a successor of which no pid file tells any more.

use rustix::process::Signal;

use super::commands::signal;
use super::stopped::is_agent;
use crate::host::process::{Process, ProcessId};
use crate::report::Result;

/// Which agents a stop by a command has to end besides the one that the command is for.
#[derive(Debug)]
pub(super) struct ReloadChain {
    /// Those that have nothing to do with it.
    unrelated: Vec<ProcessId>,
    /// The one that the command is for, and those that have been told.
    told: Vec<ProcessId>,
}

impl ReloadChain {
    /// That of the main process among `ours`, and whoever appears from now on.
    pub(super) fn of(main_pid: Option<u32>, ours: &[Process]) -> Self {
        let members = Self::members(main_pid, ours);
        let ids = |wanted: &dyn Fn(&Process) -> bool| {
            ours.iter().filter(|process| wanted(process)).map(Process::id).collect::<Vec<_>>()
        };
        Self {
            unrelated: ids(&|process| !members.contains(&process.pid)),
            told: ids(&|process| Some(process.pid) == main_pid),
        }
    }

    /// The main process, and of `ours` its predecessors and successors.
    pub(super) fn members(main_pid: Option<u32>, ours: &[Process]) -> Vec<u32> {
        let mut members: Vec<u32> = main_pid.into_iter().collect();
        let is_kin = |process: &Process, members: &[u32]| {
            let is_parent = ours.iter().any(|child| child.ppid == process.pid && members.contains(&child.pid));
            !members.contains(&process.pid) && (is_parent || members.contains(&process.ppid))
        };
        while let Some(kin) = ours.iter().find(|process| is_kin(process, &members)) {
            members.push(kin.pid);
        }
        members
    }

    /// SIGTERM, once, to those of `ours` that are agents of the chain; their numbers, and the main process's.
    ///
    /// Errors: [`Code::Io`](crate::report::Code::Io).
    pub(super) fn end(&mut self, ours: &[Process]) -> Result<Vec<u32>> {
        let mut members = Vec::new();
        for process in ours {
            if self.unrelated.contains(&process.id()) || !is_agent(process)? {
                continue;
            }
            members.push(process.pid);
            if !self.told.contains(&process.id()) {
                self.told.push(process.id());
                // One that has ended since is what is wanted; the next look tells.
                let _ = signal(process, Signal::TERM);
            }
        }
        Ok(members)
    }
}
