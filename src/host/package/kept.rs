//! Copies of files that somebody else's scripts might remove, and how they get back.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::{durable, selinux};
use crate::report::{Code, Error, IoContext, Result};

/// The list of the copies in their directory: written last, so that it never names a copy that is not complete.
const INDEX: &str = "kept.json";
/// Configuration files and scripts, in bytes.
const SIZE_LIMIT: u64 = 16 * 1024 * 1024;
/// What rpm calls a changed configuration file that it removes.
const RPM_COPY: &str = ".rpmsave";

/// The copies of one purge.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    dir: PathBuf,
    pub(super) files: Vec<KeptFile>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeptFile {
    pub(super) path: PathBuf,
    /// Name of the copy; `None` for a link.
    copy: Option<String>,
    /// Where a link points to.
    target: Option<PathBuf>,
    mode: u32,
    uid: u32,
    gid: u32,
    label: Option<Vec<u8>>,
    /// There was such a file beside it before.
    had_rpm_copy: bool,
}

/// Puts back what a purge that was cut short had kept in `copies`, and removes the copies; nothing there is fine.
pub(crate) fn restore(copies: &Path) -> Result<()> {
    let index = copies.join(INDEX);
    if let Some(bytes) = durable::read_limited(&index, SIZE_LIMIT)? {
        let kept: Kept = serde_json::from_slice(&bytes)
            .map_err(|error| Error::new(Code::PackageFailed, format!("cannot read {}: {error}", index.display())))?;
        kept.put_back()?;
    }
    durable::remove_tree(copies)
}

impl Kept {
    /// Copies those of `files` that are there to `dir`, durably.
    pub(super) fn save(files: &[PathBuf], dir: &Path) -> Result<Self> {
        durable::create_dir_all(dir)?;
        let mut kept = Self { dir: dir.to_owned(), files: Vec::new() };
        for (number, path) in files.iter().enumerate() {
            let found = match path.symlink_metadata() {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                other => other.at("cannot look at", path)?,
            };
            let (copy, target) = if found.is_symlink() {
                (None, Some(std::fs::read_link(path).at("cannot read", path)?))
            } else {
                let name = format!("{number}");
                // For root only: it may hold a join token.
                durable::copy_synced(path, &dir.join(&name), 0o600)?;
                (Some(name), None)
            };
            kept.files.push(KeptFile {
                path: path.clone(),
                copy,
                target,
                mode: found.mode() & 0o7777,
                uid: found.uid(),
                gid: found.gid(),
                label: selinux::label(path).ok().flatten(),
                had_rpm_copy: durable::exists(&rpm_copy(path))?,
            });
        }
        let index = serde_json::to_vec(&kept)
            .map_err(|error| Error::new(Code::PackageFailed, format!("cannot note the kept files: {error}")))?;
        durable::write(&dir.join(INDEX), &index, 0o600)?;
        Ok(kept)
    }

    /// Puts back each file that is gone or is not as it was.
    pub(super) fn put_back(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| file.put_back(&self.dir))
    }
}

impl KeptFile {
    fn put_back(&self, dir: &Path) -> Result<()> {
        durable::create_dir_all(durable::parent(&self.path))?;
        let Some(copy) = &self.copy else {
            let target = self.target.as_deref().unwrap_or(Path::new(""));
            return match std::fs::read_link(&self.path) {
                Ok(present) if present == target => Ok(()),
                _ => durable::symlink(target, &self.path),
            };
        };
        let copy = dir.join(copy);
        let bytes = durable::read_limited(&copy, SIZE_LIMIT)?
            .ok_or_else(|| Error::new(Code::PackageFailed, format!("the copy {} is gone", copy.display())))?;
        if !self.is_there(&bytes) {
            let temp = durable::temp_beside(&self.path);
            durable::write_synced(&temp, &bytes, self.mode & 0o700)?;
            durable::chown(&temp, self.uid, self.gid)?;
            // After the owner: its group must not read it as the wrong group.
            durable::set_mode(&temp, self.mode)?;
            if let Some(label) = &self.label {
                selinux::set_label(&temp, label)?;
            }
            durable::sync_file(&temp)?;
            durable::rename(&temp, &self.path)?;
        }
        let left = rpm_copy(&self.path);
        if !self.had_rpm_copy && durable::read_limited(&left, SIZE_LIMIT).is_ok_and(|found| found == Some(bytes)) {
            durable::remove_file(&left)
        } else {
            Ok(())
        }
    }

    fn is_there(&self, bytes: &[u8]) -> bool {
        let same = |found: std::fs::Metadata| {
            found.is_file() && (found.mode() & 0o7777, found.uid(), found.gid()) == (self.mode, self.uid, self.gid)
        };
        self.path.symlink_metadata().is_ok_and(same)
            && durable::read_limited(&self.path, SIZE_LIMIT).is_ok_and(|found| found.as_deref() == Some(bytes))
    }
}

fn rpm_copy(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(RPM_COPY);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_changed_or_renamed_is_put_back_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["removed", "changed", "untouched", "absent", "link"];
        let files: Vec<PathBuf> = names.iter().map(|name| dir.path().join(name)).collect();
        for file in &files[..3] {
            durable::write(file, b"mine", 0o640).unwrap();
        }
        durable::symlink(Path::new("elsewhere"), &files[4]).unwrap();
        let copies = dir.path().join("copies");
        drop(Kept::save(&files, &copies).unwrap());

        durable::rename(&files[0], &rpm_copy(&files[0])).unwrap();
        durable::write(&files[1], b"theirs", 0o644).unwrap();
        let untouched = files[2].metadata().unwrap().ino();
        durable::remove_file(&files[4]).unwrap();

        restore(&copies).unwrap();
        for file in &files[..3] {
            assert_eq!(std::fs::read(file).unwrap(), b"mine", "{}", file.display());
            assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o640);
        }
        assert_eq!(files[2].metadata().unwrap().ino(), untouched);
        assert!(!files[3].exists() && !copies.exists() && !rpm_copy(&files[0]).exists());
        assert_eq!(std::fs::read_link(&files[4]).unwrap(), Path::new("elsewhere"));
        restore(&copies).unwrap();
    }
}
