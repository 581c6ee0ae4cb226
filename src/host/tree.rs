//! Makes files below one directory by handles: no link is ever followed, no file ever replaced.
//!
//! Each part is opened with O_NOFOLLOW, which is what openat2's RESOLVE_BENEATH would give, on kernels before 5.6 too.

#![expect(clippy::disallowed_methods, reason = "by handles, and each directory is synced at the end")]

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

use super::durable::{self, DIR_MODE};
use crate::report::{IoContext, Result};

/// While it is filled nobody else may look in.
const PRIVATE_MODE: u32 = 0o700;

/// A new directory being filled.
pub(crate) struct Tree {
    path: PathBuf,
    root: OwnedFd,
    folders: BTreeSet<String>,
}

impl Tree {
    /// Makes the directory, closed to others; fails if the name is taken.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        rustix::fs::mkdir(path, Mode::from_raw_mode(PRIVATE_MODE)).at("cannot make directory", path)?;
        let root = open_dir(CWD, path).at("cannot open", path)?;
        // Seen by `status`, which may not look into the lock; nobody waits for it.
        let _ = rustix::fs::flock(&root, rustix::fs::FlockOperation::NonBlockingLockShared);
        Ok(Self { path: path.to_owned(), root, folders: BTreeSet::new() })
    }

    /// The full path of `relative`, for messages.
    pub(crate) fn full(&self, relative: &str) -> PathBuf {
        self.path.join(relative)
    }

    /// The directory itself.
    pub(crate) fn handle(&self) -> &OwnedFd {
        &self.root
    }

    /// Makes a new file with exactly `mode`, and its folders with 0755. `relative` has been checked by the caller.
    pub(crate) fn create_file(&mut self, relative: &str, mode: u32) -> io::Result<File> {
        let (folder, name) = relative.rsplit_once('/').map_or((None, relative), |(folder, name)| (Some(folder), name));
        let folder = match folder {
            Some(folder) => self.open_folder(folder)?,
            None => rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?,
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, name, flags, Mode::from_raw_mode(mode))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        Ok(File::from(file))
    }

    fn open_folder(&mut self, folder: &str) -> io::Result<OwnedFd> {
        let mut here = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        let mut done = String::new();
        for part in folder.split('/') {
            if !done.is_empty() {
                done.push('/');
            }
            done.push_str(part);
            let is_new = self.folders.insert(done.clone());
            if is_new {
                rustix::fs::mkdirat(&here, part, Mode::from_raw_mode(DIR_MODE))?;
            }
            let next = open_dir(&here, part)?;
            if is_new {
                rustix::fs::fchmod(&next, Mode::from_raw_mode(DIR_MODE))?;
            }
            here = next;
        }
        Ok(here)
    }

    /// Syncs every directory, opens the top one to others (0755), and syncs it.
    pub(crate) fn finish(self) -> Result<()> {
        self.folders.iter().rev().try_for_each(|folder| durable::sync_dir(&self.path.join(folder)))?;
        rustix::fs::fchmod(&self.root, Mode::from_raw_mode(DIR_MODE)).at("cannot set the mode of", &self.path)?;
        rustix::fs::fsync(&self.root).at("cannot sync directory", &self.path)
    }
}

fn open_dir(at: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_link_put_in_the_way_is_not_followed_and_a_file_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("new");
        let mut tree = Tree::create(&top).unwrap();
        tree.create_file("a/b/c", 0o644).unwrap();
        assert!(tree.create_file("a/b/c", 0o644).is_err());
        std::os::unix::fs::symlink(dir.path(), top.join("out")).unwrap();
        tree.folders.insert("out".into());
        assert!(tree.create_file("out/x", 0o644).is_err());
        std::os::unix::fs::symlink(dir.path().join("y"), top.join("a/y")).unwrap();
        assert!(tree.create_file("a/y", 0o644).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn modes_are_exact_and_the_directory_opens_only_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("new");
        let mut tree = Tree::create(&top).unwrap();
        tree.create_file("bin/x", 0o755).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(&top), PRIVATE_MODE);
        tree.finish().unwrap();
        assert_eq!((mode(&top), mode(&top.join("bin")), mode(&top.join("bin/x"))), (0o755, 0o755, 0o755));
        assert!(Tree::create(&top).is_err());
    }
}
