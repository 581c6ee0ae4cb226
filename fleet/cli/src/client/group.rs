//! Who may use the admin socket.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::file::find_entry;

/// The group that the server's package makes (FLEET §1).
const USUAL: &str = "teleport-fleet";

/// The name of the group whose members may use the socket; the usual one where it cannot be seen, or is root's.
pub(super) fn of(socket: &Path) -> String {
    let directory = socket.parent().unwrap_or(socket);
    let gid = fs::metadata(socket).or_else(|_| fs::metadata(directory)).map_or(0, |meta| meta.gid());
    // Of root's there is nothing to say.
    let groups = File::open("/etc/group").ok().filter(|_| gid != 0);
    let found = groups.and_then(|groups| find_entry(groups, |_, number| number == gid));
    found.map_or_else(|| if gid == 0 { USUAL.to_owned() } else { gid.to_string() }, |(name, _)| name)
}
