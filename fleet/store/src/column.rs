//! Numbers, times and JSON as they stand in columns. `name`: the database, as errors call it.

use jiff::Timestamp;

use crate::error::{Error, Result};

/// Numbers of databases have a sign.
pub(crate) fn signed(name: &str, number: u64) -> Result<i64> {
    i64::try_from(number)
        .map_err(|_| Error::Unavailable(format!("{name}: {number} is too large a number: nothing was written")))
}

/// Numbers of databases have a sign.
pub(crate) fn unsigned(name: &str, number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| unreadable(name, "a number", &number.to_string()))
}

/// Between these texts are all times of the seconds from `from` to `to`: a second with a fraction stands before the whole one.
pub(crate) fn seconds(from: Timestamp, to: Timestamp) -> (String, String) {
    (from.strftime("%Y-%m-%dT%H:%M:%S").to_string(), to.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// A time, of the text that it is kept as.
pub(crate) fn time(name: &str, text: &str) -> Result<Timestamp> {
    text.parse().map_err(|error: jiff::Error| unreadable(name, "a time", &error.to_string()))
}

/// What JSON a value of ours was written as; whole numbers have up to 128 bits, so never by way of `serde_json::Value`.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(name: &str, what: &str, json: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|error| unreadable(name, what, &error.to_string()))
}

/// A value of ours as JSON.
pub(crate) fn json<T: serde::Serialize>(name: &str, what: &str, value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| unreadable(name, what, &error.to_string()))
}

/// What is kept is not what this program writes: `what` it is, and the `error` of reading it.
pub(crate) fn unreadable(name: &str, what: &str, error: &str) -> Error {
    Error::Foreign(format!("{name}: cannot read {what} ({error}): run the version that wrote it, or restore a backup"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_second_are_between_its_texts_whatever_their_fractions() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let (from, to) = seconds(time("2026-01-05T12:00:00.7Z"), time("2026-01-05T12:00:02Z"));
        let is_within = |text: &str| from <= time(text).to_string() && time(text).to_string() <= to;
        let within = ["00", "00.000001", "00.9", "01.5", "02", "02.999999999"];
        assert!(within.iter().all(|second| is_within(&format!("2026-01-05T12:00:{second}Z"))));
        assert!(!["11:59:59.999", "12:00:03"].iter().any(|time| is_within(&format!("2026-01-05T{time}Z"))));
    }
}
