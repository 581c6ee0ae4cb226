//! Journals written, torn, damaged and read again.

use proptest::prelude::*;

use jiff::Timestamp;
use protocol::Digest;

use super::line::{TOGETHER, checksum};
use super::*;
use crate::plan::{Direction, Plan};

/// Of a run of this plan, on this host.
pub(crate) fn opening(plan: &Plan) -> Opening {
    Opening {
        format: FORMAT,
        writer: Writer { path: "/u".into(), sha256: Digest([0; 32]), version: "1.0.0".into() },
        command: "update".into(),
        time: Timestamp::UNIX_EPOCH,
        root: "/".into(),
        data_dir: "/var/lib/teleport".into(),
        plan: plan.clone(),
    }
}

/// Of a run without a step.
fn first() -> Opening {
    opening(&Plan::none(Direction::First))
}

fn run() -> Vec<Record> {
    let note =
        Note { snapshot: Some(SnapshotId::Linked), file: StatData::of(Path::new("/")).unwrap(), ..Note::default() };
    vec![
        Record::Begin(Box::new(first())),
        Record::Intent { step: 0 },
        Record::Done { step: 0, note: Note::default() },
        Record::Intent { step: 1 },
        Record::Done { step: 1, note },
        Record::Undo { code: "unhealthy".into(), reason: "line\nbreak".into(), blame: true },
        Record::Evidence,
        Record::DatabaseBack,
        Record::Undone { step: 1 },
        Record::Commit,
        Record::Recover,
        Record::Closed,
    ]
}

fn bytes(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(encode).collect()
}

#[test]
fn what_is_written_is_read_and_the_preallocated_zeros_are_no_records() {
    let records = run();
    let mut bytes = bytes(&records);
    let end = bytes.len() as u64;
    bytes.resize(bytes.len() + 4096, 0);
    assert_eq!(parse(&bytes).unwrap(), (records, end));
}

#[test]
fn a_noted_record_is_written_with_the_next_one_also_where_that_had_to_be_written_twice() {
    let dir = tempfile::tempdir().unwrap();
    let on_disk = || parse(&std::fs::read(dir.path().join(NAME)).unwrap()).unwrap().0.len();
    let mut journal = Journal::create(dir.path(), first()).unwrap();
    journal.append_all(vec![Record::Intent { step: 0 }, Record::Intent { step: 1 }]).unwrap();
    let note = || Note { snapshot: Some(SnapshotId::Linked), ..Note::default() };
    journal.note(Record::Done { step: 0, note: note() });
    assert_eq!((on_disk(), journal.records().len(), journal.snapshot()), (3, 4, Some(SnapshotId::Linked)));
    // A file that cannot be written to.
    let good = std::mem::replace(&mut journal.file, File::open(dir.path().join(NAME)).unwrap());
    journal.append(Record::Evidence).unwrap_err();
    journal.file = good;
    journal.append(Record::DatabaseBack).unwrap();
    assert_eq!(on_disk(), 5);
    let reopened = Journal::open(dir.path(), Path::new("/")).unwrap().unwrap();
    assert_eq!(reopened.records(), journal.records());
    assert_eq!(reopened.records()[3..], [Record::Done { step: 0, note: note() }, Record::DatabaseBack]);
}

#[test]
fn a_record_of_a_later_program_stops_recovery() {
    let json = br#"{"record":"teleported"}"#;
    let mut bytes = bytes(&run()[..2]);
    bytes.extend(format!("{} {}\n", checksum(json), String::from_utf8_lossy(json)).into_bytes());
    assert_eq!(parse(&bytes).unwrap_err().code, Code::JournalUnknown);
    let later = Opening { format: FORMAT + 1, ..first() };
    let error = parse(&encode(&Record::Begin(Box::new(later)))).unwrap_err();
    assert_eq!(error.code, Code::JournalUnknown);
}

#[test]
fn a_reopened_journal_goes_on_where_the_whole_records_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), first()).unwrap();
    journal.append(Record::Intent { step: 0 }).unwrap();
    drop(journal);
    // A torn record behind them, as a power cut leaves it.
    let path = dir.path().join(NAME);
    let whole = parse(&std::fs::read(&path).unwrap()).unwrap().1;
    let mut file = File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(whole)).unwrap();
    file.write_all(b"12345678 {\"record\":\"com").unwrap();
    let mut journal = Journal::open(dir.path(), Path::new("/")).unwrap().unwrap();
    assert_eq!(journal.records().len(), 2);
    journal.append(Record::Recover).unwrap();
    let journal = Journal::open(dir.path(), Path::new("/")).unwrap().unwrap();
    assert_eq!(journal.records().last(), Some(&Record::Recover));
    assert_eq!(journal.to_undo(), [0]);
    journal.close().unwrap();
    assert!(Journal::open(dir.path(), Path::new("/")).unwrap().is_none() && !is_open(dir.path()));
}

