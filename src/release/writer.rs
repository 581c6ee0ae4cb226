//! Writes, hashes and syncs files beside the thread that inflates them, so that the disk works from the first bytes on.
//!
//! Two threads: one writes and hashes what arrives in buffers that go round, one waits for the disk.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use sha2::Digest as _;

use crate::host::{durable, machine};
use crate::report::{Code, Error, IoContext, Result};
use protocol::Digest;

/// Bytes of one buffer, and how many go round: 1 MiB whatever a file's size is.
const BUFFER: usize = 256 << 10;
const BUFFERS: usize = 4;
/// Written bytes after which their writeback is started: large enough for a disk, small enough to start at once.
const WRITEBACK: u64 = 8 << 20;
/// Bytes after which free space is asked for again.
const ROOM_ASKED: u64 = 8 << 20;
/// Files waiting for their sync: bounds open descriptors.
const SYNC_QUEUE: usize = 8;

/// The inflating thread's end.
pub(super) struct Writer<'scope> {
    jobs: SyncSender<Job>,
    free: Receiver<Vec<u8>>,
    thread: ScopedJoinHandle<'scope, Result<Vec<Digest>>>,
}

enum Job {
    Begin(File, PathBuf),
    Bytes(Vec<u8>),
    End,
}

impl<'scope> Writer<'scope> {
    /// Starts the threads in `scope`. `reserve` bytes stay free on the file system.
    ///
    /// Errors: [`Code::Io`] where a thread cannot be started.
    pub(super) fn start(scope: &'scope Scope<'scope, '_>, reserve: u64) -> Result<Self> {
        let no_thread = |error| Error::new(Code::Io, format!("cannot start a thread to write with: {error}"));
        let (jobs, work) = sync_channel(BUFFERS);
        let (back, free) = channel();
        for _ in 0..BUFFERS {
            // The receiver is at hand, so this cannot fail.
            let _ = back.send(Vec::new());
        }
        let (to_sync, queue) = sync_channel(SYNC_QUEUE);
        let syncer = Builder::new().name("sync".into()).spawn_scoped(scope, move || sync_all(&queue));
        let syncer = syncer.map_err(no_thread)?;
        let write = move || {
            let digests = write_all(&work, &back, &to_sync, reserve);
            drop(to_sync);
            // A failed sync is why a file was refused.
            syncer.join().unwrap_or_else(|_| Err(broke()))?;
            digests
        };
        let thread = Builder::new().name("write".into()).spawn_scoped(scope, write).map_err(no_thread)?;
        Ok(Self { jobs, free, thread })
    }

    /// Writes everything that `from` has to the new, empty `file`; `path` is for messages. Gives the number of bytes.
    ///
    /// Errors: those of reading, and [`Writer::finish`] has a better one where the writing has failed.
    pub(super) fn copy(&self, from: &mut impl Read, file: File, path: &Path) -> io::Result<u64> {
        self.send(Job::Begin(file, path.to_owned()))?;
        let mut length = 0;
        loop {
            let mut buffer = self.free.recv().map_err(io::Error::other)?;
            buffer.resize(BUFFER, 0);
            let count = fill(from, &mut buffer)?;
            buffer.truncate(count);
            length += count as u64;
            let is_last = count < BUFFER;
            self.send(Job::Bytes(buffer))?;
            if is_last {
                self.send(Job::End)?;
                return Ok(length);
            }
        }
    }

    fn send(&self, job: Job) -> io::Result<()> {
        self.jobs.send(job).map_err(io::Error::other)
    }

    /// Waits until everything is on disk; the digests are in the order of the files.
    ///
    /// Errors: those of writing and syncing; what was written then is incomplete.
    pub(super) fn finish(self) -> Result<Vec<Digest>> {
        let Self { jobs, free, thread } = self;
        drop((jobs, free));
        thread.join().unwrap_or_else(|_| Err(broke()))
    }
}

/// Reads until `buffer` is full or nothing is left.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(room) = buffer.get_mut(filled..).filter(|room| !room.is_empty()) {
        match from.read(room)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// The writing thread. A file that never ends is not synced: its archive is refused.
fn write_all(
    work: &Receiver<Job>,
    back: &Sender<Vec<u8>>,
    to_sync: &SyncSender<(File, PathBuf)>,
    reserve: u64,
) -> Result<Vec<Digest>> {
    let mut unasked = ROOM_ASKED;
    let mut digests = Vec::new();
    let mut open: Option<(File, PathBuf, sha2::Sha256)> = None;
    let (mut length, mut begun) = (0, 0);
    for job in work {
        match (job, &mut open) {
            (Job::Begin(file, path), _) => {
                open = Some((file, path, sha2::Sha256::new()));
                (length, begun) = (0, 0);
            }
            (Job::Bytes(buffer), Some((file, path, hasher))) => {
                unasked += buffer.len() as u64;
                if unasked >= ROOM_ASKED {
                    keep_reserve(file, path, reserve)?;
                    unasked = 0;
                }
                file.write_all(&buffer).at("cannot write", path)?;
                hasher.update(&buffer);
                length += buffer.len() as u64;
                if length - begun >= WRITEBACK {
                    durable::start_writeback(file, begun, length - begun);
                    begun = length;
                }
                // Refused when the other thread is done: then nobody needs it.
                let _ = back.send(buffer);
            }
            (Job::End, _) => {
                let Some((file, path, hasher)) = open.take() else { continue };
                durable::start_writeback(&file, begun, length - begun);
                digests.push(Digest(hasher.finalize().into()));
                if to_sync.send((file, path)).is_err() {
                    return Err(broke());
                }
            }
            (Job::Bytes(_), None) => {}
        }
    }
    Ok(digests)
}

/// Others go on writing meanwhile, and an archive may inflate to more than anybody thought.
fn keep_reserve(file: &File, path: &Path, reserve: u64) -> Result<()> {
    let free =
        rustix::fs::fstatvfs(file).map(|found| machine::free_of(&found)).at("cannot read the free space of", path)?;
    if free >= reserve.saturating_add(ROOM_ASKED) {
        return Ok(());
    }
    let (shown, free, reserve) = (path.display(), free / 1_000_000, reserve / 1_000_000);
    Err(Error::new(Code::NoSpace, format!("cannot write {shown}: {free} MB free, but {reserve} MB must stay free"))
        .advise("free space on that file system and run the command again"))
}

/// Stops at the first failure: it is fatal, and never retried on the same pages.
fn sync_all(queue: &Receiver<(File, PathBuf)>) -> Result<()> {
    queue.iter().try_for_each(|(file, path)| file.sync_all().at("cannot sync", &path))
}

fn broke() -> Error {
    Error::new(Code::Io, "internal error: the thread that writes the unpacked files ended unexpectedly")
}
