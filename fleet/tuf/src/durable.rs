//! Files that are there whole or not at all.
#![allow(clippy::disallowed_methods, reason = "this file is to a repository what host/durable.rs is to the agent")]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use error::{IoContext, Result};

/// Writes `bytes` to `path` by a file beside it, synced before it takes the name. Errors: those of writing.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let beside = path.with_file_name(format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy()));
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(true).mode(mode).open(&beside);
    let mut file = opened.at("cannot write", &beside)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).at("cannot write", &beside)?;
    rename(&beside, path)
}

/// Renames and syncs the directory. Errors: those of the system.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).at("cannot rename to", to)?;
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir).and_then(|dir| dir.sync_all()).at("cannot sync", dir)
}

/// A new file that nobody else reads; one that is there is not touched. Errors: those of writing.
pub(crate) fn write_secret(path: &Path, bytes: &[u8]) -> Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = opened.at("cannot make", path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).at("cannot write", path)
}

/// Makes a directory and those above it. Errors: those of the system.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).at("cannot make", path)
}

/// Removes a file that may be there. Errors: those of the system.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.at("cannot remove", path),
    }
}

/// Adds a line to a file. Errors: those of writing.
pub(crate) fn append(path: &Path, line: &str) -> Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path).at("cannot write", path)?;
    file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).at("cannot write", path)
}
