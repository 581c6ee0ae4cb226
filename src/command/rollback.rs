//! `rollback`: back to the last working version; the one that is left is refused until told otherwise.

use super::Context;
use super::errand::{self, Errand};
use super::survey::Depth;
use crate::plan::Over;
use crate::release::Revision;
use crate::report::{Code, Error, Result};

/// Runs the command.
pub fn run(context: &mut Context) -> Result<u8> {
    let updates = context.open()?;
    let status = updates.status();
    let is_refused = |previous: &Revision| status.refused.iter().any(|refused| refused.revision == *previous);
    let previous = status.previous.clone().filter(|previous| !is_refused(previous));
    let Some(previous) = previous else {
        return Err(Error::new(Code::NoPrevious, "there is no last working version to go back to")
            .advise("see `teleport-update status`; `pin --force-version` installs any version"));
    };
    errand::carry_out(
        context,
        &Errand {
            command: "rollback",
            target: previous,
            in_window: true,
            insist: true,
            depth: Depth::Move,
            over: Over::Told,
            change: &|_| {},
            obsolete: &errand::never,
            refuse_left: Some("rolled back by the operator".into()),
            trusted_snapshot: None,
        },
    )
}
