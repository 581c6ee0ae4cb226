//! A real file system on a disk of ours.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;
use tempfile::TempDir;

use super::disk::Disk;
use super::image::Image;
use super::loop_device::LoopDevice;
use crate::crash::host::scratch;

/// How long an unmount may be refused because somebody has a file open.
const BUSY: Duration = Duration::from_secs(30);

/// Where distributions have mkfs.
const PROGRAMS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// A kind of file system and how it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// ext4 as it is made by default.
    Ext4,
    /// ext4 that orders nothing by itself: no data before metadata, no help at renames.
    Ext4Writeback,
    /// xfs as it is made by default.
    Xfs,
}

impl Kind {
    /// As it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Ext4Writeback => "ext4-writeback",
            Self::Xfs => "xfs",
        }
    }

    fn driver(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Ext4Writeback => "ext4",
            Self::Xfs => "xfs",
        }
    }

    fn options(self) -> &'static std::ffi::CStr {
        match self {
            Self::Ext4 => c"",
            Self::Ext4Writeback => c"data=writeback,noauto_da_alloc,commit=1",
            // Two cuts of one disk are mounted at a time.
            Self::Xfs => c"nouuid",
        }
    }

    /// Why it cannot be used here, if it cannot.
    pub fn missing(self) -> Option<String> {
        let program = format!("mkfs.{}", self.driver());
        if !PROGRAMS.iter().any(|dir| Path::new(dir).join(&program).exists()) {
            return Some(format!("no {program}"));
        }
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let known = known.lines().any(|line| line.split_whitespace().last() == Some(self.driver()));
        (!known).then(|| format!("the kernel has no {}", self.driver()))
    }

    /// Sizes in bytes and options of mkfs; of several, the first that it knows. Zeros cost nothing.
    fn mkfs(self) -> (u64, &'static [&'static [&'static str]]) {
        match self {
            Self::Ext4 | Self::Ext4Writeback => {
                (128 << 20, &[&["-q", "-F", "-b", "4096", "-N", "4096", "-J", "size=8", "-E", "lazy_itable_init=0"]])
            }
            // It refuses less than 300 MiB, and newer ones a log of less than 64 MiB, which each mount reads.
            Self::Xfs => (300 << 20, &[&["--unsupported", "-q", "-f", "-l", "size=8m"], &["-q", "-f"]]),
        }
    }

    /// A new, empty file system.
    pub fn make(self) -> io::Result<Image> {
        let (size, options) = self.mkfs();
        let mut last = String::new();
        for options in options {
            let disk = Disk::serve(Image::new(size))?;
            let device = LoopDevice::over(disk.file()?)?;
            let mut mkfs = Command::new(format!("mkfs.{}", self.driver()));
            mkfs.env("PATH", PROGRAMS.join(":")).args(*options).arg(device.path());
            let output = mkfs.output()?;
            drop(device);
            if output.status.success() {
                return Ok(disk.image());
            }
            last = format!("{mkfs:?}: {output:?}");
        }
        Err(io::Error::other(last))
    }
}

/// A file system that is mounted; unmounted when dropped.
pub struct Volume {
    disk: Disk,
    is_mounted: bool,
    dir: TempDir,
}

impl Volume {
    /// Mounts `image`: what the kernel replays of its journal it replays now.
    pub fn mount(kind: Kind, image: Image) -> io::Result<Self> {
        let mut disk = Disk::serve(image)?;
        let device = LoopDevice::over(disk.file()?)?;
        disk.release();
        let dir = scratch()?;
        rustix::mount::mount(device.path(), dir.path(), kind.driver(), MountFlags::empty(), kind.options())?;
        Ok(Self { disk, is_mounted: true, dir })
    }

    /// The image's root: below the mount, which has directories of its own.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// The disk below it.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Has all of it written and flushed.
    pub fn sync(&self) -> io::Result<()> {
        let dir = std::fs::File::open(self.dir.path())?;
        Ok(rustix::fs::syncfs(&dir)?)
    }

    /// Unmounts it in order; returns what is on the disk then.
    pub fn unmount(mut self) -> io::Result<Image> {
        self.detach()?;
        Ok(self.disk.image())
    }

    fn detach(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.is_mounted) {
            return Ok(());
        }
        let start = Instant::now();
        loop {
            match rustix::mount::unmount(self.dir.path(), UnmountFlags::empty()) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::BUSY) if start.elapsed() < BUSY => std::thread::yield_now(),
                Err(error) => {
                    // Whoever has a file open keeps the disk, but not for ever.
                    let _ = rustix::mount::unmount(self.dir.path(), UnmountFlags::DETACH);
                    return Err(io::Error::other(format!("cannot unmount {}: {error}", self.dir.path().display())));
                }
            }
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}

/// Gives this thread, and what it starts, mounts of its own: they end with it, even if it is killed, and nobody else
/// on the machine can keep them busy.
pub(super) fn own_mounts() -> io::Result<()> {
    // SAFETY: file descriptors stay shared; only mounts and the working directory become this thread's own.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", flags)?)
}

/// Why no disk can be served and mounted here, if it cannot.
pub(super) fn cannot() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    for path in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(path).exists() {
            return Some(format!("no {path}"));
        }
    }
    let probe = std::thread::spawn(|| {
        own_mounts()?;
        let disk = Disk::serve(Image::new(1 << 20))?;
        LoopDevice::over(disk.file()?).map(drop)
    });
    match probe.join() {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("no mounts, FUSE or loop devices: {error}")),
        Err(_) => Some("the probe panicked".to_owned()),
    }
}
