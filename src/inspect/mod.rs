//! Gathering the facts that a plan is made from. Reads only; works without root as far as files are readable.

pub(crate) mod data_dir;
mod stranger;

use crate::database::SnapshotId;
use protocol::handover::PROTOCOL;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::config::{GoUpdater, Updates};
use crate::context::Context;
use crate::database::backup::{self, Backup, Content, Expect};
use crate::database::{directory, evidence};
use crate::host::process::Reach;
use crate::host::systemctl::Systemctl;
use crate::host::{Layout, durable, fingerprint, machine, package, process};
use crate::plan::facts::{Agent, Facts, Installed, Name, UnitFact, is_updater_name};
use crate::plan::{Node, OWN_MARK, Snapshot, TAKEN_OVER, TIMER_UNIT, UNIT, UNMANAGED};
use crate::report::{Code, Error, IoContext, Result};
use crate::service::{AgentState, Service, readiness};
use crate::store::manifest::{self, Manifest};
use protocol::{Edition, Revision, Version};

/// What the Go updater's files begin with, which decides whose they are.
const FOREIGN_MARK: &str = "# teleport-update";
/// Largest unit file that is read, bytes.
const MAX_UNIT: u64 = 64 * 1024;
/// Ours among the drop-ins of the service; early, so that an operator's comes after it.
const PATHS_DROP_IN: &str = "10-teleport-update-paths.conf";

/// Where systemd looks for units, the first first, down to where ours is.
const UNIT_DIRS: [&str; 4] =
    ["/etc/systemd/system.control", "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system"];

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What every move needs.
    Move,
    /// Also what `enable` and `pin` take over: packages, the Go updater, closed directories.
    Adopt,
    /// Also every byte of the active version, in place of sizes and modes alone.
    Repair,
}

/// The facts of now.
pub(crate) fn facts(context: &Context, updates: &Updates, depth: Depth, trusted: Option<SnapshotId>) -> Result<Facts> {
    let layout = &context.layout;
    let (spec, status) = (updates.spec(), updates.status());
    let now = context.host.now();
    let versions = layout.inside(&layout.versions);
    let data_dir = context.data_dir()?;
    let mut installed = installed(context, updates, now, trusted)?;
    let active = active(updates, &installed);
    if depth == Depth::Repair {
        let suspect = |version: &&mut Installed| version.intact && Some(&version.revision) == active.as_ref();
        installed.iter_mut().filter(suspect).try_for_each(|version| every_byte(layout, version))?;
    }
    let names = names(context, &installed, &versions)?;
    let service = context.service(updates)?;
    // An image has no processes.
    let state = if layout.is_image() { AgentState::default() } else { service.state(&context.stop_proof()?)? };
    let strangers = stranger::strangers(context, &names, active.as_ref(), state.main_pid, spec.version_wait)?;
    let foreign = !state.running && !state.unmanaged.is_empty();
    let other_data_dir = if layout.is_image() { None } else { data_dir::other(context, updates, &state, &data_dir)? };
    let in_use = if layout.is_image() { InUse::default() } else { in_use(&layout.versions, &installed, &data_dir)? };
    let adopt = depth == Depth::Adopt;
    let set_aside = if adopt { set_aside(context)? } else { Vec::new() };
    let closed_path = if adopt { closed_path(context)? } else { None };
    let foreign_timer = foreign_timer(context);
    let masks = set_aside.iter().any(|(path, _)| path.ends_with(&foreign_timer));
    Ok(Facts {
        now,
        versions: versions.clone(),
        link_dir: layout.link_dir.clone(),
        active,
        previous: status.previous.clone(),
        unit: unit(context)?,
        enablement: enablement(context)?,
        database: has_database(layout, &data_dir)?,
        other_data_dir,
        agent: Agent {
            running: state.running || foreign,
            enabled: state.enabled,
            failed: state.failed,
            served: state.running && readiness::probe(&data_dir).is_served(),
            controllable: !foreign && service != Service::None,
        },
        strangers,
        refused: status.refused.clone(),
        delayed: status.delayed.clone(),
        left: status.left.iter().map(|left| (left.revision.clone(), left.time)).collect(),
        components: spec.components.clone(),
        keep: spec.keep,
        in_use: in_use.by_the_agents,
        in_use_by_others: in_use.by_others,
        packages: if adopt { packages(layout)? } else { Vec::new() },
        foreign_links: if adopt { foreign_links(context)? } else { Vec::new() },
        foreign_timer: if masks { active_timer(layout, foreign_timer)? } else { None },
        masked_timer: (masks && layout.suffix.is_none() && has_own_timer(context)?).then(|| TIMER_UNIT.to_owned()),
        set_aside,
        grant_traverse: closed_path.clone().and_then(|(path, opens)| opens.then_some(path)),
        closed_path: closed_path.and_then(|(path, opens)| (!opens).then_some(path)),
        moved_links: moved_links(context, &versions)?,
        own_units: own_units(context, &data_dir)?,
        installed,
        names,
    })
}

