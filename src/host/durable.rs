//! Changes that survive a power cut: sync, rename, sync the directory. Nothing else in this program changes a file.
//!
//! A failed fsync is reported and never retried on the same pages: after EIO the kernel may have dropped them.

#![expect(clippy::disallowed_methods, reason = "the place where it is done")]

use std::ffi::{CStr, CString};
use std::fs::{DirEntry, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;

use super::{machine, removal};
use crate::report::{Error, IfPresent, IoContext, Result, code_of_io};

pub(crate) use ::error::read_limited;

/// Most bytes of an attribute, and of all their names (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const MAX_ATTRIBUTES: usize = 64 * 1024;
/// The kernel's own digest of an inode and its attributes: a copy is another inode, and gets another.
const OF_THE_INODE: &CStr = c"security.evm";
/// Ordinary files of ours, whatever the umask is.
pub(crate) const FILE_MODE: u32 = 0o644;
/// Ordinary directories of ours, whatever the umask is.
pub(crate) const DIR_MODE: u32 = 0o755;
/// Prefix of temporary names; what carries it and was left by a crash is garbage.
pub(crate) const TEMP_PREFIX: &str = ".teleport-update-tmp-";
/// Names of one kind that may be taken by what cannot be removed, before it is an error.
const MAX_LEFT_OVERS: usize = 100;

/// Syncs a directory, so that names made, moved or removed in it are durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).at("cannot sync directory", dir)
}

/// The directory that `path` is in.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("/"),
    }
}

/// A temporary name beside `path`, different for each process.
pub(crate) fn temp_beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    parent(path).join(format!("{TEMP_PREFIX}{}-{name}", std::process::id()))
}

/// Replaces `path` with `bytes`: temporary file, fsync, rename, fsync of the directory.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let temp = temp_beside(path);
    write_synced(&temp, bytes, mode)?;
    rename(&temp, path).inspect_err(|_| drop(std::fs::remove_file(&temp)))
}

/// Writes and syncs `path` itself, replacing a left-over of the same name; its name is durable only after
/// [`sync_dir`] or [`rename`].
pub(crate) fn write_synced(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let written = remove_if_there(path).and_then(|()| {
        let mut file = create_new(path, mode)?;
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.at("cannot write", path).inspect_err(|_| drop(std::fs::remove_file(path)))
}

/// Creates a new file for writing with exactly `mode`; fails if the name is taken, and follows no link.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    Ok(file)
}

/// Makes a named pipe that root alone may open, and opens it for reading, never waiting. Also for writing: without a writer its end would
/// be read before there is one.
pub(crate) fn pipe(path: &Path) -> Result<File> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
    let opened = made.and_then(|()| rustix::fs::open(path, flags, Mode::empty()));
    opened.map(File::from).at("cannot make", path)
}

/// Renames within one file system and syncs the directories concerned.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    rustix::fs::rename(from, to).at("cannot rename to", to)?;
    sync_both(from, to)
}

fn sync_both(from: &Path, to: &Path) -> Result<()> {
    sync_dir(parent(to))?;
    if parent(from) == parent(to) { Ok(()) } else { sync_dir(parent(from)) }
}

/// Renames the directory `from` within one file system and syncs the directories concerned; false where it has no other
/// name to get: an overlay cannot rename what lies in a lower layer of it (an image's).
pub(crate) fn rename_dir(from: &Path, to: &Path) -> Result<bool> {
    match rustix::fs::rename(from, to) {
        Err(Errno::XDEV) => return Ok(false),
        other => other.at("cannot rename to", to)?,
    }
    sync_both(from, to).map(|()| true)
}

/// Keeps a second name for `path`, or a copy where there can be none (another file system); its directory is synced. Where
/// nothing stands at `path` nothing is kept.
pub(crate) fn keep(path: &Path, kept: &Path) -> Result<()> {
    match std::fs::hard_link(path, kept) {
        Ok(()) => sync_dir(parent(kept)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) => copy_exact(path, kept),
    }
}

