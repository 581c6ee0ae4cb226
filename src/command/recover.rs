//! `recover`: finishes or undoes an interrupted run, as every writing command does first.

use crate::cli::Recover;
use crate::context::Context;
use crate::host::{durable, lock, machine};
use crate::report::Result;
use crate::run::environment::{LOCKED, SERVICE_RESULT};
use crate::run::recovery::{pending, sweep};
use crate::store::publish;

/// Runs the command.
pub(crate) fn run(context: &mut Context, args: &Recover) -> Result<u8> {
    if !durable::is_dir(&context.layout.versions)? {
        return Ok(0);
    }
    if !args.boot && !context.layout.is_image() && machine::is_going_down() {
        context.report.info("the host is shutting down: an interrupted run will be recovered at the next boot");
        return Ok(0);
    }
    // `ExecStopPost=` after a run that ended by itself, every ten minutes: nothing needs the lock but what an earlier one left.
    let has_ended_well = !args.boot && context.host.var(SERVICE_RESULT) == Some("success");
    if has_ended_well && !context.is_interrupted() && publish::is_swept(&context.layout.versions) {
        return Ok(0);
    }
    // A child that finishes its own journal works under its parent's lock.
    let _lock = match context.host.var(LOCKED) {
        Some(pid) if lock::is_held_by_parent(&context.lock_path(), pid) => None,
        _ => Some(context.lock("recover")?),
    };
    pending(context, args.boot)?;
    if !args.boot {
        sweep(context);
    }
    Ok(0)
}
