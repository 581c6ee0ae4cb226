//! One writing run at a time (SPEC §7): exclusive flocks on a directory that only its owner can enter and on a file in it.
//!
//! `flock(2)` needs no more than an open descriptor, so what others can open they can lock. The versions directory, which
//! they can, is locked for one reason: whoever removes the lock of a run that goes on has not ended that run. There a lock
//! counts only if a process of its owner's has it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::durable;
use super::process::FileId;
use crate::report::{Code, Error, IoContext, Result};

/// The file in the lock's directory.
const FILE: &str = "lock";
/// In the lock's directory: locks of downloads, by the version's directory.
const DOWNLOAD_PREFIX: &str = "download-";
/// Nobody but the owner enters the directory, opens the file.
const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Between two tries: a person does not notice it, a holder is not disturbed.
const SLICE: Duration = Duration::from_millis(50);
/// Room for the kernel's list, bytes: some hundred locks.
const LIST: usize = 16 * 1024;
/// A list longer than a page takes several reads, and what comes and goes meanwhile shifts a line past us: one look may miss it.
const LOOKS: u32 = 5;
/// Longest text in the lock file, bytes: a pid and a command.
const HOLDER_LIMIT: u64 = 200;

/// The lock, held until it is dropped or the process ends. Programs we start do not inherit it.
#[derive(Debug)]
pub struct Lock {
    // Closing the files releases the locks.
    _held: [Option<File>; 3],
}

impl Lock {
    /// Takes the lock at `path`, making the directory if need be, and writes who holds it: our pid and `command`.
    ///
    /// Errors: [`Code::LockHeld`] naming the holder after `wait`; [`Code::Interrupted`] as soon as `cancelled` says so.
    pub fn acquire(path: &Path, wait: Duration, command: &str, cancelled: &dyn Fn() -> bool) -> Result<Self> {
        let deadline = Instant::now() + wait;
        loop {
            if let Some(held) = try_take(path, command)? {
                return Ok(Self { _held: held });
            }
            if cancelled() {
                return Err(Error::new(Code::Interrupted, "interrupted while waiting for another run"));
            }
            if Instant::now() >= deadline {
                return Err(held(path));
            }
            std::thread::sleep(SLICE);
        }
    }
}

/// A download at work: without the lock, and alone for its version. What it stages is not swept.
#[derive(Debug)]
pub struct Download {
    _file: File,
    path: PathBuf,
}

