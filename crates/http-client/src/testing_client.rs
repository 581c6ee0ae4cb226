//! A client for the tests of this crate.

use std::time::Duration;

use super::{Client, HttpSettings};

/// A client that trusts everybody and does not wait before its next try.
pub(super) fn client(edit: impl FnOnce(&mut HttpSettings)) -> Client {
    let mut settings = HttpSettings { insecure: true, ..HttpSettings::default() };
    settings.retry.first_wait = Duration::ZERO;
    edit(&mut settings);
    Client::new(&settings).unwrap()
}

/// For a request that nothing cancels.
pub(super) fn never() -> bool {
    false
}