/// Looks at every byte of a version, in place of sizes and modes alone.
fn every_byte(layout: &Layout, version: &mut Installed) -> Result<()> {
    let dir = layout.versions.join(&version.dir);
    version.intact = Manifest::read(&dir)?.verify(&dir)?.is_empty();
    Ok(())
}

/// The packages whose agent `enable` takes over; an additional installation has none.
fn packages(layout: &Layout) -> Result<Vec<String>> {
    if layout.suffix.is_some() {
        return Ok(Vec::new());
    }
    let root = layout.is_image().then_some(layout.root.as_path());
    Ok(package::installed(root)?.into_iter().map(|package| package.name).collect())
}

/// `unit`, where systemd runs it.
fn active_timer(layout: &Layout, unit: String) -> Result<Option<String>> {
    if layout.is_image() || !machine::is_systemd_booted() {
        return Ok(None);
    }
    Ok(Systemctl::host().show(&unit)?.is_active().then_some(unit))
}

/// Whether the agent has a database; readers that may not look must reckon with one.
fn has_database(layout: &Layout, data_dir: &Path) -> Result<bool> {
    durable::exists(&layout.database(data_dir)).or_else(|error| match error.code {
        Code::Permission => Ok(true),
        _ => Err(error),
    })
}

/// The versions on disk, for callers that need no more.
pub(crate) fn installed_now(context: &Context, updates: &Updates) -> Result<Vec<Installed>> {
    installed(context, updates, context.host.now(), None)
}

/// The directory name that holds `revision`.
pub(crate) fn dir_of(context: &Context, revision: &Revision) -> Result<String> {
    let plain = revision.version.to_string();
    let other = format!("{plain}_{}", revision.edition);
    Ok(if durable::is_dir(&context.layout.versions.join(&other))? { other } else { plain })
}

/// The version that our links lead to, if they all lead to the same one: `teleport`, the helpers, the unit. An updater's
/// own link may be with a newer version. Where the edition cannot be told from the version itself it is left open.
///
/// Errors: `permission`, `io` where a link or the version cannot be looked at: another version could be taken for active.
pub(crate) fn linked(context: &Context) -> Result<Option<(Version, Option<Edition>)>> {
    let layout = &context.layout;
    let versions = layout.inside(&layout.versions);
    let dir_of = |path: &Path| -> Result<Option<String>> {
        let Some(target) = durable::link_at(path)? else { return Ok(None) };
        let dir = target.strip_prefix(&versions).ok().and_then(|rest| rest.components().next());
        Ok(dir.map(|dir| dir.as_os_str().to_string_lossy().into_owned()))
    };
    let Some(agent) = dir_of(&layout.link_dir.join("teleport"))? else { return Ok(None) };
    let is_other = |name: &OsStr| name != "teleport" && !is_updater_name(&name.to_string_lossy());
    let mut others = vec![layout.unit_file.clone()];
    for entry in durable::entries(&layout.link_dir)? {
        // The directory itself says which of its entries are links.
        let is_link = entry.file_type().at("cannot look at", entry.path())?.is_symlink();
        others.extend((is_link && is_other(&entry.file_name())).then(|| entry.path()));
    }
    for other in others {
        if dir_of(&other)?.is_some_and(|dir| dir != agent) {
            return Ok(None);
        }
    }
    let path = layout.versions.join(&agent);
    let Some((version, edition)) = parse_dir(&agent) else { return Ok(None) };
    match durable::is_dir(&path) {
        // Who may not look tells only what the links say elsewhere.
        Err(error) if error.code == Code::Permission && !machine::is_root() => Ok(None),
        there => Ok(if there? { Some((version, edition_of(&path)?.or(edition))) } else { None }),
    }
}

/// What stands where the agent's link goes and is none of ours, as a clause; none where it cannot be seen. For a message.
pub(crate) fn replaced(context: &Context) -> Option<String> {
    let path = context.layout.link_dir.join("teleport");
    let shown = context.layout.inside(&path).display().to_string();
    let versions = context.layout.inside(&context.layout.versions);
    match std::fs::read_link(&path) {
        Ok(target) if target.starts_with(&versions) => None,
        Ok(target) => Some(format!("{shown} points to {}, which teleport-update did not install", target.display())),
        Err(_) if std::fs::symlink_metadata(&path).is_ok() => {
            Some(format!("{shown} is a file that teleport-update did not install"))
        }
        Err(_) => None,
    }
}

