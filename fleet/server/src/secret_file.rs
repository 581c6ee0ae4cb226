//! Secrets that operators keep in files.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use fleet_cli::read_open;
use rustix::fs::OFlags;

/// Most bytes of a secret's file.
const MAX_FILE: u64 = 4096;
/// What others than the owner may do with the file: nothing.
const OTHERS: u32 = 0o077;

/// The text in `file`, without space around it. Nobody but its owner may have any right to the file, and that is root or `user`, as
/// whom the server runs.
///
/// # Errors
/// Why there is none: one line, which does not show it.
pub(crate) fn read(file: &Path, user: u32) -> Result<String, String> {
    let shown = file.display();
    let cannot = |error: std::io::Error| format!("cannot read the secret {shown}: {error}");
    let mut options = File::options();
    // Nobody is waited for where it is a pipe.
    let options = options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(file).map_err(cannot)?;
    let found = file.metadata().map_err(cannot)?;
    if !found.is_file() {
        return Err(format!("the secret {shown} is not a file"));
    }
    if found.mode() & OTHERS != 0 {
        let mode = found.mode() & 0o7777;
        return Err(format!("the secret {shown} has mode {mode:o}: others may read or change it; chmod 600"));
    }
    if ![0, user].contains(&found.uid()) {
        return Err(format!("the secret {shown} belongs to user {}, not to the server's", found.uid()));
    }
    Ok(read_open(file, MAX_FILE).map_err(cannot)?.trim().to_owned())
}