/// Puts a kept file back under its name; repeated, it finds the work done.
pub(crate) fn put_back(kept: &Path, path: &Path) -> Result<()> {
    if !exists(kept)? {
        return Ok(());
    }
    match rustix::fs::rename(kept, path) {
        Ok(()) => {
            sync_dir(parent(path))?;
            // Two names of one file are left alone by rename; the second one would be taken for a later file's copy.
            remove_file(kept)?;
            sync_dir(parent(kept))
        }
        Err(Errno::XDEV) => {
            copy_exact(kept, path)?;
            remove_file(kept)
        }
        Err(error) => Err(error).at("cannot put back", path),
    }
}

/// Renames without ever replacing something, and syncs the directories concerned.
pub(crate) fn rename_new(from: &Path, to: &Path) -> Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) if std::fs::symlink_metadata(to).is_err() => {
            rustix::fs::rename(from, to).at("cannot rename to", to)?;
        }
        other => other.at("cannot rename to", to)?,
    }
    sync_both(from, to)
}

/// Makes `link` point to `target` by rename, so that there is never a moment without it.
pub(crate) fn symlink(target: &Path, link: &Path) -> Result<()> {
    let temp = temp_beside(link);
    let made = remove_if_there(&temp).and_then(|()| std::os::unix::fs::symlink(target, &temp));
    made.at("cannot make link", link)?;
    rename(&temp, link).inspect_err(|_| drop(std::fs::remove_file(&temp)))
}

/// Whether [`symlink`] could make `link` now: the same error, and nothing is left.
pub(crate) fn try_symlink(target: &Path, link: &Path) -> Result<()> {
    let temp = temp_beside(link);
    let made = remove_if_there(&temp)
        .and_then(|()| std::os::unix::fs::symlink(target, &temp))
        .and_then(|()| std::fs::remove_file(&temp));
    made.at("cannot make link", link)
}

/// Whether a name can be made in `dir` now, as the kernel says (access(2)): mounts, protection and security modules are asked, and
/// nothing is made.
pub(crate) fn try_new(dir: &Path) -> io::Result<()> {
    rustix::fs::access(dir, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from)
}

/// Whether something stands at `path`, a link to nothing included. What cannot be looked at is an error, and not gone.
pub(crate) fn exists(path: &Path) -> Result<bool> {
    std::fs::symlink_metadata(path).if_present().at("cannot look at", path).map(|found| found.is_some())
}

/// Whether a directory is there, links followed. What cannot be looked at is an error.
pub(crate) fn is_dir(path: &Path) -> Result<bool> {
    let found = std::fs::metadata(path).if_present().at("cannot look at", path)?;
    Ok(found.is_some_and(|meta| meta.is_dir()))
}

/// Where the link at `path` leads; `None` where nothing or no link is. What cannot be read is an error.
pub(crate) fn link_at(path: &Path) -> Result<Option<PathBuf>> {
    match std::fs::read_link(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        link => link.if_present().at("cannot read", path),
    }
}

/// What is in the directory `dir`; nothing if that is not there. One entry that cannot be read is an error, and not absent.
pub(crate) fn entries(dir: &Path) -> Result<Vec<DirEntry>> {
    let entries = std::fs::read_dir(dir).if_present();
    entries.and_then(|entries| entries.into_iter().flatten().collect()).at("cannot read", dir)
}

/// The links in `dir` and their targets, by name; none if it is not there. One that could not be read would be left where
/// it leads, or taken for nothing.
pub(crate) fn links_in(dir: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    for entry in entries(dir)? {
        let path = entry.path();
        // One that is no link, or gone meanwhile, counts no more.
        found.extend(link_at(&path)?.map(|target| (path, target)));
    }
    found.sort();
    Ok(found)
}

/// `path` with every link followed; itself where nothing is, or where whoever is not root may not look.
pub(crate) fn real(path: &Path) -> Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !machine::is_root() => Ok(path.to_owned()),
        real => Ok(real.if_present().at("cannot look at", path)?.unwrap_or_else(|| path.to_owned())),
    }
}