impl Download {
    /// Begins one for the version in `dir`, under the lock at `lock`. `None`: another run downloaded it, which was waited for.
    ///
    /// Errors: [`Code::LockHeld`] if that takes longer than `wait`; [`Code::Interrupted`] as soon as `cancelled` says so.
    pub fn begin(lock: &Path, dir: &str, wait: Duration, cancelled: &dyn Fn() -> bool) -> Result<Option<Self>> {
        let path = lock.join(format!("{DOWNLOAD_PREFIX}{dir}"));
        let deadline = Instant::now() + wait;
        let mut waited = false;
        loop {
            let file = open(&path).at("cannot open the lock", &path)?;
            match file.try_lock() {
                Ok(()) if !is_still_at(&file, &path) => {}
                Ok(()) => {
                    let begun = Self { _file: file, path };
                    return Ok((!waited).then_some(begun));
                }
                Err(TryLockError::WouldBlock) => waited = true,
                Err(TryLockError::Error(error)) => return Err(error).at("cannot lock", &path),
            }
            if cancelled() {
                return Err(Error::new(Code::Interrupted, "interrupted while waiting for another run"));
            }
            if Instant::now() >= deadline {
                let who = holder(&path).unwrap_or_default().map_or_else(String::new, |pid| format!(" (pid {pid})"));
                let what = format!("another run{who} downloads {dir}, try again later");
                return Err(Error::new(Code::LockHeld, what));
            }
            std::thread::sleep(SLICE);
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // Before it is unlocked: whoever opened it meanwhile finds that it is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The directories of versions that are being downloaded. What a download that died has left in the lock goes.
pub fn downloads(lock: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(lock) else { return Vec::new() };
    let name_of = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().strip_prefix(DOWNLOAD_PREFIX).map(str::to_owned)
    };
    let is_live = |path: &Path| match File::open(path).map(|file| (file.try_lock(), file)) {
        Ok((Ok(()), _file)) => {
            let _ = std::fs::remove_file(path);
            false
        }
        Ok((Err(_), _)) => true,
        Err(_) => false,
    };
    entries.flatten().filter_map(|entry| name_of(&entry).filter(|_| is_live(&entry.path()))).collect()
}

/// The process of the owner's that holds a lock on the file or directory at `path`, as the kernel lists it: seen without a
/// right to open it. A process of another user does not count, whatever it has locked.
///
/// Errors: the kernel's list cannot be read.
pub fn holder(path: &Path) -> io::Result<Option<u32>> {
    let Ok(file) = std::fs::symlink_metadata(path) else { return Ok(None) };
    let is_owners = |pid: &u32| {
        let process = std::fs::metadata(format!("/proc/{pid}"));
        process.is_ok_and(|process| process.uid() == 0 || process.uid() == file.uid())
    };
    for _ in 0..LOOKS {
        // Its size is not told beforehand: with room, it is one read for most hosts.
        let mut locks = String::with_capacity(LIST);
        File::open("/proc/locks")?.read_to_string(&mut locks)?;
        let mut found = locks.lines().filter_map(|line| flock_of(line, file.dev(), file.ino()));
        if let Some(pid) = found.find(is_owners) {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// The process of the run that holds the lock at `path`, or that began before the lock was removed.
pub fn run_of(path: &Path) -> io::Result<Option<u32>> {
    Ok(holder(path)?.or(holder(durable::parent(path))?))
}

/// True when our parent process holds the lock at `path`; `claimed` is the pid that it says it has.
pub fn is_held_by_parent(path: &Path, claimed: &str) -> bool {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    parent.is_some_and(|pid| pid.to_string() == claimed && run_of(path).is_ok_and(|holder| holder == Some(pid)))
}

/// All three locks, or none of them if another run has one.
fn try_take(path: &Path, command: &str) -> Result<Option<[Option<File>; 3]>> {
    let versions = durable::parent(path);
    let above = match try_lock_dir(versions)? {
        Taken::By(other) if other.is_some() => return Ok(None),
        Taken::By(_) => None,
        Taken::Ours(dir) => dir,
    };
    make(path)?;
    let Taken::Ours(dir) = try_lock_dir(path)? else { return Ok(None) };
    let name = path.join(FILE);
    let mut file = match open(&name) {
        // The directory was replaced under us.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.at("cannot open the lock", &name)?,
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error).at("cannot lock", &name),
    }
    // Somebody replaced it between opening and locking: that lock is worth nothing.
    if !is_still_at(&file, &name) || dir.as_ref().is_some_and(|dir| !is_still_at(dir, path)) {
        return Ok(None);
    }
    file.set_len(0).and_then(|()| writeln!(file, "{} {command}", std::process::id())).at("cannot write", &name)?;
    Ok(Some([above, dir, Some(file)]))
}

fn open(path: &Path) -> io::Result<File> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(nofollow).open(path)
}

/// What came of locking a directory.
enum Taken {
    /// It is ours; without a file where directories cannot be locked.
    Ours(Option<File>),
    /// Another has it: this process of the owner's, if it is one.
    By(Option<u32>),
}

fn try_lock_dir(path: &Path) -> Result<Taken> {
    let dir = File::open(path).at("cannot open", path)?;
    Ok(match dir.try_lock() {
        Ok(()) => Taken::Ours(Some(dir)),
        Err(TryLockError::Error(_)) => Taken::Ours(None),
        Err(TryLockError::WouldBlock) => Taken::By(holder(path).unwrap_or_default()),
    })
}

/// Makes the lock's directory. What is there and could have been opened by others (the file of an earlier updater, a mode
/// or an owner that came with a copy of the tree) goes: they may still have it open.
fn make(path: &Path) -> Result<()> {
    let us = rustix::process::geteuid().as_raw();
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() && found.uid() == us && found.mode() & 0o7077 == 0 => return Ok(()),
        Ok(_) => durable::remove_tree(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).at("cannot look at", path),
    }
    match std::fs::create_dir(path) {
        // Another run was quicker.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| std::fs::set_permissions(path, std::fs::Permissions::from_mode(DIR_MODE))),
    }
    .at("cannot make the lock", path)
}

/// The pid in a line of `/proc/locks` (proc_locks(5)), if it is of an flock on the file `ino` of the device `dev`.
fn flock_of(line: &str, dev: u64, ino: u64) -> Option<u32> {
    // "1: FLOCK  ADVISORY  WRITE 708 08:01:13548 0 EOF"; who waits for it has an arrow before the kind.
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, pid, file, ..] = fields[..] else { return None };
    let mut parts = file.split(':');
    let device = [parts.next()?, parts.next()?].map(|part| u32::from_str_radix(part, 16).ok());
    let (major, minor) = (Some(rustix::fs::major(dev)), Some(rustix::fs::minor(dev)));
    // Of a file system without a device of its own (btrfs, overlay) a file can tell another number than the list.
    let is_there = device == [major, minor] || (major == Some(0) && device[0] == Some(0));
    (is_there && parts.next()?.parse() == Ok(ino)).then(|| pid.parse().ok())?
}

fn is_still_at(file: &File, path: &Path) -> bool {
    let ours = file.metadata().ok().map(|found| FileId { dev: found.dev(), ino: found.ino() });
    ours.is_some() && ours == FileId::of(path)
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

    #[test]
    fn a_second_run_is_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
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
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let _first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        durable::write(&path.join(FILE), b"1 enable\n", FILE_MODE).unwrap();
        let error = Lock::acquire(&path, NO_WAIT, "pin", &|| false).unwrap_err();
        assert!(error.to_string().contains(&format!("(pid {}),", std::process::id())), "{error}");
    }

