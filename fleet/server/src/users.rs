//! Names of the host's users, for the audit.

use std::fs::File;

use fleet_cli::find_entry;

/// `uid 0 (root)`; without the name where the host's list does not have it.
pub(crate) fn name(uid: u32) -> String {
    let found = File::open("/etc/passwd").ok().and_then(|list| find_entry(list, |_, number| number == uid));
    found.map_or_else(|| format!("uid {uid}"), |(name, _)| format!("uid {uid} ({name})"))
}

/// The number of the group called `name`, if this host has it.
pub(crate) fn group(name: &str) -> Option<u32> {
    find_entry(File::open("/etc/group").ok()?, |known, _| known == name).map(|(_, number)| number)
}
