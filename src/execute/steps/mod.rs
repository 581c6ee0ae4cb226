//! The table of steps: what each does and how it is undone. Every undo may be repeated.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::journal::{Journal, Note, Record};
use super::{Site, left};
use crate::database::{self, Pace, Subject, directory, evidence, restore};
use crate::host::process::FileId;
use crate::host::{durable, mark, package, systemctl::Systemctl};
use crate::plan::{Database, Direction, Node, Placement, Plan, ServiceAction, Step, UNMANAGED};
use crate::report::{Code, Error, IoContext, Result};
use crate::service::health;
use crate::service::sampler::Probe;
use crate::service::{Reloaded, Service, Verdict};
use crate::store::{manifest::Manifest, publish};
use protocol::Revision;

/// How long a package manager that is at work is waited for, seconds: unattended upgrades take minutes.
const PACKAGE_LOCK: Duration = Duration::from_secs(300);
/// Below `.unmanaged`: copies of what must survive a package's removal.
pub(super) const PACKAGE_COPIES: &str = "package";

/// Does `step`.
pub(super) fn perform(site: &Site<'_>, plan: &Plan, step: &Step) -> Result<Note> {
    match step {
        Step::Hold { .. } => {}
        Step::Fetch { .. } => return Err(Error::new(Code::Io, "internal error: a download step in the switch phase")),
        Step::Verify { dir } => verify(site, dir)?,
        Step::Place(place) | Step::Switch { place, .. } => put(place, &place.now)?,
        Step::PrepareSnapshot { dir } => left::prepare(site, dir)?,
        Step::Snapshot { dir, stopped: true, failed } => return left::take(site, plan, dir, *failed),
        Step::Snapshot { dir, stopped: false, failed } => return snapshot(site, plan, dir, *failed),
        Step::Describe { dir, failed } => return left::describe(site, plan, dir, *failed),
        Step::Install { dir } => left::install(&site.version_dir(dir))?,
        Step::PrepareRestore { dir } => {
            let prepared = restore::prepare(&directory::of(&site.version_dir(dir)), &site.database(), None)?;
            return Ok(Note { file: prepared.stamp()?, ..Note::default() });
        }
        Step::Stop => stop(site)?,
        Step::Restore { dir } => left::replace(site, plan, dir)?,
        Step::DaemonReload => site.service.daemon_reload()?,
        Step::Reload => {
            site.before_reload.set(site.service.reaper()?);
            if site.service.reload()? == Reloaded::Restarted {
                site.before_reload.set(None);
                site.report.warn(
                    "the agent's service cannot be reloaded, so the agent was restarted; its connections were dropped",
                );
            }
        }
        Step::Start if plan.switch.contains(&Step::Stop) => {
            let manager = site.standstill.borrow_mut().manager.take();
            site.service.start_stopped(manager)?;
            // Where it runs the start has done nothing.
            old_must_not_run(site, plan)?;
        }
        Step::Start => site.service.start()?,
        Step::Health { binary, served, failing } => {
            health_verdict(site, binary, *served, *failing).map_err(|error| not_blamed(site, plan, error))?;
        }
        Step::SetAside { path, kept } => set_aside(path, kept)?,
        Step::Remember { path, kept } => remember(path, kept)?,
        Step::Quiet { unit } => site.systemctl().stop(unit)?,
        Step::RemovePackage { name } => remove_package(site, name)?,
        Step::Confirm { enabled, running, places } => confirm(site, places, *enabled, *running)?,
        Step::OpenPath { path } => open_path(path)?,
        Step::EnableTimer { unit } => enable_unit(site, unit)?,
        Step::DisableUnit { unit } => disable_unit(site, unit)?,
        Step::Retire { dir } if plan.direction == Direction::Uninstall => publish::retire(&site.layout.versions, dir)?,
        Step::Retire { dir } => retire(site, dir)?,
    }
    Ok(Note::default())
}

