//! A look at `/proc`: who runs what, and who has a file open. Our own process is never listed, nor are zombies.
//!
//! What may not be looked at is listed as [hidden](Process::hidden), never left out: without CAP_SYS_PTRACE the kernel
//! shows neither program nor open files of a process that has another user or a capability that we lack. A look that
//! fails (no descriptor, no memory, an I/O error) is an error: only ENOENT and ESRCH mean that a process is gone.
//!
//! Files are compared by device and inode, which also holds for renamed files and for processes in containers; names
//! only count for processes that see the same file system as we do.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::report::{Code, Error, IoContext, Result};

/// What the kernel appends to the name of a file that was removed or replaced.
const DELETED: &[u8] = b" (deleted)";
/// What SQLite keeps beside a database while it is open.
const DATABASE_SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Bit of a kernel thread in the flags of `/proc/PID/stat`, PF_KTHREAD.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: files of any owner.
const ANY_FILE: u64 = 1 << 1 | 1 << 2;
/// What lets a process write files of any owner, or become who may: CAP_CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER,
/// SETGID, SETUID, SETPCAP, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, MKNOD, SETFCAP (capabilities(7)).
const LEADS_TO_FILES: u64 =
    0b1111 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 16 | 1 << 17 | 1 << 19 | 1 << 21 | 1 << 27 | 1 << 31;
/// The bit of CAP_SYS_PTRACE.
const SYS_PTRACE: u64 = 1 << 19;
/// The first process, which every `/proc` lists unless it hides what is others' (`hidepid=2`).
pub const FIRST: u32 = 1;

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

    /// The same, but what cannot be looked at is an error. Not there is also what has a file where a directory should be.
    pub fn find(path: impl AsRef<Path>) -> Result<Option<Self>> {
        match std::fs::metadata(&path) {
            Ok(found) => Ok(Some(Self { dev: found.dev(), ino: found.ino() })),
            Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::NotADirectory => Ok(None),
            Err(error) => Err(error).at("cannot look at", path),
        }
    }

    /// The file that a link of `/proc/PID` leads to. `None` also for one on a file system that refuses to tell (another
    /// user's FUSE, a server that is gone): a file that we can look at ourselves it is not.
    fn behind(link: &Path) -> Result<Option<Self>> {
        match std::fs::metadata(link) {
            Ok(found) => Ok(Some(Self { dev: found.dev(), ino: found.ino() })),
            Err(error) if is_shortage(&error) => Err(error).at("cannot look at", link),
            Err(_) => Ok(None),
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
    /// The living process with this number; `None` if there is none.
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
        let Some((comm, ppid, start_time)) = parse_stat(&stat) else { return Ok(None) };
        let file = PathBuf::from(format!("/proc/{pid}/exe"));
        let link = std::fs::read_link(&file).map(without_deleted);
        let hidden = link.as_ref().is_err_and(is_denied) && !is_kernel_thread(&stat);
        if hidden {
            // One that has just ended is denied as well.
            match if_there(std::fs::read(&place), &place)?.as_deref().and_then(parse_stat) {
                Some(_) => {}
                None => return Ok(None),
            }
        }
        let exe = match link {
            Err(error) if is_denied(&error) || is_too_long(&error) => None,
            link => if_there(link, &file)?,
        };
        let guest = match exe.as_deref().filter(|exe| is_emulator(exe)) {
            Some(emulator) => emulated(pid, emulator)?,
            None => None,
        };
        let (exe, file) = match guest {
            Some((program, file)) => (Some(program), file),
            None => (exe, file),
        };
        Ok(Some(Self { pid, start_time, exe, hidden, comm, ppid, file }))
    }

    /// The process with this number, of which nothing else can be known.
    fn unseen(pid: u32) -> Self {
        let file = PathBuf::from(format!("/proc/{pid}/exe"));
        Self { pid, start_time: 0, exe: None, hidden: true, comm: String::new(), ppid: 0, file }
    }

    /// Whether it could open what `reach` tells for writing: as root, its owner or a member of its group, or by a
    /// capability. A capability counts where our users are known: in a user name space of an ordinary user he has them
    /// all, and none over files of others. What cannot be read counts.
    ///
    /// Errors: `io`.
    pub fn can_open(&self, reach: &Reach) -> Result<bool> {
        if reach.anybody {
            return Ok(true);
        }
        let place = format!("/proc/{}/status", self.pid);
        let status = match std::fs::read_to_string(&place) {
            Err(error) if is_denied(&error) => return Ok(true),
            status => match if_there(status, &place)? {
                Some(status) => parse_status(&status),
                // It has ended since; the first one never does.
                None => return Ok(self.pid == FIRST),
            },
        };
        let named = status.users.iter().any(|user| *user == 0 || reach.owners.contains(user))
            || status.groups.iter().any(|group| reach.groups.contains(group));
        let capable = status.capabilities.is_none_or(|capabilities| capabilities & LEADS_TO_FILES != 0);
        Ok(status.users.is_empty() || named || (capable && self.knows_users_of(reach)?))
    }

    /// Whether a capability of its own is one over files of `reach`: their owners are users in its name space, too.
    fn knows_users_of(&self, reach: &Reach) -> Result<bool> {
        let map = |pid: &str| {
            let place = format!("/proc/{pid}/uid_map");
            if_there(std::fs::read_to_string(&place), &place)
        };
        let Some(theirs) = map(&self.pid.to_string())? else { return Ok(false) };
        // Kernels without user name spaces have no such file.
        let Some(ours) = map("self")? else { return Ok(true) };
        Ok(theirs == ours || [0].iter().chain(&reach.owners).any(|user| maps_user(&theirs, *user)))
    }

    /// Number and start time.
    pub fn id(&self) -> ProcessId {
        ProcessId { pid: self.pid, start_time: self.start_time }
    }

    /// Device and inode of its program, also if that was removed or is in another mount namespace.
    pub fn exe_id(&self) -> Result<Option<FileId>> {
        FileId::behind(&self.file)
    }

    /// Its arguments after the program's name; none if it is gone.
    pub fn args(&self) -> Result<Vec<Vec<u8>>> {
        let place = format!("/proc/{}/cmdline", self.pid);
        let line = if_there(std::fs::read(&place), &place)?.unwrap_or_default();
        // An emulator is given the program's name before its arguments.
        let names = if self.file.ends_with("exe") { 1 } else { 2 };
        Ok(line.split(|byte| *byte == 0).skip(names).map(<[u8]>::to_vec).collect())
    }

    /// True when file names mean the same to it as to us.
    fn shares_our_files(&self) -> Result<bool> {
        let namespace = |pid: &str| {
            let place = format!("/proc/{pid}/ns/mnt");
            match std::fs::read_link(&place) {
                Err(error) if is_denied(&error) => Ok(None),
                link => if_there(link, &place),
            }
        };
        let ours = namespace("self")?;
        let root = |pid: &str| FileId::behind(Path::new(&format!("/proc/{pid}/root")));
        let pid = self.pid.to_string();
        Ok(ours.is_some() && ours == namespace(&pid)? && root(&pid)? == root("self")?)
    }
}