/// `updates.yaml` with the version that the links lead to, and the layout with the link directory that it names.
pub(crate) fn open(context: &mut Context) -> Result<Updates> {
    let mut updates = Updates::read(&context.layout.config_file())?;
    context.lay_out(updates.spec().path.as_deref())?;
    context.data_dir.clone_from(&updates.spec().data_dir);
    let told = believe_links(context, &mut updates)?;
    if let (Some(told), Some(linked), false) = (&told, &updates.spec().active_version, context.settings_disagree) {
        let file = updates.file().display();
        context
            .report
            .warn(&format!("{file} says that {told} is active, but all links point to {linked}; using {linked}"));
    }
    context.settings_disagree = told.is_some();
    Ok(updates)
}

/// Makes `updates` name the version that all links lead to: the file is a copy of that fact, and may be an old one that
/// was put back. With links that disagree, or an open journal, the file counts.
///
/// Returns what the file says, where that is something else. Errors: as [`linked`].
pub(crate) fn believe_links(context: &Context, updates: &mut Updates) -> Result<Option<Version>> {
    let mut spec = updates.spec().clone();
    let Some((version, edition)) = linked(context)?.filter(|_| !context.is_interrupted()) else {
        return Ok(None);
    };
    let is_told =
        spec.active_version.as_ref() == Some(&version) && (edition.is_none() || spec.active_edition == edition);
    // RFD 0169's own files name no edition.
    if is_told || (spec.active_edition.is_none() && spec.active_version.as_ref() == Some(&version)) {
        return Ok(None);
    }
    spec.active_edition = edition.or(spec.active_edition);
    let told = spec.active_version.replace(version);
    updates.set_spec(&spec);
    Ok(told)
}

/// The active revision; where `updates.yaml` names no edition, the one on disk.
pub(crate) fn active(updates: &Updates, installed: &[Installed]) -> Option<Revision> {
    let spec = updates.spec();
    spec.active().or_else(|| {
        let version = spec.active_version.as_ref()?;
        installed.iter().map(|installed| &installed.revision).find(|revision| revision.version == *version).cloned()
    })
}

/// The edition that a version's manifest names; `None` where it is missing or damaged. Errors: `permission`, `io`.
pub(crate) fn edition_of(version_dir: &Path) -> Result<Option<Edition>> {
    Ok(seen(Manifest::read(version_dir))?.map(|manifest| manifest.edition))
}

/// What was read of a version; `None` for what is missing or damaged, and for what only root may see. What cannot be read
/// *now* may be in order: taken for damaged it would lose its edition, its links or its snapshot.
fn seen<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.code == Code::Damaged => Ok(None),
        Err(error) if error.code == Code::Permission && !machine::is_root() => Ok(None),
        read => read.map(Some),
    }
}

fn installed(
    context: &Context,
    updates: &Updates,
    now: jiff::Timestamp,
    trusted: Option<SnapshotId>,
) -> Result<Vec<Installed>> {
    let versions = &context.layout.versions;
    let entries = match std::fs::read_dir(versions) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).at("cannot read", versions),
    };
    let host = fingerprint::agent_uuid(&context.data_dir()?)?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.at("cannot read", versions)?;
        let dir = entry.file_name().to_string_lossy().into_owned();
        let Some((version, edition)) = parse_dir(&dir) else {
            continue;
        };
        if !entry.file_type().at("cannot look at", entry.path())?.is_dir() {
            continue;
        }
        let path = entry.path();
        let manifest = seen(Manifest::read(&path))?;
        let edition = manifest
            .as_ref()
            .map(|manifest| manifest.edition)
            .or(edition)
            .or_else(|| updates.spec().active().filter(|active| active.version == version).map(|active| active.edition))
            .unwrap_or(Edition::Oss);
        let revision = Revision { version, edition };
        let marker = seen(manifest::read_marker(&path))?.flatten();
        // A version that retention has removed, but not yet what its failed runs wrote.
        let is_active = updates.spec().active_version.as_ref() == Some(&revision.version);
        if manifest.is_none() && marker.is_none() && !is_active {
            let rows = seen(evidence::of(&path))?.unwrap_or_default();
            if rows.iter().any(|place| evidence::is_kept(place, now)) {
                continue;
            }
        }
        let intact = match manifest.as_ref().filter(|manifest| marker == Some(manifest.archive_sha256)) {
            Some(manifest) => seen(manifest.quick_check(&path))?.is_some_and(|differences| differences.is_empty()),
            None => false,
        };
        let files = manifest.as_ref().map(|manifest| manifest.files.as_slice()).unwrap_or_default();
        found.push(Installed {
            snapshot: snapshot(&path, &revision, updates, now, trusted, host.as_deref())?,
            dir,
            marker: marker.map(|digest| digest.to_string()),
            intact,
            binaries: files.iter().filter_map(|file| file.path.strip_prefix("bin/").map(str::to_owned)).collect(),
            components: manifest.as_ref().and_then(|manifest| manifest.components.clone()),
            updater: manifest
                .as_ref()
                .and_then(|manifest| manifest.updater.as_ref())
                .filter(|updater| updater.protocol == PROTOCOL)
                .map(|updater| updater.path.clone()),
            unit: seen(unit_text(&path.join(UNIT)))?.flatten(),
            size: files.iter().fold(0, |sum, file| sum.saturating_add(file.size)),
            install_time: manifest.as_ref().map_or(jiff::Timestamp::UNIX_EPOCH, |manifest| manifest.install_time),
            revision,
        });
    }
    found.sort_by(|a, b| a.dir.cmp(&b.dir));
    Ok(found)
}