#[test]
fn the_records_tell_what_is_to_be_undone_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::create(dir.path(), first()).unwrap();
    let path = dir.path().join(NAME);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 256 * 1024);
    let done = |step, snapshot| {
        let note = Note { snapshot, ..Note::default() };
        Record::Done { step, note }
    };
    let answers = |journal: &Journal| (journal.to_undo(), journal.snapshot(), journal.is_committed());
    assert_eq!(answers(&journal), (vec![], None, false));
    for record in
        [Record::Intent { step: 0 }, done(0, None), Record::Intent { step: 2 }, done(2, Some(SnapshotId::Linked))]
    {
        journal.append(record).unwrap();
    }
    // A step that was begun again is still one step.
    for record in [Record::Intent { step: 2 }, Record::Intent { step: 3 }, done(3, None)] {
        journal.append(record).unwrap();
    }
    assert_eq!(answers(&journal), (vec![3, 2, 0], Some(SnapshotId::Linked), false));
    assert_eq!(journal.undo_reason(), None);
    journal.append(Record::Commit).unwrap();
    assert!(journal.is_committed() && journal.has(&Record::Commit) && !journal.has(&Record::Evidence));
    let undo = Record::Undo { code: "io".into(), reason: "sync".into(), blame: false };
    for record in [Record::Recover, undo, Record::Undone { step: 3 }, Record::Recover] {
        journal.append(record).unwrap();
    }
    assert_eq!(answers(&journal), (vec![2, 0], Some(SnapshotId::Linked), false));
    assert_eq!(journal.undo_reason(), Some(("io", "sync", false)));
    assert!(is_open(dir.path()) && !journal.is_closed());
    assert_eq!(journal.opening().unwrap(), &first());
    journal.append(Record::Closed).unwrap();
    assert!(!is_open(dir.path()) && journal.is_closed());
    assert_eq!(parse(&std::fs::read(&path).unwrap()).unwrap().0, journal.records());
}

