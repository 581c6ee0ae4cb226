//! The top-level roles, and how what they have is refused.

use error::{Code, Error};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The role that names everybody's keys.
pub const ROOT: &str = "root";
/// The role that says which snapshot is the newest.
pub const TIMESTAMP: &str = "timestamp";
/// The role that says which versions belong together.
pub const SNAPSHOT: &str = "snapshot";
/// The role that says what files are.
pub const TARGETS: &str = "targets";
/// All four, in the order in which they may be published.
pub const ROLES: [&str; 4] = [ROOT, TARGETS, SNAPSHOT, TIMESTAMP];
/// Letters of a role's name that stand for themselves in the name of its file.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~');

/// The name of the file with a role's metadata: of a version, or the only one. A delegated role may have any name; this is one that
/// directories and URLs can have.
pub fn file_name(role: &str, version: Option<u64>) -> String {
    let role = utf8_percent_encode(role, PLAIN);
    version.map_or_else(|| format!("{role}.json"), |version| format!("{version}.{role}.json"))
}

/// A refusal of what the repository has.
pub(super) fn invalid(role: &str, what: &str) -> Error {
    refusal(Code::TufInvalid, role, what)
}

pub(super) fn refusal(code: Code, role: &str, what: &str) -> Error {
    // A delegated role may have any name.
    Error::new(code, format!("TUF metadata {}: {what}", role.escape_debug()))
}
