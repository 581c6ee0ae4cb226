//! Requests of callers who are not known: counted, and now and then on record (FLEET §8). One record for each would let
//! anybody fill the disk.

use std::time::{Duration, Instant};

use fleet_store::Record;
use jiff::Timestamp;
use serde_json::json;

/// Between two records.
const RECORD_EVERY: Duration = Duration::from_secs(60 * 60);

/// How many of them are on record, and when the next may be.
pub(super) struct Strangers {
    recorded: u64,
    due: Instant,
}

impl Strangers {
    /// None is on record; the first may be at once.
    pub(super) fn new() -> Self {
        Self { recorded: 0, due: Instant::now() }
    }

    /// The record that is due, where `refused` requests of strangers were refused since the start. With `is_last` it is always due.
    pub(super) fn record(&self, refused: u64, at: Timestamp, is_last: bool) -> Option<Record> {
        let count = refused.saturating_sub(self.recorded);
        if count == 0 || (!is_last && Instant::now() < self.due) {
            return None;
        }
        Some(Record {
            at,
            who: "strangers".to_owned(),
            from: String::new(),
            action: "request".to_owned(),
            subject: "admin API".to_owned(),
            done: false,
            detail: json!({ "code": "unauthenticated", "count": count }),
            before: String::new(),
            after: String::new(),
        })
    }

    /// So many are on record.
    pub(super) fn note(&mut self, refused: u64) {
        self.recorded = refused;
        self.due = Instant::now() + RECORD_EVERY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_once_and_there_is_one_record_an_hour() {
        let at = Timestamp::UNIX_EPOCH;
        let mut strangers = Strangers::new();
        let count = |record: Option<Record>| record.map(|record| record.detail["count"].as_u64().unwrap());
        assert_eq!(count(strangers.record(0, at, true)), None);
        assert_eq!(count(strangers.record(3, at, false)), Some(3));
        // The record was not kept.
        assert_eq!(count(strangers.record(4, at, false)), Some(4));
        strangers.note(4);
        assert_eq!(count(strangers.record(9, at, false)), None, "within the hour");
        assert_eq!(count(strangers.record(9, at, true)), Some(5), "at the end");
    }
}
