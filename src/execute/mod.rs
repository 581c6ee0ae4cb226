//! The one way to change the host: run a plan's steps under the journal, undo them in reverse if one fails, finish
//! them after the commit, and do either from the journal alone after a crash.

pub(crate) mod journal;
pub(crate) mod prepare;
mod readiness;
pub(crate) mod recovery;
pub(crate) mod room;
mod saying;
pub(crate) mod site;
mod steps;
#[cfg(test)]
mod tests;
pub(crate) mod unmanaged;

use crate::database::{SnapshotId, evidence};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use protocol::Digest;

use crate::config::fleet_host::FleetHost;
use crate::host::layout::CREDENTIALS;
use crate::host::{Host, durable, machine};
use crate::plan::{Direction, Plan, Step, TAKEN_OVER};
use crate::release::tuf;
use crate::report::{Code, Error, IoContext, Result};
use crate::store::{VersionDir, publish};
use journal::{Journal, Note, Opening, Record, Writer};
use saying::Saying;
pub(crate) use site::Site;
pub(crate) use steps::script::dry_run as dry_run_script;

/// The configuration that the commit will put in place.
pub(crate) const NEXT_CONFIG: &str = ".updates.yaml.next";
/// Those that the commit will put in place; empty if none are kept.
const NEXT_CREDENTIALS: &str = ".credentials.next";

/// What the commit puts in place, beside what the steps did. They are one change: a password belongs to the address that
/// stands in the settings, and is never sent to another.
#[derive(Debug, Default)]
pub(crate) struct Next {
    /// `updates.yaml`, whole.
    pub config: Option<String>,
    /// `.credentials`, whole; empty if none are kept.
    pub credentials: Option<String>,
}
/// The program that runs, whatever stands under its name now.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// A failure before the commit; everything is as it was, or `recovery` says that it is not yet.
#[derive(Debug)]
pub(crate) struct Undone {
    /// What failed.
    pub error: Error,
    /// The new version itself is to blame (it did not become healthy).
    pub blame: bool,
    /// A step was begun; else there was nothing to undo.
    pub begun: bool,
    /// `on_undone` has written it down.
    pub recorded: bool,
    /// The undo failed as well; the next run or boot goes on with it.
    pub recovery: Option<Error>,
}

impl Undone {
    /// What failed, with what the undo left to be done.
    pub(crate) fn told(self) -> Error {
        match self.recovery {
            Some(recovery) => self.error.advise(format!("the rollback failed as well: {recovery}")),
            None => self.error,
        }
    }
}

