//! One writing run at a time (SPEC §7): exclusive flocks on a directory that only its owner can enter and on a file in it.
//!
//! `flock(2)` needs no more than an open descriptor, so what others can open they can lock; and a process tells little of
//! who locked: a set-uid program that a user starts is root's, with what he has locked. So a lock counts by the file it is
//! on, never by the process that has it, and nothing is locked that others can open. Whoever removes the lock of a run
//! that goes on has not ended that run: whoever makes it anew looks for one that has a removed lock open.

#![expect(clippy::disallowed_methods, reason = "what it makes means nothing after a power cut")]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::device::Device;
use super::durable;
use super::process::{FileId, Known};
use super::signal::Cancelled;
use crate::report::{Code, Error, IfPresent, IoContext, Result};

/// The file in the lock's directory.
const FILE: &str = "lock";
/// In the lock's directory: locks of downloads, by the version's directory.
const DOWNLOAD_PREFIX: &str = "download-";
/// Nobody but the owner enters the directory, opens the file.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What others than the owner may do.
const OTHERS: u32 = 0o077;
/// How long a command waits for another run, seconds: an operator's patience.
const WAIT: Duration = Duration::from_secs(60);
/// How long `update` waits, seconds: the timer runs it, and the next run comes in ten minutes.
const UPDATE_WAIT: Duration = Duration::from_secs(5);
/// Between two tries: a person does not notice it, a holder is not disturbed.
const SLICE: Duration = Duration::from_millis(50);
/// Room for the kernel's list, bytes: some hundred locks.
const LIST: usize = 16 * 1024;
/// A list longer than a page takes several reads, and what comes and goes meanwhile shifts a line past us: one look may miss it.
const LOOKS: u32 = 5;
/// Of one process: a run of ours has some dozen open, and its lock among the first.
const DESCRIPTORS: usize = 1024;
/// Longest text in the lock file, bytes: a pid and a command.
const HOLDER_LIMIT: u64 = 200;

/// How long `command` waits for another run.
pub(crate) fn wait_of(command: &str) -> Duration {
    if command == "update" { UPDATE_WAIT } else { WAIT }
}

/// The lock, held until it is dropped or the process ends. Programs we start do not inherit it.
#[derive(Debug)]
pub struct Lock {
    // Closing the files releases the locks.
    _held: (Option<File>, File),
}

impl Lock {
    /// Takes the lock at `path`, making the directory if need be, and writes who holds it: our pid and `command`.
    ///
    /// Errors: [`Code::LockHeld`] naming the holder after `wait`; [`Code::Interrupted`] as soon as `cancelled` says so.
    pub fn acquire(path: &Path, wait: Duration, command: &str, cancelled: Cancelled<'_>) -> Result<Self> {
        wait_for(wait, cancelled, || try_take(path, command), || held(path)).map(|held| Self { _held: held })
    }
}

/// A download at work: without the lock, and alone for its version. What it stages is not swept.
#[derive(Debug)]
pub(crate) struct Download {
    _file: File,
    path: PathBuf,
}

impl Download {
    /// Begins one for the version in `dir`, under the lock at `lock`. `None`: another run downloaded it, which was waited for.
    ///
    /// Errors: [`Code::LockHeld`] if that takes longer than `wait`; [`Code::Interrupted`] as soon as `cancelled` says so.
    pub(crate) fn begin(lock: &Path, dir: &str, wait: Duration, cancelled: Cancelled<'_>) -> Result<Option<Self>> {
        let path = lock.join(format!("{DOWNLOAD_PREFIX}{dir}"));
        let mut waited = false;
        let take = || {
            let file = open(&path).at("cannot open the lock", &path)?;
            match file.try_lock() {
                Ok(()) => return Ok(Some(file).filter(|file| is_still_at(file, &path))),
                Err(TryLockError::WouldBlock) => waited = true,
                Err(TryLockError::Error(error)) => return Err(unlockable(error, &path)),
            }
            Ok(None)
        };
        let file = wait_for(wait, cancelled, take, || {
            let who = holder(&path).unwrap_or_default().map_or_else(String::new, |pid| format!(" (pid {pid})"));
            Error::new(Code::LockHeld, format!("another run{who} is downloading {dir}, try again later"))
        })?;
        let begun = Self { _file: file, path };
        Ok((!waited).then_some(begun))
    }
}

