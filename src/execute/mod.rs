//! The one way to change the host: run a plan's steps under the journal, undo them in reverse if one fails, finish
//! them after the commit, and do either from the journal alone after a crash.

pub mod journal;
pub mod prepare;
pub mod recovery;
pub mod site;
mod steps;

use std::path::PathBuf;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::host::{Host, durable};
use crate::plan::{Direction, Plan, Step};
use crate::report::{Code, Error, IoContext, Result};
use journal::{Journal, Note, Opening, Record, Writer};
pub use site::Site;
pub use steps::EVIDENCE_BESIDE_SNAPSHOT;

/// The configuration that the commit will put in place.
pub const NEXT_CONFIG: &str = ".updates.yaml.next";

/// How an executed plan ended; an undone or broken one is an error.
#[derive(Debug)]
pub struct Finished {
    /// Digest of the snapshot that the run took of the database it left.
    pub snapshot_sha256: Option<String>,
    /// Something after the commit failed: the new version stays, the command fails.
    pub after: Option<Error>,
}

/// A failure before the commit; everything is as it was, or `recovery` says that it is not yet.
#[derive(Debug)]
pub struct Undone {
    /// What failed.
    pub error: Error,
    /// The new version itself is to blame (it did not become healthy).
    pub blame: bool,
    /// The undo failed as well; the next run or boot goes on with it.
    pub recovery: Option<Error>,
}

/// Executes `plan`: `settle` writes the configuration of the new state (called once, before the commit), `regret`
/// that of a failure (called after the undo, while the journal is still open).
///
/// # Errors
/// [`Undone`]: a step failed and everything before it was undone.
pub fn run(
    site: &Site<'_>,
    plan: &Plan,
    command: &str,
    settle: &mut dyn FnMut(Option<&str>) -> Result<Option<String>>,
    regret: &mut dyn FnMut(&Journal),
) -> Result<Finished, Undone> {
    let plain = |error: Error| Undone { error, blame: false, recovery: None };
    let opening = Opening {
        format: journal::format(),
        writer: writer(site.host).map_err(plain)?,
        command: command.to_owned(),
        time: site.host.now(),
        plan: plan.clone(),
    };
    let mut journal = Journal::create(&site.layout.versions, opening).map_err(plain)?;
    let switched = switch(site, plan, &mut journal).and_then(|()| {
        let next = settle(journal.snapshot_sha256()).map_err(plain)?;
        if let Some(text) = next {
            let path = site.layout.versions.join(NEXT_CONFIG);
            durable::write_synced(&path, text.as_bytes(), durable::FILE_MODE)
                .and_then(|()| durable::sync_dir(&site.layout.versions))
                .map_err(plain)?;
        }
        journal.append(Record::Commit).map_err(plain)
    });
    if let Err(mut undone) = switched {
        undone.recovery = undo(site, &mut journal, &undone.error, undone.blame).err();
        if undone.recovery.is_none() {
            regret(&journal);
            undone.recovery = journal.close().err();
        }
        return Err(undone);
    }
    let snapshot_sha256 = journal.snapshot_sha256().map(str::to_owned);
    let after = finish(site, plan, journal).err();
    Ok(Finished { snapshot_sha256, after })
}

fn switch(site: &Site<'_>, plan: &Plan, journal: &mut Journal) -> Result<(), Undone> {
    for (index, step) in plan.switch.iter().enumerate() {
        let plain = |error: Error| Undone { error, blame: false, recovery: None };
        if site.signals.cancelled() {
            return Err(plain(
                Error::new(Code::Interrupted, format!("interrupted before: {}", step.describe()))
                    .advise("everything is put back; run the command again"),
            ));
        }
        journal.append(Record::Intent { step: index }).map_err(plain)?;
        match steps::perform(site, plan, step) {
            Ok(note) => {
                journal.append(Record::Done { step: index, note }).map_err(plain)?;
                if !matches!(step, Step::Hold { .. }) {
                    site.report.done(&step.describe());
                }
            }
            Err(error) => {
                site.report.failed(&step.describe());
                let blame =
                    error.code == Code::Unhealthy || (is_service_step(step) && error.code == Code::ServiceFailed);
                return Err(Undone { error, blame, recovery: None });
            }
        }
    }
    Ok(())
}