/// Undoes `step`, which was begun and perhaps done.
pub(super) fn undo(site: &Site<'_>, step: &Step, journal: &mut Journal) -> Result<()> {
    match step {
        Step::Hold { running } => bring_back(site, *running),
        Step::Place(place) => take_back(place),
        Step::Switch { place, .. } if is_untouched(site, journal, place)? => {
            take_back(place)?;
            // Nobody may have started the new version between the look and the link.
            if runs_new(site, place)? { Err(new_version_runs(site)) } else { Ok(()) }
        }
        Step::Switch { place, evidence } => {
            // A disk that is full or read-only by now is found while the agent still works.
            can_put(place, &place.was)?;
            // While the link leads to the new version a start between two recoveries starts that, on the old database.
            if look(&place.path)? == place.now || !journal.has(&Record::DatabaseBack) {
                left::put_back(site, evidence, Some(place), journal)?;
            } else {
                stop_for_undo(site)?;
            }
            take_back(place)
        }
        Step::Restore { .. } if journal.has(&Record::DatabaseBack) => stop_for_undo(site),
        Step::Restore { dir } => left::put_back(site, dir, None, journal),
        Step::PrepareRestore { .. } => restore::discard(&site.database()),
        Step::PrepareSnapshot { dir } => directory::sweep(&site.version_dir(dir)),
        Step::Snapshot { dir, .. } => left::put_away(site, journal, dir),
        Step::SetAside { path, kept } => put_back(kept, path),
        Step::Remember { kept, .. } => durable::remove_file(kept),
        Step::Quiet { unit } if site.boot => {
            site.report.debug(&format!("{unit} is started by the boot itself"));
            Ok(())
        }
        Step::Quiet { unit } => site.service.daemon_reload().and_then(|()| site.systemctl().start(unit)),
        Step::DisableUnit { unit } => site.service.daemon_reload().and_then(|()| enable_unit(site, unit)),
        // What they did is nothing, or is undone by another step.
        Step::Fetch { .. }
        | Step::Verify { .. }
        | Step::Describe { .. }
        | Step::Install { .. }
        | Step::Stop
        | Step::DaemonReload
        | Step::Reload
        | Step::Start
        | Step::Health { .. }
        | Step::RemovePackage { .. }
        | Step::Confirm { .. }
        | Step::OpenPath { .. }
        | Step::EnableTimer { .. }
        | Step::Retire { .. } => Ok(()),
    }
}

/// Steps that a boot must not wait for.
pub(super) fn needs_running_system(step: &Step) -> bool {
    matches!(step, Step::RemovePackage { .. } | Step::Confirm { .. } | Step::EnableTimer { .. } | Step::Retire { .. })
}

fn verify(site: &Site<'_>, dir: &str) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let differences = Manifest::read(&version_dir)?.verify(&version_dir)?;
    match differences.first() {
        None => Ok(()),
        Some(first) => Err(Error::new(
            Code::Damaged,
            format!(
                "{} differs from its manifest: {first} (differences: {})",
                version_dir.display(),
                differences.len()
            ),
        )
        .advise("it will be downloaded again")),
    }
}

fn stop(site: &Site<'_>) -> Result<()> {
    let proof = site.stop_proof();
    site.service.wait_until_alone(&proof, site.database_timeout, &|| site.signals.cancelled())?;
    site.standstill.borrow_mut().manager = site.service.manager();
    // The agent can carry the terminal of whoever is waiting: its loss is no wish to end from here on.
    site.signals.ignore_hangup()?;
    site.service.stop(&proof, site.database_timeout)
}

/// Brings `place` to `node`, whatever stands there.
pub(super) fn put(place: &Placement, node: &Node) -> Result<()> {
    // What is not ours is kept before it is replaced.
    if let Node::Kept(kept) = &place.was
        && *node != place.was
        && !durable::exists(kept)?
        && look(&place.path)? != *node
    {
        durable::create_dir_all(durable::parent(kept))?;
        keep(&place.path, kept)?;
    }
    // What was never changed need not be put back: it may be what cannot be changed.
    if matches!(node, Node::Absent | Node::Link(_)) && look(&place.path)? == *node {
        return durable::sync_dir(durable::parent(&place.path)).or_else(|error| match node {
            Node::Absent if !durable::parent(&place.path).exists() => Ok(()),
            _ => Err(error),
        });
    }
    match node {
        Node::Absent => durable::remove_file(&place.path),
        Node::Link(target) => {
            durable::create_dir_all(durable::parent(&place.path))?;
            durable::symlink(target, &place.path)
        }
        Node::Text(text) => {
            durable::create_dir_all(durable::parent(&place.path))?;
            durable::write(&place.path, text.as_bytes(), durable::FILE_MODE)
        }
        Node::Kept(kept) => put_back(kept, &place.path),
    }
}

