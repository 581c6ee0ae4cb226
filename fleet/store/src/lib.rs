//! Keeps resources, rollout, hosts and audit in one SQLite file: a decision and its record in one transaction.
//!
//! One process writes: [`Store::open`] takes a lock on the data directory. What [`Store::commit`] answered is durable. An
//! error says which it is: nothing was written, or it is not known (FLEET §7, §8).

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
mod past;
mod place_in_log;
mod reader;
mod restore;
mod schema;
mod state;
mod store;
mod strange;
mod witness;

pub use backup::backup;
pub use doctor::{Finding, FindingLevel, doctor, writable_by_others};
pub use error::{Error, Result};
pub use place_in_log::{Noted, PlaceInLog};
pub use reader::StoreReader;
pub use restore::{Restored, restore};
pub use state::{
    Candidate, Change, Committed, EnrolledHost, EnrolledKey, EnrolmentChanges, EnrolmentHistory, EnrolmentProgress,
    Enrolments, Fixed, JoinTokenRecord, OPEN, ResourceChange, StoreState, StoredReport, StoredResource, StoredToken,
};
pub use store::Store;
