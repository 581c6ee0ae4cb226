//! Keeps resources, rollout, hosts and audit: in one SQLite file, or in a PostgreSQL database that several servers share. A decision
//! and its record are one transaction.
//!
//! Of a file one process writes: it takes a lock on the data directory. What [`Store::commit`] answered is durable. An error says
//! which it is: nothing was written, or it is not known (FLEET §7, §8).

mod audit;
mod backup;
mod chain;
mod column;
mod commit;
mod connection;
mod doctor;
mod enrolment;
mod error;
mod files;
mod load;
mod lock;
mod migrate;
mod past;
mod place;
mod place_in_log;
mod postgres;
mod reader;
mod restore;
mod schema;
mod shared;
mod sql;
mod sqlite;
mod state;
mod store;
mod strange;
mod witness;

pub use backup::backup;
pub use doctor::{Finding, FindingLevel, doctor, writable_by_others};
pub use error::{Error, Result};
pub use migrate::{Migrated, migrate};
pub use place::StorePlace;
pub use place_in_log::{Noted, PlaceInLog};
pub use reader::StoreReader;
pub use restore::{Restored, restore};
pub use shared::{ServerStatus, SessionLimits, SharedTables, StoredSession};
pub use sqlite::SqliteStore;
pub use state::{
    Candidate, Change, Committed, EnrolledHost, EnrolledKey, EnrolmentChanges, EnrolmentProgress, Fixed, HostSink,
    JoinTokenRecord, OPEN, ResourceChange, StoreState, StoredReport, StoredResource, StoredToken,
};
pub use store::{News, Store};