/// Whether [`put`] could make a link for `node` now; nothing is changed.
fn can_put(place: &Placement, node: &Node) -> Result<()> {
    match node {
        Node::Link(target) if look(&place.path)? != *node => durable::try_symlink(target, &place.path),
        _ => Ok(()),
    }
}

/// Undoes a placement. A kept file that it had put back under its old name is kept again; not what stands there once it is
/// undone.
pub(super) fn take_back(place: &Placement) -> Result<()> {
    if let Node::Kept(kept) = &place.now
        && !durable::exists(kept)?
        && durable::exists(&place.path)?
        && look(&place.path)? != place.was
    {
        durable::create_dir_all(durable::parent(kept))?;
        keep(&place.path, kept)?;
    }
    put(place, &place.was)
}

/// Keeps a second name for `path`, or a copy where that is another file system.
pub(super) fn keep(path: &Path, kept: &Path) -> Result<()> {
    match std::fs::hard_link(path, kept) {
        Ok(()) => durable::sync_dir(durable::parent(kept)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(_) => durable::copy_exact(path, kept),
    }
}

/// Puts a kept file back under its name; repeated, it finds the work done.
pub(super) fn put_back(kept: &Path, path: &Path) -> Result<()> {
    if !durable::exists(kept)? {
        return Ok(());
    }
    match rustix::fs::rename(kept, path) {
        Ok(()) => {
            durable::sync_dir(durable::parent(path))?;
            // Two names of one file are left alone by rename; the second one would be taken for a later file's copy.
            durable::remove_file(kept)?;
            durable::sync_dir(durable::parent(kept))
        }
        Err(rustix::io::Errno::XDEV) => {
            durable::copy_exact(kept, path)?;
            durable::remove_file(kept)
        }
        Err(error) => Err(error).at("cannot put back", path),
    }
}

fn set_aside(path: &Path, kept: &Path) -> Result<()> {
    if !durable::exists(path)? {
        return Ok(());
    }
    remember(path, kept)?;
    durable::remove_file(path)
}

pub(super) fn remember(path: &Path, kept: &Path) -> Result<()> {
    durable::create_dir_all(durable::parent(kept))?;
    // One of an earlier take-over is not the one that stands here now.
    durable::remove_file(kept)?;
    keep(path, kept)
}

/// Removes a version, but not yet what failed runs of it wrote.
fn retire(site: &Site<'_>, dir: &str) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let (stays, goes): (Vec<_>, Vec<_>) =
        evidence::of(&version_dir)?.into_iter().partition(|place| evidence::is_kept(place, site.host.now()));
    for place in goes {
        let what = "removing the database of a failed version, kept for 30 days";
        site.report.notice(&format!("{what}: {}", place.display()));
    }
    if stays.is_empty() { publish::retire(&site.layout.versions, dir) } else { publish::strip(&version_dir, &stays) }
}

/// Copies the database that is left beside the running agent. Its identity goes into the journal: undo asks for nothing
/// else.
fn snapshot(site: &Site<'_>, plan: &Plan, dir: &str, failed: bool) -> Result<Note> {
    let version_dir = site.version_dir(dir);
    durable::create_dir_all(&version_dir)?;
    let new = directory::new_in(&version_dir);
    let host = mark::agent_uuid(&site.data_dir)?;
    let subject = subject(site, plan.owner(), host.as_deref(), failed)?;
    let pace = Pace { deadline: site.database_timeout, cancelled: &|| site.signals.cancelled() };
    let taken = database::snapshot_online(&site.database(), &new, &subject, site.busy_too_long, &pace);
    let taken = taken.inspect_err(|_| {
        let _ = durable::remove_tree(&new);
    })?;
    match &taken.damage {
        Some(damage) if taken.raw => left::warn_of_damage(site, damage),
        Some(busy) => site.report.warn(&format!(
            "{}; the database has been locked for hours, so its files were copied without waiting for the lock",
            busy.what
        )),
        None => {}
    }
    let backup = taken.backup;
    left::install(&version_dir)?;
    Ok(Note { snapshot: backup.id(), ..Note::default() })
}

pub(super) fn subject<'a>(
    site: &'a Site<'_>,
    revision: Option<&'a Revision>,
    host: Option<&'a str>,
    failed: bool,
) -> Result<Subject<'a>> {
    let revision = revision.ok_or_else(|| Error::new(Code::Io, "a snapshot needs a version"))?;
    Ok(Subject { proxy: &site.proxy, revision, host, now: site.host.now(), failed })
}

