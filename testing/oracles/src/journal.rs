//! The journal: the whole records at its start and nothing else, however it ends; and it can always be gone on with.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};
use teleport_update::testing::Code;
use teleport_update::testing::journal::{Journal, NAME, Record, is_open, parse, writer_of};
use tempfile::TempDir;

/// Cuts are tried at every byte of the last record, and at so many places before.
const CUTS: usize = 16;

thread_local! {
    static DIR: TempDir = crate::sandbox::dir();
}

/// Any bytes as a journal.
pub fn journal(bytes: &[u8]) {
    let whole = match parse(bytes) {
        Ok((records, end)) => {
            assert_torn_tails(bytes, &records, end as usize);
            Some((records, end as usize))
        }
        Err(error) => {
            assert_eq!(error.code, Code::JournalUnknown);
            None
        }
    };
    DIR.with(|dir| assert_file(dir.path(), bytes, whole));
}

/// Each line of any bytes as a record with the right checksum: what gets past it. Zeros behind, as set aside.
pub fn journal_records(bytes: &[u8]) {
    let mut lines: Vec<u8> = bytes.split(|byte| *byte == b'\n').flat_map(line).collect();
    lines.resize(lines.len() + bytes.len() % 64, 0);
    journal(&lines);
}

fn line(json: &[u8]) -> Vec<u8> {
    let sum: String = Sha256::digest(json)[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    [sum.as_bytes(), b" ", json, b"\n"].concat()
}

/// A journal of these records.
fn written(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(|record| line(&serde_json::to_vec(record).unwrap())).collect()
}

fn assert_torn_tails(bytes: &[u8], records: &[Record], end: usize) {
    assert!(end <= bytes.len() && (end == 0 || bytes[end - 1] == b'\n'));
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').take_while(|text| is_whole(text)).count();
    assert_eq!(records.len(), whole, "not the whole records at the start");
    assert_eq!(parse(&bytes[..end]).unwrap(), (records.to_vec(), end as u64));
    assert_eq!(parse(&written(records)).unwrap().0, records);
    let last_line = bytes[..end.saturating_sub(1)].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let last = (last_line..end).rev().take(256);
    let before = (1..CUTS).map(|part| end * part / CUTS);
    for cut in last.chain(before) {
        let (read, read_end) = parse(&bytes[..cut]).unwrap();
        assert!(records.starts_with(&read) && read_end as usize <= cut);
        assert!(cut < last_line || cut == end || read.len() + 1 == records.len(), "cut at {cut}");
    }
}

/// A record with its checksum and its line end.
fn is_whole(text: &[u8]) -> bool {
    text.len() > 9 && line(&text[9..text.len() - 1]) == text
}

/// As recovery meets it: opened on the system that wrote it and on one that is mounted elsewhere.
fn assert_file(dir: &Path, bytes: &[u8], whole: Option<(Vec<Record>, usize)>) {
    let file = dir.join(NAME);
    for root in ["/", "/mnt/image"] {
        fs::write(&file, bytes).unwrap();
        let opened = Journal::open(dir, Path::new(root));
        let Some((records, end)) = &whole else {
            assert_eq!(opened.map(|_| ()).unwrap_err().code, Code::JournalUnknown);
            assert!(is_open(dir), "a journal that is not understood is not over");
            assert!(fs::read(&file).unwrap() == bytes, "a journal that is not understood was changed");
            continue;
        };
        let is_headless = records.is_empty() && bytes.iter().any(|byte| *byte != 0);
        let mut later = bytes[*end..].split_inclusive(|byte| *byte == b'\n').skip(1);
        // The last one may lack its line end.
        let is_later = |text: &[u8]| is_whole(text) || is_whole(&[text, b"\n"].concat());
        if opened.is_err() && !is_headless && later.any(is_later) {
            assert_eq!(opened.map(|_| ()).unwrap_err().code, Code::JournalUnknown);
            assert!(is_open(dir), "a journal with damage before its last record is not over");
            assert!(fs::read(&file).unwrap() == bytes, "a journal with damage before its last record was changed");
            continue;
        }
        assert_eq!(is_open(dir), is_headless || (!records.is_empty() && !records.contains(&Record::Closed)));
        if is_headless {
            assert_eq!(opened.map(|_| ()).unwrap_err().code, Code::JournalUnknown);
            assert!(fs::read(&file).unwrap() == bytes, "a journal that lost its head was changed");
            continue;
        }
        let Some(mut journal) = opened.unwrap() else {
            assert!(records.is_empty());
            continue;
        };
        assert_eq!(journal.records().len(), records.len());
        assert_eq!(&journal.records()[1..], &records[1..]);
        assert_state(&journal);
        match &records[0] {
            Record::Begin(_) => {
                let opening = journal.opening().unwrap();
                assert_eq!(opening.root, Path::new(root));
                assert_eq!(writer_of(dir).unwrap().as_ref(), Some(&opening.writer));
            }
            _ => assert_eq!(journal.opening().unwrap_err().code, Code::JournalUnknown),
        }
        journal.append(Record::Recover).unwrap();
        let now = fs::read(&file).unwrap();
        let (again, again_end) = parse(&now).unwrap();
        assert_eq!(again.len(), records.len() + 1);
        assert_eq!(again.last(), Some(&Record::Recover));
        assert!(now[..*end] == bytes[..*end] && now[again_end as usize..].iter().all(|byte| *byte == 0));
    }
}

fn assert_state(journal: &Journal) {
    let records = journal.records();
    let undo = journal.to_undo();
    for step in &undo {
        assert!(records.contains(&Record::Intent { step: *step }));
        assert_eq!(undo.iter().filter(|other| *other == step).count(), 1);
    }
    let begun = records.iter().filter_map(|record| match record {
        Record::Intent { step } => Some(step),
        _ => None,
    });
    for step in begun {
        assert!(undo.contains(step) || records.contains(&Record::Undone { step: *step }));
    }
    assert!(!journal.is_committed() || (journal.has(&Record::Commit) && journal.undo_reason().is_none()));
}
