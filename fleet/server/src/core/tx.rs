//! One transaction: a decision with its audit records and the answer to its request.

use fleet_engine::book::Book;
use fleet_engine::shelf::Shelf;
use fleet_store::{Record, ResourceChange, StoredToken};

/// A decision that is not made yet; [`Keeper::commit`](super::Keeper::commit) makes all of it or nothing.
pub(super) struct Tx {
    pub(super) book: Book,
    pub(super) shelf: Option<Shelf>,
    pub(super) resources: Vec<ResourceChange>,
    pub(super) tokens: Vec<(String, Option<StoredToken>)>,
    pub(super) records: Vec<Record>,
    pub(super) request: Option<(String, String)>,
}

impl Tx {
    pub(super) fn new(book: Book) -> Self {
        Self { book, shelf: None, resources: Vec::new(), tokens: Vec::new(), records: Vec::new(), request: None }
    }
}
