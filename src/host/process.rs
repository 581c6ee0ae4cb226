//! A look at `/proc`: who runs what, and who has a file open. Our own process is never listed, nor are zombies.
//!
//! What may not be looked at is listed as [hidden](Process::hidden), never left out: without CAP_SYS_PTRACE the kernel
//! shows neither program nor open files of a process that has another user or a capability that we lack.
//!
//! Files are compared by device and inode, which also holds for renamed files and for processes in containers; names
//! only count for processes that see the same file system as we do.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the kernel appends to the name of a file that was removed or replaced.
const DELETED: &[u8] = b" (deleted)";
/// What SQLite keeps beside a database while it is open.
const DATABASE_SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// Bit of a kernel thread in the flags of `/proc/PID/stat`, PF_KTHREAD.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: files of any owner.
const ANY_FILE: u64 = 1 << 1 | 1 << 2;
/// The bit of CAP_SYS_PTRACE.
const SYS_PTRACE: u64 = 1 << 19;
/// The first process, which every `/proc` lists unless it hides what is others' (`hidepid=2`).
const FIRST: u32 = 1;

/// The kernel's USER_HZ, part of its ABI and 100 on every architecture we have.
const TICKS_PER_SECOND: f64 = 100.0;

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
    /// Its program, as it names it itself, without the kernel's "(deleted)"; `None` for kernel threads and hidden ones.
    pub exe: Option<PathBuf>,
    /// We may not see what it runs and has open.
    pub hidden: bool,
    /// The kernel's short name for it, at most 15 bytes; empty where even that is hidden.
    pub comm: String,
    /// Its parent.
    pub ppid: u32,
    /// The name below `/proc` of its program's file.
    file: PathBuf,
}

impl Process {
    /// The living process with this number.
    pub fn by_pid(pid: u32) -> Option<Self> {
        let read_stat = || std::fs::read(format!("/proc/{pid}/stat"));
        let stat = match read_stat() {
            Err(error) if is_denied(&error) => return Some(Self::unseen(pid)),
            stat => stat.ok()?,
        };
        let (comm, ppid, start_time) = parse_stat(&stat)?;
        let file = PathBuf::from(format!("/proc/{pid}/exe"));
        let exe = std::fs::read_link(&file).map(without_deleted);
        let hidden = exe.as_ref().is_err_and(is_denied) && !is_kernel_thread(&stat);
        if hidden {
            // One that has just ended is denied as well.
            parse_stat(&read_stat().ok()?)?;
        }
        let exe = exe.ok();
        let guest = exe.as_deref().filter(|exe| is_emulator(exe)).and_then(|emulator| emulated(pid, emulator));
        let (exe, file) = match guest {
            Some((program, file)) => (Some(program), file),
            None => (exe, file),
        };
        Some(Self { pid, start_time, exe, hidden, comm, ppid, file })
    }

    /// The process with this number, of which nothing else can be known.
    fn unseen(pid: u32) -> Self {
        let file = PathBuf::from(format!("/proc/{pid}/exe"));
        Self { pid, start_time: 0, exe: None, hidden: true, comm: String::new(), ppid: 0, file }
    }

    /// Whether this hidden process might run a program called `name`, or have open what `reach` tells. Not so an
    /// unprivileged process of another user and another name, such as a container's message bus.
    pub fn may_concern(&self, name: &str, reach: &Reach) -> bool {
        if !self.hidden || self.comm == name || is_emulator(Path::new(&self.comm)) || reach.anybody {
            return self.hidden;
        }
        match std::fs::read_to_string(format!("/proc/{}/status", self.pid)) {
            // It has ended since; the first one never does.
            Err(error) => is_denied(&error) || self.pid == FIRST,
            Ok(status) => {
                let (users, capabilities) = parse_status(&status);
                users.is_empty()
                    || users.iter().any(|user| *user == 0 || reach.owners.contains(user))
                    || capabilities.is_none_or(|capabilities| capabilities & ANY_FILE != 0)
            }
        }
    }

    /// Number and start time.
    pub fn id(&self) -> ProcessId {
        ProcessId { pid: self.pid, start_time: self.start_time }
    }

    /// Device and inode of its program, also if that was removed or is in another mount namespace.
    pub fn exe_id(&self) -> Option<FileId> {
        FileId::of(&self.file)
    }

