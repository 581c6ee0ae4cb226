//! Keeps other programs out of a database at rest: whoever opens it meanwhile is told that it is locked.

use std::fs::File;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{sqlite, stat_data};
use crate::report::{IoContext, Result};

/// A lock of the whole file, thus also of the bytes that SQLite locks before it reads or writes (sqlite.org, "Database File
/// Format", 1.5.1), and before it looks at a log. It goes with the file, not with its name, and ends with the value or
/// with the process. It is of the POSIX kind: it also ends when this process closes the file elsewhere.
#[derive(Debug)]
pub struct FileLock(#[allow(dead_code, reason = "it is open, and that is all")] File);

impl FileLock {
    /// Of the database `db`, which is at rest; none where there is no database, or the file system has no locks: then only
    /// looks tell whether somebody has come.
    ///
    /// Errors: `database_busy` if another program has a lock.
    pub fn take(db: &Path) -> Result<Option<Self>> {
        let db = &sqlite::live_path(db)?;
        let open = |here: &Path| Ok(File::options().read(true).write(true).open(here));
        let file = match sqlite::acting(db, open)? {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.at("cannot open", db)?,
        };
        match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(Errno::AGAIN | Errno::ACCESS) => Err(stat_data::used(db)),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::host::durable;

    /// Whether the kernel lists a lock for writing of ours on the whole of `file`.
    fn is_held(file: &Path) -> bool {
        let wanted = format!(" WRITE {} ", std::process::id());
        let of_file = format!(":{} 0 EOF", std::fs::metadata(file).unwrap().ino());
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|lock| lock.contains("POSIX") && lock.contains(&wanted) && lock.ends_with(&of_file))
    }

    #[test]
    fn the_file_is_locked_under_all_its_names_until_the_value_ends() {
        let dir = tempfile::tempdir().unwrap();
        let [db, second, third] = ["sqlite.db", "linked", "renamed"].map(|name| dir.path().join(name));
        assert!(FileLock::take(&db).unwrap().is_none(), "there is no database");
        durable::write(&db, b"rows", 0o600).unwrap();
        std::fs::hard_link(&db, &second).unwrap();
        let lock = FileLock::take(&db).unwrap().unwrap();
        durable::rename(&db, &third).unwrap();
        assert!(is_held(&second) && is_held(&third));
        drop(lock);
        assert!(!is_held(&second));
    }
}
