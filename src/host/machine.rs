//! Facts about the running host: init system, file systems, boot, who we are.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatVfs, StatVfsMountFlags, StatxAttributes, StatxFlags};

use super::command::Command;
use crate::report::{Code, Error, IoContext, Result};

/// How the file system below a path is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mount {
    /// Nothing can be written there.
    pub read_only: bool,
    /// Nothing can be executed there.
    pub no_exec: bool,
}

/// True when systemd is PID 1, by systemd's own test, sd_booted(3).
pub(crate) fn is_systemd_booted() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// True while systemd shuts the host down or reboots it: services are stopped and cannot be started, whoever asks.
pub(crate) fn is_going_down() -> bool {
    is_systemd_booted()
        && Command::new("systemctl")
            .arg("is-system-running")
            .run()
            .is_ok_and(|output| output.stdout_text().trim() == "stopping")
}

/// True when our unit has made `/usr` read-only to us: in a name space of mounts that is not PID 1's. What must change
/// files of the distribution (its package manager) can't be done here, but outside of the unit it could.
pub(crate) fn is_confined() -> bool {
    let space = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let apart = matches!((space("self"), space("1")), (Some(own), Some(first)) if own != first);
    is_systemd_booted() && apart && mount(Path::new("/usr")).is_ok_and(|mount| mount.read_only)
}

/// True when we act as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Bytes that can still be written below `path`, or below its nearest ancestor that exists. What the file system
/// reserves for root is not counted.
pub(crate) fn free_bytes(path: &Path) -> Result<u64> {
    let path = nearest_existing(path);
    let found = rustix::fs::statvfs(&path).at("cannot read the free space of", &path)?;
    Ok(free_of(&found))
}

/// A file system without a size (some in user space) does not tell what is free: then nothing is known against it.
pub(crate) fn free_of(found: &StatVfs) -> u64 {
    if found.f_blocks == 0 { u64::MAX } else { found.f_bavail.saturating_mul(found.f_frsize) }
}

/// Inodes that can still be made there; `None` where the file system has no fixed number of them.
pub(crate) fn free_inodes(path: &Path) -> Result<Option<u64>> {
    let path = nearest_existing(path);
    let found = rustix::fs::statvfs(&path).at("cannot read the free inodes of", &path)?;
    Ok((found.f_files > 0).then_some(found.f_favail))
}

/// The device of `path`, or of its nearest ancestor that exists: equal for two paths of one file system.
pub(crate) fn device(path: &Path) -> Result<u64> {
    let path = nearest_existing(path);
    Ok(std::fs::metadata(&path).at("cannot look at", &path)?.dev())
}

/// True when `a` and `b`, or their nearest ancestors that exist, are on one file system.
pub(crate) fn same_file_system(a: &Path, b: &Path) -> Result<bool> {
    Ok(device(a)? == device(b)?)
}

/// How the file system of `path`, or of its nearest ancestor that exists, is mounted.
pub(crate) fn mount(path: &Path) -> Result<Mount> {
    let path = nearest_existing(path);
    let flags = rustix::fs::statvfs(&path).at("cannot read the mount flags of", &path)?.f_flag;
    Ok(Mount {
        read_only: flags.contains(StatVfsMountFlags::RDONLY),
        no_exec: flags.contains(StatVfsMountFlags::NOEXEC),
    })
}

/// Whether something can be renamed to `path`: nothing is mounted there, and what stands there, and its directory, is not
/// protected (`chattr +i`, `+a`). What cannot be asked is found when it is renamed.
///
/// Errors: `read_only`.
pub(crate) fn check_replaceable(path: &Path) -> Result<()> {
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let refused = |what: &str, how: &str| {
        Err(Error::new(Code::ReadOnly, format!("{} {what} and cannot be replaced", path.display())).advise(how))
    };
    if mounts.split(|byte| *byte == b'\n').any(|line| mounted_at(line).is_some_and(|place| place == path)) {
        return refused("is a mount point", "mount the directory instead of the file, then run the command again");
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    for place in [Some(path), path.parent()].into_iter().flatten() {
        let found = rustix::fs::statx(rustix::fs::CWD, place, flags, StatxFlags::empty());
        let protected = StatxAttributes::IMMUTABLE | StatxAttributes::APPEND;
        if found.is_ok_and(|found| found.stx_attributes.intersects(protected)) {
            let how = format!("run `chattr -i -a {}`, then run the command again", place.display());
            return refused("is protected (chattr +i or +a, also of its directory)", &how);
        }
    }
    Ok(())
}

/// Where a line of `/proc/PID/mountinfo` mounts something: its fifth field, with octal escapes (proc_pid_mountinfo(5)).
fn mounted_at(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let mut place = Vec::new();
    let mut at = 0;
    while let Some(byte) = field.get(at) {
        let digits = field.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| *byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        place.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 4 } else { 1 };
    }
    Some(std::ffi::OsString::from_vec(place).into())
}

/// The kernel's id of this boot; `None` where `/proc` does not tell.
pub(crate) fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

fn nearest_existing(path: &Path) -> PathBuf {
    path.ancestors().find(|ancestor| ancestor.exists()).map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_found_by_its_name_also_with_a_space() {
        let line = br"36 35 98:0 /a /var/lib/tele\040port/sqlite.db rw shared:1 - ext3 /dev/root rw";
        assert_eq!(mounted_at(line).unwrap(), Path::new("/var/lib/tele port/sqlite.db"));
        assert_eq!(mounted_at(br"36 35 98:0 / /a\b rw").unwrap(), Path::new(r"/a\b"));
        assert!(mounted_at(b"").is_none());
        assert_eq!(check_replaceable(Path::new("/proc")).unwrap_err().code, Code::ReadOnly);
        let dir = tempfile::tempdir().unwrap();
        check_replaceable(&dir.path().join("sqlite.db")).unwrap();
    }

    #[test]
    fn a_path_that_is_not_there_yet_has_the_space_and_device_of_its_ancestor() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        assert!(free_bytes(&deep).unwrap() > 0);
        assert!(same_file_system(&deep, dir.path()).unwrap());
        assert!(!same_file_system(Path::new("/proc"), dir.path()).unwrap());
        assert!(!mount(&deep).unwrap().read_only);
    }

    #[test]
    fn a_boot_has_an_id() {
        assert_eq!(boot_id().unwrap().len(), 36);
    }
}
