//! The agent's SQLite database: snapshots of it, what makes one usable, and putting one back (SPEC §6).
//!
//! A snapshot is a directory with `sqlite.db` and `backup.yaml`, replaced as a whole. Nothing here decides whether a
//! version may be activated, starts or stops the agent, or moves links.

pub mod backup;
mod digest;
pub mod directory;
mod facts;
pub mod restore;
pub mod snapshot;
mod sqlite;
mod stopped;

pub use backup::{Backup, Content, Expect};
pub use facts::DatabaseFacts;
pub use restore::{Prepared, prepare, prepare_by_link};
pub use snapshot::{Pace, Snapshot, Subject, snapshot_online};
pub use stopped::{AtRest, describe_taken, link_ahead, snapshot_stopped, take_stopped};

#[cfg(test)]
mod tests;
