//! A disk as a file of the kernel: a FUSE file system whose root is that one file, served from memory.
//!
//! The file system is never attached to a path: it lives as long as somebody holds the file open, so nothing can be
//! left behind. Its file is opened for direct I/O, past the page cache: each write and each sync of the loop device above
//! arrives here as one request, in order, and none is merged or held back.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::thread::UnshareFlags;

use super::image::Image;

/// Largest read or write in one request, in bytes.
const MOST: usize = 1 << 20;
const PAGE: usize = 4096;
const HEADER: usize = 40;
const REGULAR: u32 = 0o100_600;

/// What happened to a disk.
#[derive(Clone)]
pub enum Event {
    /// These bytes were written at this offset.
    Write(u64, Arc<[u8]>),
    /// This many bytes from this offset on became zeros.
    Zero(u64, u64),
    /// A flush: what was written before it is on the medium.
    Flush,
}

impl Event {
    /// Repeats it on `image`.
    pub fn apply(&self, image: &mut Image) {
        match self {
            Self::Write(offset, bytes) => image.write(*offset, bytes),
            Self::Zero(offset, length) => image.zero(*offset, *length),
            Self::Flush => {}
        }
    }
}

#[derive(Default)]
struct State {
    image: Image,
    /// What happened since it is served.
    events: Vec<Event>,
}

/// A FUSE file system of one file, attached to no path: its device, where requests wait until somebody answers, and the
/// file, opened for its name alone. It ends when the device is closed. Needs root and `/dev/fuse`.
///
/// # Errors
/// The kernel refuses.
pub fn unanswered() -> io::Result<(File, OwnedFd)> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let fs = rustix::mount::fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let options = [
        ("fd", device.as_raw_fd().to_string()),
        ("rootmode", format!("{REGULAR:o}")),
        ("user_id", "0".to_owned()),
        ("group_id", "0".to_owned()),
    ];
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(&fs, key, value)?;
    }
    rustix::mount::fsconfig_create(&fs)?;
    let mount = rustix::mount::fsmount(&fs, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok((device, mount))
}

/// A disk that is served; it ends when it is dropped and nobody has its file open.
pub struct Disk {
    state: Arc<Mutex<State>>,
    server: Option<JoinHandle<()>>,
    file: Option<File>,
}

