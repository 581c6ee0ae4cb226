//! Numbers, times and JSON as they stand in SQLite's columns.

use std::path::Path;

use jiff::Timestamp;

use crate::error::{Error, Result};

/// SQLite's numbers have a sign.
pub(crate) fn signed(path: &Path, number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| {
        Error::Unavailable(format!("{}: {number} is too large a number: nothing was written", path.display()))
    })
}

/// SQLite's numbers have a sign.
pub(crate) fn unsigned(path: &Path, number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| unreadable(path, "a number", &number.to_string()))
}

/// A time, of the text that it is kept as.
pub(crate) fn time(path: &Path, text: &str) -> Result<Timestamp> {
    text.parse().map_err(|error: jiff::Error| unreadable(path, "a time", &error.to_string()))
}

/// What JSON a value of ours was written as; whole numbers have up to 128 bits, so never by way of `serde_json::Value`.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(path: &Path, what: &str, json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| unreadable(path, what, &error.to_string()))
}

/// What is kept is not what this program writes: `what` it is, and the `error` of reading it.
pub(crate) fn unreadable(path: &Path, what: &str, error: &str) -> Error {
    Error::Foreign(format!(
        "{}: cannot read {what} ({error}): run the version that wrote it, or restore a backup",
        path.display()
    ))
}
