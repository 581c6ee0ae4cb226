//! A run that changes the host: what is shared by the commands that do so.

mod agent_health;
pub(crate) mod change;
pub(crate) mod environment;
pub(crate) mod fleet;
pub(crate) mod identity;
mod installer;
pub(crate) mod network;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod reexec;
pub(crate) mod scope;
pub(crate) mod source;
mod source_age;
pub(crate) mod tuf;
pub(crate) mod wanted;
pub(crate) mod watch;
mod way_back;
mod windows;

use change::{Ended, Fetched, RunRequest};

use crate::cli::Command;
use crate::context::Context;
use crate::report::Result;

/// Whether a command may change the host; the others need no lock, and no right but to read.
pub(crate) fn writes(command: &Command) -> bool {
    match command {
        Command::Verify(args) => args.repair,
        Command::Status(_) | Command::Plan(_) | Command::Tuf(_) => false,
        Command::Completion { .. } | Command::Version(_) | Command::Man => false,
        _ => true,
    }
}

/// Carries `request` out and watches the version that it commits: without the lock, for an operator's command waits for no watch.
/// Returns the exit status; `None` if what it was decided from has changed: nothing was done, and it is to be decided anew.
pub(crate) fn apply(context: &mut Context, request: &RunRequest<'_>, fetched: &mut Fetched) -> Result<Option<u8>> {
    Ok(match change::apply(context, request, fetched)? {
        Ended::Anew => None,
        Ended::Elsewhere(status) => Some(status),
        Ended::Done(None) => Some(0),
        Ended::Done(Some(committed)) => Some(watch::run(context, &committed, None)?),
    })
}
