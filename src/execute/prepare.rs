//! Everything before the switch: space, download, checks in staging, publishing. Leaves nothing that is used, and
//! nothing at all if it fails.

use protocol::handover::PROTOCOL;
use std::cell::Cell;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use protocol::Revision;

use super::{Site, room};
use crate::host::command::{Command, Output};
use crate::host::{durable, elf};
use crate::plan::{Plan, seconds};
use crate::release::tuf::Look;
use crate::release::{self, Supply};
use crate::report::{Code, Error, Result, megabytes};
use crate::store::contents::{AGENT_FILE, UPDATERS};
use crate::store::manifest::{Manifest, UpdaterInfo};
use crate::store::{VersionDir, publish};

/// What to do about a release that could not be asked.
const HOSTS_FAULT: &str = "the cause is this host, not the release; the next run tries again";

/// A version that was downloaded and checked, and is not installed yet; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Staged {
    dir: VersionDir,
    staging: PathBuf,
    manifest: Manifest,
}

impl Staged {
    /// Makes it an installed version. Called under the lock.
    pub(crate) fn publish(self, site: &Site<'_>) -> Result<()> {
        publish::publish(&self.staging, &site.version_dir(&self.dir), &self.manifest)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // What stays is swept by the next run.
        let _ = durable::remove_tree(&self.staging);
    }
}

/// A download that came to nothing.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Why.
    pub error: Error,
    /// Some of the archive had come: the next try costs as much.
    pub spent: bool,
}

/// Runs the plan's preparing steps but a download, if there is room for the whole plan.
pub(crate) fn run(site: &Site<'_>, plan: &Plan) -> Result<()> {
    room::check(site, plan, None)?;
    for step in &plan.prepare {
        let begun = Instant::now();
        super::steps::perform(site, plan, step)?;
        site.report.debug(&format!("done: {}", step.describe()));
        step.said(begun.elapsed()).iter().for_each(|line| site.report.done(line));
    }
    Ok(())
}

/// Downloads the version that the plan fetches into a staging directory, if there is room for the whole plan.
pub(crate) fn download(
    site: &Site<'_>,
    plan: &Plan,
    revision: &Revision,
    dir: &VersionDir,
    supply: &Supply<'_>,
) -> Result<Staged, Failed> {
    let (bytes, begun) = (Cell::new(0), Instant::now());
    let staged = fetch(site, plan, supply, revision, dir, &bytes);
    site.report.finish_bar();
    if staged.is_ok() {
        let (size, took) = (megabytes(bytes.get()), seconds(begun.elapsed()));
        site.report.done(&format!("downloaded, checked and unpacked {revision}: {size} in {took}"));
    }
    staged.map_err(|error| Failed { error, spent: bytes.get() > 0 })
}

fn fetch(
    site: &Site<'_>,
    plan: &Plan,
    supply: &Supply<'_>,
    revision: &Revision,
    dir: &VersionDir,
    bytes: &Cell<u64>,
) -> Result<Staged> {
    let cancelled = || site.signals.cancelled();
    let size = release::archive_size(supply.client, supply.base, revision, supply.arch, &cancelled);
    let announced = size.as_ref().ok().copied().flatten();
    // Of an archive that is not there no size is guessed. Where there is room its download says so: some servers do not know HEAD.
    room::check(site, plan, Some(release::space::version(announced, supply.active_size)))
        .or_else(|full| size.and(Err(full)))?;
    let url = supply.base.join(&revision.archive_name(supply.arch));
    site.report.info(&format!("downloading {revision} from {url}"));
    let staging = publish::staging(&site.layout.versions, dir)?;
    let limits = release::Limits { announced, ..supply.limits.clone() };
    let manifest = stage(site, supply, limits, revision, &staging, bytes)?;
    let mut staged = Staged { dir: dir.clone(), staging, manifest };
    check(site, supply.version_wait, &staged.staging, revision, &mut staged.manifest)?;
    staged.manifest.write(&staged.staging)?;
    durable::sync_dir(&staged.staging)?;
    Ok(staged)
}