/// Waits until `take` has something, at most `wait`; then for what `held` says.
fn wait_for<T>(
    wait: Duration,
    cancelled: Cancelled<'_>,
    mut take: impl FnMut() -> Result<Option<T>>,
    held: impl Fn() -> Error,
) -> Result<T> {
    let deadline = Instant::now() + wait;
    loop {
        if let Some(taken) = take()? {
            return Ok(taken);
        }
        if cancelled() {
            return Err(Error::new(Code::Interrupted, "interrupted while waiting for another run"));
        }
        if Instant::now() >= deadline {
            return Err(held());
        }
        std::thread::sleep(SLICE);
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // Before it is unlocked: whoever opened it meanwhile finds that it is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The directories of versions that are being downloaded. What a download that died has left in the lock goes.
///
/// Errors: `permission`, `io`: what is being downloaded could be taken for left over.
pub(crate) fn downloads(lock: &Path) -> Result<Vec<String>> {
    let is_live = |path: &Path| match File::open(path).map(|file| (file.try_lock(), file)) {
        Ok((Ok(()), _file)) => {
            let _ = std::fs::remove_file(path);
            Ok(false)
        }
        Ok((Err(_), _)) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).at("cannot open", path),
    };
    let mut live = Vec::new();
    for entry in durable::entries(lock)? {
        if let Some(dir) = entry.file_name().to_string_lossy().strip_prefix(DOWNLOAD_PREFIX)
            && is_live(&entry.path())?
        {
            live.push(dir.to_owned());
        }
    }
    Ok(live)
}

/// The process that holds a lock on the file or directory at `path`, as the kernel lists it: seen without a right to open
/// it. Of what others than the owner can open nobody counts as its holder.
///
/// Errors: the kernel's lists cannot be read.
pub(crate) fn holder(path: &Path) -> io::Result<Option<u32>> {
    let Some(file) = std::fs::symlink_metadata(path).if_present()? else { return Ok(None) };
    if file.mode() & OTHERS != 0 {
        return Ok(None);
    }
    let Some(device) = Device::of(path)? else { return Ok(None) };
    for _ in 0..LOOKS {
        if let Some(lock) = flocks()?.into_iter().find(|lock| (lock.device, lock.ino) == (device, file.ino())) {
            return Ok(Some(lock.pid));
        }
    }
    Ok(None)
}

/// The process of the run that holds the lock at `path`, or that began before the lock was removed.
pub(crate) fn run_of(path: &Path) -> io::Result<Option<u32>> {
    match holder(path)? {
        None if is_made_anew(path)? => run_without(path),
        holder => Ok(holder),
    }
}

/// Whether the file in the lock at `path` is missing: whoever takes the lock makes it once no other run goes on.
fn is_made_anew(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path.join(FILE)) {
        // Who may not look into the lock sees that it is there.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        found => found.if_present().map(|found| found.is_none()),
    }
}

/// The process of a run whose lock was at `path` and was removed or moved: it has locked what it has open by such a name, and
/// what nobody else can have opened.
///
/// Errors: as of [`holder`].
fn run_without(path: &Path) -> io::Result<Option<u32>> {
    let Some(device) = Device::of(durable::parent(path))? else { return Ok(None) };
    let place = std::fs::canonicalize(durable::parent(path))?.join(path.file_name().unwrap_or_default());
    let now = std::fs::symlink_metadata(path).map(|found| found.ino()).ok();
    let is_so = |lock: &Flock, link: &Path| {
        // A download holds no lock of a run.
        let is_named = |name: PathBuf| {
            let file = name.file_name().unwrap_or_default().as_bytes();
            name.as_os_str().as_bytes().starts_with(place.as_os_str().as_bytes())
                && !file.starts_with(DOWNLOAD_PREFIX.as_bytes())
        };
        std::fs::read_link(link).is_ok_and(is_named)
            && Known::of(link)
                .is_ok_and(|file| file.id.ino == lock.ino && Some(lock.ino) != now && file.mode & OTHERS == 0)
    };
    for _ in 0..LOOKS {
        for lock in flocks()?.iter().filter(|lock| lock.device == device) {
            // Ended since, or shielded: a run of ours can be looked at by the next.
            let fds = std::fs::read_dir(format!("/proc/{}/fd", lock.pid)).into_iter().flatten().flatten();
            if fds.take(DESCRIPTORS).any(|fd| is_so(lock, &fd.path())) {
                return Ok(Some(lock.pid));
            }
        }
    }
    Ok(None)
}