/// While the agent stood still nobody may have started it: it has the wrong database, or the one that was replaced.
///
/// Errors: `agent_not_stopped`, which the new version is not to blame for.
fn old_must_not_run(site: &Site<'_>, plan: &Plan) -> Result<()> {
    let judged = plan.switch.iter().find_map(|step| match step {
        Step::Health { binary, .. } => Some(site.layout.followed(binary)),
        _ => None,
    });
    let new = judged.or_else(|| Some(site.version_dir(plan.to_dir.as_ref()?).join("bin/teleport")));
    let new = match new {
        Some(program) => FileId::find(program)?,
        None => None,
    };
    let mut is_old = false;
    for agent in site.stop_proof().agents()? {
        is_old |= agent.exe_id()?.is_some_and(|program| Some(program) != new);
    }
    // By then the link leads to the new version, on its own database.
    if is_old {
        return Err(Error::new(
            Code::AgentNotStopped,
            "the old version was started by something else while it was stopped for the update",
        )
        .advise("find what starts it (a supervisor, Upholds= of another unit), stop that and run the command again"));
    }
    Ok(())
}

/// Of a version that could not start, because the old one was started in its place, nothing is told by that.
fn not_blamed(site: &Site<'_>, plan: &Plan, error: Error) -> Error {
    if error.code == Code::Unhealthy && plan.switch.contains(&Step::Stop) {
        old_must_not_run(site, plan).err().unwrap_or(error)
    } else {
        error
    }
}

fn health_verdict(site: &Site<'_>, binary: &Path, served: bool, failing: bool) -> Result<()> {
    let probe = Probe {
        service: &site.service,
        new_binary: site.layout.followed(binary),
        data_dir: site.data_dir.clone(),
        before_reload: site.before_reload.get(),
    };
    let verdict = health::observe(&probe, site.health, served, failing, &|| site.signals.cancelled())?;
    match verdict {
        Verdict::Healthy { .. } => Ok(()),
        Verdict::Unproven { reason } => {
            site.report.warn(&format!(
                "the agent was already failing before this update, so the new version could not be checked: {reason}"
            ));
            Ok(())
        }
        Verdict::Failed { reason } => {
            Err(Error::new(Code::Unhealthy, format!("the new version is not healthy: {reason}"))
                .advise("see `journalctl -u teleport`"))
        }
    }
}

/// Before the database is put back nothing may have it open. At boot nothing has been started yet; it is proven all
/// the same.
pub(super) fn stop_for_undo(site: &Site<'_>) -> Result<()> {
    let service = if site.boot { &Service::None } else { &site.service };
    service.stop(&site.stop_proof(), site.database_timeout)
}

/// True where an agent that we did not touch (it is run by something that we cannot control, or was started by hand
/// meanwhile) still runs the old binary: the live database is its own, and only the link goes back.
fn is_untouched(site: &Site<'_>, journal: &Journal, place: &Placement) -> Result<bool> {
    let plan = &journal.opening()?.plan;
    let ours_to_stop = plan.service != ServiceAction::None || plan.database == Database::Restore;
    Ok(!ours_to_stop && !site.stop_proof().leftovers()?.is_empty() && !runs_new(site, place)?)
}

/// Whether a process runs the binary that `place` leads to now.
fn runs_new(site: &Site<'_>, place: &Placement) -> Result<bool> {
    let Node::Link(target) = &place.now else { return Ok(false) };
    let new = FileId::find(site.layout.followed(target))?;
    for process in site.stop_proof().leftovers()? {
        if new.is_some() && process.exe_id()? == new {
            return Ok(true);
        }
    }
    Ok(false)
}

fn new_version_runs(site: &Site<'_>) -> Error {
    let data_dir = site.data_dir.display();
    Error::new(Code::AgentNotStopped, "something other than teleport-update has started the new version")
        .advise(format!("stop the agent; the next run then restores the old version's database in {data_dir}"))
}

