//! A look at `/proc`: who runs what, and who has a file open. Our own process is never listed, nor are zombies.
//!
//! What may not be looked at is listed as [hidden](Process::hidden), never left out: without CAP_SYS_PTRACE the kernel
//! shows neither program nor open files of a process that has another user or a capability that we lack. A look that
//! fails (no descriptor, no memory, an I/O error) is an error: only ENOENT and ESRCH mean that a process is gone.
//!
//! Files are compared by device and inode, which also holds for renamed files and for processes in containers; names
//! only count for processes that see the same file system as we do.

mod files;
mod rights;

use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

pub(crate) use files::{Open, Opener, Watched, open_files, running_below, running_file, with_open};
pub(crate) use rights::{Access, Reach, may_see_all};

use crate::report::{Code, Error, IoContext, Result};

/// What the kernel appends to the name of a file that was removed or replaced.
const DELETED: &[u8] = b" (deleted)";

/// Bit of a kernel thread in the flags of `/proc/PID/stat`, PF_KTHREAD.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// The first process, which every `/proc` lists unless it hides what is others' (`hidepid=2`).
pub(crate) const FIRST: u32 = 1;

/// A tick of the kernel's USER_HZ, part of its ABI and 100 on every architecture we have.
const TICK: std::time::Duration = std::time::Duration::from_millis(10);

/// A file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Device.
    pub dev: u64,
    /// Inode on that device.
    pub ino: u64,
}

impl FileId {
    /// The file that `path` leads to, links followed; `None` if there is none.
    pub fn of(path: impl AsRef<Path>) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self { dev: found.dev(), ino: found.ino() })
    }

    /// The same, but what cannot be looked at is an error.
    pub fn find(path: impl AsRef<Path>) -> Result<Option<Self>> {
        match std::fs::metadata(&path) {
            Ok(found) => Ok(Some(Self { dev: found.dev(), ino: found.ino() })),
            found if leads_nowhere(&found) => Ok(None),
            Err(error) => Err(error).at("cannot look at", path),
        }
    }

    /// The file that a link of `/proc/PID` leads to. `None` also for one on a file system that refuses to tell (another
    /// user's FUSE, a server that is gone): a file that we can look at ourselves it is not.
    fn behind(link: &Path) -> Result<Option<Self>> {
        match Known::of(link) {
            Ok(known) => Ok(Some(known.id)),
            Err(error) if is_shortage(&error) => Err(error).at("cannot look at", link),
            Err(_) => Ok(None),
        }
    }
}

/// What the kernel knows of a file that some process has open. Its file system is not asked: one whose server does not answer
/// (NFS, FUSE) holds whoever asks for ever. Older kernels ask all the same: before Linux 4.20 FUSE, before 4.11 all (statx(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// The file.
    pub id: FileId,
    /// Kind and permissions.
    pub mode: u32,
}