/// `<VERSION>` or `<VERSION>_<edition>`; anything else is not ours to touch.
pub(crate) fn parse_dir(name: &str) -> Option<(Version, Option<Edition>)> {
    let (version, edition) = match name.split_once('_') {
        Some((version, edition)) => (version, Some(edition.parse().ok()?)),
        None => (name, None),
    };
    let parsed: Version = version.parse().ok()?;
    (parsed.to_string() == version).then_some((parsed, edition))
}

fn snapshot(
    version_dir: &Path,
    revision: &Revision,
    updates: &Updates,
    now: jiff::Timestamp,
    trusted: Option<SnapshotId>,
    host: Option<&str>,
) -> Result<Snapshot> {
    let backup = match Backup::read(&directory::of(version_dir)) {
        Ok(Some(backup)) => backup,
        Ok(None) => {
            let what = format!("there is no database backup for {revision}");
            return Ok(Snapshot::Unusable(
                Error::new(Code::BackupMissing, what).advise("update to a newer version instead"),
            ));
        }
        // Snapshots are root's alone: what a reader plans is then without them.
        Err(error) if error.code == Code::Permission && !machine::is_root() => {
            return Ok(Snapshot::Unusable(Error { code: Code::BackupInvalid, ..error }));
        }
        // One that cannot be read now may be good: without it a return would keep the older rows.
        Err(error) if matches!(error.code, Code::Io | Code::Permission) => return Err(error),
        Err(error) => return Ok(Snapshot::Unusable(error)),
    };
    let is_absent = backup.content == Content::Absent;
    let expect = Expect {
        version: &revision.version,
        edition: Some(revision.edition),
        proxy: updates.spec().proxy.as_deref(),
        now,
        max_age: updates.spec().backup_max_age,
        // Whether an absent database still fits is the plan's own question.
        host,
        database_exists: !is_absent,
        trusted: trusted.filter(|&trusted| backup.id() == Some(trusted)),
    };
    Ok(match backup::validity(&backup, &expect) {
        Err(error) => Snapshot::Unusable(error),
        Ok(()) if is_absent => Snapshot::NoDatabase,
        Ok(()) => Snapshot::Valid,
    })
}

/// Every name in the link directory that is a link of ours, or that an installed version would need.
fn names(context: &Context, installed: &[Installed], versions: &Path) -> Result<Vec<Name>> {
    let link_dir = &context.layout.link_dir;
    let mut wanted: Vec<String> = ["teleport", "tsh", "tctl", "tbot", "teleport-update"].map(str::to_owned).to_vec();
    wanted.extend(installed.iter().flat_map(|installed| installed.binaries.iter().cloned()));
    let its_versions = context.layout.inside(durable::parent(&GoUpdater::file(&context.layout))).join("versions");
    for (path, target) in durable::links_in(link_dir)? {
        if target.starts_with(versions) || target.starts_with(&its_versions) {
            wanted.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    wanted.sort();
    wanted.dedup();
    let unmanaged = context.layout.versions.join(UNMANAGED);
    wanted
        .into_iter()
        .map(|name| {
            let node = look(&link_dir.join(&name), || Ok(Node::Kept(unmanaged.join(&name))))?;
            let ours = matches!(&node, Node::Link(target) if target.starts_with(versions));
            Ok(Name { name, node, ours })
        })
        .collect()
}

/// What stands at `path`; `file` says what a regular file counts as.
fn look(path: &Path, file: impl FnOnce() -> Result<Node>) -> Result<Node> {
    match std::fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(Node::Absent)
        }
        Err(error) => Err(error).at("cannot read", path),
        Ok(meta) if meta.is_symlink() => std::fs::read_link(path).at("cannot read", path).map(Node::Link),
        Ok(meta) if meta.is_file() => file(),
        Ok(_) => Err(Error::new(Code::PathTaken, format!("{} is neither a file nor a link", path.display()))
            .advise("move it away: teleport-update must create a symlink there")),
    }
}