/// Executes `plan`: `commit_settings` writes the configuration of the new state (called once, before the commit), `on_undone`
/// that of a failure (called after the undo, while the journal is still open).
///
/// Gives what failed after the commit, if anything did: the new version stays, and the command fails.
///
/// # Errors
/// [`Undone`]: a step failed and everything before it was undone.
pub(crate) fn run(
    site: &Site<'_>,
    plan: &Plan,
    command: &str,
    commit_settings: &mut dyn FnMut(Option<SnapshotId>) -> Result<Next>,
    on_undone: &mut dyn FnMut(&Journal),
) -> Result<Option<Error>, Undone> {
    let plain = |error: Error| Undone { error, blame: false, begun: false, recorded: false, recovery: None };
    readiness::check(site, plan).map_err(plain)?;
    let opening = Opening {
        format: journal::FORMAT,
        writer: writer(site.host).map_err(plain)?,
        command: command.to_owned(),
        time: site.host.now(),
        root: site.layout.root.clone(),
        data_dir: site.data_dir.clone(),
        plan: plan.clone(),
    };
    if plan.keeps_unmanaged() {
        // Of an earlier take-over, which this one ends.
        unmanaged::forget(&site.layout.versions).map_err(plain)?;
    }
    let mut journal = Journal::create(&site.layout.versions, opening).map_err(plain)?;
    let config = site.layout.config_file();
    let mut read = None;
    let switched = switch(site, plan, &mut journal).and_then(|()| {
        let saved = steps::database::installed(site, &journal).map_err(plain)?;
        read = stat_data(&config);
        let next = commit_settings(saved).map_err(plain)?;
        write_next(site, &next).map_err(plain)?;
        journal.append(Record::Commit).map_err(plain)
    });
    if let Err(mut undone) = switched {
        // An agent that the host's own shutdown stops, or keeps from starting, tells nothing about its version.
        if undone.blame && !site.layout.is_image() && machine::is_going_down() {
            undone =
                plain(Error::new(Code::Interrupted, "the host is shutting down during the update").advise(
                    "no action needed: the next boot finishes or undoes the update, and the next run tries again",
                ));
        }
        undone.begun = !journal.to_undo().is_empty();
        undone.recovery = undo(site, &mut journal, &undone.error, undone.blame).err();
        undone.error = with_down(site, undone.error);
        if undone.recovery.is_none() {
            on_undone(&journal);
            undone.recorded = true;
            undone.recovery = journal.close().err();
        }
        return Err(undone);
    }
    let snapshot = steps::database::installed(site, &journal).unwrap_or_default();
    // An editor asks for no lock: what it wrote since the settings were read is taken along.
    let now = stat_data(&config);
    if now.is_some() && now != read {
        let next = commit_settings(snapshot);
        if let Err(error) = next.and_then(|next| write_next_config_again(site, &next)) {
            site.report
                .warn(&format!("{} was edited while the run committed; this edit is lost: {error}", config.display()));
        }
    }
    let unfinished = |error: Error| {
        error.advise("the change is committed; the next run, or `teleport-update recover`, does the rest")
    };
    Ok(finish(site, plan, journal).unwrap_or_else(|error| Some(unfinished(error))))
}

/// `error`, and why the agent that the undo has brought back does not run.
fn with_down(site: &Site<'_>, error: Error) -> Error {
    match site.down.take() {
        Some(down) => Error { what: format!("{}; {}", error.what, down.what), advice: down.advice, ..error },
        None => error,
    }
}

/// Commits `next` where nothing else changes.
///
/// # Errors
/// Nothing has changed, or the next run finishes it.
pub(crate) fn write_settings(site: &Site<'_>, command: &str, next: Next) -> Result<()> {
    let mut next = Some(next);
    let run =
        run(site, &Plan::none(Direction::Same), command, &mut |_| Ok(next.take().unwrap_or_default()), &mut |_| {});
    run.map_err(|undone| undone.error)?.map_or(Ok(()), Err)
}

/// Makes what the commit puts in place durable under other names.
fn write_next(site: &Site<'_>, next: &Next) -> Result<()> {
    let versions = &site.layout.versions;
    let files = [
        (&next.config, NEXT_CONFIG, durable::FILE_MODE),
        (&next.credentials, NEXT_CREDENTIALS, crate::config::credentials::MODE),
    ];
    for (text, name, mode) in files {
        if let Some(text) = text {
            durable::write_synced(&versions.join(name), text.as_bytes(), mode)?;
        }
    }
    durable::sync_dir(versions)
}

fn switch(site: &Site<'_>, plan: &Plan, journal: &mut Journal) -> Result<(), Undone> {
    let plain = |error: Error| Undone { error, blame: false, begun: false, recorded: false, recovery: None };
    let mut announced = 0;
    let mut saying = Saying::new(site, plan);
    for (index, step) in plan.switch.iter().enumerate() {
        // The new version has been found healthy by then: it is not given up for a signal or for what goes by.
        let is_for_the_left = matches!(step, Step::Describe { .. } | Step::Install { .. });
        if site.signals.cancelled() && !is_for_the_left {
            let restored = if index == 0 { "" } else { "everything was restored; " };
            return Err(plain(
                Error::new(Code::Interrupted, format!("interrupted before the step \"{}\"", step.describe()))
                    .advise(format!("{restored}run the command again")),
            ));
        }
        if index >= announced {
            announced = index + announced_together(&plan.switch[index..]);
            let intents = (index..announced).map(|step| Record::Intent { step }).collect();
            journal.append_all(intents).map_err(plain)?;
        }
        saying.before(step);
        let performed = steps::perform(site, plan, step).or_else(|error| {
            if is_for_the_left && error.code == Code::Io { steps::perform(site, plan, step) } else { Err(error) }
        });
        saying.after(index, step, &performed);
        match performed {
            // Its undo does not ask whether it is done; what it leaves for that is durable with the next intent.
            Ok(note) => journal.note(Record::Done { step: index, note }),
            Err(error) => {
                site.report.failed(&step.describe_failure(&error));
                let blame = matches!(error.code, Code::Unhealthy | Code::ScriptFailed | Code::ScriptNoEffect)
                    || (is_service_step(step) && error.code == Code::ServiceFailed);
                return Err(Undone { error, blame, begun: true, recorded: false, recovery: None });
            }
        }
    }
    Ok(())
}

