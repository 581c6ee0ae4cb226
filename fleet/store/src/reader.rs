//! Reading beside the writer.

use std::path::{Path, PathBuf};

use fleet_engine::curve::VersionChange;
use fleet_engine::host::HostId;
use fleet_engine::rollout::Rollout;
use jiff::Timestamp;
use rusqlite::Connection;

use crate::error::Result;
use crate::files::DataDir;
use crate::state::EnrolmentHistory;
use crate::{audit, connection, enrolment, load, past, schema};

/// A connection that only reads: for another thread than the store's, where a walk through a long log keeps nobody waiting.
#[derive(Debug)]
pub struct StoreReader {
    connection: Connection,
    database: PathBuf,
}

impl StoreReader {
    /// Opens the database in `dir`, which the server may have open. Errors: as [`crate::Store::open`], but for `Locked`.
    pub fn open(dir: &Path) -> Result<Self> {
        let place = DataDir::at(dir)?;
        place.find()?;
        let database = place.database();
        let connection = connection::open_for_reading(&database)?;
        schema::refuse_newer(&connection, &database)?;
        Ok(Self { connection, database })
    }

    /// As [`crate::Store::audit`].
    pub fn audit(&self, after: u64, limit: u32) -> Result<Vec<fleet_wire::api::AuditEntry>> {
        audit::page(&self.connection, &self.database, after, limit)
    }

    /// The newest records before number `before`, the newest first; of those about `subject` alone, where one is named: among the
    /// newest 10,000 of all.
    pub fn latest(
        &self,
        before: Option<u64>,
        subject: Option<&str>,
        limit: u32,
    ) -> Result<Vec<fleet_wire::api::AuditEntry>> {
        audit::latest(&self.connection, &self.database, before, subject, limit)
    }

    /// The newest record, as the store remembers it.
    pub fn head(&self) -> Result<fleet_wire::api::AuditHead> {
        audit::head(&self.connection, &self.database)
    }

    /// The newest record of an action such as `restore`; `None`: there is none.
    pub fn newest(&self, action: &str) -> Result<Option<fleet_wire::api::AuditEntry>> {
        audit::newest(&self.connection, &self.database, action)
    }

    /// As [`crate::Store::verify`].
    pub fn verify(&self, head: Option<&str>) -> Result<fleet_wire::api::Verified> {
        audit::verify(&self.connection, &self.database, head)
    }

    /// What a host reported last, and its last 50 changes.
    pub fn history(&self, host: HostId) -> Result<EnrolmentHistory> {
        enrolment::history(&self.connection, &self.database, host)
    }

    /// As [`crate::Store::rollouts`].
    pub fn rollouts(&self, before: Option<u64>, limit: u32) -> Result<Vec<Rollout>> {
        load::rollouts(&self.connection, &self.database, before, limit)
    }

    /// Hosts that came to another version since `since`, the newest change first; at most 50,000.
    pub fn version_changes(&self, since: Timestamp) -> Result<Vec<VersionChange>> {
        past::version_changes(&self.connection, &self.database, since)
    }

    /// Hosts on which `version` failed, when they reported that in a time (its beginning and end), and the change in JSON; the first
    /// first, at most `limit`.
    pub fn failures(
        &self,
        version: &str,
        within: (Timestamp, Timestamp),
        limit: u32,
    ) -> Result<Vec<(HostId, Timestamp, String)>> {
        past::failures(&self.connection, &self.database, version, within, limit)
    }

    /// Records about groups and rollouts in a time (its beginning and end), the newest first, among the newest 10,000 of all.
    pub fn of_rollout(&self, within: (Timestamp, Timestamp), limit: u32) -> Result<Vec<fleet_wire::api::AuditEntry>> {
        audit::of_rollout(&self.connection, &self.database, within, limit)
    }
}