/// A unit file of ours as text; anybody else's is kept before it is replaced. The Go updater's is remembered otherwise.
fn own_text(layout: &Layout, path: &Path) -> Result<Node> {
    Ok(match unit_text(path)? {
        Some(text) if text.starts_with(OWN_MARK) || text.starts_with(FOREIGN_MARK) => Node::Text(text),
        _ => Node::Kept(kept_unit(layout, path)),
    })
}

/// The text of a unit file; `None` if it is not there, larger than any of ours, or no text. Errors: `permission`, `io`.
fn unit_text(path: &Path) -> Result<Option<String>> {
    match durable::read_limited(path, MAX_UNIT) {
        Err(_) if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file() || meta.len() > MAX_UNIT) => Ok(None),
        bytes => Ok(bytes?.and_then(|bytes| String::from_utf8(bytes).ok())),
    }
}

/// Where a unit of others is kept while ours stands in its place.
fn kept_unit(layout: &Layout, path: &Path) -> PathBuf {
    layout.versions.join(UNMANAGED).join(path.file_name().unwrap_or_default())
}

fn unit(context: &Context) -> Result<UnitFact> {
    let layout = &context.layout;
    let path = layout.unit_file.clone();
    let link_dir = layout.inside(&layout.link_dir);
    // A plain link serves only an installation with the paths that the archive's unit is written for.
    let linked = layout.suffix.is_none() && link_dir == Path::new("/usr/local/bin");
    let node = match look(&path, || own_text(layout, &path))? {
        // Where the unit is a link, a file is somebody's.
        Node::Text(_) if linked => Node::Kept(kept_unit(layout, &path)),
        node => node,
    };
    let mut edits = vec![("/usr/local/bin/".to_owned(), format!("{}/", link_dir.display()))];
    if let Some(suffix) = &layout.suffix {
        edits.push(("/etc/teleport.yaml".into(), format!("/etc/teleport_{suffix}.yaml")));
        edits.push(("/run/teleport.pid".into(), format!("/run/teleport_{suffix}.pid")));
        edits.push(("/etc/default/teleport".into(), format!("/etc/default/teleport_{suffix}")));
    }
    let inside = layout.inside(&path);
    Ok(UnitFact { path, inside, node, linked, edits, managed: !layout.is_image() && machine::is_systemd_booted() })
}

/// Links below `/etc/systemd/system` that lead to our unit or to a version's unit file, made by `systemctl enable`.
fn enablement(context: &Context) -> Result<Vec<(PathBuf, Node)>> {
    let layout = &context.layout;
    let versions = layout.inside(&layout.versions);
    let unit_file = layout.inside(&layout.unit_file);
    let mut dirs = vec![layout.followed(Path::new("/etc/systemd/system"))];
    let paths = durable::entries(&dirs[0])?.into_iter().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".wants") || name.ends_with(".requires")
    });
    dirs.extend(paths.map(|path| layout.behind(&path)));
    let mut found = Vec::new();
    for path in dirs.into_iter().map(|dir| dir.join(&layout.unit)) {
        if let Some(target) = durable::link_at(&path)?
            && (target.starts_with(&versions) || target == unit_file)
            && path != layout.unit_file
        {
            found.push((path, Node::Link(target)));
        }
    }
    Ok(found)
}

/// The directories of versions that processes run.
#[derive(Debug, Default)]
struct InUse {
    by_the_agents: Vec<String>,
    by_others: Vec<String>,
}

/// The versions that processes run; all of them where root may not see what some process runs. (Others see little, and
/// remove nothing; and of what shields itself although no capability is missing, the name tells.)
fn in_use(versions: &Path, installed: &[Installed], data_dir: &Path) -> Result<InUse> {
    let real = durable::real(versions)?;
    let reach = Reach::of(&data_dir.join("proc/sqlite.db"))?;
    let sees_all = process::may_see_all();
    let is_ours = |process: &process::Process| {
        let binaries = || installed.iter().flat_map(|installed| &installed.binaries);
        // The kernel cuts names at 15 bytes.
        binaries().any(|name| !process.comm.is_empty() && name.starts_with(&process.comm))
    };
    let mut used = InUse::default();
    for process in process::all()? {
        let is_agents = process.can_open(&reach)?;
        let process = if is_agents { process.behind_emulator()? } else { process };
        let exe = process.exe.as_deref().and_then(|exe| exe.strip_prefix(&real).ok()?.components().next());
        let dirs: Vec<String> = match exe {
            Some(dir) => vec![dir.as_os_str().to_string_lossy().into_owned()],
            None if process.hidden && machine::is_root() && (!sees_all || is_ours(&process)) => {
                installed.iter().map(|installed| installed.dir.clone()).collect()
            }
            None => continue,
        };
        let users = if is_agents { &mut used.by_the_agents } else { &mut used.by_others };
        users.extend(dirs);
    }
    for dirs in [&mut used.by_the_agents, &mut used.by_others] {
        dirs.sort();
        dirs.dedup();
    }
    Ok(used)
}