impl Known {
    /// The file that a link of `/proc/PID` leads to.
    ///
    /// Errors: there is none any more, or it may not be looked at.
    pub(crate) fn of(link: &Path) -> io::Result<Self> {
        let mask = StatxFlags::INO | StatxFlags::MODE;
        match rustix::fs::statx(rustix::fs::CWD, link, AtFlags::STATX_DONT_SYNC, mask) {
            Ok(known) => {
                let dev = rustix::fs::makedev(known.stx_dev_major, known.stx_dev_minor);
                Ok(Self { id: FileId { dev, ino: known.stx_ino }, mode: known.stx_mode.into() })
            }
            // The kernel has no such call, or a container's filter does not know it.
            Err(Errno::NOSYS | Errno::PERM) => {
                let found = std::fs::metadata(link)?;
                Ok(Self { id: FileId { dev: found.dev(), ino: found.ino() }, mode: found.mode() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// One process, told apart from a later one of the same number by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// Process number.
    pub pid: u32,
    /// Start, in clock ticks since boot.
    pub start_time: u64,
}

/// A running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process number.
    pub pid: u32,
    /// Start, in clock ticks since boot.
    pub start_time: u64,
    /// Its program, as it names it itself, without the kernel's "(deleted)"; `None` for kernel threads and hidden ones. It
    /// can be an [emulator](Self::behind_emulator).
    pub exe: Option<PathBuf>,
    /// We may not see what it runs and has open.
    pub hidden: bool,
    /// It has no program any more: the kernel is about to end it, and may yet hold its files and locks.
    pub ending: bool,
    /// The kernel's short name for it, at most 15 bytes; empty where even that is hidden.
    pub comm: String,
    /// Its parent.
    pub ppid: u32,
    /// The name below `/proc` of its program's file.
    file: PathBuf,
    /// The thread that is looked at for what the process has: its first one, or where that has ended, one that lives.
    thread: u32,
}

impl Process {
    /// The living process with this number; `None` if there is none. Nothing is read of it that it could keep from being
    /// read.
    ///
    /// Errors: `io` if it cannot be looked at for another reason than its being hidden.
    pub fn by_pid(pid: u32) -> Result<Option<Self>> {
        let place = format!("/proc/{pid}/stat");
        let stat = match std::fs::read(&place) {
            Err(error) if is_denied(&error) => return Ok(Some(Self::unseen(pid))),
            stat => match if_there(stat, &place)? {
                Some(stat) => stat,
                None => return Ok(None),
            },
        };
        let Some(Stat { comm, ppid, start_time, first_ended }) = parse_stat(&stat) else { return Ok(None) };
        let program = |thread: u32| std::fs::read_link(format!("/proc/{thread}/exe")).map(without_deleted);
        let has_none = |link: &io::Result<PathBuf>| link.as_ref().is_err_and(is_gone);
        let (mut thread, mut link) = (pid, program(pid));
        if (first_ended || has_none(&link)) && !is_kernel_thread(&stat) {
            let mut living = living_threads(pid)?.into_iter().filter(|other| !first_ended || *other != pid).peekable();
            if living.peek().is_none() {
                return Ok(None);
            }
            if let Some(other) = living.find(|other| !has_none(&program(*other))) {
                (thread, link) = (other, program(other));
            }
        }
        let hidden = link.as_ref().is_err_and(is_denied) && !is_kernel_thread(&stat);
        if hidden {
            // One that has just ended is denied as well.
            match if_there(std::fs::read(&place), &place)?.as_deref().and_then(parse_stat) {
                Some(_) => {}
                None => return Ok(None),
            }
        }
        let file = PathBuf::from(format!("/proc/{thread}/exe"));
        let ending = has_none(&link) && !is_kernel_thread(&stat);
        let exe = match link {
            Err(error) if is_denied(&error) || is_too_long(&error) => None,
            link => if_there(link, &file)?,
        };
        Ok(Some(Self { pid, start_time, exe, hidden, ending, comm, ppid, file, thread }))
    }

    /// The process with the program that it runs, if that is an emulator's guest. Not for other users' processes: they can
    /// keep their memory from being read.
    ///
    /// Errors: `io`.
    pub fn behind_emulator(mut self) -> Result<Self> {
        if let Some(emulator) = self.exe.as_deref().filter(|exe| is_emulator(exe))
            && let Some((program, file)) = emulated(self.thread, emulator)?
        {
            (self.exe, self.file) = (Some(program), file);
        }
        Ok(self)
    }

    /// The process with this number, of which nothing else can be known.
    fn unseen(pid: u32) -> Self {
        let file = PathBuf::from(format!("/proc/{pid}/exe"));
        Self {
            pid,
            start_time: 0,
            exe: None,
            hidden: true,
            ending: false,
            comm: String::new(),
            ppid: 0,
            file,
            thread: pid,
        }
    }

    /// Number and start time.
    pub fn id(&self) -> ProcessId {
        ProcessId { pid: self.pid, start_time: self.start_time }
    }

    /// Whether the kernel has begun to end it, by now: its program is gone.
    pub fn is_ending(&self) -> bool {
        self.ending || (self.exe.is_some() && std::fs::read_link(&self.file).is_err_and(|error| is_gone(&error)))
    }

    /// Device and inode of its program, also if that was removed or is in another mount namespace.
    pub fn exe_id(&self) -> Result<Option<FileId>> {
        FileId::behind(&self.file)
    }

    /// Its arguments after the program's name; none if it is gone.
    pub fn args(&self) -> Result<Vec<Vec<u8>>> {
        let place = format!("/proc/{}/cmdline", self.thread);
        let line = if_there(std::fs::read(&place), &place)?.unwrap_or_default();
        // An emulator is given the program's name before its arguments.
        let names = if self.file.ends_with("exe") { 1 } else { 2 };
        Ok(line.split(|byte| *byte == 0).skip(names).map(<[u8]>::to_vec).collect())
    }

    /// True when file names mean the same to it as to us.
    ///
    /// Errors: `io`.
    pub(crate) fn shares_our_files(&self) -> Result<bool> {
        let namespace = |pid: &str| {
            let place = format!("/proc/{pid}/ns/mnt");
            match std::fs::read_link(&place) {
                Err(error) if is_denied(&error) => Ok(None),
                link => if_there(link, &place),
            }
        };
        let ours = namespace("self")?;
        let root = |pid: &str| FileId::behind(Path::new(&format!("/proc/{pid}/root")));
        let theirs = self.thread.to_string();
        Ok(ours.is_some() && ours == namespace(&theirs)? && root(&theirs)? == root("self")?)
    }
}

impl ProcessId {
    /// True while this very process lives.
    pub fn is_alive(self) -> Result<bool> {
        Ok(Process::by_pid(self.pid)?.is_some_and(|process| process.start_time == self.start_time))
    }
}

/// A process and how much its waited-for children have used: the sum grows whenever it reaps one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaper {
    /// The process.
    pub id: ProcessId,
    /// Minor page faults of its waited-for children; no program starts without some.
    pub children_faults: u64,
}

impl Reaper {
    /// Of the living process with this number.
    pub fn by_pid(pid: u32) -> Result<Option<Self>> {
        let place = format!("/proc/{pid}/stat");
        let Some(stat) = if_there(std::fs::read(&place), &place)? else { return Ok(None) };
        let read = || Some((parse_stat(&stat)?.start_time, parse_children_faults(&stat)?));
        Ok(read().map(|(start_time, children_faults)| Self { id: ProcessId { pid, start_time }, children_faults }))
    }

    /// True if this very process still lives and has reaped a child since.
    pub fn has_reaped(&self) -> Result<bool> {
        let now = Self::by_pid(self.id.pid)?;
        Ok(now.is_some_and(|now| now.id == self.id && now.children_faults > self.children_faults))
    }
}

/// Every living process but ours. Where `/proc` does not list those of others, the first one stands for them, hidden.
///
/// Errors: `io` if the list or one of them cannot be looked at: nobody may be taken for gone then.
pub(crate) fn all() -> Result<Vec<Process>> {
    let own = std::process::id();
    let mut pids: Vec<u32> = Vec::new();
    for entry in std::fs::read_dir("/proc").at("cannot look at", "/proc")? {
        let name = entry.at("cannot look at", "/proc")?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    if pids.is_empty() {
        return Err(Error::new(Code::Io, "cannot look at the processes: /proc is not mounted")
            .advise("mount proc on /proc and run the command again"));
    }
    let unlisted = !pids.contains(&FIRST);
    let mut found = Vec::with_capacity(pids.len());
    for pid in pids.into_iter().filter(|pid| *pid != own) {
        found.extend(Process::by_pid(pid)?);
    }
    found.extend(unlisted.then(|| Process::unseen(FIRST)));
    Ok(found)
}

/// The environment that `process` was started with, as `NAME=VALUE`; none if it is gone or may not be looked at.
///
/// Errors: `io`.
pub(crate) fn environment(process: &Process) -> Result<Vec<Vec<u8>>> {
    let place = format!("/proc/{}/environ", process.thread);
    let text = match std::fs::read(&place) {
        Err(error) if is_denied(&error) => None,
        text => if_there(text, &place)?,
    };
    Ok(text.unwrap_or_default().split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

/// Our parent, and the first process of our session; 0 for one outside of our name space. Errors: `io`.
pub(crate) fn parent_and_session() -> Result<[u32; 2]> {
    let stat = std::fs::read("/proc/self/stat").at("cannot read", "/proc/self/stat")?;
    Ok(parse_parent_and_session(&stat))
}

/// How long the process has been running; `None` if it is gone. Errors: `io`.
pub(crate) fn age(pid: u32) -> Result<Option<std::time::Duration>> {
    let text = std::fs::read_to_string("/proc/uptime").at("cannot read", "/proc/uptime")?;
    // Seconds with two digits: a tick is a hundredth.
    let uptime =
        text.split_ascii_whitespace().next().and_then(|seconds| seconds.replacen('.', "", 1).parse::<u64>().ok());
    let started = Process::by_pid(pid)?.map(|process| process.start_time);
    let age = |(uptime, started): (u64, u64)| TICK * u32::try_from(uptime.saturating_sub(started)).unwrap_or(u32::MAX);
    Ok(uptime.zip(started).map(age))
}

/// The text of `/proc/<pid>/cgroup`; `None` if the process is gone, or may not be looked at. Errors: `io`.
pub(crate) fn cgroup(pid: u32) -> Result<Option<String>> {
    let place = format!("/proc/{pid}/cgroup");
    match std::fs::read(&place) {
        Err(error) if is_denied(&error) => Ok(None),
        // A group's name is of any bytes.
        text => Ok(if_there(text, &place)?.map(|text| String::from_utf8_lossy(&text).into_owned())),
    }
}

/// The process number in a pid file; `None` if there is no such file, or no number in it. Errors: `permission`, `io`.
pub(crate) fn pid_in_file(path: &Path) -> Result<Option<u32>> {
    let bytes = super::durable::read_limited(path, 64)?;
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text.and_then(|text| text.trim().parse().ok()).filter(|pid| *pid > 0))
}

/// What `/proc/PID/stat` says of a process that lives.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// Its short name.
    comm: String,
    /// Its parent.
    ppid: u32,
    /// Start, in clock ticks since boot.
    start_time: u64,
    /// Its first thread has ended and others live: until they end, it keeps its files and locks. So is an agent that was told
    /// to exit while another thread waits for a disk.
    first_ended: bool,
}

/// `None` for the dead.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let text = String::from_utf8_lossy(stat);
    // The name may itself contain parentheses and spaces: it ends at the last one.
    let (head, tail) = text.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_owned();
    // From field 3 of proc(5), the state.
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let first_ended = is_dead(fields.first()?);
    let (ppid, threads, start_time) = (number(4)?.try_into().ok()?, number(20)?, number(22)?);
    (!first_ended || threads > 1).then_some(Stat { comm, ppid, start_time, first_ended })
}

/// Of a state in `/proc/PID/stat`.
fn is_dead(state: &str) -> bool {
    matches!(state, "Z" | "X" | "x")
}

/// The threads of the process that have not ended. Errors: `io`.
fn living_threads(pid: u32) -> Result<Vec<u32>> {
    let place = format!("/proc/{pid}/task");
    let mut living = Vec::new();
    for entry in if_there(std::fs::read_dir(&place), &place)?.into_iter().flatten() {
        let Some(entry) = if_there(entry, &place)? else { continue };
        let stat = entry.path().join("stat");
        let Some(text) = if_there(std::fs::read(&stat), &stat)? else { continue };
        let text = String::from_utf8_lossy(&text);
        let state = text.rsplit_once(')').and_then(|(_, tail)| tail.split_ascii_whitespace().next());
        let thread: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        living.extend(thread.filter(|_| !state.is_none_or(is_dead)));
    }
    Ok(living)
}

/// Fields 4 and 6 of proc(5), `ppid` and `session`.
fn parse_parent_and_session(stat: &[u8]) -> [u32; 2] {
    let text = String::from_utf8_lossy(stat);
    let fields = || text.rsplit_once(')').map_or("", |(_, tail)| tail).split_ascii_whitespace();
    [1, 3].map(|place| fields().nth(place).and_then(|field| field.parse().ok()).unwrap_or_default())
}

/// Denied, in place of gone.
fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Not there (ENOENT), or of a process that has ended (ESRCH).
fn is_gone(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::SRCH].map(|gone| Some(gone.raw_os_error())).contains(&error.raw_os_error())
}

/// Whether there is nothing at a path: also where a file is in place of a directory, or a link leads to itself.
fn leads_nowhere<T>(look: &io::Result<T>) -> bool {
    let errors = [Errno::NOENT, Errno::SRCH, Errno::NOTDIR, Errno::LOOP].map(|error| Some(error.raw_os_error()));
    look.as_ref().is_err_and(|error| errors.contains(&error.raw_os_error()))
}

/// Longer than the kernel shows; whoever likes can make such names.
fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NAMETOOLONG.raw_os_error())
}