/// Steps in which the new version's own process can be what fails.
fn is_service_step(step: &Step) -> bool {
    matches!(step, Step::Reload | Step::Start | Step::Health { .. })
}

/// Undoes every step that was begun, the last first. Idempotent: what the journal calls undone is not undone again.
fn undo(site: &Site<'_>, journal: &mut Journal, error: &Error, blame: bool) -> Result<()> {
    if journal.undo_reason().is_none() {
        let record = Record::Undo { code: error.code.as_str().to_owned(), reason: error.what.clone(), blame };
        journal.append(record)?;
    }
    let plan = journal.opening()?.plan.clone();
    for index in journal.to_undo() {
        let Some(step) = plan.switch.get(index) else {
            return Err(Error::new(
                Code::JournalUnknown,
                format!("the journal names step {index}, which its plan lacks"),
            ));
        };
        steps::undo(site, step, journal).map_err(|error| error.during(format!("undoing \"{}\"", step.describe())))?;
        journal.append(Record::Undone { step: index })?;
    }
    durable::remove_file(&site.layout.versions.join(NEXT_CONFIG))?;
    // What was kept there has been put back, and its snapshot has served.
    durable::remove_tree(&site.layout.versions.join(crate::plan::UNMANAGED))
}

/// Finishes a committed run. The first failure that matters to the operator is returned, after everything was tried.
fn finish(site: &Site<'_>, plan: &Plan, journal: Journal) -> Result<()> {
    adopt_config(site)?;
    let mut first: Option<Error> = None;
    for step in &plan.after {
        if site.boot && steps::needs_running_system(step) {
            site.report.info("the rest is left to the next run after the boot");
            return Ok(());
        }
        match steps::perform(site, plan, step) {
            Ok(Note { .. }) => site.report.done(&step.describe()),
            Err(error) if matches!(step, Step::RemovePackage { .. } | Step::Confirm { .. }) => {
                site.report.failed(&step.describe());
                first.get_or_insert(error);
            }
            // The state is already the new one; a clean-up that fails is tried again by the next commit.
            Err(error) => site.report.warn(&format!("{}: {error}", step.describe())),
        }
    }
    let unmanaged = site.layout.versions.join(crate::plan::UNMANAGED);
    let cleaned = match plan.direction {
        // The version left may have to come back during the watch: the kept files of a first install do not.
        Direction::Uninstall => durable::remove_file(&site.layout.config_file())
            .and_then(|()| durable::remove_file(&crate::config::Credentials::file(&site.layout.versions)))
            .and_then(|()| durable::remove_tree(&site.layout.versions.join(crate::plan::TAKEN_OVER)))
            .and_then(|()| durable::remove_tree(&unmanaged)),
        _ => durable::remove_tree(&unmanaged),
    };
    if let Err(error) = cleaned {
        site.report.warn(&error.to_string());
    }
    journal.close()?;
    first.map_or(Ok(()), Err)
}

/// Puts the committed configuration in place; nothing to do if that was done before.
fn adopt_config(site: &Site<'_>) -> Result<()> {
    let next = site.layout.versions.join(NEXT_CONFIG);
    match std::fs::symlink_metadata(&next) {
        Ok(_) => durable::rename(&next, &site.layout.config_file()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at("cannot read", &next),
    }
}

/// Who opens the journal.
fn writer(host: &Host) -> Result<Writer> {
    Ok(Writer { path: host.exe.clone(), sha256: digest_of(&host.exe)?, version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// SHA-256 of a file, hex.
pub(crate) fn digest_of(path: &PathBuf) -> Result<String> {
    let mut file = std::fs::File::open(path).at("cannot read", path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match std::io::Read::read(&mut file, &mut buffer).at("cannot read", path)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The time a run began, for telling one failure from the next.
pub fn began(journal: &Journal) -> Option<Timestamp> {
    journal.opening().ok().map(|opening| opening.time)
}