/// Removes a file or link and syncs its directory; nothing there is fine.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    let removed = std::fs::remove_file(path).if_present().at("cannot remove", path)?;
    removed.map_or(Ok(()), |()| sync_dir(parent(path)))
}

/// Removes a tree of ours and syncs its directory; nothing there is fine. Links in it are removed, not followed, and it
/// may be deeper than descriptors or a path would reach.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    let removed = removal::remove(path).if_present().at("cannot remove", path)?;
    removed.map_or(Ok(()), |()| sync_dir(parent(path)))
}

/// `path` itself, free for something new, or where what is left there cannot be removed, a free name beside it.
///
/// Errors: those of the last removal, when even the hundredth name is not free.
pub(crate) fn free_name(path: &Path) -> Result<PathBuf> {
    let mut name = path.to_owned();
    for number in 2.. {
        match remove_tree(&name) {
            Err(error) if number > MAX_LEFT_OVERS => return Err(error),
            Err(_) => name = PathBuf::from(format!("{}-{number}", path.display())),
            Ok(()) => break,
        }
    }
    Ok(name)
}

/// Removes temporary files and links of ours from `dir`, all that can be; nobody else may be writing there.
pub(crate) fn sweep_temps(dir: &Path) -> Result<()> {
    let entries = match std::fs::read_dir(dir) {
        // Nothing is in a file's or a loop's place, and what was interrupted there is undone all the same.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => {
            return Ok(());
        }
        other => other.and_then(Iterator::collect::<io::Result<Vec<_>>>).at("cannot read", dir)?,
    };
    let ours = |entry: &DirEntry| entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX);
    remove_entries(&entries, ours)
}

/// Removes what is `unwanted` of the `entries` of a directory, all that can be; the error is the first one.
pub(crate) fn remove_entries(entries: &[DirEntry], unwanted: impl Fn(&DirEntry) -> bool) -> Result<()> {
    let removed = entries.iter().filter(|entry| unwanted(entry)).map(|entry| remove_tree(&entry.path()));
    removed.fold(Ok(()), Result::and)
}

/// Makes a directory and its parents with mode 0755 whatever the umask is, and syncs each parent that changed.
pub(crate) fn create_dir_all(path: &Path) -> Result<()> {
    create_dir(path, DIR_MODE)
}

/// As [`create_dir_all`], but what is made at `path` itself has `mode`.
pub(crate) fn create_dir(path: &Path, mode: u32) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = parent(path);
    if above != path {
        create_dir_all(above)?;
    }
    match std::fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
            return Ok(());
        }
        Err(error) => return Err(error).at("cannot make directory", path),
    }
    set_mode(path, mode)?;
    sync_dir(above)
}

/// Copies a file's bytes into a new file with exactly `mode`, and syncs it.
///
/// Returns the number of bytes copied.
pub(crate) fn copy_synced(from: &Path, to: &Path, mode: u32) -> Result<u64> {
    let mut source = File::open(from).at("cannot read", from)?;
    let copied = create_new(to, mode).and_then(|mut file| {
        let bytes = io::copy(&mut source, &mut file)?;
        file.sync_all()?;
        Ok(bytes)
    });
    copied.at("cannot write", to).inspect_err(|_| drop(std::fs::remove_file(to)))
}

/// Copies a file or link, replacing `to`, with all that belongs to it: owner, mode, times and extended attributes (file
/// capabilities, ACL, label). Nothing is replaced by less than that.
///
/// Errors: also where the file system of `to` cannot hold one of them.
pub(crate) fn copy_exact(from: &Path, to: &Path) -> Result<()> {
    let temp = temp_beside(to);
    remove_file(&temp)?;
    let meta = std::fs::symlink_metadata(from).at("cannot read", from)?;
    let copied = if meta.is_symlink() {
        std::fs::read_link(from)
            .at("cannot read", from)
            .and_then(|target| std::os::unix::fs::symlink(target, &temp).at("cannot make link", to))
    } else {
        copy_synced(from, &temp, meta.mode() & 0o7777).map(|_| ())
    };
    copied
        .and_then(|()| copy_attributes(from, &meta, &temp))
        .and_then(|()| rename(&temp, to))
        .inspect_err(|_| drop(std::fs::remove_file(&temp)))
}

