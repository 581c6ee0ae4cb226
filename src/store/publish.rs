//! Making a staged version an installed one: its files and directories are durable before its name, and its name
//! before its marker (SPEC §8).

use std::path::Path;

use super::manifest::{self, Manifest};
use crate::host::durable;
use crate::report::{IoContext, Result};

/// Prefix of directories being filled; what carries it and is not ours is garbage of a run that died.
pub const STAGING_PREFIX: &str = ".staging-";
/// Prefix of directories being removed.
pub const RETIRED_PREFIX: &str = ".retired-";

/// Publishes `staging` as `version_dir`. Everything in `staging` has been synced, the manifest included.
///
/// A directory that is already there (damaged, or without a marker) gets file by file what the manifest lists, each
/// by rename, and keeps its `backup/`; its marker goes first and comes last.
pub fn publish(staging: &Path, version_dir: &Path, manifest: &Manifest) -> Result<()> {
    if durable::exists(version_dir)? {
        graft(staging, version_dir, manifest)?;
    } else {
        durable::rename_new(staging, version_dir)?;
    }
    manifest::write_marker(version_dir, manifest.archive_sha256)
}

fn graft(staging: &Path, version_dir: &Path, manifest: &Manifest) -> Result<()> {
    if manifest::read_marker(version_dir).ok().flatten() != Some(manifest.archive_sha256) {
        durable::remove_file(&version_dir.join(manifest::MARKER))?;
    }
    let mut changed = std::collections::BTreeSet::new();
    for file in &manifest.files {
        let to = version_dir.join(&file.path);
        durable::create_dir_all(durable::parent(&to))?;
        if std::fs::symlink_metadata(&to).is_ok_and(|there| there.is_dir()) {
            durable::remove_tree(&to)?;
        }
        rustix::fs::rename(staging.join(&file.path), &to).at("cannot put in place", &to)?;
        changed.insert(durable::parent(&to).to_owned());
    }
    durable::rename(&staging.join(manifest::MANIFEST), &version_dir.join(manifest::MANIFEST))?;
    for difference in manifest.unexpected(version_dir)? {
        durable::remove_tree(&version_dir.join(difference.path))?;
    }
    for dir in changed {
        durable::sync_dir(&dir)?;
    }
    durable::remove_tree(staging)
}

/// Removes a version: out of sight by one rename, so that a crash never leaves half of one under its name.
pub fn retire(versions: &Path, dir: &str) -> Result<()> {
    let from = versions.join(dir);
    let to = versions.join(format!("{RETIRED_PREFIX}{dir}"));
    // What is left of a removal that was cut short goes in any case.
    durable::remove_tree(&to)?;
    if !durable::exists(&from)? {
        return Ok(());
    }
    if durable::rename_dir(&from, &to)? {
        return durable::remove_tree(&to);
    }
    // In an overlay's lower layer: what has no marker is not installed, whatever else is still there.
    durable::remove_file(&from.join(manifest::MARKER))?;
    durable::remove_tree(&from)
}

/// Removes what runs that died have left: staged and half-removed versions, temporary files. Called under the lock
/// with no journal open.
pub fn sweep(versions: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(versions) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).at("cannot read", versions),
    };
    for entry in entries {
        let entry = entry.at("cannot read", versions)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if [STAGING_PREFIX, RETIRED_PREFIX, durable::TEMP_PREFIX].iter().any(|prefix| name.starts_with(prefix)) {
            durable::remove_tree(&entry.path())?;
        }
    }
    Ok(())
}
