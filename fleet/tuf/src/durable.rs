//! Files that are there whole or not at all. A repository's directory is shared, and may have anything in it: no link is followed, and
//! nothing is waited for.
#![allow(clippy::disallowed_methods, reason = "this file is to a repository what host/durable.rs is to the agent")]

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use error::{Code, Error, IoContext, Result};
use protocol::Digest;

/// Mode of what hosts read.
pub(crate) const MODE: u32 = 0o644;
/// Neither a link nor a wait for a pipe.
const PLAIN: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// It was given wrongly, or is not there.
pub(crate) fn usage(what: impl Into<String>) -> Error {
    Error::new(Code::Usage, what)
}

/// Opens a regular file; `None`: it is not there. Errors: those of the system; `usage` for what is no file.
pub(crate) fn open(path: &Path) -> Result<Option<File>> {
    let file = match OpenOptions::new().read(true).custom_flags(PLAIN).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(no_file(path)),
        opened => opened.at("cannot read", path)?,
    };
    if !file.metadata().at("cannot read", path)?.is_file() {
        return Err(no_file(path));
    }
    Ok(Some(file))
}

fn no_file(path: &Path) -> Error {
    usage(format!("{} is no regular file", path.display()))
        .advise("no link and no device belongs there: look who put it there")
}

/// The bytes of a file; `None`: it is not there. Errors: as [`open`]; `usage` for more than `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).at("cannot read", path)?;
    if bytes.len() as u64 > most {
        return Err(usage(format!("{} is larger than {most} bytes", path.display())));
    }
    Ok(Some(bytes))
}

/// Length and digest of a file; `None`: it is not there. Errors: as [`open`].
pub(crate) fn digest(path: &Path) -> Result<Option<(u64, Digest)>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let length = file.metadata().at("cannot read", path)?.len();
    Ok(Some((length, Digest::of_copy(file, std::io::sink()).at("cannot read", path)?.0)))
}

/// Writes `bytes` to `path` by a new file beside it, synced before it takes the name. Errors: those of writing.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    remove(&beside)?;
    let written = write_new(&beside, bytes, mode).and_then(|()| rename(&beside, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = remove(&beside);
    }
    written
}

/// A new file; one that is there is not touched. Errors: those of writing.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = opened.at("cannot make", path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).at("cannot write", path)
}

/// Renames and syncs the directory. Errors: those of the system.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).at("cannot rename to", to)?;
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir).and_then(|dir| dir.sync_all()).at("cannot sync", dir)
}

/// Makes a directory and those above it; a link is none. Errors: those of the system; `usage`.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).at("cannot make", path)?;
    check_dir(path)
}

/// Errors: `usage` where `path` is no directory, but a link to one.
pub(crate) fn check_dir(path: &Path) -> Result<()> {
    if std::fs::symlink_metadata(path).at("cannot look at", path)?.is_dir() {
        return Ok(());
    }
    Err(usage(format!("{} is no directory", path.display())))
}

/// Removes a file that may be there. Errors: those of the system.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.at("cannot remove", path),
    }
}

/// Opens a file to write to it: from its beginning, or behind what is there. Errors: those of the system.
pub(crate) fn open_to_write(path: &Path, append: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(append).write(true).truncate(!append).mode(MODE).custom_flags(PLAIN);
    options.open(path).at("cannot write", path)
}

/// The lock of `file`, held until it is dropped; `dir`: of what. Errors: `lock_held`; those of the system.
pub(crate) fn lock(file: File, dir: &Path) -> Result<File> {
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            let what = format!("another run is at work in {}", dir.display());
            Err(Error::new(Code::LockHeld, what).advise("try again when it is done"))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(error).at("cannot lock", dir),
    }
}
