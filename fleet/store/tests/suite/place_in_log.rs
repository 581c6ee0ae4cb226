//! How far a receiver was told, beside the database.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use fleet_store::{Error, Noted, PlaceInLog};

use crate::support::*;

fn place(seq: u64) -> PlaceInLog {
    let noted = Noted { since: second(1_700_000_000), is_told: true, rollout: Some(3) };
    let lasting = BTreeMap::from([("stuck \"prod\"".to_owned(), noted)]);
    PlaceInLog { seq, hash: "ab".repeat(32), at: second(1_700_000_001), lasting }
}

#[test]
fn what_was_written_last_is_read_and_each_receiver_has_its_own() {
    let bed = Bed::new();
    drop(bed.open());
    assert_eq!(PlaceInLog::read(&bed.data(), "webhook").unwrap(), None);
    for seq in [7, u64::MAX] {
        place(seq).write(&bed.data(), "webhook").unwrap();
    }
    assert_eq!(PlaceInLog::read(&bed.data(), "webhook").unwrap(), Some(place(u64::MAX)));
    assert_eq!(PlaceInLog::read(&bed.data(), "command").unwrap(), None);
    let mode = bed.data().join("told-webhook.json").metadata().unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn what_a_crash_left_unfinished_is_no_place_and_damage_is_told() {
    let bed = Bed::new();
    drop(bed.open());
    place(7).write(&bed.data(), "webhook").unwrap();
    let file = bed.data().join("told-webhook.json");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(bed.data().join("told-webhook.json.unfinished"), &whole[..10]).unwrap();
    assert_eq!(PlaceInLog::read(&bed.data(), "webhook").unwrap(), Some(place(7)));
    place(8).write(&bed.data(), "webhook").unwrap();
    assert_eq!(PlaceInLog::read(&bed.data(), "webhook").unwrap(), Some(place(8)));
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(PlaceInLog::read(&bed.data(), "webhook"), Err(Error::Foreign(_))));
}

#[test]
fn a_reader_finds_the_head_and_the_newest_record_of_an_action() {
    let bed = Bed::new();
    let mut store = bed.open();
    for subject in ["one", "two"] {
        let change = fleet_store::Change {
            expected: store.revision().unwrap(),
            book: Some(&book(1)),
            records: vec![record(subject)],
            ..fleet_store::Change::default()
        };
        store.commit(&change).unwrap();
    }
    let reader = store.reader().unwrap();
    let newest = reader.audit(0, 10).unwrap().pop().unwrap();
    assert_eq!((reader.head().unwrap().seq, reader.head().unwrap().hash), (newest.seq, newest.hash.clone()));
    assert_eq!(reader.newest(&newest.action).unwrap(), Some(newest));
    assert_eq!(reader.newest("restore").unwrap(), None);
}
