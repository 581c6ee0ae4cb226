//! The top-level roles, and how what they have is refused.

use error::{Code, Error};

/// The role that names everybody's keys.
pub const ROOT: &str = "root";
/// The role that says which snapshot is the newest.
pub const TIMESTAMP: &str = "timestamp";
/// The role that says which versions belong together.
pub const SNAPSHOT: &str = "snapshot";
/// The role that says what files are.
pub const TARGETS: &str = "targets";

/// A refusal of what the repository has.
pub(super) fn invalid(role: &str, what: &str) -> Error {
    refusal(Code::TufInvalid, role, what)
}

pub(super) fn refusal(code: Code, role: &str, what: &str) -> Error {
    // A delegated role may have any name.
    Error::new(code, format!("TUF metadata {}: {what}", role.escape_debug()))
}