/// How many of `steps` have their intents written with the first one's. While the agent stands still every sync counts,
/// and an undo can meet a step that never happened. Not so a restore before the snapshot is noted that it replaces.
fn announced_together(steps: &[Step]) -> usize {
    let follows = |pair: &[Step]| {
        matches!(
            pair,
            [Step::Stop, Step::Snapshot { .. }]
                | [Step::Restore { .. }, Step::LinkAgent { .. }]
                | [Step::LinkAgent { .. }, Step::Start]
        )
    };
    1 + steps.windows(2).take_while(|pair| follows(pair)).count()
}

/// Steps in which the new version's own process can be what fails. A health check names it itself.
fn is_service_step(step: &Step) -> bool {
    matches!(step, Step::Reload | Step::Start)
}

/// Undoes every step that was begun, the last first. Idempotent: what the journal calls undone is not undone again.
/// After a failure the rest waits for the next run, and an agent runs meanwhile.
fn undo(site: &Site<'_>, journal: &mut Journal, error: &Error, blame: bool) -> Result<()> {
    undo_steps(site, journal, error, blame).inspect_err(|_| steps::start_meanwhile(site, journal))
}

fn undo_steps(site: &Site<'_>, journal: &mut Journal, error: &Error, blame: bool) -> Result<()> {
    if journal.undo_reason().is_none() {
        let record = Record::Undo { code: error.code.as_str().to_owned(), reason: error.what.clone(), blame };
        journal.append(record)?;
    }
    let plan = journal.opening()?.plan.clone();
    for index in journal.to_undo() {
        let Some(step) = plan.switch.get(index) else {
            let what = format!("versions/.journal refers to step {index}, but its plan has no such step");
            return Err(Error::new(Code::JournalUnknown, what));
        };
        let undone = steps::undo(site, step, journal);
        undone.map_err(|error| error.during(format!("while undoing the step \"{}\"", step.describe())))?;
        journal.append(Record::Undone { step: index })?;
    }
    steps::database::keep_returned(site, &plan)?;
    if plan.keeps_unmanaged() {
        // What it kept is back under its own names.
        unmanaged::forget(&site.layout.versions)?;
    }
    [NEXT_CONFIG, NEXT_CREDENTIALS].iter().try_for_each(|name| durable::remove_file(&site.layout.versions.join(name)))
}

/// Finishes a committed run: everything is tried, and the first failure that matters to the operator is what it ends with.
///
/// # Errors
/// It is not finished, the journal stays.
fn finish(site: &Site<'_>, plan: &Plan, journal: Journal) -> Result<Option<Error>> {
    adopt_config(site)?;
    let mut after: Option<Error> = None;
    for step in &plan.after {
        if site.boot && steps::needs_running_system(step) {
            site.report.info("the remaining steps will be done by the first run after the boot");
            return Ok(None);
        }
        if let (Step::RemovePackage { name }, false, true) = (step, site.layout.is_image(), machine::is_confined()) {
            // Half done would be worse than not begun. The unit's last line recovers outside of its confinement.
            let what =
                format!("this unit must not write to /usr: its last ExecStopPost= line removes the package {name}");
            return Err(Error::new(Code::RecoveryFailed, what)
                .advise("no action needed; or run `teleport-update recover` by hand now"));
        }
        let begun = Instant::now();
        match steps::perform(site, plan, step) {
            Ok(Note { .. }) => {
                site.report.debug(&format!("done: {}", step.describe()));
                step.said(begun.elapsed()).iter().for_each(|line| site.report.done(line));
            }
            Err(error) if matches!(step, Step::RemovePackage { .. } | Step::Reassert { .. }) => {
                site.report.failed(&step.describe_failure(&error));
                after.get_or_insert(error);
            }
            // The state is already the new one; a clean-up that fails is tried again by the next commit.
            Err(error) => site.report.warn(&format!("{}: {error}", step.describe())),
        }
    }
    if let Err(error) = clean(site, plan).and_then(|()| journal.close()) {
        site.report.warn(&format!("{error}; the next run tries again"));
    }
    Ok(after)
}