    /// Its arguments after the program's name.
    pub fn args(&self) -> Vec<Vec<u8>> {
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        // An emulator is given the program's name before its arguments.
        let names = if self.file.ends_with("exe") { 1 } else { 2 };
        line.split(|byte| *byte == 0).skip(names).map(<[u8]>::to_vec).collect()
    }

    /// True when file names mean the same to it as to us.
    fn shares_our_files(&self) -> bool {
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let ours = namespace("self");
        ours.is_some()
            && ours == namespace(&self.pid.to_string())
            && FileId::of(format!("/proc/{}/root", self.pid)) == FileId::of("/proc/self/root")
    }
}

/// Who can have a database open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// Users that own it or its directory.
    pub owners: BTreeSet<u32>,
    /// It is for others to write, too.
    pub anybody: bool,
}

impl Reach {
    /// For `database`, which need not be there.
    pub fn of(database: &Path) -> Self {
        let file = std::fs::metadata(database).ok();
        let dir = database.parent().and_then(|dir| std::fs::metadata(dir).ok());
        Self {
            owners: [&file, &dir].into_iter().flatten().map(MetadataExt::uid).collect(),
            anybody: file.is_some_and(|file| file.mode() & 0o022 != 0),
        }
    }
}

impl ProcessId {
    /// True while this very process lives.
    pub fn is_alive(self) -> bool {
        alive(self.pid, self.start_time)
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
    pub fn by_pid(pid: u32) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let (_, _, start_time) = parse_stat(&stat)?;
        let children_faults = parse_children_faults(&stat)?;
        Some(Self { id: ProcessId { pid, start_time }, children_faults })
    }

    /// True if this very process still lives and has reaped a child since.
    pub fn has_reaped(&self) -> bool {
        Self::by_pid(self.id.pid).is_some_and(|now| now.id == self.id && now.children_faults > self.children_faults)
    }
}

/// Every living process but ours. Where `/proc` does not list those of others, the first one stands for them, hidden.
pub fn all() -> Vec<Process> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids: Vec<u32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    let unlisted = !pids.is_empty() && !pids.contains(&FIRST);
    let listed = pids.into_iter().filter(|pid| *pid != own).filter_map(Process::by_pid);
    listed.chain(unlisted.then(|| Process::unseen(FIRST))).collect()
}

/// True when we have the capabilities to see what every process runs and has open. What is hidden nevertheless is so by
/// a guard (a security module, an endpoint protection that shields itself), or is outside of our user name space.
pub fn may_see_all() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|set| set & SYS_PTRACE != 0 && set & ANY_FILE != 0)
}

/// True while the process `pid` that started at `start_time` (clock ticks since boot) lives.
pub fn alive(pid: u32, start_time: u64) -> bool {
    Process::by_pid(pid).is_some_and(|process| process.start_time == start_time)
}

/// The processes that have a database open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Open {
    /// These have it.
    pub by: Vec<Process>,
    /// Of these it cannot be seen, though their programs can.
    pub unknown: Vec<Process>,
}

/// Those of `all` that have `database`, its `-wal` or its `-shm` open or mapped (SPEC §6, stopped).
pub fn with_open(all: &[Process], database: &Path) -> Open {
    let names: Vec<PathBuf> = DATABASE_SUFFIXES
        .iter()
        .map(|suffix| {
            let mut name = std::path::absolute(database).unwrap_or_else(|_| database.to_owned()).into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        })
        .collect();
    let files: BTreeSet<FileId> = names.iter().filter_map(FileId::of).collect();
    let mut open = Open::default();
    for process in all {
        match has_open(process, &names, &files) {
            Some(true) => open.by.push(process.clone()),
            None if !process.hidden => open.unknown.push(process.clone()),
            _ => {}
        }
    }
    open
}

/// Those of `all` that run a file called `file_name` somewhere below `dir`, or that run one of the files
/// `<dir>/*/bin/<file_name>` under another name.
pub fn running_below(all: &[Process], dir: &Path, file_name: &str) -> Vec<Process> {
    let files: BTreeSet<FileId> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| FileId::of(entry.ok()?.path().join("bin").join(file_name)))
        .collect();
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let runs = |process: &&Process| {
        let named = process
            .exe
            .as_ref()
            .is_some_and(|exe| exe.file_name() == Some(OsStr::new(file_name)) && exe.starts_with(&dir));
        (named && process.shares_our_files()) || process.exe_id().is_some_and(|id| files.contains(&id))
    };
    all.iter().filter(runs).cloned().collect()
}

