//! Mounts as the kernel lists them (proc_pid_mountinfo(5), proc_pid_fdinfo(5)): on which file system something is, without a
//! question to that file system. One whose server is gone (NFS, FUSE) answers none, and holds whoever asks for ever.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// A file system's own number. On some (btrfs) `stat` tells another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    major: u32,
    minor: u32,
}

impl Device {
    /// Of "MAJOR:MINOR" with numbers of that base.
    pub fn parse(text: &str, base: u32) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        let number = |text| u32::from_str_radix(text, base).ok();
        Some(Self { major: number(major)?, minor: number(minor)? })
    }
}

/// What `/proc/PID/fdinfo/FD` tells of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The mount by which it was opened.
    pub mount: u64,
    /// Its inode; kernels before 5.14 do not tell.
    pub ino: Option<u64>,
}

impl Opened {
    /// Of the text of the file.
    pub fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Self { mount: field("mnt_id:")?, ino: field("ino:") })
    }
}

/// The mounts of one name space, as far as they can be reached from a process's root.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mounts(Vec<Mount>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    id: u64,
    device: Device,
    point: PathBuf,
}

impl Mounts {
    /// Those of the process `pid`, which can be "self".
    pub fn of(pid: &str) -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read(format!("/proc/{pid}/mountinfo"))?))
    }

    fn parse(text: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            // "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
            let mut fields = line.split(|byte| *byte == b' ');
            let number = |field: Option<&[u8]>| std::str::from_utf8(field?).ok()?.parse().ok();
            let id = number(fields.next())?;
            let device = Device::parse(std::str::from_utf8(fields.nth(1)?).ok()?, 10)?;
            Some(Mount { id, device, point: unescaped(fields.nth(1)?) })
        };
        Self(text.split(|byte| *byte == b'\n').filter_map(mount).collect())
    }

    /// The file system of the mount with this number, which no two have at a time.
    pub fn device(&self, id: u64) -> Option<Device> {
        self.0.iter().find(|mount| mount.id == id).map(|mount| mount.device)
    }

    /// The file systems that an absolute path can be on, by its name: one, or several that are mounted on one another.
    pub fn devices_at(&self, path: &Path) -> Vec<Device> {
        let above = || self.0.iter().filter(|mount| path.starts_with(&mount.point));
        let depth = |mount: &Mount| mount.point.components().count();
        let deepest = above().map(depth).max();
        above().filter(|mount| Some(depth(mount)) == deepest).map(|mount| mount.device).collect()
    }

    /// The file system of what is at `path`, a link not followed; `None` if there is nothing, or the list does not tell.
    pub fn device_of(path: &Path) -> io::Result<Option<Device>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
            file => file?,
        };
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
        let Some(opened) = Opened::parse(&info) else { return Ok(None) };
        Ok(Self::of("self")?.device(opened.mount))
    }
}

/// A path with the kernel's escapes (a backslash and three octal digits) taken back.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let digits = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_system_is_told_by_mount_and_by_path() {
        let text = b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:40 / /mnt/a\\040b rw shared:1 - fuse x rw\n\
            23 21 0:41 / /mnt rw - nfs x rw\nnonsense\n24 23 8:1 /x /mnt rw - ext4 /dev/sda1 rw\n";
        let mounts = Mounts::parse(text);
        let device = |text| Device::parse(text, 10).unwrap();
        assert_eq!(mounts.device(22), Some(device("0:40")));
        assert_eq!(mounts.device(25), None);
        assert_eq!(mounts.devices_at(Path::new("/usr/mnt")), [device("8:1")]);
        assert_eq!(mounts.devices_at(Path::new("/mnt/a b/c")), [device("0:40")]);
        assert_eq!(mounts.devices_at(Path::new("/mnt/a")), [device("0:41"), device("8:1")]);
        assert_eq!(mounts.devices_at(Path::new("a")), []);
    }

    #[test]
    fn an_open_file_tells_its_mount_and_on_newer_kernels_its_inode() {
        let old = "pos:\t0\nflags:\t0100000\nmnt_id:\t29\n";
        assert_eq!(Opened::parse(old), Some(Opened { mount: 29, ino: None }));
        assert_eq!(Opened::parse(&format!("{old}ino:\t4711\n")), Some(Opened { mount: 29, ino: Some(4711) }));
        assert_eq!(Opened::parse(""), None);
    }

    #[test]
    fn what_is_at_a_path_is_on_its_directorys_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let here = Mounts::device_of(dir.path()).unwrap();
        assert_eq!(Mounts::of("self").unwrap().devices_at(dir.path()), here.into_iter().collect::<Vec<_>>());
        let proc = std::fs::metadata("/proc").unwrap().dev();
        let proc = format!("{}:{}", rustix::fs::major(proc), rustix::fs::minor(proc));
        assert_eq!(Mounts::device_of(Path::new("/proc")).unwrap(), Device::parse(&proc, 10));
        assert_eq!(Mounts::device_of(&dir.path().join("none")).unwrap(), None);
    }
}
