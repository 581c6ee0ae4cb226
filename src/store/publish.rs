//! Making a staged version an installed one: its files and directories are durable before its name, and its name
//! before its marker (SPEC §8).

use std::path::{Path, PathBuf};

use super::VersionDir;
use super::manifest::{self, Manifest};
use crate::host::{durable, lock, ownership, trust};
use crate::report::{IoContext, Result};

/// Since when runs have seen that the agent is not ready or restarts, and when one last did, in the versions directory.
pub(crate) const NOT_READY: &str = ".not-ready";
/// What the source of versions answered, and when, in the versions directory.
pub(crate) const SOURCE_ANSWERS: &str = ".source-answers";
/// The lock, in the versions directory (SPEC §1).
pub(crate) const LOCK: &str = ".lock";
/// Prefix of directories being filled; what carries it and is not ours is garbage of a run that died.
pub(crate) const STAGING_PREFIX: &str = ".staging-";
/// Prefix of directories being removed.
pub(crate) const RETIRED_PREFIX: &str = ".retired-";

/// Publishes `staging` as `version_dir`. Everything in `staging` has been synced, the manifest included.
///
/// A directory that is already there (damaged, without a marker, or with fewer components) gets file by file what the
/// manifest lists and it does not have just so, each by rename, and keeps its `backup/`; a file of others is never taken over,
/// for whoever has it open goes on writing to it. The marker of another archive goes
/// first, and the new one comes last.
pub(crate) fn publish(staging: &Path, version_dir: &Path, manifest: &Manifest) -> Result<()> {
    if durable::exists(version_dir)? {
        graft(staging, version_dir, manifest)?;
    } else {
        durable::rename_new(staging, version_dir)?;
    }
    manifest::write_marker(version_dir, manifest.archive_sha256)
}

fn graft(staging: &Path, version_dir: &Path, manifest: &Manifest) -> Result<()> {
    // A marker that cannot be read goes, too: the new one comes last.
    if manifest::read_marker(version_dir).ok().flatten() != Some(manifest.archive_sha256) {
        durable::remove_file(&version_dir.join(manifest::MARKER))?;
    }
    // From the top down: from then on nobody else decides what the names in it are.
    for folder in manifest.folders() {
        let path = if folder.is_empty() { version_dir.to_owned() } else { version_dir.join(folder) };
        match std::fs::symlink_metadata(&path) {
            // It would lead out of the version.
            Ok(meta) if !meta.is_dir() => durable::remove_tree(&path)?,
            Ok(meta) if !ownership::is_closed(&path, &meta) => trust::close(&path)?,
            // Where it cannot be seen, the rename fails.
            _ => {}
        }
    }
    let mut changed = std::collections::BTreeSet::new();
    for file in &manifest.files {
        let to = version_dir.join(&file.path);
        // A program that is in order and runs stays the file that it runs from.
        if file.is_at(&to) {
            continue;
        }
        durable::create_dir_all(durable::parent(&to))?;
        // Where that cannot be seen, the rename fails.
        if std::fs::symlink_metadata(&to).is_ok_and(|there| there.is_dir()) {
            durable::remove_tree(&to)?;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "each directory is synced once, below, not for each of its files"
        )]
        rustix::fs::rename(staging.join(&file.path), &to).at("cannot put in place", &to)?;
        changed.insert(durable::parent(&to).to_owned());
    }
    // A marker of the same archive stands: what the new manifest lists must be there before it.
    changed.iter().try_for_each(|dir| durable::sync_dir(dir))?;
    durable::rename(&staging.join(manifest::MANIFEST), &version_dir.join(manifest::MANIFEST))?;
    for difference in manifest.unexpected(version_dir)? {
        durable::remove_tree(&version_dir.join(difference.path))?;
    }
    durable::remove_tree(staging)
}

/// Removes a version: out of sight by one rename, so that a crash never leaves half of one under its name.
pub(crate) fn retire(versions: &Path, dir: &VersionDir) -> Result<()> {
    let from = versions.join(dir);
    // What is left of a removal that was cut short goes in any case.
    let to = durable::free_name(&versions.join(format!("{RETIRED_PREFIX}{dir}")))?;
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

/// Removes a version but for what `stays` of it. Without its marker it is not installed, whatever else is still there.
pub(crate) fn strip(version_dir: &Path, stays: &[PathBuf]) -> Result<()> {
    durable::remove_file(&version_dir.join(manifest::MARKER))?;
    let entries = std::fs::read_dir(version_dir).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    durable::remove_entries(&entries.at("cannot read", version_dir)?, |entry| !stays.contains(&entry.path()))
}

/// Removes what runs that died have left: staged and half-removed versions, temporary files, all that can be removed.
/// Called under the lock with no journal open.
pub(crate) fn sweep(versions: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(versions) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.and_then(Iterator::collect::<std::io::Result<Vec<_>>>).at("cannot read", versions)?,
    };
    let live = lock::downloads(&versions.join(LOCK))?;
    durable::remove_entries(&entries, |entry| is_left_over(&entry.file_name().to_string_lossy(), &live))
}

