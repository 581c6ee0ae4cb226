//! An interrupted run is finished or undone: every writing command does so first.

use crate::inspect;
use crate::run::environment::{GUARD, LOCKED};
use std::path::Path;
use std::time::Duration;

use protocol::Digest;

use crate::config::Updates;
use crate::context::Context;
use crate::database::{directory, restore};
use crate::execute::journal::{self, Journal};
use crate::execute::recovery::{self, Recovered};
use crate::execute::{NEXT_CONFIG, OWN_PROGRAM, unmanaged};
use crate::host::command::Command;
use crate::host::lock::Lock;
use crate::host::{durable, trust};
use crate::release::tuf;
use crate::report::{Error, IoContext, Result};
use crate::run::record;
use crate::store::publish;

/// How long another updater may take to finish its own journal. It may wait for an agent's stop and for a package
/// manager; the unit has 3 hours.
const LIMIT: Duration = Duration::from_secs(20 * 60);
/// The same at boot, which waits for it: files alone, and this one must get its turn within the unit's 90 seconds.
const BOOT_LIMIT: Duration = Duration::from_secs(45);

/// The lock for `command`, and the settings once nothing is interrupted any more.
///
/// Errors: those of [`Context::lock`], of [`pending`] and of [`inspect::open`].
pub(crate) fn settled(context: &mut Context, command: &str) -> Result<(Lock, Updates)> {
    let lock = context.lock(command)?;
    pending(context, false)?;
    Ok((lock, inspect::open(context)?))
}

/// Removes what runs that died have left where no journal tells of it. Called under the lock with no journal open. What
/// cannot be removed is in nobody's way but the disk's: it is told, and the run goes on.
pub(crate) fn sweep(context: &Context) {
    let versions = &context.layout.versions;
    let tell = |swept: Result<()>| {
        if let Err(error) = swept {
            context.report.warn(&format!("cannot remove what an earlier run left behind: {error}"));
        }
    };
    // Nothing leads back to what was replaced once no watch is left.
    if Updates::read(&context.layout.config_file()).is_ok_and(|updates| updates.status().watch.is_none()) {
        tell(unmanaged::forget(versions));
    }
    tell(publish::sweep(versions));
    tell(tuf::sweep(versions, &context.lock_path()));
    match std::fs::read_dir(versions).at("cannot read", versions) {
        Err(error) => tell(Err(error)),
        Ok(entries) => {
            for version in entries.flatten() {
                let is_version = !version.file_name().to_string_lossy().starts_with('.');
                if is_version && version.file_type().is_ok_and(|kind| kind.is_dir()) {
                    tell(directory::sweep(&version.path()));
                    tell(durable::sweep_temps(&version.path()));
                }
            }
        }
    }
    tell(context.data_dir().and_then(|dir| restore::discard(&context.layout.database(&dir))));
}

/// Removes what a download that died has left, where no later run installs anything; what a run is at work with stays.
pub(crate) fn tidy(context: &Context) {
    let is_staging =
        |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(publish::STAGING_PREFIX);
    let entries = durable::entries(&context.layout.versions).unwrap_or_default();
    if entries.iter().any(is_staging)
        && let Ok(_lock) = context.lock("update")
    {
        sweep(context);
    }
}

/// Read-only commands only tell of it.
pub(crate) fn warn_if_pending(context: &Context) {
    if context.is_interrupted() {
        context.report.warn("a run was interrupted: run `teleport-update recover` to finish or undo it");
    }
}

/// Recovers if a run was interrupted; called under the lock.
pub(crate) fn pending(context: &mut Context, boot: bool) -> Result<()> {
    // One that is not understood here may be by its writer, which looks itself.
    if let Ok(Some(journal)) = Journal::open(&context.layout.versions, &context.layout.root) {
        recovery::check_is_last(&journal, &context.layout)?;
    }
    if is_finished_by_writer(context, boot)? {
        return Ok(());
    }
    let Some(journal) = Journal::open(&context.layout.versions, &context.layout.root)? else {
        return Ok(());
    };
    // A configuration that cannot be read must not keep a host from recovering its agent.
    let updates = match inspect::open(context) {
        Ok(updates) => updates,
        Err(error) => {
            context.report.warn(&format!("{error}; recovering with default settings"));
            Updates::empty(&context.layout.config_file())
        }
    };
    if journal.is_committed() {
        keep_edits(context)?;
    }
    let site = context.site_of(&updates, boot, journal.opening()?.data_dir.clone())?;
    let recovered = recovery::run(&site, journal, &mut |journal| write_failure(context, journal))?;
    match recovered {
        Recovered::Nothing => {}
        Recovered::Finished => {
            context.report.notice("the interrupted run was already committed and has now been finished");
        }
        Recovered::Undone => context.report.notice("the interrupted run has been undone"),
    }
    if !boot {
        sweep(context);
    }
    Ok(())
}

