//! What the store takes and gives.

mod enrolments;

use fleet_engine::host::HostId;
use fleet_engine::record::HostRecord;
use fleet_engine::resource::Kind;
use fleet_engine::rollout_state::RolloutState;
use fleet_wire::api::{AuditEntry, AuditHead, Role};
use jiff::Timestamp;

pub use enrolments::{
    Candidate, EnrolledHost, EnrolledKey, EnrolmentChanges, EnrolmentProgress, Fixed, JoinTokenRecord, OPEN,
    StoredReport,
};

/// Everything that is kept, but for the audit log and what there is of each host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreState {
    /// What decisions rest on; `None`: there was no decision yet.
    pub book: Option<RolloutState>,
    /// How many decisions were kept: what [`Change::expected`] must be next.
    pub revision: u64,
    /// Resources, by kind and name.
    pub resources: Vec<StoredResource>,
    /// Tokens, by name.
    pub tokens: Vec<StoredToken>,
    /// Keys of hosts that wait.
    pub candidates: Vec<Candidate>,
    /// Join tokens, by name.
    pub joins: Vec<JoinTokenRecord>,
    /// What `Fleet::arrivals` was.
    pub arrivals: u64,
    /// A random UUID, made with the database and anew by `restore`: reports of another epoch are refused.
    pub epoch: String,
    /// A backup was restored, and the hold of everything that came with it was not ended yet.
    pub is_restored_held: bool,
}

/// Takes what there is of each host when a store is loaded.
pub trait HostSink {
    /// So many keys and hosts come: it may make room.
    fn expect(&mut self, _keys: usize, _hosts: usize) {}

    /// Takes what decides of a host that enrolled.
    fn take_key(&mut self, _key: EnrolledKey) {}

    /// Takes a host, and what `Fleet::arrivals` was.
    fn take_host(&mut self, _host: HostRecord, _arrivals: u64) {}
}

/// A resource as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResource {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Which of its writings this is.
    pub revision: String,
    /// The document.
    pub yaml: String,
}

/// A resource that is written or removed: kind, name, and revision and YAML; `None`: it is removed.
pub type ResourceChange = (Kind, String, Option<(String, String)>);

/// A token of the admin API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// Its name.
    pub name: String,
    /// SHA-256 of its secret, in hex.
    pub digest: String,
    /// What it may do.
    pub role: Role,
    /// When it was made.
    pub created: Timestamp,
    /// When it ends; `None`: never.
    pub expires: Option<Timestamp>,
}

/// One change, all or nothing. [`Change::default`] changes nothing.
#[derive(Debug, Clone, Default)]
pub struct Change<'a> {
    /// The revision that it was computed from; where the store has another one, nothing is written.
    pub expected: u64,
    /// The new book; `None`: as it is.
    pub book: Option<&'a RolloutState>,
    /// Resources that are written or removed.
    pub resources: Vec<ResourceChange>,
    /// Name and token; `None`: it is removed.
    pub tokens: Vec<(String, Option<StoredToken>)>,
    /// Hosts that are new or changed.
    pub hosts: Vec<HostRecord>,
    /// What changes of hosts' keys and reports.
    pub enrolments: EnrolmentChanges,
    /// Hosts that are no more.
    pub forgotten: Vec<HostId>,
    /// What `Fleet::arrivals` is; a lower number than before is not kept.
    pub arrivals: u64,
    /// For the audit log, in order; numbers and hashes are the store's.
    pub records: Vec<AuditEntry>,
    /// The id of the request, and its outcome as JSON.
    pub request: Option<(String, String)>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The revision afterwards: one more where book or resources were written.
    pub revision: u64,
    /// The audit records, with number and hash.
    pub entries: Vec<AuditEntry>,
}

impl Committed {
    /// The newest record; `None`: there is none.
    pub(crate) fn head(&self) -> Option<AuditHead> {
        self.entries.last().map(|entry| AuditHead { seq: entry.seq, hash: entry.hash.clone() })
    }
}