/// Who can open a database for writing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// Users that own it, its logs or a directory that it is in, up to the agent's own.
    pub owners: BTreeSet<u32>,
    /// Groups that may write one of these.
    pub groups: BTreeSet<u32>,
    /// Others may write one of these.
    pub anybody: bool,
}

impl Reach {
    /// For the file `database` and what belongs to it, none of which need be there.
    ///
    /// Errors: `io`.
    pub fn of(database: &Path) -> Result<Self> {
        let files = DATABASE_SUFFIXES.iter().map(|suffix| with_suffix(database, suffix));
        let dirs = database.ancestors().skip(1).take(2).map(Path::to_owned);
        let mut reach = Self::default();
        for place in files.chain(dirs) {
            let found = match std::fs::metadata(&place) {
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
                // Of what may not be looked at nobody can be said to be kept from it.
                Err(error) if is_denied(&error) => return Ok(Self { anybody: true, ..reach }),
                found => match if_there(found, &place)? {
                    Some(found) => found,
                    None => continue,
                },
            };
            reach.owners.insert(found.uid());
            if found.mode() & 0o020 != 0 {
                reach.groups.insert(found.gid());
                // With an access list these bits are its mask, and whom it names is not told here (acl(5)).
                reach.anybody |= has_acl(&place);
            }
            // Where each can only remove what is his own, others' files are safe.
            let is_sticky_dir = found.is_dir() && found.mode() & 0o1000 != 0;
            reach.anybody |= found.mode() & 0o002 != 0 && !is_sticky_dir;
        }
        Ok(reach)
    }
}

