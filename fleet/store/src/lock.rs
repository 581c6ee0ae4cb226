//! One process at a time has a data directory.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::error::{AtPath, Error, Result};
use crate::files::{DataDir, LOCK, open_or_make};

/// Longest text of a process id that is read from the lock's file, bytes.
const PID_LENGTH: u64 = 20;

/// The lock on a data directory; ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Takes it. Errors: `Locked` where another process, or another [`StoreLock`] of this one, has it.
    pub(crate) fn take(place: &DataDir) -> Result<Self> {
        let path = place.file(LOCK);
        let mut file = open_or_make(&path, place.dir_owner())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(Error::Locked(refusal(place.dir(), &mut file))),
            Err(std::fs::TryLockError::Error(error)) => return Err(Error::io("cannot lock", &path, &error)),
        }
        note_process(&mut file).at("cannot write", &path)?;
        Ok(Self { _file: file })
    }
}

fn refusal(dir: &Path, file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(PID_LENGTH).read_to_string(&mut text);
    let pid = read.ok().and_then(|_| text.trim().parse::<u32>().ok());
    let who = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    format!(
        "{} is in use by {who}: stop that teleport-fleet first, or name another directory with --data",
        dir.display()
    )
}

#[allow(clippy::disallowed_methods, reason = "the lock's file holds nothing that could be lost")]
fn note_process(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}