/// Those of `all` that run the file at `path`, or ran it before it was replaced there.
pub fn running_file(all: &[Process], path: &Path) -> Vec<Process> {
    let file = FileId::of(path);
    let runs = |process: &&Process| {
        let same = file.is_some() && process.exe_id() == file;
        same || (process.exe.as_deref() == Some(path) && process.shares_our_files())
    };
    all.iter().filter(runs).cloned().collect()
}

/// How long the process has been running; `None` if it is gone.
pub fn age(pid: u32) -> Option<std::time::Duration> {
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    let started = Process::by_pid(pid)?.start_time as f64 / TICKS_PER_SECOND;
    Some(std::time::Duration::from_secs_f64((uptime - started).max(0.0)))
}

/// The text of `/proc/<pid>/cgroup`.
pub fn cgroup(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()
}

/// The process number in a pid file; `None` if there is none to be read.
pub fn pid_in_file(path: &Path) -> Option<u32> {
    let bytes = super::durable::read_limited(path, 64).ok()??;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok().filter(|pid| *pid > 0)
}

/// The short name, parent and start time in `/proc/PID/stat`; `None` for the dead.
fn parse_stat(stat: &[u8]) -> Option<(String, u32, u64)> {
    let text = String::from_utf8_lossy(stat);
    // The name may itself contain parentheses and spaces: it ends at the last one.
    let (head, tail) = text.rsplit_once(')')?;
    let comm = head.split_once('(')?.1.to_owned();
    let mut fields = tail.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X" | "x") {
        return None;
    }
    let ppid = fields.next()?.parse().ok()?;
    // Field 22 of proc(5); state and parent (3 and 4) are consumed.
    let start_time = fields.nth(17)?.parse().ok()?;
    Some((comm, ppid, start_time))
}

/// Denied, in place of gone.
fn is_denied(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}

/// Field 9 of proc(5), `flags`.
fn is_kernel_thread(stat: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stat);
    let flags = text.rsplit_once(')').and_then(|(_, tail)| tail.split_ascii_whitespace().nth(6)?.parse().ok());
    flags.is_some_and(|flags: u64| flags & KERNEL_THREAD != 0)
}

/// The users (real, effective, saved, of the file system) and permitted capabilities in `/proc/PID/status`.
fn parse_status(status: &str) -> (Vec<u32>, Option<u64>) {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let users = field("Uid:").unwrap_or_default().split_ascii_whitespace();
    let capabilities = field("CapPrm:").and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    (users.filter_map(|user| user.parse().ok()).collect(), capabilities)
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
fn emulated(pid: u32, emulator: &Path) -> Option<(PathBuf, PathBuf)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    maps.lines().find_map(|line| {
        let program = without_deleted(PathBuf::from(&line[line.find('/')?..]));
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        // Not padded there.
        let range = format!("{}-{}", start.trim_start_matches('0'), end.trim_start_matches('0'));
        (program != emulator).then(|| (program, PathBuf::from(format!("/proc/{pid}/map_files/{range}"))))
    })
}