/// What an operator wrote into `updates.yaml` since the commit stays: the version that it made active goes in there.
///
/// # Errors
/// The file cannot be read: it is not overwritten, and the journal stays until it can.
fn keep_edits(context: &Context) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let (next, file) = (context.layout.versions.join(NEXT_CONFIG), context.layout.config_file());
    let changed = |path: &Path| {
        let meta =
            if durable::exists(path)? { Some(std::fs::metadata(path).at("cannot look at", path)?) } else { None };
        Ok::<_, Error>(meta.map(|meta| (meta.ctime(), meta.ctime_nsec())))
    };
    if changed(&next)?.is_none() {
        return Ok(());
    }
    let mut updates = Updates::read(&file)?;
    // Before a first install there is nothing in it that the commit had not taken over.
    if changed(&file)? <= changed(&next)? || updates.spec().active_version.is_none() {
        return Ok(());
    }
    let committed = Updates::read(&next)?;
    let mut spec = updates.spec().clone();
    spec.active_version.clone_from(&committed.spec().active_version);
    spec.active_edition = committed.spec().active_edition;
    updates.set_spec(&spec);
    updates.set_status(committed.status());
    durable::write(&next, updates.render()?.as_bytes(), durable::FILE_MODE)
}

/// Writes down in `updates.yaml` what the journal tells of a run that was undone.
pub(crate) fn write_failure(context: &Context, journal: &Journal) {
    let written = Updates::read(&context.layout.config_file()).and_then(|mut updates| {
        record::undone(journal, &mut updates, &context.layout.versions, context.host.now())?;
        updates.write()
    });
    if let Err(error) = written {
        context.report.warn(&format!("could not record the failure in updates.yaml: {error}"));
    }
}

/// True if the updater that wrote the journal is still there, is another one than this, and finished its own run.
fn is_finished_by_writer(context: &Context, boot: bool) -> Result<bool> {
    if context.host.var(LOCKED).is_some() || context.layout.is_image() {
        return Ok(false);
    }
    let writer = match journal::writer_of(&context.layout.versions)? {
        Some(writer) if writer.path != context.host.exe => writer,
        _ => return Ok(false),
    };
    let is_same = |path: &Path| Digest::of_file(path).is_ok_and(|(digest, _)| digest == writer.sha256);
    // What others may exchange could be another program when it has been looked at.
    let is_ours = trust::check_way(&context.layout, &writer.path).is_ok();
    if is_same(Path::new(OWN_PROGRAM)) || !is_ours || !is_same(&writer.path) {
        return Ok(false);
    }
    context
        .report
        .info(&format!("the interrupted run was started by {}, which now recovers it", writer.path.display()));
    let mut command = Command::new(&writer.path).env(GUARD, "1").env(LOCKED, std::process::id().to_string());
    if let Some(suffix) = &context.layout.suffix {
        command = command.args(["--install-suffix", suffix]);
    }
    command = command.arg("recover");
    if boot {
        command = command.arg("--boot");
    }
    let limit = if boot { BOOT_LIMIT } else { LIMIT };
    match command.run_attached(Some((limit, limit)), &context.signals) {
        Ok(Some(status)) if status.success() => return Ok(true),
        Ok(status) => {
            let how = status.map_or("it did not end in time".to_owned(), |status| status.to_string());
            context.report.warn(&format!(
                "{} could not recover the run ({how}); recovering with this updater",
                writer.path.display()
            ));
        }
        Err(error) => context.report.warn(&error.to_string()),
    }
    Ok(false)
}