    #[test]
    fn a_waiting_run_ends_when_it_is_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let _first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        let error = Lock::acquire(&path, Duration::from_secs(600), "update", &|| true).unwrap_err();
        assert_eq!(error.code, Code::Interrupted);
    }

    #[test]
    fn a_waiting_run_gets_the_lock_when_it_becomes_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let tries = std::cell::Cell::new(0);
        let first = std::cell::RefCell::new(Some(Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap()));
        Lock::acquire(&path, Duration::from_secs(60), "enable", &|| {
            tries.set(tries.get() + 1);
            if tries.get() == 2 {
                first.borrow_mut().take();
            }
            false
        })
        .unwrap();
        assert_eq!(tries.get(), 2);
    }

    #[test]
    fn a_run_whose_lock_was_removed_still_holds_it() {
        for remove_all in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(".lock");
            let first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
            durable::remove_tree(&if remove_all { path.clone() } else { path.join(FILE) }).unwrap();
            let error = Lock::acquire(&path, NO_WAIT, "recover", &|| false).unwrap_err();
            assert_eq!(error.code, Code::LockHeld);
            drop(first);
            Lock::acquire(&path, NO_WAIT, "recover", &|| false).unwrap();
        }
    }

    #[test]
    fn a_link_or_a_pipe_in_the_locks_place_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        drop(Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap());
        assert!(!dir.path().join("elsewhere").exists() && path.is_dir());
        durable::remove_tree(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o666.into(), 0).unwrap();
        drop(Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap());
        assert!(path.is_dir());
    }

    #[test]
    fn the_kernels_list_is_read_by_device_and_inode() {
        let dev = rustix::fs::makedev(8, 0x1f);
        let line = "11: FLOCK  ADVISORY  WRITE 708 08:1f:13548 0 EOF";
        assert_eq!(flock_of(line, dev, 13548), Some(708));
        assert_eq!(flock_of(line, dev, 13549), None);
        assert_eq!(flock_of(line, rustix::fs::makedev(8, 0x2f), 13548), None);
        assert_eq!(flock_of("11: -> FLOCK  ADVISORY  WRITE 709 08:1f:13548 0 EOF", dev, 13548), None);
        assert_eq!(flock_of("11: POSIX  ADVISORY  WRITE 708 08:1f:13548 0 EOF", dev, 13548), None);
        assert_eq!(
            flock_of("12: FLOCK  ADVISORY  WRITE 708 00:2a:7 0 EOF", rustix::fs::makedev(0, 0x31), 7),
            Some(708)
        );
        assert_eq!(flock_of("", dev, 1), None);
    }
}
