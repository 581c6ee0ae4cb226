//! A look at `/proc`: who runs what, and who has a file open. Our own process is never listed, nor are zombies.
//!
//! What may not be looked at is listed as [hidden](Process::hidden), never left out: without CAP_SYS_PTRACE the kernel
//! shows neither program nor open files of a process that has another user or a capability that we lack. A look that
//! fails (no descriptor, no memory, an I/O error) is an error: only ENOENT and ESRCH mean that a process is gone.
//!
//! Files are compared by device and inode, which also holds for renamed files and for processes in containers; a program's
//! name only counts for processes that see the same file system as we do.

mod files;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper, waitpid,
};

pub(crate) use files::{Open, open_files, owners, running, with_open};

use crate::report::{Code, Error, IoContext, Result};

/// What the kernel appends to the name of a file that was removed or replaced.
const DELETED: &[u8] = b" (deleted)";

/// Bit of a kernel thread in the flags of `/proc/PID/stat`, PF_KTHREAD.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// The first process, which every `/proc` lists unless it hides what is others' (`hidepid=2`).
pub(crate) const FIRST: u32 = 1;

/// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: files of any owner.
const ANY_FILE: u64 = 1 << 1 | 1 << 2;
/// The bit of CAP_SYS_PTRACE.
const SYS_PTRACE: u64 = 1 << 19;

