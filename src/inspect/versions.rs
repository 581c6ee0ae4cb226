//! The versions on disk, and the snapshots in them.

use std::path::Path;

use crate::config::Updates;
use crate::context::Context;
use crate::database::backup::{self, Backup, Content, Expect};
use crate::database::{SnapshotId, directory, evidence};
use crate::host::{Layout, durable, fingerprint, machine};
use crate::inspect::node::unit_text;
use crate::plan::Snapshot;
use crate::plan::facts::Installed;
use crate::report::{Code, Error, IoContext, Result};
use crate::store::VersionDir;
use crate::store::contents::UNIT;
use crate::store::manifest::{self, Manifest};
use protocol::handover::PROTOCOL;
use protocol::{Edition, Revision};

/// The versions on disk, for callers that need no more.
pub(crate) fn installed_now(context: &Context, updates: &Updates) -> Result<Vec<Installed>> {
    installed(context, updates, context.host.now(), None)
}

pub(super) fn installed(
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
        let dir = VersionDir::named(entry.file_name().to_string_lossy());
        let Some((version, edition)) = dir.parse() else {
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
            let missing = Error::new(Code::BackupMissing, format!("there is no database backup for {revision}"));
            return Ok(Snapshot::Unusable(missing.advise("update to a newer version instead")));
        }
        // Snapshots are root's alone: what a reader plans is then without them.
        Err(error) if error.code == Code::Permission && !machine::is_root() => {
            return Ok(Snapshot::Unusable(Error { code: Code::BackupInvalid, ..error }));
        }
        // One that cannot be read now may be good: without it a return would keep the older rows.
        Err(error) if matches!(error.code, Code::Io | Code::Permission) => return Err(error),
        Err(error) => return Ok(Snapshot::Unusable(error)),
    };
    let expect = Expect {
        version: &revision.version,
        edition: Some(revision.edition),
        proxy: updates.spec().proxy.as_deref(),
        now,
        max_age: updates.spec().backup_max_age,
        host,
        trusted,
    };
    Ok(match backup::validity(&backup, &expect) {
        Err(error) => Snapshot::Unusable(error),
        // Whether an absent database still fits is the plan's own question.
        Ok(()) if backup.content == Content::Absent => Snapshot::NoDatabase,
        Ok(()) => Snapshot::Valid,
    })
}

/// Looks at every byte of a version, in place of sizes and modes alone.
pub(super) fn every_byte(layout: &Layout, version: &mut Installed) -> Result<()> {
    let dir = layout.versions.join(&version.dir);
    version.intact = Manifest::read(&dir)?.verify(&dir)?.is_empty();
    Ok(())
}

/// The active revision; where `updates.yaml` names no edition, the one on disk.
pub(crate) fn active(updates: &Updates, installed: &[Installed]) -> Option<Revision> {
    let spec = updates.spec();
    spec.active().or_else(|| {
        let version = spec.active_version.as_ref()?;
        installed.iter().map(|installed| &installed.revision).find(|revision| revision.version == *version).cloned()
    })
}

/// The directory name that holds `revision`.
pub(crate) fn dir_of(context: &Context, revision: &Revision) -> Result<VersionDir> {
    let [by_version, by_edition] = VersionDir::candidates(revision);
    Ok(if durable::is_dir(&context.layout.versions.join(&by_edition))? { by_edition } else { by_version })
}

/// The edition that a version's manifest names; `None` where it is missing or damaged. Errors: `permission`, `io`.
pub(super) fn edition_of(version_dir: &Path) -> Result<Option<Edition>> {
    Ok(seen(Manifest::read(version_dir))?.map(|manifest| manifest.edition))
}

/// What was read of a version; `None` for what is missing or damaged, and for what only root may see. What cannot be read
/// *now* may be in order: taken for damaged it would lose its edition, its links or its snapshot.
pub(super) fn seen<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.code == Code::Damaged => Ok(None),
        Err(error) if error.code == Code::Permission && !machine::is_root() => Ok(None),
        read => read.map(Some),
    }
}