fn has_acl(path: &Path) -> bool {
    let mut none = [0_u8; 0];
    match rustix::fs::getxattr(path, "system.posix_acl_access", &mut none[..]) {
        Ok(size) => size > 0,
        // What cannot be looked at may have one.
        Err(error) => !matches!(error, Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT),
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
        let read = || Some((parse_stat(&stat)?.2, parse_children_faults(&stat)?));
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
pub fn all() -> Result<Vec<Process>> {
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

/// True when we have the capabilities to see what every process runs and has open. What is hidden nevertheless is so by
/// a guard (a security module, an endpoint protection that shields itself), or is outside of our user name space.
pub fn may_see_all() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|set| set & SYS_PTRACE != 0 && set & ANY_FILE != 0)
}

/// The processes that have a database open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Open {
    /// These have it.
    pub by: Vec<Process>,
    /// Of these it cannot be seen, though their programs can.
    pub unknown: Vec<Process>,
}

/// Those of `all` that have `database`, or what belongs to it, open or mapped (SPEC §6, stopped).
///
/// Errors: `io`, `permission`.
pub fn with_open(all: &[Process], database: &Path) -> Result<Open> {
    let database = std::path::absolute(database).at("cannot look at", database)?;
    let names = DATABASE_SUFFIXES.map(|suffix| with_suffix(&database, suffix));
    let mut files = BTreeSet::new();
    for name in &names {
        files.extend(FileId::find(name)?);
    }
    let mut open = Open::default();
    for process in all {
        match has_open(process, &names, &files)? {
            Some(true) => open.by.push(process.clone()),
            None if !process.hidden => open.unknown.push(process.clone()),
            _ => {}
        }
    }
    Ok(open)
}

/// The files of the name `end` (with directories of its own) that `process` has open, as it calls them; none if it is
/// gone, or where that may not be seen.
///
/// Errors: `io`.
pub fn open_files(process: &Process, end: &Path) -> Result<Vec<(PathBuf, Option<FileId>)>> {
    let mut found = Vec::new();
    for link in descriptors(process.pid)?.unwrap_or_default() {
        if let Some(target) = target_of(&link)?.filter(|target| target.ends_with(end)) {
            let file = FileId::behind(&link)?;
            found.push((target, file));
        }
    }
    Ok(found)
}

/// The environment that `process` was started with, as `NAME=VALUE`; none if it is gone or may not be looked at.
///
/// Errors: `io`.
pub fn environment(process: &Process) -> Result<Vec<Vec<u8>>> {
    let place = format!("/proc/{}/environ", process.pid);
    let text = match std::fs::read(&place) {
        Err(error) if is_denied(&error) => None,
        text => if_there(text, &place)?,
    };
    Ok(text.unwrap_or_default().split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
}

/// Those of `all` that run a file called `file_name` somewhere below `dir`, or that run one of the files
/// `<dir>/*/bin/<file_name>` under another name.
///
/// Errors: `io`, `permission`.
pub fn running_below(all: &[Process], dir: &Path, file_name: &str) -> Result<Vec<Process>> {
    let mut files = BTreeSet::new();
    for entry in if_there(std::fs::read_dir(dir), dir)?.into_iter().flatten() {
        let entry = entry.at("cannot read", dir)?;
        match FileId::find(entry.path().join("bin").join(file_name)) {
            // What is root's alone tells others nothing.
            Err(error) if error.code == Code::Permission && !super::machine::is_root() => {}
            found => files.extend(found?),
        }
    }
    let dir = if_there(dir.canonicalize(), dir)?.unwrap_or_else(|| dir.to_owned());
    let mut found = Vec::new();
    for process in all {
        let is_named = |exe: &PathBuf| exe.file_name() == Some(OsStr::new(file_name)) && exe.starts_with(&dir);
        let runs = process.exe_id()?.is_some_and(|id| files.contains(&id))
            || (process.exe.as_ref().is_some_and(is_named) && process.shares_our_files()?);
        if runs {
            found.push(process.clone());
        }
    }
    Ok(found)
}

/// Those of `all` that run the file at `path`, or ran it before it was replaced there.
///
/// Errors: `io`, `permission`.
pub fn running_file(all: &[Process], path: &Path) -> Result<Vec<Process>> {
    let file = FileId::find(path)?;
    let mut found = Vec::new();
    for process in all {
        let same = file.is_some() && process.exe_id()? == file;
        if same || (process.exe.as_deref() == Some(path) && process.shares_our_files()?) {
            found.push(process.clone());
        }
    }
    Ok(found)
}

/// Our parent, and the first process of our session; 0 for one outside of our name space. Errors: `io`.
pub fn parent_and_session() -> Result<[u32; 2]> {
    let stat = std::fs::read("/proc/self/stat").at("cannot read", "/proc/self/stat")?;
    Ok(parse_parent_and_session(&stat))
}

/// How long the process has been running; `None` if it is gone. Errors: `io`.
pub fn age(pid: u32) -> Result<Option<std::time::Duration>> {
    let text = std::fs::read_to_string("/proc/uptime").at("cannot read", "/proc/uptime")?;
    let uptime = text.split_ascii_whitespace().next().and_then(|seconds| seconds.parse::<f64>().ok());
    let started = Process::by_pid(pid)?.map(|process| process.start_time as f64 / TICKS_PER_SECOND);
    let age = |(uptime, started): (f64, f64)| std::time::Duration::from_secs_f64((uptime - started).max(0.0));
    Ok(uptime.zip(started).map(age))
}

/// The text of `/proc/<pid>/cgroup`; `None` if the process is gone, or may not be looked at. Errors: `io`.
pub fn cgroup(pid: u32) -> Result<Option<String>> {
    let place = format!("/proc/{pid}/cgroup");
    match std::fs::read_to_string(&place) {
        Err(error) if is_denied(&error) => Ok(None),
        text => if_there(text, &place),
    }
}

/// The process number in a pid file; `None` if there is no such file, or no number in it. Errors: `permission`, `io`.
pub fn pid_in_file(path: &Path) -> Result<Option<u32>> {
    let bytes = super::durable::read_limited(path, 64)?;
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(text.and_then(|text| text.trim().parse().ok()).filter(|pid| *pid > 0))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
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

/// Who a process is, by `/proc/PID/status`.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    /// Real, effective, saved, of the file system.
    users: Vec<u32>,
    /// The same four, and the supplementary ones.
    groups: Vec<u32>,
    /// Permitted.
    capabilities: Option<u64>,
}

fn parse_status(status: &str) -> Standing {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let numbers = |name: &str| {
        let words = field(name).unwrap_or_default().split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
    };
    let capabilities = field("CapPrm:").and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    Standing { users: numbers("Uid:"), groups: [numbers("Gid:"), numbers("Groups:")].concat(), capabilities }
}

/// Whether the user `user` of our name space is one in the name space with this map (user_namespaces(7)).
fn maps_user(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(count))) = (numbers.next(), numbers.next()) else { return false };
        (first..first.saturating_add(count)).contains(&u64::from(user))
    })
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