/// How often what is left of a program is looked for: each look finds the children of those before.
const GENERATIONS: u32 = 8;

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
        Self::find(path).ok()?
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// The kernel's short name for it, at most 15 bytes; empty where even that is hidden.
    pub comm: String,
    /// Its parent.
    pub ppid: u32,
    /// Its real user, who started it; whose rights its program has does not matter. `None` where that is hidden.
    pub user: Option<u32>,
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
        let read = |name: &str| {
            let place = format!("/proc/{pid}/{name}");
            if_there(std::fs::read(&place), &place)
        };
        let (stat, status) = match (read("stat"), read("status")) {
            (Err(error), _) | (_, Err(error)) if error.code == Code::Permission => return Ok(Some(Self::unseen(pid))),
            (stat, status) => (stat?, status?),
        };
        let stat = stat.as_deref().and_then(Stat::parse).filter(Stat::lives);
        let (Some(stat), Some(status)) = (stat, status) else { return Ok(None) };
        let program = |thread: u32| std::fs::read_link(format!("/proc/{thread}/exe")).map(without_deleted);
        let has_none = |link: &io::Result<PathBuf>| link.as_ref().is_err_and(is_gone) && !stat.is_kernel_thread;
        let (mut thread, mut link) = (pid, program(pid));
        if stat.first_ended || has_none(&link) {
            let mut living =
                living_threads(pid)?.into_iter().filter(|other| !stat.first_ended || *other != pid).peekable();
            if living.peek().is_none() {
                return Ok(None);
            }
            if let Some(other) = living.find(|other| !has_none(&program(*other))) {
                (thread, link) = (other, program(other));
            }
        }
        let hidden = link.as_ref().is_err_and(is_denied) && !stat.is_kernel_thread;
        // One that has just ended is denied as well.
        if hidden && Stat::of(pid)?.is_none() {
            return Ok(None);
        }
        let file = PathBuf::from(format!("/proc/{thread}/exe"));
        let exe = match link {
            Err(error) if is_denied(&error) || is_too_long(&error) => None,
            link => if_there(link, &file)?,
        };
        let Stat { comm, ppid, start_time, .. } = stat;
        Ok(Some(Self { pid, start_time, exe, hidden, comm, ppid, user: real_user(&status), file, thread }))
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
        Self { pid, hidden: true, file, thread: pid, ..Self::default() }
    }

    /// Number and start time.
    pub fn id(&self) -> ProcessId {
        ProcessId { pid: self.pid, start_time: self.start_time }
    }

    /// Whether one of `users` has started it; what is hidden counts as theirs.
    pub fn is_of(&self, users: &BTreeSet<u32>) -> bool {
        self.user.is_none_or(|user| users.contains(&user))
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
        let of = |Stat { start_time, children_faults, .. }| Self { id: ProcessId { pid, start_time }, children_faults };
        Ok(Stat::of(pid)?.map(of))
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

/// Does `work`, whose programs are our only children, and ends what they leave running: that becomes our child.
pub(crate) fn adopting<T>(work: impl FnOnce() -> T) -> T {
    let _ = set_child_subreaper(Some(getpid()));
    let done = work();
    (0..GENERATIONS).take_while(|_| end_children()).count();
    let _ = set_child_subreaper(None);
    done
}

/// Whether there was a child of ours, whose own children are ours now.
fn end_children() -> bool {
    let own = std::process::id();
    let left = all().unwrap_or_default().into_iter().filter(|process| process.ppid == own);
    let left: Vec<_> = left.filter_map(|process| Pid::from_raw(i32::try_from(process.pid).ok()?)).collect();
    for pid in &left {
        let _ = kill_process(*pid, Signal::KILL);
        let _ = waitpid(Some(*pid), WaitOptions::empty());
    }
    !left.is_empty()
}

/// Ends the group that the process `pid` leads, if it does.
pub(crate) fn kill_group(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// The environment that `process` was started with, as `NAME=VALUE`; none if it is gone or may not be looked at.
///
/// Errors: `io`.
pub(crate) fn environment(process: &Process) -> Result<Vec<Vec<u8>>> {
    let text = readable(format!("/proc/{}/environ", process.thread))?;
    Ok(text.unwrap_or_default().split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

/// Our parent, and the first process of our session; 0 for one outside of our name space. Errors: `io`.
pub(crate) fn parent_and_session() -> Result<[u32; 2]> {
    Ok(Stat::of(std::process::id())?.map_or([0; 2], |stat| [stat.ppid, stat.session]))
}

/// How long the process has been running; `None` if it is gone. Errors: `io`.
pub(crate) fn age(pid: u32) -> Result<Option<std::time::Duration>> {
    let text = std::fs::read_to_string("/proc/uptime").at("cannot read", "/proc/uptime")?;
    // Seconds with two digits: a tick is a hundredth.
    let uptime =
        text.split_ascii_whitespace().next().and_then(|seconds| seconds.replacen('.', "", 1).parse::<u64>().ok());
    let started = Stat::of(pid)?.map(|stat| stat.start_time);
    let age = |(uptime, started): (u64, u64)| TICK * u32::try_from(uptime.saturating_sub(started)).unwrap_or(u32::MAX);
    Ok(uptime.zip(started).map(age))
}

/// The text of `/proc/<pid>/cgroup`; `None` if the process is gone, or may not be looked at. Errors: `io`.
pub(crate) fn cgroup(pid: u32) -> Result<Option<String>> {
    // A group's name is of any bytes.
    Ok(readable(format!("/proc/{pid}/cgroup"))?.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// The process number in a pid file; `None` if there is no such file, or no number in it. Errors: `permission`, `io`.
pub(crate) fn pid_in_file(path: &Path) -> Result<Option<u32>> {
    let bytes = super::durable::read_limited(path, 64)?;
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text.and_then(|text| text.trim().parse().ok()).filter(|pid| *pid > 0))
}

/// What `/proc/PID/stat` says (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// Its short name.
    comm: String,
    /// Its first thread has ended. Until the others end, it keeps its files and locks. So is an agent that was told to exit
    /// while another thread waits for a disk.
    first_ended: bool,
    /// Its parent; 0 for one outside of our name space.
    ppid: u32,
    /// The first process of its session; 0 likewise.
    session: u32,
    is_kernel_thread: bool,
    /// Minor page faults of its waited-for children.
    children_faults: u64,
    threads: u64,
    /// Start, in clock ticks since boot.
    start_time: u64,
}

impl Stat {
    /// Of the living process with this number. Errors: `io`.
    fn of(pid: u32) -> Result<Option<Self>> {
        let place = format!("/proc/{pid}/stat");
        let stat = if_there(std::fs::read(&place), &place)?;
        Ok(stat.as_deref().and_then(Self::parse).filter(Self::lives))
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(stat);
        // The name may itself contain parentheses and spaces: it ends at the last one.
        let (head, tail) = text.rsplit_once(')')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        // After the name comes field 3, the state.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let id = |field| number(field)?.try_into().ok();
        Some(Self {
            comm: head.split_once('(')?.1.to_owned(),
            first_ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            ppid: id(4)?,
            session: id(6)?,
            is_kernel_thread: number(9)? & KERNEL_THREAD != 0,
            children_faults: number(11)?,
            threads: number(20)?,
            start_time: number(22)?,
        })
    }

    fn lives(&self) -> bool {
        !self.first_ended || self.threads > 1
    }
}

/// The first of the numbers that `/proc/PID/status` has for the users of a process. A program's name there is of any bytes.
fn real_user(status: &[u8]) -> Option<u32> {
    field(&String::from_utf8_lossy(status), "Uid:")?.split_ascii_whitespace().next()?.parse().ok()
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

/// True when we have the capabilities to see what every process runs and has open. What is hidden nevertheless is so by
/// a guard (a security module, an endpoint protection that shields itself), or is outside of our user name space.
pub(crate) fn may_see_all() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = field(&status, "CapEff:").and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|set| set & SYS_PTRACE != 0 && set & ANY_FILE != 0)
}

/// The threads of the process that have not ended. Errors: `io`.
fn living_threads(pid: u32) -> Result<Vec<u32>> {
    let place = format!("/proc/{pid}/task");
    let mut living = Vec::new();
    for entry in if_there(std::fs::read_dir(&place), &place)?.into_iter().flatten() {
        let Some(entry) = if_there(entry, &place)? else { continue };
        let stat = entry.path().join("stat");
        let Some(text) = if_there(std::fs::read(&stat), &stat)? else { continue };
        let thread: Option<u32> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        living.extend(thread.filter(|_| Stat::parse(&text).is_some_and(|stat| !stat.first_ended)));
    }
    Ok(living)
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

/// What is in the file `place`; `None` if that is gone, or may not be looked at.
fn readable(place: String) -> Result<Option<Vec<u8>>> {
    match std::fs::read(&place) {
        Err(error) if is_denied(&error) => Ok(None),
        text => if_there(text, &place),
    }
}

/// What was read at `place`; `None` if that is gone.
fn if_there<T>(read: io::Result<T>, place: impl AsRef<Path>) -> Result<Option<T>> {
    match read {
        Err(error) if is_gone(&error) => Ok(None),
        read => read.at("cannot look at", place).map(Some),
    }
}

/// True for a program that runs those of another architecture (containers on a foreign machine): it is what `/proc` then
/// calls the process's program.
fn is_emulator(exe: &Path) -> bool {
    exe.file_name().is_some_and(|name| name.as_bytes().starts_with(b"qemu-") || name == "rosetta")
}

/// The program that `emulator` runs in a process, and its file's name below `/proc`: the first other file that is mapped.
fn emulated(pid: u32, emulator: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
    let maps = readable(format!("/proc/{pid}/maps"))?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&maps).lines().find_map(|line| {
        let program = without_deleted(PathBuf::from(&line[line.find('/')?..]));
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        // Not padded there.
        let range = format!("{}-{}", start.trim_start_matches('0'), end.trim_start_matches('0'));
        (program != emulator).then(|| (program, PathBuf::from(format!("/proc/{pid}/map_files/{range}"))))
    }))
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
        let stat = b"42 (a) R (b) S 7 41 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0";
        let read = Stat {
            comm: "a) R (b".to_owned(),
            first_ended: false,
            ppid: 7,
            session: 40,
            is_kernel_thread: false,
            children_faults: 2,
            threads: 1,
            start_time: 123_456,
        };
        assert_eq!(Stat::parse(stat), Some(read));
        let dead = |threads| {
            let stat = format!("42 (a) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 123456 0");
            Stat::parse(stat.as_bytes()).unwrap()
        };
        assert!(dead(1).first_ended && !dead(1).lives() && dead(2).first_ended && dead(2).lives());
        assert_eq!(Stat::parse(b""), None);
        let kthreadd = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 12 0 0";
        assert!(Stat::parse(kthreadd).is_some_and(|stat| stat.is_kernel_thread));
    }

    #[test]
    fn whose_a_process_is_tells_who_started_it_and_what_is_hidden_is_everybodys() {
        let status = b"Name:\t\xD1\nUid:\t7\t0\t0\t0\nGid:\t9\t9\t9\t9\n";
        assert_eq!((real_user(status), real_user(b"")), (Some(7), None));
        let users = |users: &[u32]| users.iter().copied().collect::<BTreeSet<u32>>();
        let own = Process::by_pid(std::process::id()).unwrap().unwrap();
        let me = rustix::process::getuid().as_raw();
        assert!(own.is_of(&users(&[me])) && !own.is_of(&users(&[me + 1])));
        assert!(Process::unseen(FIRST).is_of(&users(&[])));
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