/// Gives `to` what belongs to `from` beside its bytes, and syncs it. In this order: a new owner clears capabilities, and a new
/// mode changes an ACL.
fn copy_attributes(from: &Path, meta: &std::fs::Metadata, to: &Path) -> Result<()> {
    chown(to, meta.uid(), meta.gid())?;
    if !meta.is_symlink() {
        set_mode(to, meta.mode() & 0o7777)?;
    }
    attributes(from)?.iter().try_for_each(|name| copy_attribute(from, to, name))?;
    let time = |tv_sec, tv_nsec| rustix::fs::Timespec { tv_sec, tv_nsec };
    let times = rustix::fs::Timestamps {
        last_access: time(meta.atime(), meta.atime_nsec()),
        last_modification: time(meta.mtime(), meta.mtime_nsec()),
    };
    rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW).at("cannot set the times of", to)?;
    if meta.is_symlink() { Ok(()) } else { sync_file(to) }
}

/// The names of a file's extended attributes, but those that the kernel makes of the file itself.
fn attributes(path: &Path) -> Result<Vec<CString>> {
    let mut buffer = vec![0; MAX_ATTRIBUTES];
    let length = match rustix::fs::llistxattr(path, &mut buffer[..]) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        other => other.at("cannot read the attributes of", path)?,
    };
    let names = buffer.get(..length).unwrap_or_default().split_inclusive(|byte| *byte == 0);
    let names = names.filter_map(|name| CStr::from_bytes_with_nul(name).ok()).map(CStr::to_owned);
    Ok(names.filter(|name| name.as_c_str() != OF_THE_INODE).collect())
}

fn copy_attribute(from: &Path, to: &Path, name: &CStr) -> Result<()> {
    let read = |path: &Path| {
        let mut buffer = vec![0; MAX_ATTRIBUTES];
        let length = rustix::fs::lgetxattr(path, name, &mut buffer[..])?;
        buffer.truncate(length);
        Ok::<_, rustix::io::Errno>(buffer)
    };
    let value = read(from).at("cannot read the attributes of", from)?;
    let set = rustix::fs::lsetxattr(to, name, &value, XattrFlags::empty());
    if set.is_ok() || read(to).is_ok_and(|there| there == value) {
        return Ok(());
    }
    let (name, original, copy) = (name.to_string_lossy(), from.display(), to.display());
    let what = format!("cannot copy the attribute {name} of {original} to {copy}");
    set.map_err(|error| {
        Error::new(code_of_io(&error.into()), format!("{what}: {error}"))
            .advise("move that file away by hand, or put both directories on one file system")
    })
}

/// Has everything written that was changed on the file system of `path`, whoever changed it.
pub(crate) fn sync_file_system(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|file| Ok(rustix::fs::syncfs(file)?));
    synced.at("cannot sync the file system of", path)
}

/// Syncs a file that others wrote.
pub(crate) fn sync_file(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).at("cannot sync", path)
}

/// Has the kernel begin to write `length` bytes of `file` from `offset` on, and does not wait: less is left for its sync,
/// which alone makes them durable and tells of failures.
pub(crate) fn start_writeback(file: &File, offset: u64, length: u64) {
    let (Ok(offset), Ok(length)) = (offset.try_into(), length.try_into()) else { return };
    // SAFETY: a call on an open descriptor that touches no memory of ours. Where it fails the sync does all the work.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Gives `path` (followed) the permissions `mode`; it is durable with the next sync of it.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).at("cannot set the mode of", path)
}

