//! One writing run at a time (SPEC §7): an exclusive flock on a file that is never removed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::durable::FILE_MODE;
use super::process::FileId;
use crate::report::{Code, Error, IoContext, Result};

/// Between two tries: a person does not notice it, a holder is not disturbed.
const SLICE: Duration = Duration::from_millis(50);
/// Shortest wait: outlives the instant in which [`is_held`] holds the file itself.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// Bytes of the lock file that are shown: a pid and a command.
const HOLDER_LIMIT: usize = 200;

/// The lock, held until it is dropped or the process ends. Programs we start do not inherit it.
#[derive(Debug)]
pub struct Lock {
    // Closing the files releases the locks.
    _file: File,
    _dir: Option<File>,
}

impl Lock {
    /// Takes the lock at `path`, making the file if need be, and writes who holds it: our pid and `command`.
    ///
    /// Errors: [`Code::LockHeld`] naming the holder after `wait`; [`Code::Interrupted`] as soon as `cancelled` says so.
    pub fn acquire(path: &Path, wait: Duration, command: &str, cancelled: &dyn Fn() -> bool) -> Result<Self> {
        let deadline = Instant::now() + wait.max(SHORTEST_WAIT);
        loop {
            let file = open(path).at("cannot open the lock", path)?;
            match file.try_lock() {
                Ok(()) if is_still_at(&file, path) => {
                    if let Ok(dir) = lock_dir(path) {
                        name_holder(&file, command).at("cannot write the lock", path)?;
                        return Ok(Self { _file: file, _dir: dir });
                    }
                }
                // Someone replaced the file between opening and locking: that lock is worth nothing.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error).at("cannot lock", path),
            }
            if cancelled() {
                return Err(Error::new(Code::Interrupted, "interrupted while waiting for another run"));
            }
            if Instant::now() >= deadline {
                return Err(held(&file));
            }
            std::thread::sleep(SLICE);
        }
    }
}

/// True when another run holds the lock at `path`; false as well if we may not look.
pub fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// True when our parent process holds the lock at `path`; `claimed` is the pid that it says it has.
pub fn is_held_by_parent(path: &Path, claimed: &str) -> bool {
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string());
    let holder = std::fs::read_to_string(path).unwrap_or_default();
    parent.as_deref() == Some(claimed) && holder.split(' ').next() == Some(claimed) && is_held(path)
}

fn open(path: &Path) -> io::Result<File> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let existing = OpenOptions::new().read(true).write(true).custom_flags(nofollow).open(path);
    match existing {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .custom_flags(nofollow)
        .open(path)?;
    made.set_permissions(std::fs::Permissions::from_mode(FILE_MODE))?;
    Ok(made)
}

/// Locks the directory of the lock as well: whoever removes the file of a run that goes on has not ended that run. `None`
/// where directories cannot be locked.
///
/// Errors: another run has it.
fn lock_dir(path: &Path) -> Result<Option<File>, TryLockError> {
    let Ok(dir) = File::open(super::durable::parent(path)) else { return Ok(None) };
    match dir.try_lock() {
        Ok(()) => Ok(Some(dir)),
        Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

fn is_still_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let ours = file.metadata().ok().map(|found| FileId { dev: found.dev(), ino: found.ino() });
    ours.is_some() && ours == FileId::of(path)
}

fn name_holder(mut file: &File, command: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(format!("{} {command}\n", std::process::id()).as_bytes())
}

fn held(file: &File) -> Error {
    let mut buffer = [0; HOLDER_LIMIT];
    let count = file.read_at(&mut buffer, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
    let line = text.lines().next().unwrap_or_default();
    let what = match line.split_once(' ') {
        Some((pid, command)) if pid.parse::<u32>().is_ok() => {
            format!("another run holds the lock (pid {pid}, {command:?}), try again later")
        }
        _ => "another run holds the lock, try again later".to_owned(),
    };
    Error::new(Code::LockHeld, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_WAIT: Duration = Duration::ZERO;

    #[test]
    fn a_second_run_is_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        assert!(is_held(&path));
        let error = Lock::acquire(&path, NO_WAIT, "enable", &|| false).unwrap_err();
        assert_eq!(error.code, Code::LockHeld);
        let pid = std::process::id();
        assert_eq!(error.to_string(), format!("another run holds the lock (pid {pid}, \"update\"), try again later"));
        drop(first);
        assert!(!is_held(&path));
        Lock::acquire(&path, NO_WAIT, "a longer one", &|| false).unwrap();
        Lock::acquire(&path, NO_WAIT, "pin", &|| false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{pid} pin\n"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
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
        let mut first = Some(Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap());
        let tries = std::cell::Cell::new(0);
        let first = std::cell::RefCell::new(first.take());
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
    fn a_lock_on_a_file_that_was_replaced_is_taken_again_on_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let stale = open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        stale.try_lock().unwrap();
        assert!(!is_still_at(&stale, &path));
        let lock = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        assert!(is_held(&path));
        drop(lock);
    }

    #[test]
    fn a_run_whose_lock_file_was_removed_still_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        let first = Lock::acquire(&path, NO_WAIT, "update", &|| false).unwrap();
        std::fs::remove_file(&path).unwrap();
        let error = Lock::acquire(&path, NO_WAIT, "recover", &|| false).unwrap_err();
        assert_eq!(error.code, Code::LockHeld);
        drop(first);
        Lock::acquire(&path, NO_WAIT, "recover", &|| false).unwrap();
    }

    #[test]
    fn a_link_in_the_locks_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".lock");
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(Lock::acquire(&path, NO_WAIT, "update", &|| false).is_err());
        assert!(!dir.path().join("elsewhere").exists());
    }
}
