//! How a run remembers which snapshot it took: in the journal, for its undo, and in the watch, for the way back.

use std::fmt;
use std::str::FromStr;

use protocol::{Digest, serde_as_text};

/// What there is instead of a database.
pub(super) const ABSENT: &str = "absent";
/// What there is instead of a digest.
const LINKED: &str = "linked";

/// What a snapshot holds. As text `absent`, `linked`, or 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotId {
    /// The host had no database.
    Absent,
    /// The file of the live database itself, under a second name; it is hashed later.
    Linked,
    /// A database with this digest.
    Sha256(Digest),
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str(ABSENT),
            Self::Linked => f.write_str(LINKED),
            Self::Sha256(digest) => digest.fmt(f),
        }
    }
}

impl FromStr for SnapshotId {
    type Err = protocol::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            ABSENT => Ok(Self::Absent),
            LINKED => Ok(Self::Linked),
            digest => digest.parse().map(Self::Sha256),
        }
    }
}

serde_as_text!(SnapshotId);
