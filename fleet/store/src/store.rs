//! What a store does, whichever database it is.

use std::fmt::Debug;

use fleet_engine::host::HostId;
use fleet_engine::record::HostRecord;
use fleet_engine::rollout_state::RolloutState;
use fleet_wire::api::AuditEntry;
use jiff::SignedDuration;
use protocol::report::Key;

use crate::error::{Error, Result};
use crate::state::{
    Candidate, Change, Committed, EnrolledKey, HostSink, JoinTokenRecord, StoreState, StoredResource, StoredToken,
};

/// An open store. One of PostgreSQL is shared: others write it as well, and each write is made from all that was written before.
pub trait Store: Send + Debug {
    /// Whether other servers write it as well.
    fn is_shared(&self) -> bool {
        false
    }

    /// How much later it is there than on this host, as it was told last; servers that share it go by that.
    fn clock_offset(&self) -> SignedDuration {
        SignedDuration::ZERO
    }

    /// The number of the write that was read last.
    fn position(&self) -> i64 {
        0
    }

    /// Whether a newer program decides: this one answers, and writes what hosts say.
    fn is_outdated(&self) -> bool {
        false
    }

    /// Everything that is kept; keys of hosts and then hosts go to `sink`, one by one: so a million of them need not be in memory
    /// twice. What it got is good only if all could be read.
    fn load_with(&mut self, sink: &mut dyn HostSink) -> Result<StoreState>;

    /// The key of a host that enrolled.
    fn key(&self, host: HostId) -> Result<Option<Key>>;

    /// Begins a turn: what others wrote since this store looked last, all of it; until the turn ends they wait, for a while.
    /// `None`: they wrote nothing. Errors: `Unavailable`; `Mismatch` where too much was written, or the store went back:
    /// [`Store::reopen`] and load it.
    fn take_turn(&mut self) -> Result<Option<News>> {
        Ok(None)
    }

    /// Ends a turn in which nothing is written.
    fn end_turn(&mut self) {}

    /// Writes a change in one transaction, and ends the turn. When it returns, it is durable. Errors: `Mismatch` (somebody wrote
    /// since), `Unavailable`: nothing was written; `Unknown`: [`Store::reopen`] and look.
    fn commit(&mut self, change: &Change<'_>) -> Result<Committed>;

    /// What an earlier request with this id was answered, as JSON. Kept for a week; where more than 100,000 were answered
    /// within it, the oldest are forgotten.
    fn outcome(&self, request_id: &str) -> Result<Option<String>>;

    /// The revision. Confirms that the store answers, and that it is the one that was opened.
    fn revision(&self) -> Result<u64>;

    /// Opens the same database again, after an [`Error::Unknown`]: then [`Store::load_with`] says what was kept, and that stays so.
    /// Errors: as when it was opened; also where the database is not the one that was open, and it is never made anew.
    fn reopen(&mut self) -> Result<()>;

    /// Why everything was held when it was opened, as a line; `None`: it was as it had been left.
    fn strange(&self) -> Option<&str>;

    /// Why the newest record could not be noted beside the database, so that an older one would not be told from this one.
    fn unwitnessed(&self) -> Option<&Error>;

    /// Whether a stop waited for this store when the server ended.
    fn stop_waits(&self) -> Result<bool>;

    /// Notes on this host that a stop waits for the store, or that none does any more. When it returns, that is durable.
    fn note_stop(&self, waits: bool) -> Result<()>;
}

/// What other servers wrote since. `None`: that is as it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// The revision now.
    pub revision: u64,
    /// What decisions rest on.
    pub book: Option<RolloutState>,
    /// All resources.
    pub resources: Option<Vec<StoredResource>>,
    /// All tokens of the admin API.
    pub tokens: Option<Vec<StoredToken>>,
    /// All join tokens.
    pub joins: Option<Vec<JoinTokenRecord>>,
    /// All keys that wait.
    pub candidates: Option<Vec<Candidate>>,
    /// Hosts that are new or changed.
    pub hosts: Vec<HostRecord>,
    /// Hosts that enrolled, or came further.
    pub enrolled: Vec<EnrolledKey>,
    /// Hosts that are no more.
    pub forgotten: Vec<HostId>,
    /// What `Fleet::arrivals` is.
    pub arrivals: u64,
    /// What was put on record.
    pub entries: Vec<AuditEntry>,
}
