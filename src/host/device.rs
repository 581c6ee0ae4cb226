//! On which file system something is, without a question to that file system (proc_pid_fdinfo(5), proc_pid_mountinfo(5)).

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// A file system's own number. On some (btrfs) `stat` tells another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device {
    major: u32,
    minor: u32,
}

impl Device {
    /// Of "MAJOR:MINOR" with numbers of that base.
    pub(crate) fn parse(text: &str, base: u32) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        let number = |text| u32::from_str_radix(text, base).ok();
        Some(Self { major: number(major)?, minor: number(minor)? })
    }

    /// That of what is at `path`, a link not followed; `None` if there is nothing, or the kernel does not list its mount.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            file => file?,
        };
        let opened = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
        let mount = opened.lines().find_map(|line| line.strip_prefix("mnt_id:"));
        let mounts = std::fs::read("/proc/self/mountinfo")?;
        Ok(mount.and_then(|mount| listed(&String::from_utf8_lossy(&mounts), mount.trim())))
    }
}

/// The file system of the mount with the number `id`, by the kernel's list.
fn listed(mounts: &str, id: &str) -> Option<Device> {
    // "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue"
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        (fields.next()? == id).then(|| Device::parse(fields.nth(1)?, 10))?
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_system_is_told_by_the_mounts_number() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\nnonsense\n22 21 0:40 / /mnt rw - fuse x rw\n";
        assert_eq!(listed(mounts, "22"), Device::parse("0:40", 10));
        assert_eq!([listed(mounts, "25"), listed(mounts, "nonsense"), Device::parse("8", 10)], [None; 3]);
    }

    #[test]
    fn what_is_at_a_path_is_on_its_directorys_file_system() {
        let number = |path: &Path| {
            let dev = std::fs::metadata(path).unwrap().dev();
            Device::parse(&format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev)), 10)
        };
        for path in ["/proc", "/proc/self/ns", "/dev/shm"].map(Path::new).iter().filter(|path| path.exists()) {
            assert_eq!(Device::of(path).unwrap(), number(path), "{path:?}");
        }
        assert_eq!(Device::of(Path::new("/proc/none")).unwrap(), None);
    }
}
