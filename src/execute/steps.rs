//! The table of steps: what each does and how it is undone. Every undo may be repeated.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Site;
use super::journal::{Journal, Note, Record};
use crate::database::backup::{DATABASE_FILE, LINKED};
use crate::database::{self, AtRest, Backup, Content, Pace, Subject, directory, restore};
use crate::host::process::FileId;
use crate::host::{durable, mark, package, systemctl::Systemctl};
use crate::plan::{Database, Node, Placement, Plan, ServiceAction, Step, UNMANAGED};
use crate::release::Revision;
use crate::report::{Code, Error, IoContext, Result};
use crate::service::health::{self, Probe};
use crate::service::{Reloaded, Service, Verdict};
use crate::store::{manifest::Manifest, publish};

/// How long a package manager that is at work is waited for, seconds: unattended upgrades take minutes.
const PACKAGE_LOCK: Duration = Duration::from_secs(300);
/// Below `.unmanaged`: copies of what must survive a package's removal.
pub(super) const PACKAGE_COPIES: &str = "package";
/// Where a failed version's database is kept if the snapshot in its place must stay usable.
pub const EVIDENCE_BESIDE_SNAPSHOT: &str = "backup-failed";

/// Does `step`.
pub(super) fn perform(site: &Site<'_>, plan: &Plan, step: &Step) -> Result<Note> {
    match step {
        Step::Hold { .. } => {}
        Step::Fetch { .. } => return Err(Error::new(Code::Io, "a download cannot stand in the switch")),
        Step::Verify { dir } => verify(site, dir)?,
        Step::Place(place) | Step::Switch { place, .. } => put(place, &place.now)?,
        Step::PrepareSnapshot { dir } => return prepare_snapshot(site, dir),
        Step::Snapshot { dir, stopped: true, failed } => return take_stopped(site, plan, dir, *failed),
        Step::Snapshot { dir, stopped: false, failed } => return snapshot(site, plan, dir, *failed),
        Step::Describe { dir, failed } => return describe(site, plan, dir, *failed),
        Step::Install { dir } => {
            let version_dir = site.version_dir(dir);
            directory::install(&version_dir, &directory::new_in(&version_dir))?;
        }
        Step::PrepareRestore { dir } => {
            restore::prepare(&directory::of(&site.version_dir(dir)), &site.database(), None)?;
        }
        Step::Stop => stop(site)?,
        Step::Restore { dir } => restore_prepared(site, dir)?,
        Step::DaemonReload => site.service.daemon_reload()?,
        Step::Reload => {
            site.before_reload.set(site.service.reaper());
            if site.service.reload()? == Reloaded::Restarted {
                site.before_reload.set(None);
                site.report.warn("the agent cannot be reloaded: it was restarted, its connections were dropped");
            }
        }
        Step::Start if plan.switch.contains(&Step::Stop) => site.service.start_stopped()?,
        Step::Start => site.service.start()?,
        Step::Health { binary, served, failing } => health_verdict(site, binary, *served, *failing)?,
        Step::SetAside { path, kept } => set_aside(path, kept)?,
        Step::Remember { path, kept } => remember(path, kept)?,
        Step::Quiet { unit } => site.systemctl().stop(unit)?,
        Step::RemovePackage { name } => remove_package(site, name)?,
        Step::Confirm { enabled, running, places } => confirm(site, places, *enabled, *running)?,
        Step::OpenPath { path } => open_path(path)?,
        Step::EnableTimer { unit } => enable_unit(site, unit)?,
        Step::DisableUnit { unit } => disable_unit(site, unit)?,
        Step::Retire { dir } => publish::retire(&site.layout.versions, dir)?,
    }
    Ok(Note::default())
}