/// Where a version for `dir` is staged: nothing is there. What cannot be removed of an earlier run keeps its name.
pub(crate) fn staging(versions: &Path, dir: &VersionDir) -> Result<PathBuf> {
    durable::free_name(&versions.join(format!("{STAGING_PREFIX}{dir}")))
}

/// Whether [`sweep`] would find nothing; what cannot be read is not known to be so.
pub(crate) fn is_swept(versions: &Path) -> bool {
    let Ok(live) = lock::downloads(&versions.join(LOCK)) else { return false };
    std::fs::read_dir(versions).is_ok_and(|mut entries| {
        entries.all(|entry| entry.is_ok_and(|entry| !is_left_over(&entry.file_name().to_string_lossy(), &live)))
    })
}

/// `live`: versions that another run downloads.
fn is_left_over(name: &str, live: &[String]) -> bool {
    let is_live = |staged: &str| live.iter().any(|dir| staged.starts_with(dir));
    if name.strip_prefix(STAGING_PREFIX).is_some_and(is_live) {
        return false;
    }
    [STAGING_PREFIX, RETIRED_PREFIX, durable::TEMP_PREFIX].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Code;
    use crate::store::manifest::{FileEntry, MANIFEST, MARKER, read_marker, write_marker};
    use protocol::{Arch, Digest, Edition};

    const FILES: [&str; 2] = ["bin/teleport", "etc/unit"];

    struct Bed {
        dir: tempfile::TempDir,
        manifest: Manifest,
    }

    impl Bed {
        fn new() -> Self {
            let files = FILES.map(|path| {
                let (size, sha256) = (path.len() as u64, Digest::of(path.as_bytes()));
                FileEntry { path: path.into(), size, mode: 0o755, sha256 }
            });
            let (version, archive) = ("1.0.0".parse().unwrap(), Digest::of(b"archive"));
            let (url, time) = ("u".into(), jiff::Timestamp::UNIX_EPOCH);
            let manifest = Manifest::new(version, Edition::Oss, Arch::Amd64, archive, url, time, files.into());
            Self { dir: tempfile::tempdir().unwrap(), manifest }
        }

        /// A staged version, ready to be published.
        fn staging(&self) -> PathBuf {
            let staging = self.dir.path().join(".staging-1.0.0");
            for path in FILES {
                let file = staging.join(path);
                durable::create_dir_all(durable::parent(&file)).unwrap();
                durable::write(&file, path.as_bytes(), 0o755).unwrap();
            }
            self.manifest.write(&staging).unwrap();
            staging
        }

        fn version(&self) -> PathBuf {
            self.dir.path().join("1.0.0")
        }

        fn write(&self, path: &str, content: &str) {
            let file = self.dir.path().join(path);
            durable::create_dir_all(durable::parent(&file)).unwrap();
            durable::write(&file, content.as_bytes(), 0o644).unwrap();
        }

        fn names(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.dir.path()).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
            names.sort();
            names
        }

        #[track_caller]
        fn assert_whole(&self) {
            assert_eq!(Manifest::read(&self.version()).unwrap(), self.manifest);
            assert_eq!(self.manifest.verify(&self.version()).unwrap(), []);
            assert_eq!(read_marker(&self.version()).unwrap(), Some(self.manifest.archive_sha256));
            assert_eq!(self.names(), ["1.0.0"]);
        }
    }

    #[test]
    fn a_damaged_version_is_mended_in_place_and_keeps_its_snapshot() {
        let bed = Bed::new();
        for extra in ["bin/teleport/was/a/directory", "etc/unit", "share/extra", "backup/sqlite.db"] {
            bed.write(&format!("1.0.0/{extra}"), "old");
        }
        write_marker(&bed.version(), Digest::of(b"another archive")).unwrap();
        publish(&bed.staging(), &bed.version(), &bed.manifest).unwrap();
        bed.assert_whole();
        assert_eq!(std::fs::read(bed.version().join("backup/sqlite.db")).unwrap(), b"old");
    }

    #[test]
    fn what_is_in_order_stays_the_very_file() {
        use std::os::unix::fs::MetadataExt as _;
        let bed = Bed::new();
        publish(&bed.staging(), &bed.version(), &bed.manifest).unwrap();
        bed.assert_whole();
        let inodes = || FILES.map(|path| std::fs::metadata(bed.version().join(path)).unwrap().ino());
        let before = inodes();
        bed.write("1.0.0/etc/unit", "ETC/UNIT");
        publish(&bed.staging(), &bed.version(), &bed.manifest).unwrap();
        bed.assert_whole();
        assert_eq!(before[0], inodes()[0]);
        assert_ne!(before[1], inodes()[1], "same size, other bytes");
    }

    #[test]
    fn what_was_anothers_is_written_anew_and_no_link_of_his_is_followed() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
        if !crate::host::machine::is_root() {
            return;
        }
        let bed = Bed::new();
        publish(&bed.staging(), &bed.version(), &bed.manifest).unwrap();
        bed.write("outside/unit", "root's");
        for path in ["", "bin", "bin/teleport", "etc", "sha256", "manifest.json"] {
            chown(bed.version().join(path), Some(900), Some(900)).unwrap();
        }
        // He keeps it open for writing, which no change of its owner would end.
        let mut held = std::fs::File::options().append(true).open(bed.version().join("bin/teleport")).unwrap();
        durable::rename(&bed.version().join("etc"), &bed.dir.path().join("etc")).unwrap();
        std::os::unix::fs::symlink("../outside", bed.version().join("etc")).unwrap();
        durable::create_dir_all(&bed.version().join("share/idle")).unwrap();
        std::fs::set_permissions(bed.version().join("share/idle"), std::fs::Permissions::from_mode(0o777)).unwrap();
        let said: Vec<_> = bed.manifest.quick_check(&bed.version()).unwrap().iter().map(ToString::to_string).collect();
        let said: Vec<_> = said.iter().map(|line| line.split(" (").next().unwrap()).collect();
        let wanted = [
            ". can be changed by users other than root",
            "bin can be changed by users other than root",
            "etc is a link",
            "bin/teleport can be changed by users other than root",
            "etc/unit has mode 0644, expected 0755",
            "etc/unit has 6 bytes, expected 8",
        ];
        assert_eq!(said, wanted);
        assert_eq!(Manifest::read(&bed.version()).unwrap_err().code, Code::Damaged);
        assert_eq!(read_marker(&bed.version()).unwrap_err().code, Code::Damaged);
        assert!(manifest::is_open(&bed.version()));
        publish(&bed.staging(), &bed.version(), &bed.manifest).unwrap();
        std::io::Write::write_all(&mut held, b"his").unwrap();
        assert_eq!(bed.manifest.verify(&bed.version()).unwrap(), []);
        assert!(!manifest::is_open(&bed.version()) && !bed.version().join("share/idle").exists());
        assert_eq!(std::fs::read(bed.dir.path().join("outside/unit")).unwrap(), b"root's");
        assert!(std::fs::symlink_metadata(bed.version().join("etc")).unwrap().is_dir());
        assert_eq!(std::fs::metadata(bed.version()).unwrap().uid(), 0);
    }

    #[test]
    fn while_a_version_is_mended_only_its_own_archives_marker_stays() {
        for (archive, stays) in [(&b"archive"[..], true), (b"another archive", false)] {
            let bed = Bed::new();
            bed.write("1.0.0/bin/teleport", "damaged");
            write_marker(&bed.version(), Digest::of(archive)).unwrap();
            let staging = bed.staging();
            durable::remove_file(&staging.join(FILES[1])).unwrap();
            assert_eq!(publish(&staging, &bed.version(), &bed.manifest).unwrap_err().code, Code::Io);
            assert_eq!(bed.version().join(MARKER).exists(), stays);
        }
    }

    #[test]
    fn a_retired_version_is_gone_with_what_an_earlier_removal_left() {
        let bed = Bed::new();
        bed.write("1.0.0/bin/teleport", "x");
        bed.write(".retired-1.0.0/bin/teleport", "x");
        bed.write("2.0.0/bin/teleport", "x");
        retire(bed.dir.path(), &"1.0.0".into()).unwrap();
        assert_eq!(bed.names(), ["2.0.0"]);
        bed.write(".retired-1.0.0/bin/teleport", "x");
        retire(bed.dir.path(), &"1.0.0".into()).unwrap();
        assert_eq!(bed.names(), ["2.0.0"]);
    }

    #[test]
    fn a_stripped_version_is_not_installed_and_has_what_stays() {
        let bed = Bed::new();
        publish(&bed.staging(), &bed.version(), &bed.manifest).unwrap();
        bed.write("1.0.0/backup/sqlite.db", "rows");
        bed.write("1.0.0/backup-failed/sqlite.db", "rows");
        for _ in 0..2 {
            strip(&bed.version(), &[bed.version().join("backup-failed")]).unwrap();
            let left: Vec<_> = durable::entries(&bed.version()).unwrap().iter().map(std::fs::DirEntry::path).collect();
            assert_eq!(left, [bed.version().join("backup-failed")]);
        }
        publish(&bed.staging(), &bed.version(), &bed.manifest).unwrap();
        bed.assert_whole();
    }

    #[test]
    fn sweeping_removes_what_dead_runs_left_and_nothing_else() {
        let bed = Bed::new();
        let stays = [".journal", ".lock", ".unmanaged", "1.0.0", "updates.yaml"];
        for name in stays {
            bed.write(name, "x");
        }
        for name in [STAGING_PREFIX, RETIRED_PREFIX, durable::TEMP_PREFIX] {
            bed.write(&format!("{name}1.0.0/{MANIFEST}"), "x");
        }
        assert!(!is_swept(bed.dir.path()));
        sweep(bed.dir.path()).unwrap();
        assert_eq!(bed.names(), stays);
        assert!(is_swept(bed.dir.path()));
        sweep(&bed.dir.path().join("none")).unwrap();
        assert_eq!(sweep(&bed.dir.path().join(".journal")).unwrap_err().code, Code::Io);
    }
}