/// The names below `/proc` of a process's open files; `None` where they may not be seen.
fn descriptors(pid: u32) -> Result<Option<Vec<PathBuf>>> {
    let place = PathBuf::from(format!("/proc/{pid}/fd"));
    let entries = match std::fs::read_dir(&place) {
        Err(error) if is_denied(&error) => return Ok(None),
        entries => if_there(entries, &place)?,
    };
    let mut found = Vec::new();
    for entry in entries.into_iter().flatten() {
        found.extend(if_there(entry, &place)?.map(|entry| entry.path()));
    }
    Ok(Some(found))
}

/// What a link of `/proc/PID` is called, without the kernel's "(deleted)"; `None` for one that is gone or too long.
fn target_of(link: &Path) -> Result<Option<PathBuf>> {
    match std::fs::read_link(link) {
        Err(error) if is_too_long(&error) || is_denied(&error) => Ok(None),
        target => Ok(if_there(target, link)?.map(without_deleted)),
    }
}

fn without_deleted(exe: PathBuf) -> PathBuf {
    let mut bytes = exe.into_os_string().into_vec();
    if bytes.ends_with(DELETED) {
        bytes.truncate(bytes.len() - DELETED.len());
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// `None` where that may not be seen.
fn has_open(process: &Process, names: &[PathBuf], files: &BTreeSet<FileId>) -> Result<Option<bool>> {
    if process.hidden {
        return Ok(None);
    }
    let here = process.shares_our_files()?;
    let links = descriptors(process.pid)?;
    for link in links.iter().flatten() {
        let is_ours = FileId::behind(link)?.is_some_and(|id| files.contains(&id))
            || (here && target_of(link)?.is_some_and(|target| names.contains(&target)));
        if is_ours {
            return Ok(Some(true));
        }
    }
    let is_mapped = maps(process.pid, if here { names } else { &[] }, files)?;
    Ok((is_mapped || links.is_some()).then_some(is_mapped))
}

/// Whether one of `files`, or a file that was called as one of `names`, is mapped: also one that is no longer open.
fn maps(pid: u32, names: &[PathBuf], files: &BTreeSet<FileId>) -> Result<bool> {
    for line in memory_of(pid)?.split(|byte| *byte == b'\n') {
        let unlinked = line.strip_suffix(DELETED).unwrap_or(line);
        let is_name = |name: &PathBuf| {
            unlinked.strip_suffix(name.as_os_str().as_bytes()).is_some_and(|before| before.ends_with(b" "))
        };
        if names.iter().any(is_name) || maps_one_of(pid, line, files)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a line of `/proc/PID/maps` is of one of `files`. Its inode tells which lines to ask about: there are hundreds a
/// process, and asking takes root. Its device is not `stat`'s on every file system.
fn maps_one_of(pid: u32, line: &[u8], files: &BTreeSet<FileId>) -> Result<bool> {
    let text = String::from_utf8_lossy(line);
    let mut fields = text.split_ascii_whitespace();
    let (Some(range), Some(inode)) = (fields.next(), fields.nth(3)) else { return Ok(false) };
    if !files.iter().any(|file| inode.parse() == Ok(file.ino)) {
        return Ok(false);
    }
    let Some((start, end)) = range.split_once('-') else { return Ok(false) };
    // Not padded there.
    let range = format!("{}-{}", start.trim_start_matches('0'), end.trim_start_matches('0'));
    let file = FileId::behind(Path::new(&format!("/proc/{pid}/map_files/{range}")))?;
    Ok(file.is_some_and(|id| files.contains(&id)))
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
        pids(&with_open(&all().unwrap(), database).unwrap().by)
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let stat = b"42 (a) R (b) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0";
        assert_eq!(parse_stat(stat), Some(("a) R (b".to_owned(), 7, 123_456)));
        assert_eq!(parse_stat(b"42 (a) Z 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0"), None);
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
    fn users_groups_and_capabilities_are_read() {
        let status = "Name:\tx\nUid:\t0\t1\t2\t3\nGid:\t9\t9\t9\t9\nGroups:\t4 27 \nCapPrm:\t00000000a80425fb\n";
        let standing = parse_status(status);
        assert_eq!((standing.users, standing.groups), (vec![0, 1, 2, 3], vec![9, 9, 9, 9, 4, 27]));
        assert_eq!(standing.capabilities, Some(0xa804_25fb));
        assert_eq!(parse_status("").capabilities, None);
    }

    #[test]
    fn a_user_of_ours_is_one_in_a_name_space_that_maps_him() {
        assert!(maps_user("         0          0 4294967295\n", 1000));
        assert!(maps_user("0 100000 65536\n65536 5 1\n", 5));
        for (map, user) in [("0 1000 1\n", 0), ("", 0), ("0 100000 65536\n", 165_536), ("x", 0)] {
            assert!(!maps_user(map, user), "{map}");
        }
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
    fn a_process_can_open_what_is_its_users_or_everybodys_and_one_that_has_ended_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("data/proc/sqlite.db");
        crate::host::durable::create_dir_all(database.parent().unwrap()).unwrap();
        crate::host::durable::write(&database, b"", 0o600).unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            Reach::of(&database).unwrap()
        };
        let closed = mode(&database, 0o644);
        assert!(!closed.anybody && closed.groups.is_empty());
        let own = Process::by_pid(std::process::id()).unwrap().unwrap();
        assert!(own.can_open(&closed).unwrap());
        assert!(!Process::unseen(u32::MAX).can_open(&closed).unwrap(), "it has ended");
        let of_group = mode(&database, 0o660);
        assert_eq!(of_group.groups, BTreeSet::from([std::fs::metadata(&database).unwrap().gid()]));
        assert!(mode(&database, 0o606).anybody);
        assert!(!mode(&database, 0o600).anybody);
        // Who may make its log, or put another file in its place, can do as much; not where each has only his own.
        let [proc, data] = [1, 2].map(|up| database.ancestors().nth(up).unwrap());
        assert!(mode(proc, 0o757).anybody && !mode(proc, 0o1757).anybody && !mode(proc, 0o755).anybody);
        assert!(mode(data, 0o757).anybody && !mode(data, 0o755).anybody);
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
            let found = Process::by_pid(child.0.id()).unwrap().unwrap();
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
        assert_eq!(pids(&running_below(&all().unwrap(), dir.path(), "teleport").unwrap()), [by_inode.0.id()]);
        assert_eq!(pids(&running_file(&all().unwrap(), &plain).unwrap()), [by_inode.0.id()]);
        assert!(running_below(&all().unwrap(), dir.path(), "tsh").unwrap().is_empty());
        drop(by_inode);

        let by_name = Child::start(&binary, None);
        std::fs::remove_file(&binary).unwrap();
        let found = running_below(&all().unwrap(), dir.path(), "teleport").unwrap();
        assert_eq!(pids(&found), [by_name.0.id()]);
        assert_eq!(found[0].exe.as_deref(), Some(binary.as_path()));
    }
}