/// Undoes `step`, which was begun and perhaps done.
pub(super) fn undo(site: &Site<'_>, step: &Step, journal: &mut Journal) -> Result<()> {
    match step {
        Step::Hold { running } => bring_back(site, *running),
        Step::Place(place) => take_back(place),
        Step::Switch { place, .. } if is_untouched(site, journal, place)? => {
            put(place, &place.was)?;
            // Nobody may have started the new version between the look and the link.
            if runs_new(site, place)? { Err(new_version_runs(site)) } else { Ok(()) }
        }
        Step::Switch { place, evidence } => {
            // A disk that is full or read-only by now is found while the agent still works.
            can_put(place, &place.was)?;
            // While the link leads to the new version a start between two recoveries starts that, on the old database.
            let prepared = match look(&place.path)? == place.now || !journal.has(&Record::DatabaseBack) {
                true => prepare_back(site, journal)?,
                false => None,
            };
            stop_for_undo(site)?;
            if let Some(prepared) = prepared {
                // What a restore put there nobody has opened before the link led to its version.
                let restores = journal.opening()?.plan.database == Database::Restore;
                let opened = !restores || look(&place.path)? == place.now;
                let evidence = opened.then_some(evidence.as_str());
                database_back(site, prepared, evidence, journal)?;
            }
            put(place, &place.was)
        }
        Step::Restore { .. } => {
            let prepared = match journal.has(&Record::DatabaseBack) {
                true => None,
                false => prepare_back(site, journal)?,
            };
            stop_for_undo(site)?;
            prepared.map_or(Ok(()), |prepared| database_back(site, prepared, None, journal))
        }
        Step::PrepareRestore { .. } => restore::discard(&site.database()),
        Step::PrepareSnapshot { dir } => directory::sweep(&site.version_dir(dir)),
        Step::Snapshot { dir, .. } => {
            directory::sweep(&site.version_dir(dir))?;
            unlink_snapshot(site, dir)
        }
        Step::SetAside { path, kept } => put_back(kept, path),
        Step::Remember { kept, .. } => durable::remove_file(kept),
        Step::Quiet { unit } if site.boot => {
            site.report.debug(&format!("{unit} is started by the boot itself"));
            Ok(())
        }
        Step::Quiet { unit } => site.service.daemon_reload().and_then(|()| site.systemctl().start(unit)),
        Step::DisableUnit { unit } => site.service.daemon_reload().and_then(|()| enable_unit(site, unit)),
        _ => Ok(()),
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
            format!("{} differs from its manifest: {first} ({} in all)", version_dir.display(), differences.len()),
        )
        .advise("it will be downloaded again")),
    }
}

fn stop(site: &Site<'_>) -> Result<()> {
    let proof = site.stop_proof();
    site.service.wait_for_strangers(&proof, site.database_timeout, &|| site.signals.cancelled())?;
    site.service.stop(&proof, site.database_timeout)
}

/// Brings `place` to `node`, whatever stands there.
pub(super) fn put(place: &Placement, node: &Node) -> Result<()> {
    // What is not ours is kept before it is replaced.
    if let Node::Kept(kept) = &place.was
        && *node != place.was
        && !durable::exists(kept)?
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

/// Undoes a placement. A kept file that it had put back under its old name is kept again.
pub(super) fn take_back(place: &Placement) -> Result<()> {
    if let Node::Kept(kept) = &place.now
        && !durable::exists(kept)?
        && durable::exists(&place.path)?
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
        Err(_) => copy_with_owner(path, kept),
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
            copy_with_owner(kept, path)?;
            durable::remove_file(kept)
        }
        Err(error) => Err(error).at("cannot put back", path),
    }
}

