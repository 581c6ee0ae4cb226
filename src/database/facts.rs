//! What can be known of the agent's database without opening it.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::sqlite;
use crate::report::{Code, Error, Result};

/// Whether `db` can be replaced by rename: it is not mounted by itself, as a container's single file can be.
///
/// Errors: `database_invalid` if it is a mount point.
pub(crate) fn check_replaceable(db: &Path) -> Result<()> {
    let path = sqlite::live_path(db)?;
    // What cannot be asked is found when it is renamed.
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    if mounts.split(|byte| *byte == b'\n').any(|line| mounted_at(line).is_some_and(|place| place == path)) {
        Err(Error::new(Code::DatabaseInvalid, format!("{} is a mount point and cannot be replaced", path.display()))
            .advise("mount the directory instead of the file, then run the command again"))
    } else {
        Ok(())
    }
}

/// Where a line of `/proc/PID/mountinfo` mounts something: its fifth field, with octal escapes (proc_pid_mountinfo(5)).
fn mounted_at(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let mut place = Vec::new();
    let mut at = 0;
    while let Some(byte) = field.get(at) {
        let digits = field.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| *byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        place.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 4 } else { 1 };
    }
    Some(std::ffi::OsString::from_vec(place).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_found_by_its_name_also_with_a_space() {
        let line = br"36 35 98:0 /a /var/lib/tele\040port/sqlite.db rw shared:1 - ext3 /dev/root rw";
        assert_eq!(mounted_at(line).unwrap(), Path::new("/var/lib/tele port/sqlite.db"));
        assert_eq!(mounted_at(br"36 35 98:0 / /a\b rw").unwrap(), Path::new(r"/a\b"));
        assert!(mounted_at(b"").is_none());
        assert_eq!(check_replaceable(Path::new("/proc")).unwrap_err().code, Code::DatabaseInvalid);
        let dir = tempfile::tempdir().unwrap();
        check_replaceable(&dir.path().join("sqlite.db")).unwrap();
    }
}