/// The Go updater's links to its own versions.
fn foreign_links(context: &Context) -> Result<Vec<(PathBuf, PathBuf)>> {
    let layout = &context.layout;
    let file = GoUpdater::file(layout);
    if GoUpdater::of(layout)?.is_none() {
        return Ok(Vec::new());
    }
    let its_versions = layout.inside(durable::parent(&file)).join("versions");
    let inside = layout.inside(&layout.link_dir);
    let mut found: Vec<(PathBuf, PathBuf)> = durable::links_in(&layout.link_dir)?
        .into_iter()
        .filter(|(_, target)| target.starts_with(&its_versions))
        .map(|(path, _)| {
            let name = path.file_name().unwrap_or_default().to_owned();
            let kept = inside.strip_prefix("/").unwrap_or(&inside).join(name);
            (path, taken_over(layout, &kept))
        })
        .collect();
    // A suffixed agent's unit has the same name as ours and makes way only when ours takes its place.
    if layout.suffix.is_some() && is_foreign(layout, &layout.unit_file)? {
        let inside = layout.inside(&layout.unit_file);
        let kept = inside.strip_prefix("/").unwrap_or(&inside);
        found.push((layout.unit_file.clone(), taken_over(layout, kept)));
    }
    found.sort();
    Ok(found)
}

/// Where the foreign file `inside` (without the root's slash) is kept.
fn taken_over(layout: &Layout, inside: &Path) -> PathBuf {
    layout.real(&layout.inside(&layout.versions.join(TAKEN_OVER).join(inside)))
}

/// True for what carries the Go updater's own mark, and for a link that was made to enable such a file. In an image its
/// target is a path inside. Errors: `permission`, `io`.
pub(crate) fn is_foreign(layout: &Layout, path: &Path) -> Result<bool> {
    Ok(unit_text(&layout.behind(path))?.is_some_and(|text| text.starts_with(FOREIGN_MARK)))
}

/// What the Go updater's timer for this installation is called, and ours.
fn foreign_timer(context: &Context) -> String {
    match &context.layout.suffix {
        Some(suffix) => TIMER_UNIT.replace('.', &format!("_{suffix}.")),
        None => TIMER_UNIT.to_owned(),
    }
}

/// Why updates do not come by themselves on this running host, and what to do; none where the timer is as it should be,
/// and where nothing is known of it.
pub(crate) fn silent_timer(context: &Context) -> Option<String> {
    if context.layout.is_image() || !machine::is_systemd_booted() {
        return None;
    }
    let timer = foreign_timer(context);
    let state = Systemctl::host().show(&timer).ok()?.unit_file_state;
    let unmask = match state.as_str() {
        "masked" | "masked-runtime" => format!("systemctl unmask {timer}; "),
        "disabled" => String::new(),
        _ => return None,
    };
    Some(format!("{timer} is {state}, so there are no automatic updates: run `{unmask}systemctl enable --now {timer}`"))
}

