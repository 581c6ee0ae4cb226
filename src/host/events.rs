//! What wakes one who waits for other processes: their ends, new names in directories, the use of a program's file.
//!
//! Events are hints and no evidence: whoever is woken looks for himself, and looks now and then without being woken,
//! for there are kernels (pidfds came with 5.3), file systems and limits under which nothing is heard.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::process::ProcessId;

/// A name appears, goes, or its file has been written.
const NAMES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ONLYDIR);
/// A program is executed, and the last process of an execution has ended.
const USE: WatchFlags = WatchFlags::OPEN.union(WatchFlags::CLOSE_NOWRITE);
/// Bytes read at once: some dozens of events, and room for one with the longest name.
const BUFFER: usize = 4096;

/// What is listened for.
#[derive(Debug, Default)]
pub(crate) struct Events {
    inotify: Option<OwnedFd>,
    /// By what the kernel knows a watch.
    watches: BTreeMap<PathBuf, i32>,
    /// The names in directories that count.
    names: BTreeSet<OsString>,
    /// With `None` where the kernel gives no descriptor.
    processes: BTreeMap<ProcessId, Option<OwnedFd>>,
    /// Something happened before it could be listened for.
    missed: bool,
}

impl Events {
    /// Nothing is listened for yet.
    pub(crate) fn new() -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { inotify, ..Self::default() }
    }

    /// Listens for what happens to the name of `path` in its directory; one that is not there (yet) is left out. To be
    /// called before each look: a directory that was made anew is found again.
    pub(crate) fn listen_to_name(&mut self, path: &Path) {
        if let (Some(dir), Some(name)) = (path.parent(), path.file_name()) {
            self.names.insert(name.to_owned());
            self.watch(dir, NAMES);
        }
    }

    /// Listens for executions of the program at `path` and their ends.
    pub(crate) fn listen_to_use(&mut self, path: &Path) {
        self.watch(path, USE);
    }

    /// Listens for the ends of these processes, and of no others any more.
    pub(crate) fn listen_to_ends(&mut self, processes: &BTreeSet<ProcessId>) {
        self.processes.retain(|id, _| processes.contains(id));
        for id in processes {
            if !self.processes.contains_key(id) {
                let pid = i32::try_from(id.pid).ok().and_then(Pid::from_raw);
                let descriptor = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
                // The number can have been another's by then.
                self.missed |= !id.is_alive().unwrap_or(false);
                self.processes.insert(*id, descriptor);
            }
        }
    }

    /// False if a process that is listened to could end unheard.
    pub(crate) fn hears_ends(&self) -> bool {
        self.processes.values().all(Option::is_some)
    }

    /// Waits at most `timeout`; true if something was heard. A signal to us ends the wait as well.
    pub(crate) fn wait(&mut self, timeout: Duration) -> bool {
        if std::mem::take(&mut self.missed) {
            return true;
        }
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let ends = self.processes.values().flatten();
            let mut polled: Vec<PollFd<'_>> = self
                .inotify
                .iter()
                .chain(ends)
                .map(|descriptor| PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN))
                .collect();
            if !matches!(poll(&mut polled, Timespec::try_from(left).ok().as_ref()), Ok(1..)) {
                return false;
            }
            let first_end = usize::from(self.inotify.is_some());
            let has_ended = polled[first_end..].iter().any(|process| !process.revents().is_empty());
            drop(polled);
            if self.read_names() || has_ended {
                return true;
            }
        }
    }

    fn watch(&mut self, path: &Path, flags: WatchFlags) {
        let Some(inotify) = &self.inotify else { return };
        if !self.watches.contains_key(path)
            && let Ok(watch) = inotify::add_watch(inotify, path, flags)
        {
            self.watches.insert(path.to_owned(), watch);
        }
    }

    /// Takes what there is; true if something of it counts.
    fn read_names(&mut self) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let mut counts = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    if event.events().contains(ReadFlags::IGNORED) {
                        self.watches.retain(|_, watch| *watch != event.wd());
                    }
                    // One without a name is about the program, or says that events were lost.
                    counts |= event.file_name().is_none_or(|name| self.names.contains(os(name)));
                }
                Err(Errno::INTR) => {}
                Err(_) => return counts,
            }
        }
    }
}