fn copy_with_owner(from: &Path, to: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::symlink_metadata(from).at("cannot read", from)?;
    if meta.is_symlink() {
        let target = std::fs::read_link(from).at("cannot read", from)?;
        return durable::symlink(&target, to);
    }
    let temp = durable::temp_beside(to);
    durable::remove_file(&temp)?;
    durable::copy_synced(from, &temp, meta.mode() & 0o7777)?;
    durable::chown(&temp, meta.uid(), meta.gid())?;
    durable::rename(&temp, to)
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

/// Links the live database to where its snapshot will be. The link is in the journal before anything depends on it.
fn prepare_snapshot(site: &Site<'_>, dir: &str) -> Result<Note> {
    let version_dir = site.version_dir(dir);
    durable::create_dir_all(&version_dir)?;
    let linked = database::link_ahead(&site.database(), &directory::new_in(&version_dir))?;
    Ok(Note { snapshot_sha256: linked.then(|| LINKED.to_owned()) })
}

/// Takes the stopped agent's database, which a restore replaces next. Read, hashed and described it is later.
fn take_stopped(site: &Site<'_>, plan: &Plan, dir: &str, failed: bool) -> Result<Note> {
    let new = directory::new_in(&site.version_dir(dir));
    let host = mark::agent_uuid(&site.data_dir);
    let subject = subject(site, plan.from.as_ref().or(plan.to.as_ref()), host.as_deref(), failed)?;
    let pace = Pace { deadline: site.database_timeout, cancelled: &|| site.signals.cancelled() };
    let take = |even_if_damaged| database::take_stopped(&site.database(), &new, &subject, even_if_damaged, &pace);
    let identity = take(failed).or_else(|error| match error.code {
        // A version that damaged its database must not for that be one that cannot be left.
        Code::DatabaseInvalid => {
            warn_of_damage(site, &error);
            take(true)
        }
        _ => Err(error),
    })?;
    Ok(Note { snapshot_sha256: identity })
}

/// Checks, hashes and describes what was taken.
fn describe(site: &Site<'_>, plan: &Plan, dir: &str, failed: bool) -> Result<Note> {
    let new = directory::new_in(&site.version_dir(dir));
    let host = mark::agent_uuid(&site.data_dir);
    let subject = subject(site, plan.from.as_ref().or(plan.to.as_ref()), host.as_deref(), failed)?;
    let (backup, damage) = database::describe_taken(&new, &subject)?;
    if let Some(damage) = damage.filter(|_| !failed) {
        warn_of_damage(site, &damage);
    }
    Ok(Note { snapshot_sha256: backup.identity().map(str::to_owned) })
}

fn warn_of_damage(site: &Site<'_>, damage: &Error) {
    site.report.warn(&format!("{damage}; it is kept as it is, and will not be restored"));
}

/// Copies the database that is left beside the running agent. Its identity goes into the journal: undo asks for nothing
/// else.
fn snapshot(site: &Site<'_>, plan: &Plan, dir: &str, failed: bool) -> Result<Note> {
    let version_dir = site.version_dir(dir);
    durable::create_dir_all(&version_dir)?;
    let new = directory::new_in(&version_dir);
    let host = mark::agent_uuid(&site.data_dir);
    let subject = subject(site, plan.from.as_ref().or(plan.to.as_ref()), host.as_deref(), failed)?;
    let pace = Pace { deadline: site.database_timeout, cancelled: &|| site.signals.cancelled() };
    let backup = match database::snapshot_online(&site.database(), &new, &subject, &pace) {
        Ok(snapshot) => snapshot.backup,
        Err(error) => {
            let _ = durable::remove_tree(&new);
            return Err(error);
        }
    };
    directory::install(&version_dir, &new)?;
    Ok(Note { snapshot_sha256: backup.identity().map(str::to_owned) })
}

fn subject<'a>(
    site: &'a Site<'_>,
    revision: Option<&'a Revision>,
    host: Option<&'a str>,
    failed: bool,
) -> Result<Subject<'a>> {
    let revision = revision.ok_or_else(|| Error::new(Code::Io, "a snapshot needs a version"))?;
    Ok(Subject { proxy: &site.proxy, revision, host, now: site.host.now(), failed })
}

