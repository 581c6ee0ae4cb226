//! The chain of the audit log: whatever somebody with the file changes is found.

use fleet_store::Change;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rusqlite::Connection;

use crate::support::*;

/// Columns that a record has beside its number.
const TEXTS: [&str; 10] = ["at", "who", "origin", "action", "subject", "detail", "before", "after", "previous", "hash"];
/// Records in the log of these tests.
const RECORDS: i64 = 8;

#[derive(Debug, Clone)]
enum Mutation {
    Change { seq: i64, column: usize, text: String },
    Move { seq: i64, from: usize, to: usize },
    Done { seq: i64 },
    Remove { seq: i64 },
    RemoveAndRenumber { seq: i64 },
    Swap { one: i64, other: i64 },
    Insert { seq: i64, copied: i64 },
    Append { copied: i64 },
    Head { seq: i64 },
}

fn mutations() -> impl Strategy<Value = Mutation> {
    let (seq, column) = (1..=RECORDS, 0..TEXTS.len());
    prop_oneof![
        (seq.clone(), column.clone(), ".{0,6}").prop_map(|(seq, column, text)| Mutation::Change { seq, column, text }),
        (seq.clone(), column.clone(), column).prop_map(|(seq, from, to)| Mutation::Move { seq, from, to }),
        seq.clone().prop_map(|seq| Mutation::Done { seq }),
        seq.clone().prop_map(|seq| Mutation::Remove { seq }),
        seq.clone().prop_map(|seq| Mutation::RemoveAndRenumber { seq }),
        (seq.clone(), seq.clone()).prop_map(|(one, other)| Mutation::Swap { one, other }),
        (seq.clone(), seq.clone()).prop_map(|(seq, copied)| Mutation::Insert { seq, copied }),
        seq.clone().prop_map(|copied| Mutation::Append { copied }),
        (0..RECORDS).prop_map(|seq| Mutation::Head { seq }),
    ]
}

/// Everything that the log is, for comparison.
fn content(raw: &Connection) -> Vec<String> {
    let columns = TEXTS.join(" || char(0) || ");
    let mut rows =
        raw.prepare(&format!("SELECT seq || char(0) || done || char(0) || {columns} FROM audit ORDER BY seq")).unwrap();
    let mut content: Vec<String> = rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    content.push(raw.query_row("SELECT head_seq || head_hash FROM store", [], |row| row.get(0)).unwrap());
    content
}

fn copy(raw: &Connection, copied: i64, seq: i64) {
    let columns = TEXTS.join(", ");
    let sql = format!("INSERT INTO audit (seq, done, {columns}) SELECT ?2, done, {columns} FROM audit WHERE seq = ?1");
    raw.execute(&sql, (copied, seq)).unwrap();
}

fn shift(raw: &Connection, from: i64, by: i64) {
    // By way of large numbers: each number may be there only once.
    raw.execute("UPDATE audit SET seq = seq + 1000 WHERE seq >= ?1", [from]).unwrap();
    raw.execute("UPDATE audit SET seq = seq - 1000 + ?1 WHERE seq > 1000", [by]).unwrap();
}