/// What is short is ours, not the file's.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::INTR];
    shortages.map(|short| Some(short.raw_os_error())).contains(&error.raw_os_error())
}

/// What was read at `place`; `None` if that is gone.
fn if_there<T>(read: io::Result<T>, place: impl AsRef<Path>) -> Result<Option<T>> {
    match read {
        Err(error) if is_gone(&error) => Ok(None),
        read => read.at("cannot look at", place).map(Some),
    }
}

/// Field 9 of proc(5), `flags`.
fn is_kernel_thread(stat: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stat);
    let flags = text.rsplit_once(')').and_then(|(_, tail)| tail.split_ascii_whitespace().nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & KERNEL_THREAD != 0)
}

/// Field 11 of proc(5), `cminflt`.
fn parse_children_faults(stat: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(stat);
    let (_, tail) = text.rsplit_once(')')?;
    tail.split_ascii_whitespace().nth(8)?.parse().ok()
}

/// True for a program that runs those of another architecture (containers on a foreign machine): it is what `/proc` then
/// calls the process's program.
fn is_emulator(exe: &Path) -> bool {
    exe.file_name().is_some_and(|name| name.as_bytes().starts_with(b"qemu-") || name == "rosetta")
}

/// The program that `emulator` runs in a process, and its file's name below `/proc`: the first other file that is mapped.
fn emulated(pid: u32, emulator: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
    let maps = String::from_utf8_lossy(&memory_of(pid)?).into_owned();
    Ok(maps.lines().find_map(|line| {
        let program = without_deleted(PathBuf::from(&line[line.find('/')?..]));
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        // Not padded there.
        let range = format!("{}-{}", start.trim_start_matches('0'), end.trim_start_matches('0'));
        (program != emulator).then(|| (program, PathBuf::from(format!("/proc/{pid}/map_files/{range}"))))
    }))
}

