//! `recover`: finishes or undoes an interrupted run. Every writing command does so first.

use super::{Context, record::Failure};
use crate::cli::Recover;
use crate::config::Updates;
use crate::execute::journal::{self, Journal};
use crate::execute::recovery::{self, Recovered};
use crate::host::command::Command;
use crate::report::Result;
use crate::store::publish;

/// Runs the command.
pub fn run(context: &mut Context, args: &Recover) -> Result<u8> {
    if !context.layout.versions.is_dir() {
        return Ok(0);
    }
    if !args.boot && is_shutting_down(context) {
        context.report.info("the host is going down: recovery is left to the boot");
        return Ok(0);
    }
    // A child that finishes its own journal works under its parent's lock.
    let _lock = match context.host.var(super::hand_over::LOCKED) {
        Some(_) => None,
        None => Some(context.lock("recover")?),
    };
    pending(context, args.boot)?;
    if !args.boot {
        publish::sweep(&context.layout.versions)?;
    }
    Ok(0)
}

/// Whether a run was interrupted.
pub fn is_needed(context: &Context) -> bool {
    recovery::is_pending(&context.layout.versions)
}

/// Read-only commands only tell of it.
pub fn warn_if_pending(context: &Context) {
    if is_needed(context) {
        context.report.warn("an interrupted run waits to be recovered: `teleport-update recover`");
    }
}

/// Recovers if a run was interrupted; called under the lock.
pub fn pending(context: &mut Context, boot: bool) -> Result<()> {
    let Some(journal) = open_or_hand_over(context, boot)? else {
        return Ok(());
    };
    // A configuration that cannot be read must not keep a host from recovering its agent.
    let updates = match context.open() {
        Ok(updates) => updates,
        Err(error) => {
            context.report.warn(&format!("{error}; recovering with default settings"));
            Updates::empty(&context.layout.config_file())
        }
    };
    let site = context.site(&updates, boot)?;
    match recovery::run(&site, journal, &mut |journal| write_failure(context, journal))? {
        Recovered::Nothing => {}
        Recovered::Finished => context.report.notice("the interrupted run had been committed; it is finished"),
        Recovered::Undone => context.report.notice("the interrupted run is undone"),
    }
    Ok(())
}

/// Writes down in `updates.yaml` what the journal tells of a run that was undone.
pub fn write_failure(context: &Context, journal: &Journal) {
    let written = Failure::of(journal).and_then(|failure| {
        let mut updates = Updates::read(&context.layout.config_file())?;
        failure.record(&mut updates, &context.layout.versions, context.host.now());
        updates.write()
    });
    if let Err(error) = written {
        context.report.warn(&format!("the failure could not be written down: {error}"));
    }
}

/// The journal, unless the updater that wrote it is still here and another one: then it finishes its own run.
fn open_or_hand_over(context: &Context, boot: bool) -> Result<Option<Journal>> {
    let opened = Journal::open(&context.layout.versions);
    if context.host.var(super::hand_over::GUARD).is_some() || context.layout.is_image() {
        return opened;
    }
    let writer = match journal::writer_of(&context.layout.versions)? {
        Some(writer) if writer.path != context.host.exe => writer,
        _ => return opened,
    };
    let is_same =
        |path: &std::path::PathBuf| crate::execute::digest_of(path).is_ok_and(|digest| digest == writer.sha256);
    if is_same(&context.host.exe) || !is_same(&writer.path) {
        return opened;
    }
    context.report.info(&format!("{} wrote the journal and finishes its run", writer.path.display()));
    let mut command = Command::new(&writer.path).env(super::hand_over::GUARD, "1").env(super::hand_over::LOCKED, "1");
    if let Some(suffix) = &context.layout.suffix {
        command = command.args(["--install-suffix", suffix]);
    }
    command = command.arg("recover");
    if boot {
        command = command.arg("--boot");
    }
    match command.run_attached(&context.signals) {
        Ok(status) if status.success() => Ok(None),
        Ok(status) => {
            context.report.warn(&format!("{} could not recover ({status}); this one does", writer.path.display()));
            Journal::open(&context.layout.versions)
        }
        Err(error) => {
            context.report.warn(&error.to_string());
            Journal::open(&context.layout.versions)
        }
    }
}

/// At shutdown a service call would wait for the very shutdown that it is part of.
fn is_shutting_down(context: &Context) -> bool {
    if context.layout.is_image() || !crate::host::machine::is_systemd_booted() {
        return false;
    }
    Command::new("systemctl")
        .arg("is-system-running")
        .run()
        .is_ok_and(|output| output.stdout_text().trim() == "stopping")
}
