//! The processes of an agent that reloads: each is started by its predecessor, which serves its own connections to their end.
//!
//! systemd stops them together, by their control group. A command stops the one that the pid file names, and a reload that
//! comes to its end meanwhile leaves a successor of which no pid file tells any more.

use rustix::process::Signal;

use super::commands::signal;
use crate::host::process::{Process, ProcessId};

/// Which agents a stop by a command has to end besides the one that the command is for.
#[derive(Debug)]
pub(super) struct ReloadChain {
    /// The one that the command is for, those that have nothing to do with it, and those that have been told.
    spared: Vec<ProcessId>,
}

impl ReloadChain {
    /// The reload_chain of the main process among `agents`, and whoever appears from now on.
    pub(super) fn of(main_pid: Option<u32>, agents: &[Process]) -> Self {
        let reload_chain = Self::members(main_pid, agents);
        let is_spared = |agent: &&Process| Some(agent.pid) == main_pid || !reload_chain.contains(&agent.pid);
        Self { spared: agents.iter().filter(is_spared).map(Process::id).collect() }
    }

    /// The main process, and of `agents` its predecessors and successors.
    pub(super) fn members(main_pid: Option<u32>, agents: &[Process]) -> Vec<u32> {
        let mut reload_chain: Vec<u32> = main_pid.into_iter().collect();
        let is_kin = |agent: &Process, reload_chain: &[u32]| {
            let is_parent = agents.iter().any(|child| child.ppid == agent.pid && reload_chain.contains(&child.pid));
            !reload_chain.contains(&agent.pid) && (is_parent || reload_chain.contains(&agent.ppid))
        };
        while let Some(kin) = agents.iter().find(|agent| is_kin(agent, &reload_chain)) {
            reload_chain.push(kin.pid);
        }
        reload_chain
    }

    /// SIGTERM, once, to those of `agents` that are of the reload_chain.
    pub(super) fn end(&mut self, agents: &[Process]) {
        for agent in agents {
            if !self.spared.contains(&agent.id()) {
                self.spared.push(agent.id());
                // One that has ended since is what is wanted; the next look tells.
                let _ = signal(agent, Signal::TERM);
            }
        }
    }
}