/// Waits for `duration`, or until a signal to us.
pub(crate) fn pause(duration: Duration) {
    let _ = poll(&mut [], Timespec::try_from(duration).ok().as_ref());
}

fn os(name: &CStr) -> &std::ffi::OsStr {
    std::ffi::OsStr::from_bytes(name.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::durable;
    use crate::host::process::tests::Child;
    use crate::host::process::{Process, ProcessId};

    /// Far longer than any of it takes.
    const LONG: Duration = Duration::from_secs(20);

    fn sleeper(program: &Path) -> (Child, ProcessId) {
        let child = Child::start(program, None);
        let id = Process::by_pid(child.0.id()).unwrap().unwrap().id();
        (child, id)
    }

    #[test]
    fn the_end_of_a_process_is_heard_and_one_that_has_ended_before_is_heard_at_once() {
        let mut events = Events::new();
        let (mut child, id) = sleeper(Path::new("/bin/sleep"));
        events.listen_to_ends(&[id].into());
        assert!(events.hears_ends() && !events.wait(Duration::ZERO));
        child.0.kill().unwrap();
        assert!(events.wait(LONG));
        // It is heard as long as it is listened to.
        assert!(events.wait(LONG));
        events.listen_to_ends(&BTreeSet::new());
        assert!(!events.wait(Duration::ZERO));
        child.0.wait().unwrap();
        events.listen_to_ends(&[id].into());
        assert!(events.wait(LONG));
    }

    #[test]
    fn a_number_that_is_another_processes_by_now_has_ended() {
        let (child, id) = sleeper(Path::new("/bin/sleep"));
        let mut events = Events::new();
        events.listen_to_ends(&[ProcessId { start_time: id.start_time - 1, ..id }].into());
        assert!(events.wait(LONG));
        drop(child);
    }

    #[test]
    fn a_name_is_heard_when_its_file_is_written_renamed_in_or_removed_and_other_names_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("teleport.pid");
        let mut events = Events::new();
        events.listen_to_name(&pid_file);
        durable::write(&dir.path().join("other"), b"", 0o644).unwrap();
        assert!(!events.wait(Duration::ZERO));
        durable::write(&pid_file, b"1\n", 0o644).unwrap();
        assert!(events.wait(LONG) && !events.wait(Duration::ZERO));
        durable::remove_file(&pid_file).unwrap();
        assert!(events.wait(LONG) && !events.wait(Duration::ZERO));
    }

    #[test]
    fn a_directory_that_is_made_anew_is_listened_to_again() {
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().join("teleport");
        let pid_file = runtime.join("teleport.pid");
        let mut events = Events::new();
        events.listen_to_name(&pid_file);
        durable::create_dir_all(&runtime).unwrap();
        events.listen_to_name(&pid_file);
        durable::remove_tree(&runtime).unwrap();
        assert!(events.wait(LONG));
        durable::create_dir_all(&runtime).unwrap();
        events.listen_to_name(&pid_file);
        durable::write(&pid_file, b"1\n", 0o644).unwrap();
        assert!(events.wait(LONG));
    }

    #[test]
    fn the_start_and_the_end_of_a_program_are_heard_by_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("teleport");
        durable::copy_synced(Path::new("/bin/sleep"), &program, 0o755).unwrap();
        let mut events = Events::new();
        events.listen_to_use(&program);
        assert!(!events.wait(Duration::ZERO));
        let (mut child, _) = sleeper(&program);
        assert!(events.wait(LONG) && !events.wait(Duration::ZERO));
        child.0.kill().unwrap();
        assert!(events.wait(LONG));
        child.0.wait().unwrap();
    }
}
