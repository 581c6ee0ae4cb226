//! A block device on top of a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter};

const GET_FREE: Opcode = 0x4C82;
const CONFIGURE: Opcode = 0x4C0A;
/// Somebody else may take the free device first.
const ATTEMPTS: usize = 50;

/// A loop device. The kernel gives it back when it is closed and no longer mounted, whatever becomes of this process.
pub(super) struct LoopDevice {
    path: PathBuf,
    _device: File,
}

impl LoopDevice {
    /// A device over `file`, of 512-byte sectors.
    pub(super) fn over(file: &File) -> io::Result<Self> {
        let control = File::options().read(true).write(true).open("/dev/loop-control")?;
        let mut last = io::Error::other("no loop device");
        for _ in 0..ATTEMPTS {
            // SAFETY: the call takes no argument and returns a number.
            let number = unsafe { rustix::ioctl::ioctl(&control, GetFree) }?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = File::options().read(true).write(true).open(&path)?;
            let config = Config::of(file);
            // SAFETY: the argument is the kernel's `struct loop_config`.
            match unsafe { rustix::ioctl::ioctl(&device, Setter::<CONFIGURE, Config>::new(config)) } {
                Ok(()) => return Ok(Self { path, _device: device }),
                Err(rustix::io::Errno::BUSY) => last = rustix::io::Errno::BUSY.into(),
                Err(error) => return Err(error.into()),
            }
        }
        Err(last)
    }

    /// Its path below `/dev`.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// `struct loop_config` of `linux/loop.h`, with its `struct loop_info64`.
#[repr(C)]
struct Config {
    file: i32,
    block_size: u32,
    device_inode_rdevice_offset_limit: [u64; 5],
    number: u32,
    encrypt: [u32; 2],
    flags: u32,
    names_and_key: [u8; 160],
    init: [u64; 2],
    reserved: [u64; 8],
}

impl Config {
    fn of(file: &File) -> Self {
        const AUTOCLEAR: u32 = 4;
        Self {
            file: file.as_raw_fd(),
            block_size: 512,
            device_inode_rdevice_offset_limit: [0; 5],
            number: 0,
            encrypt: [0; 2],
            flags: AUTOCLEAR,
            names_and_key: [0; 160],
            init: [0; 2],
            reserved: [0; 8],
        }
    }
}

/// Asks `/dev/loop-control` for the number of a free device.
struct GetFree;

// SAFETY: the call has no argument, so there is nothing to read or write.
unsafe impl Ioctl for GetFree {
    type Output = i32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        GET_FREE
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut rustix::ffi::c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}