fn apply(raw: &Connection, mutation: &Mutation) {
    match mutation {
        Mutation::Change { seq, column, text } => {
            raw.execute(&format!("UPDATE audit SET {} = ?1 WHERE seq = ?2", TEXTS[*column]), (text, seq)).unwrap();
        }
        Mutation::Move { seq, from, to } => {
            let (from, to) = (TEXTS[*from], TEXTS[*to]);
            if from != to {
                let sql = format!("UPDATE audit SET {to} = {from} || {to}, {from} = '' WHERE seq = ?1");
                raw.execute(&sql, [seq]).unwrap();
            }
        }
        Mutation::Done { seq } => drop(raw.execute("UPDATE audit SET done = 1 - done WHERE seq = ?1", [seq]).unwrap()),
        Mutation::Remove { seq } => drop(raw.execute("DELETE FROM audit WHERE seq = ?1", [seq]).unwrap()),
        Mutation::RemoveAndRenumber { seq } => {
            raw.execute("DELETE FROM audit WHERE seq = ?1", [seq]).unwrap();
            shift(raw, *seq, -1);
        }
        Mutation::Swap { one, other } => {
            raw.execute("UPDATE audit SET seq = 1000 WHERE seq = ?1", [one]).unwrap();
            raw.execute("UPDATE audit SET seq = ?1 WHERE seq = ?2", [one, other]).unwrap();
            raw.execute("UPDATE audit SET seq = ?1 WHERE seq = 1000", [other]).unwrap();
        }
        Mutation::Insert { seq, copied } => {
            copy(raw, *copied, 5000);
            raw.execute("UPDATE audit SET seq = seq + 1000 WHERE seq >= ?1 AND seq < 5000", [seq]).unwrap();
            raw.execute("UPDATE audit SET seq = seq - 999 WHERE seq > 1000 AND seq < 5000", []).unwrap();
            raw.execute("UPDATE audit SET seq = ?1 WHERE seq = 5000", [seq]).unwrap();
        }
        Mutation::Append { copied } => copy(raw, *copied, RECORDS + 1),
        Mutation::Head { seq } => {
            let sql =
                "UPDATE store SET head_seq = ?1, head_hash = coalesce((SELECT hash FROM audit WHERE seq = ?1), '')";
            raw.execute(sql, [seq]).unwrap();
        }
    }
}

/// A log of [`RECORDS`] records, and its head.
fn log(bed: &Bed) -> String {
    let subjects: Vec<String> = (0..RECORDS).map(|number| format!("group {number}")).collect();
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    write_records(&mut bed.open(), &subjects).pop().unwrap().hash
}

fn without_triggers(raw: &Connection) {
    raw.execute_batch(
        "PRAGMA ignore_check_constraints = 1; DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_removed; \
         DROP TRIGGER audit_goes_on;",
    )
    .unwrap();
}

