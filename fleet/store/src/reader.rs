//! Reading beside the writer.

use std::path::PathBuf;

use fleet_engine::curve::VersionChange;
use fleet_engine::host::HostId;
use fleet_engine::rollout::Rollout;
use fleet_wire::api::{AuditEntry, AuditHead, History, Verified};
use jiff::Timestamp;
use rusqlite::Connection;

use crate::connection::{self, sqlite};
use crate::error::{OfDatabase, Result};
use crate::files::{DATABASE, DataDir};
use crate::place::StorePlace;
use crate::postgres::PostgresConnection;
use crate::sql::Sql;
use crate::{audit, enrolment, load, past, schema};

/// A connection that only reads: for another thread than the store's, where a walk through a long log keeps nobody waiting.
#[derive(Debug)]
pub struct StoreReader(Reads);

#[derive(Debug)]
enum Reads {
    Sqlite(Connection, PathBuf),
    Postgres(PostgresConnection),
}

impl StoreReader {
    /// Opens the store at `place`, which a server may have open. Errors: as [`StorePlace::open`], but for `Locked`.
    pub fn open(place: &StorePlace) -> Result<Self> {
        if let Some(server) = &place.server {
            return server.connect().map(|connection| Self(Reads::Postgres(connection)));
        }
        let place = DataDir::at(&place.dir)?;
        place.find()?;
        let database = place.file(DATABASE);
        let connection = connection::open_for_reading(&database)?;
        schema::refuse_newer(&connection, &database)?;
        Ok(Self(Reads::Sqlite(connection, database)))
    }

    /// All that is read in one go is of one point in time, also beside a writer.
    fn read<T>(&self, read: impl FnOnce(&dyn Sql) -> Result<T>) -> Result<T> {
        match &self.0 {
            Reads::Sqlite(connection, database) => {
                let _point = connection.unchecked_transaction().sql(database)?;
                read(&sqlite(connection, database))
            }
            Reads::Postgres(connection) => connection.read(read),
        }
    }

    /// Audit records after number `after`, at most `limit` and 10,000.
    pub fn audit(&self, after: u64, limit: u32) -> Result<Vec<AuditEntry>> {
        self.read(|db| audit::page(db, after, limit))
    }

    /// The newest records before number `before`, the newest first; of those about `subject` alone, where one is named: among the
    /// newest 10,000 of all.
    pub fn latest(&self, before: Option<u64>, subject: Option<&str>, limit: u32) -> Result<Vec<AuditEntry>> {
        self.read(|db| audit::latest(db, before, subject, limit))
    }

    /// The newest record, as the store remembers it.
    pub fn head(&self) -> Result<AuditHead> {
        self.read(audit::head)
    }

    /// The newest record of an action such as `restore`; `None`: there is none.
    pub fn newest(&self, action: &str) -> Result<Option<AuditEntry>> {
        self.read(|db| audit::newest(db, action))
    }

    /// Walks the audit log's chain. `head`: a hash that must be in it. A damaged log is no error, but a fault in the answer.
    pub fn verify(&self, head: Option<&str>) -> Result<Verified> {
        self.read(|db| audit::verify(db, head))
    }

    /// What a host reported last, and its last 50 changes.
    pub fn history(&self, host: HostId) -> Result<History> {
        self.read(|db| enrolment::history(db, host))
    }

    /// Past rollouts as they were last, the newest first; of those before number `before`, at most `limit`.
    pub fn rollouts(&self, before: Option<u64>, limit: u32) -> Result<Vec<Rollout>> {
        self.read(|db| load::rollouts(db, before, limit))
    }

    /// Hosts that came to another version since `since`, the newest change first; at most 50,000.
    pub fn version_changes(&self, since: Timestamp) -> Result<Vec<VersionChange>> {
        self.read(|db| past::version_changes(db, since))
    }

    /// Hosts on which `version` failed, when they reported that in a time (its beginning and end), and the change in JSON; the first
    /// first, at most `limit`.
    pub fn failures(
        &self,
        version: &str,
        within: (Timestamp, Timestamp),
        limit: u32,
    ) -> Result<Vec<(HostId, Timestamp, String)>> {
        self.read(|db| past::failures(db, version, within, limit))
    }

    /// Records about groups and rollouts in a time (its beginning and end), the newest first, among the newest 10,000 of all.
    pub fn of_rollout(&self, within: (Timestamp, Timestamp), limit: u32) -> Result<Vec<AuditEntry>> {
        self.read(|db| audit::of_rollout(db, within, limit))
    }
}