/// What the run kept for its undo, and for `uninstall` everything of ours but the lock.
fn clean(site: &Site<'_>, plan: &Plan) -> Result<()> {
    let versions = &site.layout.versions;
    if plan.direction == Direction::Uninstall {
        let kept = [publish::NOT_READY, publish::SOURCE_ANSWERS].map(|name| versions.join(name));
        // The key for a rollout server is as much the agent's as its host_uuid, and stays with it.
        let of_runs = [FleetHost::token_file(versions)].into_iter().chain(kept);
        for file in [&site.layout.config_file(), &versions.join(CREDENTIALS)].into_iter().cloned().chain(of_runs) {
            durable::remove_file(&file)?;
        }
        durable::remove_tree(&versions.join(TAKEN_OVER))?;
        tuf::forget(versions)?;
        // Of versions that retention had removed by then: what failed runs of them wrote.
        for entry in durable::entries(versions)? {
            let (name, path) = (entry.file_name(), entry.path());
            if let Some(dir) = name.to_str().filter(|dir| !dir.starts_with('.') && path.is_dir())
                && !evidence::of(&path)?.is_empty()
            {
                publish::retire(versions, &VersionDir::named(dir))?;
            }
        }
    }
    // Settings alone: what another run keeps is not theirs.
    if plan.to.is_none() && plan.direction == Direction::Same {
        return Ok(());
    }
    if plan.unmanaged && plan.is_watched() {
        return unmanaged::remember(versions, plan);
    }
    if let Some(place) = unmanaged::keep_rows(versions, plan)? {
        steps::database::tell_kept(site, &place);
    }
    // A repair does not end the watch over an earlier run.
    if plan.direction != Direction::Same || plan.keeps_unmanaged() { unmanaged::forget(versions) } else { Ok(()) }
}

/// Puts the committed settings in place; nothing to do if that was done before.
fn adopt_config(site: &Site<'_>) -> Result<()> {
    let versions = &site.layout.versions;
    let credentials = (versions.join(NEXT_CREDENTIALS), versions.join(CREDENTIALS));
    for (next, place) in [credentials, (versions.join(NEXT_CONFIG), site.layout.config_file())] {
        match std::fs::symlink_metadata(&next) {
            // Only credentials can be none.
            Ok(meta) if meta.len() == 0 => {
                durable::remove_file(&place)?;
                durable::remove_file(&next)?;
            }
            Ok(_) => durable::rename(&next, &place)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).at("cannot read", &next),
        }
    }
    Ok(())
}

/// Committed settings are replaced as a whole: at no instant is there less than before.
fn write_next_config_again(site: &Site<'_>, next: &Next) -> Result<()> {
    let write =
        |text: &String| durable::write(&site.layout.versions.join(NEXT_CONFIG), text.as_bytes(), durable::FILE_MODE);
    next.config.as_ref().map_or(Ok(()), write)
}

/// Another inode, size or time is another content. `None`: it is not there.
fn stat_data(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

/// Who opens the journal. The running program is hashed, not its name: a package upgrade may have replaced that.
fn writer(host: &Host) -> Result<Writer> {
    let (sha256, _) = Digest::of_file(Path::new(OWN_PROGRAM)).at("cannot read", OWN_PROGRAM)?;
    Ok(Writer { path: host.exe.clone(), sha256, version: env!("CARGO_PKG_VERSION").to_owned() })
}
