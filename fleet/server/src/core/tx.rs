//! One transaction: a decision with its audit records and the answer to its request.

use fleet_engine::book::RolloutState;
use fleet_engine::shelf::ResourceSet;
use fleet_store::{NewAuditRecord, ResourceChange, StoredToken};

/// A decision that is not made yet; [`CoreState::commit`](super::CoreState::commit) makes all of it or nothing.
pub(super) struct Tx {
    pub(super) book: RolloutState,
    pub(super) shelf: Option<ResourceSet>,
    pub(super) resources: Vec<ResourceChange>,
    pub(super) tokens: Vec<(String, Option<StoredToken>)>,
    pub(super) records: Vec<NewAuditRecord>,
    pub(super) request: Option<(String, String)>,
}

impl Tx {
    pub(super) fn new(book: RolloutState) -> Self {
        Self { book, shelf: None, resources: Vec::new(), tokens: Vec::new(), records: Vec::new(), request: None }
    }
}