#[test]
fn any_single_mutation_is_found() {
    let bed = Bed::new();
    log(&bed);
    let whole = std::fs::read(bed.database()).unwrap();
    let runner = Config { cases: 150, failure_persistence: None, ..Config::default() };
    TestRunner::new(runner)
        .run(&mutations(), |mutation| {
            std::fs::write(bed.database(), &whole).unwrap();
            let raw = bed.raw();
            without_triggers(&raw);
            let before = content(&raw);
            apply(&raw, &mutation);
            let is_changed = content(&raw) != before;
            raw.close().unwrap();
            let verified = bed.open().verify(None).unwrap();
            prop_assert_eq!(verified.fault.is_some(), is_changed, "{:?}: {:?}", mutation, verified.fault);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_whole_log_verifies_and_knows_each_head_that_it_had() {
    let bed = Bed::new();
    let mut store = bed.open();
    let first = write_records(&mut store, &["a", "b"]);
    write_records(&mut store, &["c"]);
    let verified = store.verify(Some(&first[1].hash)).unwrap();
    assert_eq!((verified.records, verified.head.seq, verified.fault), (3, 3, None));
    assert_eq!(verified.head.hash, store.audit(2, 1).unwrap()[0].hash);
    assert_eq!(store.reader().unwrap().verify(Some(&first[0].hash)).unwrap().fault, None);
    assert_eq!(bed_of_nothing().fault, None);
}

fn bed_of_nothing() -> fleet_wire::api::Verified {
    Bed::new().open().verify(None).unwrap()
}

#[test]
fn the_newest_records_come_first_before_a_number_and_about_a_subject() {
    let bed = Bed::new();
    let mut store = bed.open();
    write_records(&mut store, &["a", "b", "a", "c"]);
    let reader = store.reader().unwrap();
    let numbers = |before, subject, limit| {
        let records = reader.latest(before, subject, limit).unwrap();
        records.iter().map(|record| record.seq).collect::<Vec<_>>()
    };
    assert_eq!(numbers(None, None, 10), [4, 3, 2, 1]);
    assert_eq!(numbers(Some(3), None, 10), [2, 1]);
    assert_eq!(numbers(None, None, 2), [4, 3]);
    assert_eq!(numbers(None, Some("a"), 10), [3, 1]);
    assert_eq!(numbers(Some(3), Some("a"), 10), [1]);
    assert_eq!(numbers(None, Some("a' OR 1=1 --"), 10), [0; 0]);
    assert_eq!(numbers(Some(u64::MAX), None, 1), [4]);
}

#[test]
fn a_cut_that_also_forged_the_remembered_head_is_found_by_the_head_kept_elsewhere() {
    let bed = Bed::new();
    let head = log(&bed);
    let raw = bed.raw();
    without_triggers(&raw);
    raw.execute("DELETE FROM audit WHERE seq > 5", []).unwrap();
    raw.execute("UPDATE store SET head_seq = 5, head_hash = (SELECT hash FROM audit WHERE seq = 5)", []).unwrap();
    raw.close().unwrap();
    let store = bed.open();
    assert_eq!(store.verify(None).unwrap().fault, None, "nothing in the file shows it");
    let fault = store.verify(Some(&head)).unwrap().fault.unwrap();
    assert!(fault.contains(&head), "{fault}");
}

#[test]
fn after_a_cut_the_store_still_writes_and_the_cut_stays_visible() {
    let bed = Bed::new();
    log(&bed);
    let raw = bed.raw();
    without_triggers(&raw);
    raw.execute("DELETE FROM audit WHERE seq = ?1", [RECORDS]).unwrap();
    raw.close().unwrap();
    let mut store = bed.open();
    assert!(store.strange().unwrap().contains("record 8"), "what was cut off was seen: everything is held, on record");
    assert_eq!(write_records(&mut store, &["a stop"])[0].seq, u64::try_from(RECORDS).unwrap() + 2);
    let fault = store.verify(None).unwrap().fault.unwrap();
    assert!(fault.contains("record 8 is missing"), "{fault}");
}

#[test]
fn behind_a_forged_record_the_store_still_writes_and_it_stays_visible() {
    let bed = Bed::new();
    log(&bed);
    let raw = bed.raw();
    without_triggers(&raw);
    apply(&raw, &Mutation::Append { copied: 2 });
    raw.close().unwrap();
    let mut store = bed.open();
    assert_eq!(write_records(&mut store, &["a stop"])[0].seq, u64::try_from(RECORDS).unwrap() + 2);
    let fault = store.verify(None).unwrap().fault.unwrap();
    assert!(fault.contains("record 9 "), "{fault}");
}

#[test]
fn ordinary_statements_cannot_change_the_log() {
    let bed = Bed::new();
    log(&bed);
    let raw = bed.raw();
    let columns = TEXTS.join(", ");
    for sql in [
        "UPDATE audit SET who = 'me' WHERE seq = 1".to_owned(),
        "DELETE FROM audit".to_owned(),
        format!(
            "INSERT OR REPLACE INTO audit (seq, done, {columns}) SELECT 2, done, {columns} FROM audit WHERE seq = 1"
        ),
        format!("INSERT INTO audit (seq, done, {columns}) SELECT 0, done, {columns} FROM audit WHERE seq = 1"),
    ] {
        assert!(raw.execute(&sql, []).is_err(), "{sql}");
    }
    raw.close().unwrap();
    assert_eq!(bed.open().verify(None).unwrap().fault, None);
}

#[test]
fn a_change_that_fails_leaves_no_record_and_no_gap() {
    let bed = Bed::new();
    let mut store = bed.open();
    write_records(&mut store, &["a"]);
    let failing = Change { expected: 9, records: vec![record("lost")], ..Change::default() };
    store.commit(&failing).unwrap_err();
    let failing = Change { arrivals: u64::MAX, records: vec![record("lost")], ..Change::default() };
    store.commit(&failing).unwrap_err();
    assert_eq!(write_records(&mut store, &["b"])[0].seq, 2);
    assert_eq!(store.verify(None).unwrap().fault, None);
}