/// The package brought a timer, which a file in `/etc` masks.
fn has_own_timer(context: &Context) -> Result<bool> {
    for dir in ["/usr/lib/systemd/system", "/lib/systemd/system"] {
        if durable::exists(&context.layout.followed(&Path::new(dir).join(TIMER_UNIT)))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The Go updater's units, which would mask ours of the same name, or stand in their place (SPEC §5).
fn set_aside(context: &Context) -> Result<Vec<(PathBuf, PathBuf)>> {
    let layout = &context.layout;
    if GoUpdater::of(layout)?.is_none() {
        return Ok(Vec::new());
    }
    let (timer, agent) = (foreign_timer(context), &layout.unit);
    let name = timer.trim_end_matches(".timer");
    let files = [
        timer.clone(),
        format!("{name}.service"),
        format!("{agent}.wants/{timer}"),
        format!("timers.target.wants/{timer}"),
        format!("{agent}.d/{name}.conf"),
    ];
    let mut found = Vec::new();
    for inside in files.into_iter().map(|file| Path::new("/etc/systemd/system").join(file)) {
        let path = layout.real(&inside);
        if is_foreign(layout, &path)? {
            found.push((path, taken_over(layout, inside.strip_prefix("/").unwrap_or(&inside))));
        }
    }
    Ok(found)
}

/// Links of ours in the link directory that `updates.yaml` still names, if that is not the present one.
fn moved_links(context: &Context, versions: &Path) -> Result<Vec<(PathBuf, Node)>> {
    let layout = &context.layout;
    // The file, not the settings of this run, which may be about to change it.
    let known = Updates::read(&layout.config_file())?.spec().path.clone();
    let before = Layout::new(&layout.root, layout.suffix.as_deref(), known.as_deref())?.link_dir;
    if before == layout.link_dir { Ok(Vec::new()) } else { links_into(&before, versions) }
}

/// Links of ours in the usual link directory, where the settings name another one: nothing but `uninstall` looks there.
pub(crate) fn links_in_usual_dir(context: &Context) -> Result<Vec<(PathBuf, Node)>> {
    let layout = &context.layout;
    let usual = Layout::new(&layout.root, layout.suffix.as_deref(), None)?.link_dir;
    let versions = layout.inside(&layout.versions);
    if usual == layout.link_dir { Ok(Vec::new()) } else { links_into(&usual, &versions) }
}

fn links_into(dir: &Path, versions: &Path) -> Result<Vec<(PathBuf, Node)>> {
    let links = durable::links_in(dir)?.into_iter().filter(|(_, target)| target.starts_with(versions));
    Ok(links.map(|(path, target)| (path, Node::Link(target))).collect())
}

/// Unit files and drop-ins of others that start the agent from another directory than the one with our links: where they
/// are, and the program that they start. A unit that starts something else, a wrapper say, is the operator's business.
///
/// Errors: `permission`, `io`.
pub(crate) fn starts_elsewhere(context: &Context) -> Result<Vec<(PathBuf, PathBuf)>> {
    let layout = &context.layout;
    let versions = layout.inside(&layout.versions);
    let dirs = UNIT_DIRS.map(|dir| layout.followed(Path::new(dir)));
    let mut files = Vec::new();
    // The first one counts; links into our versions and the unit's own place are the plan's.
    for path in dirs.iter().map(|dir| dir.join(&layout.unit)) {
        match durable::link_at(&path)? {
            Some(target) if target.starts_with(&versions) => continue,
            _ if path == layout.unit_file => break,
            _ if !durable::exists(&path)? => continue,
            _ => {}
        }
        files.push(path);
        break;
    }
    for dir in dirs.iter().map(|dir| layout.behind(&dir.join(format!("{}.d", layout.unit)))) {
        let entries = durable::entries(&dir)?.into_iter().map(|entry| entry.path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "conf")));
    }
    files.sort();
    files.dedup();
    let is_elsewhere = |program: &PathBuf| {
        program.file_name().is_some_and(|name| name == "teleport")
            && program.parent().is_some_and(|dir| layout.followed(dir) != layout.link_dir)
    };
    let mut found = Vec::new();
    for path in files {
        let program = seen(unit_text(&layout.behind(&path)))?.flatten().as_deref().and_then(started);
        found.extend(program.filter(is_elsewhere).map(|program| (path, program)));
    }
    Ok(found)
}

/// The program of the last `ExecStart=` in a unit's text.
fn started(text: &str) -> Option<PathBuf> {
    let value = text.lines().rev().find_map(|line| line.trim().strip_prefix("ExecStart="))?;
    let word = value.trim().trim_start_matches(['@', '-', ':', '+', '!']).split_whitespace().next()?;
    Some(PathBuf::from(word.trim_matches(['"', '\''])))
}

/// The agent's directory, if it is closed to others; true if nothing else in it would be opened by o+x (SPEC §1).
///
/// Errors: `permission`, `io`: what cannot be looked at could be what o+x lays open.
fn closed_path(context: &Context) -> Result<Option<(PathBuf, bool)>> {
    let state = durable::parent(&context.layout.versions).to_owned();
    if !durable::exists(&state)? {
        return Ok(None);
    }
    let look = |path: &Path| std::fs::symlink_metadata(path).at("cannot look at", path);
    if look(&state)?.permissions().mode() & 0o001 != 0 {
        return Ok(None);
    }
    for entry in durable::entries(&state)? {
        let found = look(&entry.path())?;
        if entry.path() != context.layout.versions && !found.is_symlink() && found.permissions().mode() & 0o007 != 0 {
            return Ok(Some((state, false)));
        }
    }
    Ok(Some((state, true)))
}

/// Units that we write: those of a suffixed installation, and what its paths need.
fn own_units(context: &Context, data_dir: &Path) -> Result<Vec<(PathBuf, String, Node)>> {
    let mut units = suffixed_units(context)?;
    units.extend(paths_drop_in(context, data_dir)?);
    Ok(units)
}

