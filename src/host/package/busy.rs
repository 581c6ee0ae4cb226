//! Another package manager at work: waited for, for a time.
//!
//! dpkg says at once that its database is locked. rpm would wait without end, and yum and zypper claim a host before they
//! lock rpm's database: what they are about to do must not meet a database that changed under them.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

use super::super::durable;
use super::below;
use crate::report::{Code, Error, Result};

/// Between two tries while another package manager holds the lock.
const SLICE: Duration = Duration::from_millis(500);
/// A pid and a line feed, in bytes.
const PID_LIMIT: u64 = 64;
/// Where yum, dnf and zypper write their pid while they change a host.
const PID_FILES: [&str; 5] =
    ["/run/yum.pid", "/var/run/yum.pid", "/var/lib/dnf/rpmdb_lock.pid", "/run/zypp.pid", "/var/run/zypp.pid"];
/// What such a process has in its command line: a pid of a run that was killed may be a stranger's by now.
const THEIR_NAMES: [&str; 4] = ["yum", "dnf", "zyp", "packagekit"];

/// A wait for another package manager; all of a purge's tries share it.
pub(crate) struct Waiting<'a> {
    deadline: Instant,
    tell: &'a dyn Fn(&str),
    told: bool,
}

impl<'a> Waiting<'a> {
    /// At most so long from now on; `tell` is told once, in words for a person.
    pub(crate) fn at_most(longest: Duration, tell: &'a dyn Fn(&str)) -> Self {
        Self { deadline: Instant::now() + longest, tell, told: false }
    }
    /// Sleeps a little; false when the time is up. `who` is said the first time.
    pub(super) fn goes_on(&mut self, who: &str) -> bool {
        let now = Instant::now();
        if now >= self.deadline {
            return false;
        }
        if !self.told {
            let left = self.deadline.saturating_duration_since(now).as_secs();
            (self.tell)(&format!("waiting for another package manager, at most {left} s: {who}"));
            self.told = true;
        }
        std::thread::sleep(SLICE.min(self.deadline.saturating_duration_since(now)));
        true
    }

    /// Until nobody is at work on the rpm database at `database` below `root`.
    ///
    /// Errors ([`Code::PackageFailed`]): somebody still is when the time is up.
    pub(super) fn for_rpm(&mut self, root: Option<&Path>, database: &str) -> Result<()> {
        while let Some(who) = rpm_holder(root, database) {
            if !self.goes_on(&who) {
                return Err(Error::new(Code::PackageFailed, who).advise(TRY_AGAIN));
            }
        }
        Ok(())
    }
}

/// Advice for everyone who waited in vain.
pub(super) const TRY_AGAIN: &str = "another package manager is at work, try again when it is done";

/// Who is at work, in words. What we may not or cannot look at does not count: rpm itself has the last word.
fn rpm_holder(root: Option<&Path>, database: &str) -> Option<String> {
    let lock = below(root, Path::new(database).join(".rpm.lock"));
    // Opened for writing, as the kernel wants it for this kind of lock; closing it gives the lock back.
    if let Ok(file) = OpenOptions::new().write(true).open(&lock)
        && let Err(Errno::AGAIN | Errno::ACCESS) = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
    {
        return Some(format!("{} is locked", lock.display()));
    }
    // A pid in an image is not one of ours.
    if root.is_some() {
        return None;
    }
    PID_FILES.iter().map(Path::new).find_map(|file| {
        let text = durable::read_limited(file, PID_LIMIT).ok()??;
        let pid: u32 = String::from_utf8_lossy(&text).trim().parse().ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let theirs = THEIR_NAMES.iter().any(|name| line.to_lowercase().contains(name));
        theirs.then(|| format!("{} says that process {pid} (`{}`) is running", file.display(), line.trim()))
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_free_database_and_one_that_is_not_there_are_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let silent = |_: &str| panic!("told");
        let wait = || Waiting::at_most(Duration::from_secs(60), &silent);
        wait().for_rpm(Some(dir.path()), "/db").unwrap();
        durable::write(&dir.path().join("db/.rpm.lock"), b"", 0o644).unwrap_or_default();
        wait().for_rpm(Some(dir.path()), "/db").unwrap();
    }

    /// The kernel's locks of this kind do not stop the process that holds them: another one must.
    #[test]
    fn a_locked_database_is_told_when_the_time_is_up() {
        use std::io::Read;
        use std::process::{Command, Stdio};
        let dir = tempfile::tempdir().unwrap();
        durable::create_dir_all(&dir.path().join("db")).unwrap();
        let lock = dir.path().join("db/.rpm.lock");
        let hold = "import fcntl, sys\nf = open(sys.argv[1], 'w')\nfcntl.lockf(f, fcntl.LOCK_EX)\nprint('x', flush=True)\n\
                    sys.stdin.read()";
        let mut holder = Command::new("python3");
        holder.args(["-c", hold]).arg(&lock).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut holder) = holder.spawn() else {
            eprintln!("skipped: no python3");
            return;
        };
        holder.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let silent = |_: &str| {};
        let wait = || Waiting::at_most(Duration::ZERO, &silent);
        let error = wait().for_rpm(Some(dir.path()), "/db").unwrap_err();
        assert_eq!(error.code, Code::PackageFailed);
        assert_eq!(error.to_string(), format!("{} is locked; {TRY_AGAIN}", lock.display()));
        drop(holder.stdin.take());
        holder.wait().unwrap();
        wait().for_rpm(Some(dir.path()), "/db").unwrap();
    }

    #[test]
    fn the_wait_ends_in_time_and_is_told_once() {
        let told = RefCell::new(Vec::new());
        let tell = |words: &str| told.borrow_mut().push(words.to_owned());
        let mut waiting = Waiting::at_most(Duration::from_millis(900), &tell);
        let mut tries = 0;
        while waiting.goes_on("yum") {
            tries += 1;
            assert!(tries < 100);
        }
        assert!(tries >= 1);
        assert_eq!(*told.borrow(), ["waiting for another package manager, at most 0 s: yum"]);
    }
}
