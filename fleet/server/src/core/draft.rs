//! A change that is not made yet.

use fleet_engine::book::Book;
use fleet_engine::shelf::Shelf;
use fleet_store::{Record, ResourceChange, StoredToken};

/// A change that is not made yet.
pub(super) struct Draft {
    pub(super) book: Book,
    pub(super) shelf: Option<Shelf>,
    pub(super) resources: Vec<ResourceChange>,
    pub(super) tokens: Vec<(String, Option<StoredToken>)>,
    pub(super) records: Vec<Record>,
    pub(super) request: Option<(String, String)>,
}

impl Draft {
    pub(super) fn new(book: Book) -> Self {
        Self { book, shelf: None, resources: Vec::new(), tokens: Vec::new(), records: Vec::new(), request: None }
    }
}
