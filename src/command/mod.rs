//! One file a command, and which one is run. What several commands share is in `run` and `inspect`.

mod completion;
mod disable;
mod enable;
mod pin;
mod plan;
mod recover;
mod rollback;
mod status;
mod tuf;
mod uninstall;
mod update;
mod verify;
mod version;

use crate::cli::{Cli, Command};
use crate::context::Context;
use crate::host::trust;
use crate::report::Result;
use crate::run::{fleet, recovery, reexec, scope, writes};

/// Runs the command line. Returns the exit status.
pub fn run(cli: &Cli, context: &mut Context) -> Result<u8> {
    if let Command::Enable(args) | Command::Pin(args) = &cli.command {
        enable::check_words(args)?;
    }
    match &cli.command {
        Command::Version(_) | Command::Completion { .. } | Command::Man => {}
        // It tells what it can.
        Command::Status(_) => {
            let checked = trust::check_versions(&context.layout).and_then(|()| trust::check_installed(&context.layout));
            if let Err(error) = checked {
                context.report.warn(&error.to_string());
            }
        }
        _ => trust::check_versions(&context.layout)?,
    }
    // Before anything of a version is read or run.
    if matches!(&cli.command, Command::Verify(args) if args.repair) {
        verify::close(context)?;
    }
    if let Some(status) = reexec::to_active(cli, context)? {
        return Ok(status);
    }
    // Undoing an interrupted run and removing everything stop the agent too; a move sees to it itself.
    let stops = match &cli.command {
        Command::Uninstall(args) => args.force,
        command => writes(command) && context.is_interrupted(),
    };
    if stops && let Some(status) = scope::leave(context)? {
        return Ok(status);
    }
    // Before the command reads anything: what was committed may not stand in `updates.yaml` yet.
    if writes(&cli.command) && !matches!(cli.command, Command::Recover(_)) && context.is_interrupted() {
        let waits_shortly = matches!(cli.command, Command::Update(_));
        let _lock = context.lock(if waits_shortly { "update" } else { "recover" })?;
        recovery::pending(context, false)?;
    }
    let ran = carry_out(cli, context).map_err(|error| match &cli.command {
        Command::Enable(_) | Command::Pin(_) => error,
        _ => error.of_settings(),
    });
    fleet::finish(context, &cli.command);
    ran
}

fn carry_out(cli: &Cli, context: &mut Context) -> Result<u8> {
    match &cli.command {
        Command::Enable(args) => enable::run(context, args),
        Command::Disable => disable::run(context),
        Command::Update(args) => update::run(context, args),
        Command::Pin(args) => enable::install(context, args, enable::Kind::Pin),
        Command::Unpin => pin::unpin(context),
        Command::Status(args) => status::run(context, args),
        Command::Plan(args) => plan::run(context, args),
        Command::Verify(args) => verify::run(context, args),
        Command::Tuf(args) => tuf::run(context, args),
        Command::Rollback => rollback::run(context),
        Command::Recover(args) => recover::run(context, args),
        Command::Uninstall(args) => uninstall::run(context, args),
        Command::Completion { shell } => completion::run(*shell),
        Command::Version(args) => version::run(args),
        Command::Man => completion::man(),
    }
}
