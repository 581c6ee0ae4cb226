//! What somebody without rights does again and again: the first few times are on record, the others are counted, and the count is on
//! record now and then (FLEET §8). One record for each would let anybody fill the disk.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fleet_wire::api::AuditEntry;
use serde_json::json;

/// Between two records of a count.
const RECORD_EVERY: Duration = Duration::from_secs(60 * 60);
/// Times that are on record by themselves, of a token or a person within that time: enough to see what is tried.
const FEW: u64 = 10;
/// How requests of callers who are not known are called; each is counted.
const STRANGERS: &str = "strangers";

/// Who did what how often.
#[derive(Default)]
pub(super) struct Repeats(BTreeMap<(String, String), Repeated>);

struct Repeated {
    /// On record by themselves since `since`.
    told: u64,
    since: Instant,
    /// Not on record.
    more: u64,
    /// The newest of those.
    last: AuditEntry,
}

impl Repeats {
    /// Whether `record` is to be on record by itself; else it is counted.
    pub(super) fn takes(&mut self, record: &AuditEntry) -> bool {
        self.takes_some(record, 1, FEW)
    }

    /// So many more requests of callers who are not known.
    pub(super) fn strangers(&mut self, count: u64, mut record: AuditEntry) {
        STRANGERS.clone_into(&mut record.who);
        if count > 0 {
            self.takes_some(&record, count, 0);
        }
    }

    fn takes_some(&mut self, record: &AuditEntry, count: u64, few: u64) -> bool {
        let key = (record.who.clone(), record.action.clone());
        let new = || Repeated { told: 0, since: Instant::now(), more: 0, last: record.clone() };
        let repeated = self.0.entry(key).or_insert_with(new);
        if repeated.told < few {
            repeated.told += 1;
            return true;
        }
        repeated.more += count;
        repeated.last = record.clone();
        false
    }

    /// The records that are due; of strangers the first at once. With `is_last` all are.
    pub(super) fn due(&self, is_last: bool) -> Vec<AuditEntry> {
        let due = self.0.values().filter(|repeated| repeated.more > 0 && (is_last || repeated.is_due()));
        let of = |repeated: &Repeated| {
            let code = repeated.last.detail.get("code").cloned();
            AuditEntry { detail: json!({ "code": code, "count": repeated.more }), ..repeated.last.clone() }
        };
        due.map(of).collect()
    }

    /// What was due is on record.
    pub(super) fn noted(&mut self) {
        self.0.retain(|_, repeated| {
            let is_over = repeated.since.elapsed() >= RECORD_EVERY;
            if repeated.is_due() && repeated.more > 0 {
                (repeated.told, repeated.more, repeated.since) = (1, 0, Instant::now());
                return true;
            }
            !is_over
        });
    }
}

impl Repeated {
    fn is_due(&self) -> bool {
        self.told == 0 || self.since.elapsed() >= RECORD_EVERY
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn record(who: &str, subject: &str) -> AuditEntry {
        AuditEntry {
            at: Timestamp::UNIX_EPOCH,
            who: who.to_owned(),
            action: "request".to_owned(),
            subject: subject.to_owned(),
            done: false,
            detail: json!({ "code": "forbidden" }),
            ..AuditEntry::default()
        }
    }

    fn counts(records: &[AuditEntry]) -> Vec<(&str, u64)> {
        records.iter().map(|record| (record.who.as_str(), record.detail["count"].as_u64().unwrap())).collect()
    }

    #[test]
    fn strangers_are_counted_once_and_there_is_one_record_an_hour() {
        let mut repeats = Repeats::default();
        assert!(repeats.due(true).is_empty());
        repeats.strangers(3, record("", "admin API"));
        assert_eq!(counts(&repeats.due(false)), [("strangers", 3)]);
        // The record was not kept.
        repeats.strangers(1, record("", "admin API"));
        assert_eq!(counts(&repeats.due(false)), [("strangers", 4)]);
        repeats.noted();
        repeats.strangers(5, record("", "admin API"));
        assert!(repeats.due(false).is_empty(), "within the hour");
        assert_eq!(counts(&repeats.due(true)), [("strangers", 5)], "at the end");
    }

    #[test]
    fn a_token_has_few_records_of_its_own_and_then_a_count_whatever_it_asks_for() {
        let mut repeats = Repeats::default();
        let taken = (0..1000).filter(|number| repeats.takes(&record("token look", &number.to_string()))).count();
        assert_eq!(taken, 10);
        assert!(repeats.takes(&record("token other", "x")), "another token has its own");
        assert!(repeats.due(false).is_empty(), "within the hour");
        assert_eq!(counts(&repeats.due(true)), [("token look", 990)]);
    }
}