/// After an undo that failed: the rest waits for the next run, and until then any agent is better than none. Not where
/// the failed version would write into the only copy of the old one's database.
pub(super) fn start_meanwhile(site: &Site<'_>, journal: &Journal) {
    let Ok(opening) = journal.opening() else { return };
    let ran = opening.plan.switch.iter().any(|step| matches!(step, Step::Hold { running: true }));
    let is_new = opening.plan.switch.iter().any(|step| match step {
        // What cannot be looked at may be, here and below.
        Step::Switch { place, .. } => look(&place.path).map_or(true, |node| node == place.now),
        _ => false,
    });
    let shares = |snapshot: PathBuf| left::shares_file(&snapshot, &site.database());
    let snapshot = left::snapshot_dir(site, journal);
    let is_only_copy = snapshot.and_then(|snapshot| snapshot.map_or(Ok(false), shares)).unwrap_or(true);
    if !site.boot && ran && !(is_new && is_only_copy) {
        // The first error is the one to tell.
        let _ = bring_back(site, true);
    }
}

/// The agent as it was before the run.
fn bring_back(site: &Site<'_>, running: bool) -> Result<()> {
    // What had the database open in the standstill was stopped before it was put back.
    site.standstill.take();
    site.service.daemon_reload()?;
    if site.boot || !running || site.service.is_running()? {
        return Ok(());
    }
    site.service.start()
}

fn remove_package(site: &Site<'_>, name: &str) -> Result<()> {
    let root = site.layout.is_image().then_some(site.layout.root.as_path());
    let copies = site.layout.versions.join(UNMANAGED).join(PACKAGE_COPIES);
    // A removal that was cut short has the only good copies of what must survive it.
    package::restore_kept(&copies)?;
    let Some(package) = package::installed(root)?.into_iter().find(|package| package.name == name) else {
        return Ok(());
    };
    durable::create_dir_all(durable::parent(&copies))?;
    let keep = package::Keep {
        files: std::slice::from_ref(&site.layout.agent_config),
        dirs: std::slice::from_ref(&site.data_dir),
        copies: &copies,
        link_dir: &site.layout.link_dir,
    };
    let wait = package::Wait { longest: PACKAGE_LOCK, tell: &|words| site.report.info(words) };
    package::purge(&package, keep, root, wait)
}

/// The package manager may have deleted links or the unit that stood under its own names: made again at once. Its
/// scripts may have stopped and disabled the agent: as it was before.
fn confirm(site: &Site<'_>, places: &[Placement], enabled: bool, running: bool) -> Result<()> {
    let mut again = false;
    for place in places {
        if look(&place.path)? != place.now {
            put(place, &place.now)?;
            again = true;
        }
    }
    if again {
        site.service.daemon_reload()?;
    }
    if site.layout.is_image() {
        return Ok(());
    }
    let state = site.service.state(&site.stop_proof())?;
    if enabled && !state.enabled {
        site.systemctl().enable(&site.layout.unit)?;
    }
    if running && !state.running && site.service != Service::None {
        site.service.start()?;
    }
    Ok(())
}

/// What stands at `path`; a regular file counts as text.
pub(super) fn look(path: &PathBuf) -> Result<Node> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Node::Absent),
        Err(error) => Err(error).at("cannot read", path),
        Ok(meta) if meta.is_symlink() => Ok(Node::Link(std::fs::read_link(path).at("cannot read", path)?)),
        Ok(_) => Ok(Node::Text(std::fs::read_to_string(path).unwrap_or_default())),
    }
}

fn enable_unit(site: &Site<'_>, unit: &str) -> Result<()> {
    site.systemctl().enable(unit)?;
    let starts = unit.ends_with(".timer") && !site.layout.is_image() && !site.boot;
    if starts { site.systemctl().start(unit) } else { Ok(()) }
}

fn disable_unit(site: &Site<'_>, unit: &str) -> Result<()> {
    if !site.layout.is_image() {
        site.systemctl().stop(unit)?;
    }
    site.systemctl().disable(unit)
}

pub(super) fn open_path(path: &Path) -> Result<()> {
    let mode = std::fs::metadata(path).at("cannot read", path)?.permissions().mode() & 0o7777;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | 0o001)).at("cannot set the mode of", path)
}

impl Site<'_> {
    fn systemctl(&self) -> Systemctl {
        if self.layout.is_image() { Systemctl::image(&self.layout.root) } else { Systemctl::host() }
    }
}