/// Gives `path` (not followed) to `uid` and `gid`.
pub(crate) fn chown(path: &Path, uid: u32, gid: u32) -> Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid)).at("cannot set the owner of", path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_with_its_mode_and_no_temporary_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        write(&path, b"one", 0o600).unwrap();
        write(&path, b"two", FILE_MODE).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, FILE_MODE);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_replaced_and_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("l");
        symlink(Path::new("/a"), &link).unwrap();
        symlink(Path::new("/b"), &link).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/b"));
        write(&link, b"x", FILE_MODE).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_file());
    }

    #[test]
    fn a_taken_name_is_not_replaced_by_rename_new() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        write(&a, b"a", FILE_MODE).unwrap();
        write(&b, b"b", FILE_MODE).unwrap();
        assert!(rename_new(&a, &b).is_err());
        assert_eq!(std::fs::read(&b).unwrap(), b"b");
    }

    #[test]
    fn what_cannot_be_looked_at_is_an_error_and_what_is_not_there_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("l"));
        write(&file, b"", FILE_MODE).unwrap();
        symlink(Path::new("f"), &link).unwrap();
        for absent in [dir.path().join("none"), file.join("below")] {
            assert!(!exists(&absent).unwrap() && !is_dir(&absent).unwrap());
            assert_eq!((link_at(&absent).unwrap(), read_limited(&absent, 1).unwrap()), (None, None));
            assert!(entries(&absent).unwrap().is_empty() && links_in(&absent).unwrap().is_empty());
            assert_eq!(real(&absent).unwrap(), absent);
        }
        // A name that no file system takes fails as a broken disk does: not with "not found".
        let unseen = dir.path().join("x".repeat(300));
        assert!(exists(&unseen).is_err() && is_dir(&unseen).is_err() && link_at(&unseen).is_err());
        assert!(entries(&unseen).is_err() && links_in(&unseen).is_err() && real(&unseen).is_err());
        assert!(is_dir(dir.path()).unwrap() && !is_dir(&file).unwrap());
        assert_eq!(links_in(dir.path()).unwrap(), [(link.clone(), PathBuf::from("f"))]);
        assert_eq!(real(&link).unwrap(), real(&file).unwrap());
    }

    #[test]
    fn a_copy_on_another_file_system_has_all_that_belongs_to_the_file() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let (file, copy) = (dir.path().join("teleport"), other.path().join("teleport"));
        write(&file, b"program", 0o640).unwrap();
        let _ = chown(&file, 1, 2);
        // cap_net_bind_service=ep, capabilities(7): struct vfs_cap_data, revision 2.
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
        // acl(5): the owner rw, the user 1 r, the group r, the mask r, others nothing; struct posix_acl_xattr_header.
        let entry =
            |tag: u16, right: u16, id: u32| [&tag.to_le_bytes()[..], &right.to_le_bytes(), &id.to_le_bytes()].concat();
        let entries = [(1, 6, u32::MAX), (2, 4, 1), (4, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)];
        let acl =
            [2u32.to_le_bytes().to_vec(), entries.map(|(tag, right, id)| entry(tag, right, id)).concat()].concat();
        let set =
            |(name, value): &(&str, Vec<u8>)| rustix::fs::lsetxattr(&file, *name, value, XattrFlags::empty()).is_ok();
        let mut known = vec![("system.posix_acl_access", acl), ("security.capability", capability)];
        known.retain(set);
        let time = rustix::fs::Timespec { tv_sec: 1_000_000_000, tv_nsec: 7 };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, &file, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();

        copy_exact(&file, &copy).unwrap();

        let (a, b) = (std::fs::metadata(&file).unwrap(), std::fs::metadata(&copy).unwrap());
        assert_eq!((b.uid(), b.gid(), b.mode()), (a.uid(), a.gid(), a.mode()));
        assert_eq!((b.mtime(), b.mtime_nsec()), (1_000_000_000, 7));
        assert_eq!(std::fs::read(&copy).unwrap(), b"program");
        for (name, value) in known {
            let mut buffer = [0; 256];
            let length = rustix::fs::lgetxattr(&copy, name, &mut buffer[..]).unwrap();
            assert_eq!(buffer[..length], value, "{name}");
        }
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_copied_as_a_link() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let (link, copy) = (dir.path().join("l"), other.path().join("l"));
        symlink(Path::new("/no/such"), &link).unwrap();
        copy_exact(&link, &copy).unwrap();
        assert_eq!(std::fs::read_link(&copy).unwrap(), Path::new("/no/such"));
    }
}
