//! The agent's SQLite database: snapshots of it, what makes one usable, and putting one back (SPEC §6).
//!
//! A snapshot is a directory with `sqlite.db` and `backup.yaml`, replaced as a whole. Nothing here decides whether a
//! version may be activated, starts or stops the agent, or moves links.

pub(crate) mod backup;
pub(crate) mod directory;
pub(crate) mod evidence;
mod facts;
mod file_lock;
mod online;
mod raw;
pub(crate) mod restore;
pub(crate) mod snapshot;
mod snapshot_id;
mod sqlite;
mod stat_data;
mod stopped;

pub(crate) use backup::{Backup, Content};
pub(crate) use facts::{check_replaceable, has_schema_of};
pub(crate) use file_lock::FileLock;
pub use online::snapshot_online;
pub(crate) use raw::room_for_copy;
pub use snapshot::{Pace, Subject};
pub use snapshot_id::SnapshotId;
pub(crate) use sqlite::files;
pub(crate) use stat_data::{StatData, check_left, is_unwritten};
pub(crate) use stopped::{describe_taken, has_log, link_ahead, take_failed, take_stopped, unlink_shared};

/// Whether the single file `db`, which nobody uses, is a good database; reads it whole.
pub(crate) fn is_whole(db: &std::path::Path) -> bool {
    sqlite::check_at_rest(db).is_ok()
}

#[cfg(test)]
mod tests;