/// `/proc/PID/maps`; empty for the dead, and where it may not be seen.
fn memory_of(pid: u32) -> Result<Vec<u8>> {
    let place = format!("/proc/{pid}/maps");
    match std::fs::read(&place) {
        Err(error) if is_denied(&error) => Ok(Vec::new()),
        maps => Ok(if_there(maps, &place)?.unwrap_or_default()),
    }
}

fn without_deleted(exe: PathBuf) -> PathBuf {
    let mut bytes = exe.into_os_string().into_vec();
    if bytes.ends_with(DELETED) {
        bytes.truncate(bytes.len() - DELETED.len());
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::File;

    use super::*;

    /// A child of ours that is ended with the test.
    pub(crate) struct Child(pub(crate) std::process::Child);

    impl Child {
        pub(crate) fn start(program: &Path, stdin: Option<File>) -> Self {
            Self::start_with(program, &["60"], stdin)
        }

        pub(crate) fn start_with(program: &Path, args: &[&str], stdin: Option<File>) -> Self {
            let mut command = std::process::Command::new(program);
            command.args(args).stdin(stdin.map_or_else(std::process::Stdio::null, Into::into));
            loop {
                match command.spawn() {
                    Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                    other => return Self(other.unwrap()),
                }
            }
        }
    }

    impl Drop for Child {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let stat = b"42 (a) R (b) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0";
        let read = Stat { comm: "a) R (b".to_owned(), ppid: 7, start_time: 123_456, first_ended: false };
        assert_eq!(parse_stat(stat), Some(read));
        assert_eq!(parse_stat(b"42 (a) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0"), None);
        let others_live = parse_stat(b"42 (a) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 2 0 123456 0");
        assert!(others_live.is_some_and(|stat| stat.first_ended));
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_children_faults(stat), Some(2));
        assert_eq!(parse_parent_and_session(b"42 (a) R (b) S 7 41 40 0 -1"), [7, 40]);
        assert_eq!(parse_parent_and_session(b"42 (a) S 0 0 0 0 -1"), [0, 0], "who entered a container");
    }

    #[test]
    fn a_kernel_thread_is_told_by_its_flags() {
        let kthreadd = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 12 0 0";
        assert!(is_kernel_thread(kthreadd));
        assert!(!is_kernel_thread(b"42 (a) R (b) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0"));
        assert!(!is_kernel_thread(b""));
    }

    #[test]
    fn denied_is_hidden_and_gone_is_not() {
        let of = |code| is_denied(&std::io::Error::from_raw_os_error(code));
        // EPERM, EACCES; ENOENT, ESRCH.
        assert!(of(1) && of(13) && !of(2) && !of(3));
        assert!(!Process::by_pid(std::process::id()).unwrap().unwrap().hidden);
        assert!(Process::by_pid(u32::MAX).unwrap().is_none());
    }

    #[test]
    fn only_gone_is_gone_and_every_other_failure_of_a_look_is_an_error() {
        let read = |code| if_there(Err::<(), _>(io::Error::from_raw_os_error(code)), "/proc/7/stat");
        // ENOENT, ESRCH; EIO, ENOMEM, EMFILE.
        assert!([2, 3].into_iter().all(|code| read(code).unwrap().is_none()));
        for code in [5, 12, 24] {
            assert_eq!(read(code).unwrap_err().code, Code::Io);
        }
    }

    #[test]
    fn a_program_under_an_emulator_is_told_from_it() {
        // A program of that name that maps another file, as an emulator does.
        let dir = tempfile::tempdir().unwrap();
        let emulator = dir.path().join("qemu-toy");
        std::fs::copy("/bin/sleep", &emulator).unwrap();
        let child = Child::start(&emulator, None);
        assert!(is_emulator(&emulator) && !is_emulator(Path::new("/usr/bin/qemu/teleport")));
        // What sleep maps besides itself is its libraries, once it has started.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let found = Process::by_pid(child.0.id()).unwrap().unwrap().behind_emulator().unwrap();
            let exe = found.exe.clone().unwrap_or_default();
            if exe != emulator && found.exe_id().unwrap().is_some() && found.exe_id().unwrap() == FileId::of(&exe) {
                return;
            }
            assert!(std::time::Instant::now() < end, "{found:?}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn our_own_process_is_not_listed_but_can_be_asked_for() {
        let own = Process::by_pid(std::process::id()).unwrap().unwrap();
        assert!(age(own.pid).unwrap().unwrap() < std::time::Duration::from_secs(3600));
        let other = ProcessId { start_time: own.start_time + 1, ..own.id() };
        assert!(own.id().is_alive().unwrap() && !other.is_alive().unwrap());
        assert!(!all().unwrap().iter().any(|process| process.pid == own.pid));
    }

    #[test]
    fn a_reaped_child_leaves_a_trace_in_its_parent() {
        let before = Reaper::by_pid(std::process::id()).unwrap().unwrap();
        let child = Child::start(Path::new("/bin/sleep"), None);
        drop(child);
        assert!(before.has_reaped().unwrap());
        let other = Reaper { id: ProcessId { start_time: 0, ..before.id }, ..before };
        assert!(!other.has_reaped().unwrap());
    }
}