#[test]
fn a_torn_tail_is_wiped_before_anything_is_written_behind_the_whole_records() {
    let dir = tempfile::tempdir().unwrap();
    drop(Journal::create(dir.path(), first()).unwrap());
    let path = dir.path().join(NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    let whole = parse(&bytes).unwrap().1 as usize;
    bytes[whole + 200..whole + 240].fill(b'x');
    // And one that reaches to the end of the file.
    for end in [bytes.len(), whole + 3] {
        bytes.truncate(end);
        bytes[end - 3..].fill(b'x');
        durable::write(&path, &bytes, durable::FILE_MODE).unwrap();
        drop(Journal::open(dir.path(), Path::new("/")).unwrap().unwrap());
        assert!(std::fs::read(&path).unwrap()[whole..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn what_a_longer_write_that_failed_has_left_is_not_taken_for_records_that_follow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let mut journal = Journal::create(dir.path(), first()).unwrap();
    let long: Vec<Record> = (0..4).map(|step| Record::Intent { step }).collect();
    // Its bytes are in the file, its sync fails.
    let good = std::mem::replace(&mut journal.file, File::open(&path).unwrap());
    journal.append_all(long.clone()).unwrap_err();
    good.write_all_at(&bytes(&long), journal.end).unwrap();
    journal.file = good;
    journal.append(Record::Recover).unwrap();
    assert!(std::fs::read(&path).unwrap()[journal.end as usize..].iter().all(|&byte| byte == 0));
    let reopened = Journal::open(dir.path(), Path::new("/")).unwrap().unwrap();
    assert_eq!(reopened.records()[1..], [Record::Recover]);
}

#[test]
fn a_write_of_which_a_power_cut_kept_only_the_end_is_a_torn_tail_and_more_than_one_write_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let start = bytes(&run()[..3]);
    for (follow, is_torn) in [(1, true), (TOGETHER - 1, true), (TOGETHER, false)] {
        let mut all = start.clone();
        all.extend(&encode(&Record::Intent { step: 1 })[..10]);
        all.resize(all.len() + 30, 0);
        all.extend(b"}\n");
        all.extend((0..follow).flat_map(|step| encode(&Record::Intent { step })));
        all.resize(all.len() + 512, 0);
        durable::write(&dir.path().join(NAME), &all, durable::FILE_MODE).unwrap();
        let opened = Journal::open(dir.path(), Path::new("/"));
        let read = opened.map(|journal| journal.unwrap().records().len()).map_err(|error| error.code);
        assert_eq!(read, if is_torn { Ok(3) } else { Err(Code::JournalUnknown) }, "{follow}");
    }
}

#[test]
fn an_image_that_was_moved_is_recovered_where_it_is_now() {
    let dir = tempfile::tempdir().unwrap();
    let mut begun = first();
    let grant_traverse = |path: &str| crate::plan::Step::GrantTraverse { path: path.into() };
    begun.root = "/image".into();
    begun.data_dir = "/image/var/lib/teleport".into();
    begun.plan.after = vec![grant_traverse("/image/a")];
    drop(Journal::create(dir.path(), begun.clone()).unwrap());
    let read = |root: &str| {
        let journal = Journal::open(dir.path(), Path::new(root)).unwrap().unwrap();
        journal.opening().unwrap().clone()
    };
    assert_eq!(read("/image"), begun);
    let moved = read("/");
    assert_eq!((moved.root, moved.data_dir), ("/".into(), "/var/lib/teleport".into()));
    assert_eq!(moved.plan.after, [grant_traverse("/a")]);
    begun.plan.after.push(grant_traverse("/elsewhere"));
    drop(Journal::create(dir.path(), begun).unwrap());
    for root in ["/image", "/"] {
        let error = Journal::open(dir.path(), Path::new(root)).unwrap_err();
        assert_eq!(error.code, Code::JournalUnknown, "{error}");
    }
}

#[test]
fn the_writer_of_a_journal_of_any_format_can_be_asked_to_finish_it() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!((writer_of(dir.path()).unwrap(), is_open(dir.path())), (None, false));
    let write = |bytes: &[u8]| durable::write(&dir.path().join(NAME), bytes, durable::FILE_MODE).unwrap();
    write(&[0; 64]);
    assert_eq!((writer_of(dir.path()).unwrap(), is_open(dir.path())), (None, false));
    let later = encode(&Record::Begin(Box::new(Opening { format: FORMAT + 1, ..first() })));
    write(&[&later, &b"what only it knows\n"[..]].concat());
    assert_eq!((writer_of(dir.path()).unwrap(), is_open(dir.path())), (Some(first().writer), true));
    let mut torn = later;
    torn[20] ^= 1;
    write(&torn);
    assert_eq!((writer_of(dir.path()).unwrap(), is_open(dir.path())), (None, true));
    assert_eq!(Journal::open(dir.path(), Path::new("/")).unwrap_err().code, Code::JournalUnknown);
    // What cannot be read may be a run that was interrupted.
    durable::remove_file(&dir.path().join(NAME)).unwrap();
    durable::create_dir_all(&dir.path().join(NAME)).unwrap();
    assert!(is_open(dir.path()) && writer_of(dir.path()).is_err());
    let circle = dir.path().join("circle");
    std::os::unix::fs::symlink(&circle, &circle).unwrap();
    assert!(is_open(&circle) && writer_of(&circle).is_err());
}

proptest! {
    #[test]
    fn a_flipped_byte_never_makes_another_record(at in 0usize..4000, flip in 1u8..=255) {
        let records = run();
        let mut bytes = bytes(&records);
        let at = at % bytes.len();
        bytes[at] ^= flip;
        let (read, _) = parse(&bytes).unwrap();
        prop_assert!(read.len() < records.len());
        prop_assert_eq!(&read[..], &records[..read.len()]);
    }

    #[test]
    fn damage_before_the_last_record_is_no_torn_tail(at in 0usize..4000, flip in 1u8..=255) {
        let dir = tempfile::tempdir().unwrap();
        let (file, records) = (dir.path().join(NAME), run());
        let mut all = bytes(&records[..records.len() - 1]);
        let last = encode(&Record::Recover).len();
        let at = at % (all.len() - last - 1);
        all[at] = if all[at] == flip { b'x' } else { all[at] ^ flip };
        all.resize(all.len() + 64, 0);
        durable::write(&file, &all, durable::FILE_MODE).unwrap();
        prop_assert_eq!(Journal::open(dir.path(), Path::new("/")).unwrap_err().code, Code::JournalUnknown);
        prop_assert!(is_open(dir.path()));
        prop_assert_eq!(std::fs::read(&file).unwrap(), all, "nothing is wiped");
    }
}