fn health_verdict(site: &Site<'_>, binary: &Path, served: bool, failing: bool) -> Result<()> {
    let probe = Probe {
        service: &site.service,
        new_binary: site.real(binary),
        data_dir: site.data_dir.clone(),
        before_reload: site.before_reload.get(),
    };
    let verdict = health::observe(&probe, site.health, served, failing, &|| site.signals.cancelled())?;
    match verdict {
        Verdict::Healthy { .. } => Ok(()),
        Verdict::Unproven { reason } => {
            site.report.warn(&format!("the agent was failing before, and its new version is not proven: {reason}"));
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
fn stop_for_undo(site: &Site<'_>) -> Result<()> {
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
    let new = FileId::of(site.real(target));
    Ok(new.is_some() && site.stop_proof().leftovers()?.iter().any(|process| process.exe_id() == new))
}

fn new_version_runs(site: &Site<'_>) -> Error {
    Error::new(Code::AgentNotStopped, "the new version was started meanwhile, by something that is not known here")
        .advise(format!("stop it: its database in {} is put back then", site.data_dir.display()))
}

/// Swaps the prepared database in, or removes the live one where the snapshot says that there was none.
fn restore_prepared(site: &Site<'_>, dir: &str) -> Result<()> {
    let snapshot = directory::of(&site.version_dir(dir));
    let is_absent = Backup::read(&snapshot)?.is_some_and(|backup| backup.content == Content::Absent);
    let db = site.database();
    if is_absent {
        restore::remove_database(&db)
    } else if restore::swap(&db)? {
        Ok(())
    } else {
        Err(Error::new(Code::BackupMissing, format!("the database prepared beside {} is gone", db.display()))
            .advise("run the command again"))
    }
}

/// What is to be done for the database that was left to be back.
enum Back {
    /// It is there: the live file was never replaced, or it is the snapshot itself that was put back.
    InPlace,
    /// A copy of the snapshot lies ready beside the live one.
    Ready(restore::Prepared),
}

/// Prepares this run's snapshot beside the live database, of which nothing changes; `None` if the run took none.
fn prepare_back(site: &Site<'_>, journal: &Journal) -> Result<Option<Back>> {
    let Some(identity) = journal.snapshot_sha256() else {
        return Ok(None);
    };
    let Some(from) = snapshot_dir(site, journal)? else {
        return Ok(None);
    };
    let db = site.database();
    if shares_file(&from, &db) {
        return Ok(Some(Back::InPlace));
    }
    let prepared = match restore::prepare(&from, &db, Some(identity)) {
        // The disk is full: the snapshot itself becomes the database, and is no snapshot any more once its own step is
        // undone. On another file system it cannot, and what stands in the way is the full disk. So does a file that
        // cannot be read: it is the one that was left.
        Err(error) if error.code == Code::NoSpace || (error.code == Code::Io && identity == LINKED) => {
            restore::prepare_by_link(&from, &db, Some(identity)).map_err(|_| error)?
        }
        other => other?,
    };
    Ok(Some(Back::Ready(prepared)))
}

/// Where this run's snapshot is: beside its place until it is installed there. An install that was cut short has left it
/// under either name, and it is told from an earlier one by what it says of itself.
fn snapshot_dir(site: &Site<'_>, journal: &Journal) -> Result<Option<PathBuf>> {
    let switch = &journal.opening()?.plan.switch;
    let dir = switch.iter().find_map(|step| match step {
        Step::Snapshot { dir, .. } => Some(site.version_dir(dir)),
        _ => None,
    });
    let Some(version_dir) = dir else { return Ok(None) };
    let (new, place) = (directory::new_in(&version_dir), directory::of(&version_dir));
    let is_here = match switch.iter().position(|step| matches!(step, Step::Install { .. })) {
        _ if journal.snapshot_sha256() == Some(LINKED) => true,
        None => false,
        Some(step) if !journal.has(&Record::Intent { step }) => true,
        Some(_) => match Backup::read(&new) {
            Err(error) if error.code != Code::BackupInvalid => return Err(error),
            found => found.ok().flatten().is_some_and(|found| found.identity() == journal.snapshot_sha256()),
        },
    };
    Ok(Some(if is_here { new } else { place }))
}

/// Puts this run's snapshot back as the live database; what the failed version wrote is kept as evidence, if it had been
/// switched to at all.
fn database_back(site: &Site<'_>, back: Back, evidence: Option<&str>, journal: &mut Journal) -> Result<()> {
    if let Back::Ready(prepared) = back {
        if let Some(evidence) = evidence
            && !journal.has(&Record::Evidence)
            && site.database().exists()
        {
            let plan = journal.opening()?.plan.clone();
            // Evidence is worth a warning; the old version's database is worth everything.
            if let Err(error) = keep_evidence(site, &plan, evidence) {
                site.report.warn(&format!("what the failed version wrote could not be kept: {error}"));
            }
            journal.append(Record::Evidence)?;
        }
        restore::commit(&prepared)?;
    }
    journal.append(Record::DatabaseBack)
}

/// After an undo that failed: the rest waits for the next run, and until then any agent is better than none. Not where
/// the failed version would write into the only copy of the old one's database.
pub(super) fn start_meanwhile(site: &Site<'_>, journal: &Journal) {
    let Ok(opening) = journal.opening() else { return };
    let ran = opening.plan.switch.iter().any(|step| matches!(step, Step::Hold { running: true }));
    let is_new = opening.plan.switch.iter().any(|step| match step {
        Step::Switch { place, .. } => look(&place.path).is_ok_and(|node| node == place.now),
        _ => false,
    });
    let snapshot = snapshot_dir(site, journal).ok().flatten();
    let is_only_copy = snapshot.is_some_and(|snapshot| shares_file(&snapshot, &site.database()));
    if !site.boot && ran && !(is_new && is_only_copy) {
        // The first error is the one to tell.
        let _ = bring_back(site, true);
    }
}

/// Keeps what the failed version wrote (SPEC §6, rows), unless that would replace a snapshot that is still needed.
fn keep_evidence(site: &Site<'_>, plan: &Plan, dir: &str) -> Result<()> {
    let version_dir = site.version_dir(dir);
    let new = directory::new_in(&version_dir);
    let host = mark::agent_uuid(&site.data_dir);
    let subject = subject(site, plan.to.as_ref(), host.as_deref(), true)?;
    let at_rest = AtRest { will_be_replaced: true, even_if_damaged: true };
    let pace = Pace { deadline: site.database_timeout, cancelled: &|| false };
    if let Err(error) = database::snapshot_stopped(&site.database(), &new, &subject, at_rest, &pace) {
        let _ = durable::remove_tree(&new);
        return Err(error);
    }
    if plan.needs_snapshot_of_target() {
        let place = version_dir.join(EVIDENCE_BESIDE_SNAPSHOT);
        durable::remove_tree(&place)?;
        durable::rename(&new, &place)
    } else {
        directory::install(&version_dir, &new)
    }
}

/// A snapshot that is the live file itself (the run ended before it was replaced) would change with it.
fn unlink_snapshot(site: &Site<'_>, dir: &str) -> Result<()> {
    let snapshot = directory::of(&site.version_dir(dir));
    if shares_file(&snapshot, &site.database()) { durable::remove_tree(&snapshot) } else { Ok(()) }
}

/// Whether the snapshot's file and the live one are the same.
fn shares_file(snapshot: &Path, db: &Path) -> bool {
    let shared = FileId::of(snapshot.join(DATABASE_FILE));
    shared.is_some() && shared == FileId::of(db)
}

/// The agent as it was before the run.
fn bring_back(site: &Site<'_>, running: bool) -> Result<()> {
    site.service.daemon_reload()?;
    if site.boot || !running || site.service.state(&site.stop_proof())?.running {
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