fn without_deleted(exe: PathBuf) -> PathBuf {
    let mut bytes = exe.into_os_string().into_vec();
    if bytes.ends_with(DELETED) {
        bytes.truncate(bytes.len() - DELETED.len());
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// `None` where that may not be seen.
fn has_open(process: &Process, names: &[PathBuf], files: &BTreeSet<FileId>) -> Option<bool> {
    if process.hidden {
        return None;
    }
    let here = process.shares_our_files();
    let is_ours = |link: &Path| {
        let by_name = || {
            let target = std::fs::read_link(link).map(without_deleted).unwrap_or_default();
            here && names.contains(&target)
        };
        FileId::of(link).is_some_and(|id| files.contains(&id)) || by_name()
    };
    let fds = std::fs::read_dir(format!("/proc/{}/fd", process.pid));
    let denied = fds.as_ref().is_err_and(is_denied);
    let is_open = fds.into_iter().flatten().flatten().any(|link| is_ours(&link.path()))
        || maps(process.pid, if here { names } else { &[] }, files);
    (is_open || !denied).then_some(is_open)
}

/// Whether one of `files`, or a file that was called as one of `names`, is mapped: also one that is no longer open.
fn maps(pid: u32, names: &[PathBuf], files: &BTreeSet<FileId>) -> bool {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.split(|byte| *byte == b'\n').any(|line| {
        let unlinked = line.strip_suffix(DELETED).unwrap_or(line);
        let is_name = |name: &PathBuf| {
            unlinked.strip_suffix(name.as_os_str().as_bytes()).is_some_and(|before| before.ends_with(b" "))
        };
        names.iter().any(is_name) || maps_one_of(pid, line, files)
    })
}

/// Whether a line of `/proc/PID/maps` is of one of `files`. Its inode tells which lines to ask about: there are hundreds a
/// process, and asking takes root. Its device is not `stat`'s on every file system.
fn maps_one_of(pid: u32, line: &[u8], files: &BTreeSet<FileId>) -> bool {
    let text = String::from_utf8_lossy(line);
    let mut fields = text.split_ascii_whitespace();
    let (Some(range), Some(inode)) = (fields.next(), fields.nth(3)) else { return false };
    if !files.iter().any(|file| inode.parse() == Ok(file.ino)) {
        return false;
    }
    let Some((start, end)) = range.split_once('-') else { return false };
    // Not padded there.
    let range = format!("{}-{}", start.trim_start_matches('0'), end.trim_start_matches('0'));
    FileId::of(format!("/proc/{pid}/map_files/{range}")).is_some_and(|id| files.contains(&id))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::File;

    use super::*;

    /// A child of ours that is ended with the test.
    #[allow(clippy::disallowed_methods, reason = "the tests need a process that outlives a call")]
    pub(crate) struct Child(pub(crate) std::process::Child);

    impl Child {
        #[allow(clippy::disallowed_methods, reason = "the tests need a process that outlives a call")]
        pub(crate) fn start(program: &Path, stdin: Option<File>) -> Self {
            let mut command = std::process::Command::new(program);
            command.arg("60").stdin(stdin.map_or_else(std::process::Stdio::null, Into::into));
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

    fn pids(found: &[Process]) -> Vec<u32> {
        found.iter().map(|process| process.pid).collect()
    }

    fn open_in(database: &Path) -> Vec<u32> {
        pids(&with_open(&all(), database).by)
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let stat = b"42 (a) R (b) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0";
        assert_eq!(parse_stat(stat), Some(("a) R (b".to_owned(), 7, 123_456)));
        assert_eq!(parse_stat(b"42 (a) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0"), None);
        assert_eq!(parse_stat(b""), None);
        assert_eq!(parse_children_faults(stat), Some(2));
    }

    /// With status and name of its own; not a living one, so that nothing is read of it.
    fn hidden(comm: &str) -> Process {
        Process { comm: comm.to_owned(), ..Process::unseen(u32::MAX) }
    }

    #[test]
    fn a_kernel_thread_is_told_by_its_flags() {
        let kthreadd = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 12 0 0";
        assert!(is_kernel_thread(kthreadd));
        assert!(!is_kernel_thread(b"42 (a) R (b) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0"));
        assert!(!is_kernel_thread(b""));
    }

    #[test]
    fn users_and_capabilities_are_read() {
        let status = "Name:\tx\nUid:\t0\t1\t2\t3\nGid:\t9\t9\t9\t9\nCapInh:\t0\nCapPrm:\t00000000a80425fb\n";
        assert_eq!(parse_status(status), (vec![0, 1, 2, 3], Some(0xa804_25fb)));
        assert_eq!(parse_status(""), (vec![], None));
    }

    #[test]
    fn denied_is_hidden_and_gone_is_not() {
        let of = |code| is_denied(&std::io::Error::from_raw_os_error(code));
        // EPERM, EACCES; ENOENT, ESRCH.
        assert!(of(1) && of(13) && !of(2) && !of(3));
        assert!(!Process::by_pid(std::process::id()).unwrap().hidden);
        assert!(Process::by_pid(u32::MAX).is_none());
    }

    #[test]
    fn a_hidden_process_concerns_us_by_its_name_user_or_rights_and_a_seen_one_never() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("sqlite.db");
        let closed = Reach { owners: BTreeSet::from([0]), anybody: false };
        assert!(hidden("teleport").may_concern("teleport", &closed));
        assert!(hidden("qemu-aarch64").may_concern("teleport", &closed));
        // It has ended.
        assert!(!hidden("dbus-daemon").may_concern("teleport", &closed));
        assert!(hidden("dbus-daemon").may_concern("teleport", &Reach { anybody: true, ..closed.clone() }));
        let own = Process { hidden: true, comm: "other".into(), ..Process::by_pid(std::process::id()).unwrap() };
        let owned = {
            crate::host::durable::write(&database, b"", 0o600).unwrap();
            Reach::of(&database)
        };
        assert!(own.may_concern("teleport", &owned) && !owned.anybody);
        assert!(!Process { hidden: false, ..own }.may_concern("teleport", &owned));
        std::fs::set_permissions(&database, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        assert!(Reach::of(&database).anybody);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a file of the test")]
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
            let found = Process::by_pid(child.0.id()).unwrap();
            let exe = found.exe.clone().unwrap_or_default();
            if exe != emulator && found.exe_id().is_some() && found.exe_id() == FileId::of(&exe) {
                return;
            }
            assert!(std::time::Instant::now() < end, "{found:?}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn our_own_process_is_not_listed_but_can_be_asked_for() {
        let own = Process::by_pid(std::process::id()).unwrap();
        assert!(age(own.pid).unwrap() < std::time::Duration::from_secs(3600));
        assert!(alive(own.pid, own.start_time) && !alive(own.pid, own.start_time + 1));
        assert!(!all().iter().any(|process| process.pid == own.pid));
    }

    #[test]
    fn a_reaped_child_leaves_a_trace_in_its_parent() {
        let before = Reaper::by_pid(std::process::id()).unwrap();
        let child = Child::start(Path::new("/bin/sleep"), None);
        drop(child);
        assert!(before.has_reaped());
        let other = Reaper { id: ProcessId { start_time: 0, ..before.id }, ..before };
        assert!(!other.has_reaped());
    }

    #[test]
    fn an_open_database_is_found_also_after_it_was_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("sqlite.db");
        let wal = dir.path().join("sqlite.db-wal");
        crate::host::durable::write(&wal, b"", 0o600).unwrap();
        crate::host::durable::write(&database, b"", 0o600).unwrap();
        assert!(open_in(&database).is_empty());
        let child = Child::start(Path::new("/bin/sleep"), Some(File::open(&wal).unwrap()));
        assert_eq!(open_in(&database), [child.0.id()]);
        let moved = dir.path().join("moved");
        crate::host::durable::rename(&wal, &dir.path().join("moved-wal")).unwrap();
        crate::host::durable::rename(&database, &moved).unwrap();
        assert_eq!(open_in(&moved), [child.0.id()]);
    }

    #[test]
    fn a_deleted_database_that_is_still_open_is_found_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("sqlite.db");
        crate::host::durable::write(&database, b"", 0o600).unwrap();
        let child = Child::start(Path::new("/bin/sleep"), Some(File::open(&database).unwrap()));
        std::fs::remove_file(&database).unwrap();
        assert_eq!(open_in(&database), [child.0.id()]);
    }

    #[test]
    fn a_program_of_ours_is_found_by_name_after_its_removal_and_by_inode_under_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let binary = dir.path().join("1.2.3/bin/teleport");
        crate::host::durable::create_dir_all(binary.parent().unwrap()).unwrap();
        crate::host::durable::copy_synced(Path::new("/bin/sleep"), &binary, 0o755).unwrap();
        let elsewhere = tempfile::tempdir_in(dir.path().parent().unwrap()).unwrap();
        let plain = elsewhere.path().join("teleport-plain");
        std::fs::hard_link(&binary, &plain).unwrap();

        let by_inode = Child::start(&plain, None);
        assert_eq!(pids(&running_below(&all(), dir.path(), "teleport")), [by_inode.0.id()]);
        assert_eq!(pids(&running_file(&all(), &plain)), [by_inode.0.id()]);
        assert!(running_below(&all(), dir.path(), "tsh").is_empty());
        drop(by_inode);

        let by_name = Child::start(&binary, None);
        std::fs::remove_file(&binary).unwrap();
        let found = running_below(&all(), dir.path(), "teleport");
        assert_eq!(pids(&found), [by_name.0.id()]);
        assert_eq!(found[0].exe.as_deref(), Some(binary.as_path()));
    }
}