impl Disk {
    /// Serves `image` as a file. Needs root and `/dev/fuse`.
    pub fn serve(image: Image) -> io::Result<Self> {
        let (device, mount) = unanswered()?;
        let state = Arc::new(Mutex::new(State { image, events: Vec::new() }));
        let served = state.clone();
        let (ready, is_ready) = sync_channel(1);
        let number = device.as_raw_fd();
        let server = std::thread::spawn(move || match own_files(number) {
            Ok(own) => {
                let _ = ready.send(Ok(()));
                serve(&own, &served);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        });
        is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("the server of a disk ended")))?;
        drop(device);
        let file = File::options().read(true).write(true).open(format!("/proc/self/fd/{}", mount.as_raw_fd()))?;
        Ok(Self { state, server: Some(server), file: Some(file) })
    }

    /// The file, which is as large as the disk.
    pub fn file(&self) -> io::Result<&File> {
        self.file.as_ref().ok_or_else(|| io::Error::other("the disk was given away"))
    }

    /// Lets go of the file: what has it open now is all that keeps the disk.
    pub fn release(&mut self) {
        self.file = None;
    }

    /// How many events there are.
    pub fn position(&self) -> usize {
        locked(&self.state).events.len()
    }

    /// What happened since it is served.
    pub fn events(&self) -> Vec<Event> {
        locked(&self.state).events.clone()
    }

    /// What is on the disk now.
    pub fn image(&self) -> Image {
        locked(&self.state).image.clone()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.file = None;
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Gives this thread a table of open files of its own, with the one of that `number` alone.
///
/// If the process is killed, the server's end must close with the server: a thread that waits in the kernel for an answer
/// ends only when there can be none any more, and it would keep a shared table.
fn own_files(number: RawFd) -> io::Result<File> {
    // SAFETY: what this thread opens and closes from here on is its own, and it uses nothing that others opened.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }?;
    let number = number as libc::c_uint;
    for (first, last) in [(3, number - 1), (number + 1, libc::c_uint::MAX)] {
        // SAFETY: nothing of this thread's own owns one of these.
        if first <= last && unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: it is open in this table, and owned by nobody there.
    Ok(unsafe { File::from_raw_fd(number as RawFd) })
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers until the file system is gone.
fn serve(device: &File, state: &Mutex<State>) {
    let mut request = vec![0; MOST + PAGE];
    loop {
        let length = match (&*device).read(&mut request) {
            Ok(length) => length,
            // A request that was taken back before it was read.
            Err(error) if matches!(error.raw_os_error(), Some(2 | 4)) => continue,
            Err(_) => return,
        };
        let Some(request) = request.get(..length).filter(|request| request.len() >= HEADER) else { return };
        let Some(answer) = answer(request, state) else { continue };
        let (error, body) = match answer {
            Ok(body) => (0, body),
            Err(error) => (-(error.raw_os_error()), Vec::new()),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        put32(&mut reply, (16 + body.len()) as u32);
        reply.extend(error.to_ne_bytes());
        reply.extend_from_slice(request.get(8..16).unwrap_or_default());
        reply.extend(body);
        if (&*device).write_all(&reply).is_err_and(|error| error.raw_os_error() != Some(2)) {
            return;
        }
    }
}

/// The body of the answer to a request, or none where none is wanted. The numbers are those of `linux/fuse.h`.
fn answer(request: &[u8], state: &Mutex<State>) -> Option<Result<Vec<u8>, rustix::io::Errno>> {
    let opcode = get32(request, 4);
    let body = request.get(HEADER..).unwrap_or_default();
    let mut out = Vec::new();
    match opcode {
        // FORGET, INTERRUPT, BATCH_FORGET
        2 | 36 | 42 => return None,
        // INIT
        26 => {
            const BIG_WRITES: u32 = 1 << 5;
            const MAX_PAGES: u32 = 1 << 22;
            for word in [7, 31, 0, BIG_WRITES | MAX_PAGES, 16 | 12 << 16, MOST as u32, 1, (MOST / PAGE) as u32] {
                put32(&mut out, word);
            }
            out.resize(64, 0);
        }
        // GETATTR, SETATTR
        3 | 4 => {
            let size = locked(state).image.size();
            for word in [u64::from(u32::MAX), 0, 1, size, size / 512, 0, 0, 0] {
                put64(&mut out, word);
            }
            for word in [0, 0, 0, REGULAR, 1, 0, 0, 0, PAGE as u32, 0] {
                put32(&mut out, word);
            }
        }
        // OPEN
        14 => {
            const DIRECT_IO: u32 = 1;
            put64(&mut out, 0);
            put64(&mut out, u64::from(DIRECT_IO));
        }
        // READ
        15 => {
            let offset = get64(body, 8);
            let state = locked(state);
            let length = u64::from(get32(body, 16)).min(state.image.size().saturating_sub(offset));
            out.resize(length as usize, 0);
            state.image.read(offset, &mut out);
        }
        // WRITE
        16 => {
            let offset = get64(body, 8);
            let bytes = body.get(40..).unwrap_or_default();
            happen(state, Event::Write(offset, bytes.into()));
            put32(&mut out, bytes.len() as u32);
            put32(&mut out, 0);
        }
        // STATFS
        17 => {
            out.resize(80, 0);
            let size = locked(state).image.size();
            out[..8].copy_from_slice(&(size / PAGE as u64).to_ne_bytes());
            for at in [40, 48] {
                out[at..at + 4].copy_from_slice(&(PAGE as u32).to_ne_bytes());
            }
        }
        // FSYNC
        20 => happen(state, Event::Flush),
        // FALLOCATE: the loop device's way of writing zeros and of discarding.
        43 => happen(state, Event::Zero(get64(body, 8), get64(body, 16))),
        // RELEASE, FLUSH, DESTROY
        18 | 25 | 38 => {}
        _ => return Some(Err(rustix::io::Errno::NOSYS)),
    }
    Some(Ok(out))
}

fn happen(state: &Mutex<State>, event: Event) {
    let mut state = locked(state);
    event.apply(&mut state.image);
    state.events.push(event);
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn get64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

fn put32(out: &mut Vec<u8>, word: u32) {
    out.extend(word.to_ne_bytes());
}

fn put64(out: &mut Vec<u8>, word: u64) {
    out.extend(word.to_ne_bytes());
}
