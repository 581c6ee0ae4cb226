//! Removes a tree with three descriptors and without recursion, however deep it is: whoever made it, it can be removed.

#![expect(clippy::disallowed_methods, reason = "the place where it is done")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

/// How often one folder is read at most: whoever fills it all the time does not keep us here.
const MAX_READS: usize = 100;

/// A folder that was gone down into: its name, and which directory it was found in.
struct Step {
    name: CString,
    parent: (u64, u64),
}

/// Removes `path`, a file, a link (not followed) or a whole tree. Names are not yet durable.
///
/// Errors: those of the first part that cannot be removed; [`io::ErrorKind::NotFound`] if nothing is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let mut wanted = Some(CString::new(name.as_bytes())?);
    let mut here = open_dir(
        CWD,
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("/")),
        OFlags::empty(),
    )?;
    if unlink(&here, wanted.as_deref().unwrap_or_default())? {
        return Ok(());
    }
    let mut way: Vec<Step> = Vec::new();
    loop {
        match wanted.take() {
            // Down. The folder above is found again by "..", so that none has to stay open.
            Some(name) => {
                let below = open_dir(&here, &name, OFlags::NOFOLLOW)?;
                way.push(Step { name, parent: identity(&here)? });
                here = below;
            }
            // Up, and away with the folder that is empty by now.
            None => {
                let Some(Step { name, parent }) = way.pop() else { return Ok(()) };
                here = open_dir(&here, c"..", OFlags::NOFOLLOW)?;
                if identity(&here)? != parent {
                    return Err(io::Error::other("a directory in it was moved during the removal"));
                }
                rustix::fs::unlinkat(&here, &name, AtFlags::REMOVEDIR)?;
                if way.is_empty() {
                    return Ok(());
                }
            }
        }
        wanted = clear(&here)?;
    }
}

/// Removes what `dir` has up to its first folder that is not empty, whose name is given; `None`: it is empty.
fn clear(dir: &OwnedFd) -> io::Result<Option<CString>> {
    // A directory that is changed while it is read may show less than it has, so it is read until it shows nothing.
    for _ in 0..MAX_READS {
        let mut is_empty = true;
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            is_empty = false;
            match unlink(dir, name) {
                Ok(true) => {}
                Ok(false) => return Ok(Some(name.to_owned())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if is_empty {
            break;
        }
    }
    Ok(None)
}

/// Removes a file, a link or an empty folder; false for a folder that is not empty.
fn unlink(dir: impl AsFd, name: &std::ffi::CStr) -> io::Result<bool> {
    match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Ok(()) => return Ok(true),
        Err(error) => return Err(error.into()),
    }
    match rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(true),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn open_dir(at: impl AsFd, name: impl rustix::path::Arg, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

/// Device and inode number.
fn identity(dir: impl AsFd) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(dir)?;
    Ok((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deeper than any path can say: 40 kB of names.
    const DEEP: usize = 20_000;

    fn make_deep(top: &Path) {
        std::fs::create_dir(top).unwrap();
        let mut here = open_dir(CWD, top, OFlags::NOFOLLOW).unwrap();
        for _ in 0..DEEP {
            rustix::fs::mkdirat(&here, "a", Mode::RWXU).unwrap();
            rustix::fs::symlinkat("/", &here, "link").unwrap();
            here = open_dir(&here, "a", OFlags::NOFOLLOW).unwrap();
        }
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed_with_three_descriptors() {
        // In a process of its own: the limit would be that of all tests.
        if let Some(top) = std::env::var_os("DEEP_TREE") {
            let taken = std::fs::read_dir("/proc/self/fd").unwrap().count();
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let tight = rustix::process::Rlimit { current: Some(taken as u64 + 3), ..limit };
            rustix::process::setrlimit(rustix::process::Resource::Nofile, tight).unwrap();
            return remove(Path::new(&top)).unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        make_deep(&top);
        let own = std::env::current_exe().unwrap();
        let name = "host::removal::tests::a_tree_deeper_than_any_path_is_removed_with_three_descriptors";
        let ran = std::process::Command::new(own).args(["--exact", name]).env("DEEP_TREE", &top).output().unwrap();
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        // What is left is too deep for whoever removes `dir`.
        let _ = remove(&top);
        assert!(ran.status.success() && left == 0, "{left} left: {ran:?}");
    }

    #[test]
    fn links_are_removed_and_not_followed_and_wide_trees_go_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (top, outside) = (dir.path().join("top"), dir.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        std::fs::File::create_new(outside.join("kept")).unwrap();
        for number in 0..300 {
            let folder = top.join(format!("{number}/b"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::File::create_new(folder.join("f")).unwrap();
            std::os::unix::fs::symlink(&outside, folder.join("l")).unwrap();
        }
        remove(&top).unwrap();
        std::os::unix::fs::symlink(&outside, &top).unwrap();
        remove(&top).unwrap();
        assert_eq!(remove(&top).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(outside.join("kept").exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