/// A drop-in of the service for links, versions or data that its confinement would keep it from writing. One that is no
/// longer needed stays as it is until `uninstall`.
fn paths_drop_in(context: &Context, data_dir: &Path) -> Result<Option<(PathBuf, String, Node)>> {
    let layout = &context.layout;
    let suffix = layout.suffix.as_ref().map(|suffix| format!("_{suffix}")).unwrap_or_default();
    let path =
        layout.real(Path::new(&format!("/etc/systemd/system/teleport-update{suffix}.service.d/{PATHS_DROP_IN}")));
    let node = look(&path, || own_text(layout, &path))?;
    let mut dirs: Vec<PathBuf> = [&layout.link_dir, &layout.versions, data_dir]
        .into_iter()
        // Where they are, and not what links call them.
        .map(|dir| dir.strip_prefix(&layout.root).map_or_else(|_| dir.to_owned(), |rest| Path::new("/").join(rest)))
        .filter(|dir| is_kept_from_unit(dir))
        .collect();
    dirs.sort();
    dirs.dedup();
    Ok(match (dirs.is_empty(), node) {
        (false, node) => Some((path, paths_text(&dirs), node)),
        (true, Node::Text(text)) => Some((path, text.clone(), Node::Text(text))),
        (true, _) => None,
    })
}

/// Whether `dir` is what `teleport-update.service` leaves read-only.
fn is_kept_from_unit(dir: &Path) -> bool {
    let below = |tops: &[&str]| tops.iter().any(|top| dir.starts_with(top));
    below(&["/usr", "/etc", "/boot", "/efi", "/home", "/root", "/run/user"])
        && !below(&["/usr/local", "/etc/systemd/system"])
}

fn paths_text(dirs: &[PathBuf]) -> String {
    // In unit files `%` begins a specifier.
    let list = |dir: &PathBuf| format!(" \"-{}\"", dir.display().to_string().replace('%', "%%"));
    let list: String = dirs.iter().map(list).collect();
    let list = list.trim_start();
    format!(
        "{OWN_MARK}: its links, versions or the agent's data are here.\n[Service]\n\
         # The same twice: systemd before 231 knows only the older name.\n\
         ReadWriteDirectories={list}\nReadWritePaths={list}\n"
    )
}

/// Timer, service and boot unit of a suffixed installation: the package's own serve only the default one.
fn suffixed_units(context: &Context) -> Result<Vec<(PathBuf, String, Node)>> {
    let Some(suffix) = &context.layout.suffix else {
        return Ok(Vec::new());
    };
    let service = include_str!("../../systemd/teleport-update.service")
        .replace("/teleport-update update", &format!("/teleport-update --install-suffix {suffix} update"))
        .replace("/teleport-update recover", &format!("/teleport-update --install-suffix {suffix} recover"));
    let recovery = include_str!("../../systemd/teleport-update-recover.service")
        .replace("/teleport-update recover", &format!("/teleport-update --install-suffix {suffix} recover"));
    let timer = include_str!("../../systemd/teleport-update.timer").to_owned();
    let files = [
        (format!("teleport-update_{suffix}.service"), service),
        (format!("teleport-update-recover_{suffix}.service"), recovery),
        (format!("teleport-update_{suffix}.timer"), timer),
    ];
    files
        .into_iter()
        .map(|(name, text)| {
            let text = format!("{OWN_MARK}; change it with `systemctl edit`.\n{text}")
                .replace("=teleport.service", &format!("=teleport_{suffix}.service"))
                .replace("=teleport-update-recover.service", &format!("=teleport-update-recover_{suffix}.service"))
                .replace("/var/lib/teleport/", &format!("/var/lib/teleport_{suffix}/"))
                .replace("/var/lib/teleport /usr/local", &format!("/var/lib/teleport_{suffix} /opt/teleport/{suffix}"));
            let inside = format!("/etc/systemd/system/{name}");
            let path = context.layout.real(Path::new(&inside));
            let node = look(&path, || own_text(&context.layout, &path))?;
            Ok((path, text, node))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_unit_leaves_read_only_needs_a_drop_in() {
        for dir in ["/usr/bin", "/usr", "/etc/teleport", "/home/teleport/data", "/root/x", "/boot"] {
            assert!(is_kept_from_unit(Path::new(dir)), "{dir}");
        }
        for dir in ["/usr/local/bin", "/opt/x/bin", "/var/lib/teleport", "/srv", "/etc/systemd/system", "/homes/x", "/"]
        {
            assert!(!is_kept_from_unit(Path::new(dir)), "{dir}");
        }
    }

    #[test]
    fn a_path_with_a_space_or_a_percent_sign_is_one_word_of_the_drop_in() {
        let text = paths_text(&["/home/a b".into(), "/usr/100%".into()]);
        assert!(text.ends_with("\nReadWritePaths=\"-/home/a b\" \"-/usr/100%%\"\n"), "{text}");
    }
}