fn stage(
    site: &Site<'_>,
    supply: &Supply<'_>,
    limits: release::Limits,
    revision: &Revision,
    staging: &Path,
    bytes: &Cell<u64>,
) -> Result<Manifest> {
    let name = revision.archive_name(supply.arch);
    let cancelled = || site.signals.cancelled();
    let warn = |what: &str| site.report.warn(what);
    let look = Look { client: supply.client, now: site.host.now(), cancelled: &cancelled, warn: &warn };
    let proven = supply.tuf.as_ref().map(|tuf| tuf.proven(&look, &name)).transpose()?;
    let limits = release::Limits { signed: proven.as_ref().map(|proven| proven.length), ..limits };
    let request =
        release::StageRequest { supply, revision, staging_dir: staging, proven, now: site.host.now(), limits };
    let staged = release::stage(
        &request,
        &mut |done, total| {
            bytes.set(done);
            site.report.progress(done, total);
        },
        &cancelled,
    )?;
    for note in &staged.notes {
        site.report.debug(note);
    }
    let is_there = |name: &str| staged.manifest.files.iter().any(|file| file.path.strip_prefix("bin/") == Some(name));
    for name in supply.components.iter().filter(|name| !is_there(name)) {
        site.report.warn(&format!("components: the archive of {revision} has no executable {name}"));
    }
    Ok(staged.manifest)
}

/// Checked before publishing (SPEC §4): the agent prints the version asked for; a compatible updater declares itself.
fn check(site: &Site<'_>, wait: Duration, staging: &Path, revision: &Revision, manifest: &mut Manifest) -> Result<()> {
    let agent = staging.join(AGENT_FILE);
    if site.layout.is_image() && !elf::runs_here(&agent)? {
        site.report.debug("the image is for another machine: its binaries are not run");
        return Ok(());
    }
    if let Some(loader) = elf::missing_loader(&agent) {
        let what = format!("the downloaded teleport needs {}, which this host does not have", loader.display());
        return Err(Error::new(Code::VersionMismatch, what).advise(
            "Teleport releases need glibc: install it or use a distribution that has it; the old version stays active",
        ));
    }
    let output = judged(Command::new(&agent).arg("version").timeout(wait))?.map_err(|error| {
        Error::new(Code::VersionMismatch, format!("the downloaded teleport does not run: {}", error.what))
            .advise("the release is broken, or not for this machine; the old version stays")
    })?;
    // The kernel, an operator or a lack of memory: it was not asked to the end.
    if let Some(signal) = output.status.signal().filter(|signal| matches!(*signal, libc::SIGKILL | libc::SIGTERM)) {
        let what = format!("`{}` was killed from outside (signal {signal})", output.line);
        return Err(Error::new(Code::Io, what).advise(HOSTS_FAULT));
    }
    let printed = output.stdout_text();
    release::check::check_version_output(&printed, &revision.version)?;
    release::check::check_edition_output(&printed, revision.edition, &agent)?;
    for file in UPDATERS.map(|name| format!("bin/{name}")) {
        if manifest.updater.is_none() && manifest.files.iter().any(|entry| entry.path == file) {
            manifest.updater = updater(site, wait, staging, &file)?;
        }
    }
    Ok(())
}

/// Runs a program of the release as nobody. The outer error is this host's fault and says nothing of the release.
fn judged(command: Command) -> Result<Result<Output>> {
    command.unprivileged().run_judged().map_err(|error| Error { code: Code::Io, ..error }.advise(HOSTS_FAULT))
}

/// The updater in the archive, if it speaks our protocol; another program of that name is stored and never run again.
///
/// Errors: this host cannot run programs.
fn updater(site: &Site<'_>, wait: Duration, staging: &Path, file: &str) -> Result<Option<UpdaterInfo>> {
    let output = judged(Command::new(staging.join(file)).args(["version", "--format", "json"]).timeout(wait))?;
    let output = output.ok().filter(Output::success);
    let declared = output.and_then(|output| {
        let value: serde_json::Value = serde_json::from_str(&output.stdout_text()).ok()?;
        value.get("protocol")?.as_str().map(str::to_owned)
    });
    match declared {
        Some(protocol) if protocol == PROTOCOL => Ok(Some(UpdaterInfo { path: file.to_owned(), protocol })),
        _ => {
            site.report.info(&format!("{file} of this release is not a compatible updater: it is stored but not used"));
            Ok(None)
        }
    }
}