/// True when our parent process holds the lock at `path`; `claimed` is the pid that it says it has.
pub(crate) fn is_held_by_parent(path: &Path, claimed: &str) -> bool {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    parent.is_some_and(|pid| pid.to_string() == claimed && run_of(path).is_ok_and(|holder| holder == Some(pid)))
}

/// Both locks, or none of them if another run has one.
fn try_take(path: &Path, command: &str) -> Result<Option<(Option<File>, File)>> {
    if !make(path)? {
        return Ok(None);
    }
    let dir = File::open(path).at("cannot open", path)?;
    let dir = match dir.try_lock() {
        Ok(()) => Some(dir),
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Where directories cannot be locked the file alone is.
        Err(TryLockError::Error(_)) => None,
    };
    let another = || if is_made_anew(path)? { run_without(path) } else { Ok(None) };
    if another().at("cannot see who holds", path)?.is_some() {
        return Ok(None);
    }
    let name = path.join(FILE);
    let mut file = match open(&name) {
        // The directory was replaced under us.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.at("cannot open the lock", &name)?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(unlockable(error, &name)),
    }
    // Somebody replaced it between opening and locking: that lock is worth nothing.
    if !is_still_at(&file, &name) || dir.as_ref().is_some_and(|dir| !is_still_at(dir, path)) {
        return Ok(None);
    }
    file.set_len(0).and_then(|()| writeln!(file, "{} {command}", std::process::id())).at("cannot write", &name)?;
    Ok(Some((dir, file)))
}

fn open(path: &Path) -> io::Result<File> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(nofollow).open(path)
}

/// Makes the lock's directory. What is there and could have been opened by others (the file of an earlier updater, a mode
/// or an owner that came with a copy of the tree) goes: they may still have it open. False if a run holds the file in it.
fn make(path: &Path) -> Result<bool> {
    let us = rustix::process::geteuid().as_raw();
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() && found.uid() == us && found.mode() & 0o7077 == 0 => return Ok(true),
        Ok(_) if holder(&path.join(FILE)).at("cannot see who holds", path)?.is_some() => return Ok(false),
        Ok(_) => durable::remove_tree(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).at("cannot look at", path),
    }
    match std::fs::create_dir(path) {
        // Another run was quicker.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(DIR_MODE))),
    }
    .at("cannot make the lock", path)?;
    Ok(true)
}

/// A lock that the kernel lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flock {
    pid: u32,
    device: Device,
    ino: u64,
}

/// Every flock that is held (proc_locks(5)).
fn flocks() -> io::Result<Vec<Flock>> {
    // Its size is not told beforehand: with room, it is one read for most hosts.
    let mut locks = String::with_capacity(LIST);
    match File::open("/proc/locks") {
        // A kernel without the list.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        list => drop(list?.read_to_string(&mut locks)?),
    }
    Ok(locks.lines().filter_map(flock_of).collect())
}

fn flock_of(line: &str) -> Option<Flock> {
    // "1: FLOCK  ADVISORY  WRITE 708 08:01:13548 0 EOF"; who waits for it has an arrow before the kind.
    let mut fields = line.split_whitespace().skip(1);
    if fields.next()? != "FLOCK" {
        return None;
    }
    let (pid, file) = (fields.nth(2)?.parse().ok()?, fields.next()?);
    let (device, ino) = file.rsplit_once(':')?;
    Some(Flock { pid, device: Device::parse(device, 16)?, ino: ino.parse().ok()? })
}

fn is_still_at(file: &File, path: &Path) -> bool {
    let ours = file.metadata().ok().map(|found| FileId { dev: found.dev(), ino: found.ino() });
    ours.is_some() && ours == FileId::of(path)
}

fn unlockable(error: io::Error, path: &Path) -> Error {
    let is_unsupported =
        matches!(error.raw_os_error(), Some(libc::ENOLCK | libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL));
    let told = Error::new(Code::Io, format!("cannot lock {}: {error}", path.display()));
    let how =
        "this file system does not support flock(2): put the directory on a local file system, or mount it with locks";
    if is_unsupported { told.advise(how) } else { told }
}

fn held(path: &Path) -> Error {
    let pid = run_of(path).unwrap_or_default();
    let noted = durable::read_limited(&path.join(FILE), HOLDER_LIMIT).ok().flatten().unwrap_or_default();
    let noted = String::from_utf8_lossy(&noted).into_owned();
    // What the file says counts if it is of that process, and not of one before it.
    let command =
        noted.trim_end().split_once(' ').filter(|(noted, _)| pid.is_some_and(|pid| *noted == pid.to_string()));
    let who = match (pid, command) {
        (Some(pid), Some((_, command))) => format!(" (pid {pid}, {command:?})"),
        (Some(pid), None) => format!(" (pid {pid})"),
        (None, _) => String::new(),
    };
    Error::new(Code::LockHeld, format!("another run holds the lock{who}, try again later"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        (dir, path)
    }

    #[test]
    fn a_second_run_is_told_who_holds_the_lock() {
        let (_dir, path) = place();
        let pid = std::process::id();
        let first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        assert_eq!(holder(&path).unwrap(), Some(pid));
        let error = Lock::acquire(&path, NO_WAIT, "enable", &|| false).unwrap_err();
        assert_eq!(error.code, Code::LockHeld);
        assert_eq!(error.to_string(), format!("another run holds the lock (pid {pid}, \"update\"), try again later"));
        drop(first);
        assert_eq!(holder(&path).unwrap(), None);
        Lock::acquire(&path, NO_WAIT, "a longer one", &|| false).unwrap();
        Lock::acquire(&path, NO_WAIT, "pin", &|| false).unwrap();
        assert_eq!(std::fs::read_to_string(path.join(FILE)).unwrap(), format!("{pid} pin\n"));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&path), mode(&path.join(FILE))), (0o700, 0o600));
    }

    #[test]
    fn what_the_file_says_of_an_earlier_holder_does_not_count() {
        let (_dir, path) = place();
        let _first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        durable::write(&path.join(FILE), b"1 enable\n", FILE_MODE).unwrap();
        let error = Lock::acquire(&path, NO_WAIT, "pin", &|| false).unwrap_err();
        assert!(error.to_string().contains(&format!("(pid {}),", std::process::id())), "{error}");
    }

    /// That of which all is removed, or moved, is `tests/suite/command/lock.rs`.
    #[test]
    fn a_run_whose_lock_was_removed_in_part_still_holds_it() {
        let (_dir, path) = place();
        let first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        durable::remove_file(&path.join(FILE)).unwrap();
        assert_eq!(run_of(&path).unwrap(), Some(std::process::id()));
        assert_eq!(Lock::acquire(&path, NO_WAIT, "recover", &|| false).unwrap_err().code, Code::LockHeld);
        drop(first);
        Lock::acquire(&path, NO_WAIT, "recover", &|| false).unwrap();
    }

    #[test]
    fn a_link_or_a_pipe_in_the_locks_place_is_replaced_and_not_followed() {
        let (dir, path) = place();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        drop(Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap());
        assert!(!dir.path().join("elsewhere").exists() && path.is_dir());
        durable::remove_tree(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
        drop(Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap());
        assert!(path.is_dir());
    }

    #[test]
    fn a_lock_counts_only_on_what_nobody_else_can_open() {
        let dir = tempfile::tempdir().unwrap();
        let file = durable::create_new(&dir.path().join("file"), 0o600).unwrap();
        file.lock().unwrap();
        let mode = |mode| file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
        let holder = || holder(&dir.path().join("file")).unwrap();
        assert_eq!(holder(), Some(std::process::id()));
        for others in [0o604, 0o640, 0o610, 0o602] {
            mode(others);
            assert_eq!(holder(), None, "{others:o}");
        }
    }

    #[test]
    fn a_lock_whose_mode_was_opened_is_not_taken_from_a_run() {
        let (_dir, path) = place();
        let first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Lock::acquire(&path, NO_WAIT, "pin", &|| false).unwrap_err().code, Code::LockHeld);
        drop(first);
        Lock::acquire(&path, NO_WAIT, "pin", &|| false).unwrap();
    }

    #[test]
    fn the_kernels_list_is_read_by_device_and_inode() {
        let device = Device::parse("8:31", 10).unwrap();
        let line = "11: FLOCK  ADVISORY  WRITE 708 08:1f:13548 0 EOF";
        assert_eq!(flock_of(line), Some(Flock { pid: 708, device, ino: 13548 }));
        for other in [
            "11: -> FLOCK  ADVISORY  WRITE 709 08:1f:13548 0 EOF",
            "11: POSIX  ADVISORY  WRITE 708 08:1f:13548 0 EOF",
            "11: FLOCK  ADVISORY  WRITE 708 <none>:0 0 EOF",
            "",
        ] {
            assert_eq!(flock_of(other), None, "{other}");
        }
    }
}
