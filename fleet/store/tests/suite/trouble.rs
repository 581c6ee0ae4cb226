//! Strangers, second servers, full disks, and files that go away under the server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fleet_engine::resource::Kind;
use fleet_store::{Change, Error};

use crate::support::*;

/// Opening fails with this kind of error, names the database, and changes no byte of it.
fn assert_refused_unchanged(bed: &Bed, is_right: impl Fn(&Error) -> bool) {
    let without_lock = || bytes(&bed.data()).into_iter().filter(|(name, _)| name != "fleet.lock").collect::<Vec<_>>();
    let before = without_lock();
    let error = OpenStore::at(&bed.data()).unwrap_err();
    assert!(is_right(&error), "{error:?}");
    assert!(error.message().contains(bed.database().to_str().unwrap()), "{error}");
    assert!(!error.message().contains('\n'), "{error}");
    assert!(without_lock() == before, "files were changed");
}

fn is_foreign(error: &Error) -> bool {
    matches!(error, Error::Foreign(_))
}

#[test]
fn a_second_server_is_refused_and_told_which_process_has_the_data() {
    let bed = Bed::new();
    let store = bed.open();
    let error = OpenStore::at(&bed.data()).unwrap_err();
    assert!(matches!(error, Error::Locked(_)));
    assert!(error.message().contains(&format!("process {}", std::process::id())), "{error}");
    drop(store);
    bed.open();
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_as_it_is() {
    let bed = Bed::new();
    std::fs::create_dir(bed.data()).unwrap();
    for content in ["", "just a text", &"long ".repeat(100)] {
        std::fs::write(bed.database(), content).unwrap();
        assert_refused_unchanged(&bed, is_foreign);
    }
    std::fs::remove_file(bed.database()).unwrap();
    bed.raw()
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
        .unwrap();
    assert_refused_unchanged(&bed, is_foreign);
}

#[test]
fn a_newer_schema_is_refused_and_left_as_it_is() {
    let bed = Bed::new();
    drop(bed.open());
    let raw = bed.raw();
    raw.execute("UPDATE schema_version SET version = 99", []).unwrap();
    raw.close().unwrap();
    assert_refused_unchanged(&bed, |error| matches!(error, Error::Newer(line) if line.contains("schema 99")));
}

#[test]
fn a_link_in_the_place_of_the_database_is_not_followed() {
    let (bed, other) = (Bed::new(), Bed::new());
    drop(other.open());
    std::fs::create_dir(bed.data()).unwrap();
    std::os::unix::fs::symlink(other.database(), bed.database()).unwrap();
    let before = bytes(&other.data());
    assert!(is_foreign(&OpenStore::at(&bed.data()).unwrap_err()));
    assert!(bytes(&other.data()) == before);
    // A link above it is the operator's choice.
    let link = bed.dir.path().join("link");
    std::os::unix::fs::symlink(other.data(), &link).unwrap();
    OpenStore::at(&link).unwrap();
}

#[test]
fn a_log_without_its_database_is_not_thrown_away() {
    let bed = Bed::new();
    drop(bed.open());
    std::fs::rename(bed.database(), bed.dir.path().join("elsewhere")).unwrap();
    std::fs::write(bed.data().join("fleet.db-wal"), "frames").unwrap();
    assert_refused_unchanged(&bed, is_foreign);
}

#[test]
fn damage_is_found_and_never_a_panic() {
    let bed = Bed::new();
    let mut store = bed.open();
    let hosts = (1..200).map(|id| host(id, "1.0.0")).collect();
    store.commit(&Change { hosts, ..Change::default() }).unwrap();
    write_book(&mut store, &book(1));
    drop(store);
    let whole = std::fs::read(bed.database()).unwrap();
    let mut random = Random(1);
    for page in 0..whole.len() / 4096 {
        let mut damaged = whole.clone();
        damaged[page * 4096 + 100..(page + 1) * 4096].fill_with(|| u8::try_from(random.below(256)).unwrap());
        std::fs::write(bed.database(), damaged).unwrap();
        let read = OpenStore::at(&bed.data()).and_then(|mut store| store.load().map(drop));
        match read {
            // A page that only an index or a free page is in.
            Ok(()) => {}
            Err(error) => {
                assert!(matches!(error, Error::Foreign(_) | Error::Unavailable(_)), "page {page}: {error:?}")
            }
        }
    }
    std::fs::write(bed.database(), &whole[..whole.len() / 2]).unwrap();
    let read = OpenStore::at(&bed.data()).and_then(|mut store| store.load());
    assert!(is_foreign(&read.unwrap_err()), "half of the file");
}

/// What is written after that is called no success, and opening again makes nothing up: it works only where the database and the
/// lock are still the same.
#[test]
fn nothing_is_written_into_what_was_removed_or_replaced_or_without_the_lock() {
    type Trouble = fn(&Path);
    let rows: [(&str, bool, Trouble); 6] = [
        ("a removed database", false, |data| std::fs::remove_file(data.join("fleet.db")).unwrap()),
        ("a removed log", true, |data| std::fs::remove_file(data.join("fleet.db-wal")).unwrap()),
        ("a removed directory", false, |data| std::fs::remove_dir_all(data).unwrap()),
        ("a replaced database", false, |data| {
            std::fs::copy(data.join("fleet.db"), data.join("copy")).unwrap();
            std::fs::rename(data.join("copy"), data.join("fleet.db")).unwrap();
        }),
        ("no lock, which keeps a second server away", false, |data| {
            std::fs::remove_file(data.join("fleet.lock")).unwrap();
        }),
        ("a server that took a new lock", false, |data| {
            std::fs::remove_file(data.join("fleet.lock")).unwrap();
            std::fs::write(data.join("fleet.lock"), "another").unwrap();
        }),
    ];
    for (what, can_reopen, trouble) in rows {
        let bed = Bed::new();
        let mut store = bed.open();
        write_book(&mut store, &book(1));
        trouble(&bed.data());
        let change = Change { expected: 1, records: vec![record("x")], ..Change::default() };
        let error = store.commit(&change).unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{what}: {error:?}");
        assert!(store.revision().is_err(), "{what}: it is not confirmed either");
        let had_database = bed.database().exists();
        let reopened = store.reopen();
        assert_eq!(reopened.is_ok(), can_reopen, "{what}: {reopened:?}");
        assert_eq!(bed.database().exists(), had_database, "{what}: an empty database was made up");
        assert_eq!(store.commit(&change).is_ok(), can_reopen, "{what}");
    }
}

#[test]
fn a_write_by_somebody_else_is_a_mismatch() {
    let bed = Bed::new();
    let mut store = bed.open();
    write_book(&mut store, &book(1));
    bed.raw().execute("UPDATE book SET revision = 5", []).unwrap();
    let change = Change { expected: 1, records: vec![record("x")], ..Change::default() };
    assert!(matches!(store.commit(&change), Err(Error::Mismatch(_))));
    assert_eq!(store.load().unwrap().revision, 5);
}

#[test]
fn a_lock_held_by_somebody_else_ends_in_an_error_and_not_in_a_wait() {
    let bed = Bed::new();
    let mut store = bed.open();
    let raw = bed.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let change = Change { records: vec![record("x")], ..Change::default() };
    let error = store.commit(&change).unwrap_err();
    assert!(matches!(&error, Error::Unavailable(line) if line.contains("another process")), "{error:?}");
    raw.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.commit(&change).unwrap().entries[0].seq, 1);
}

#[test]
fn a_full_disk_loses_nothing_and_the_store_goes_on_when_there_is_space() {
    let Some(disk) = Tmpfs::new(4096) else { return };
    let data = disk.dir.path().join("data");
    let mut store = OpenStore::at(&data).unwrap();
    write_book(&mut store, &book(1));
    let mut kept = 0;
    let batch = |from: u128| Change {
        expected: 1,
        hosts: (from..from + 100).map(|id| host(id, "1.0.0")).collect(),
        arrivals: u64::try_from(from).unwrap() + 100,
        records: vec![record("x")],
        ..Change::default()
    };
    let error = loop {
        match store.commit(&batch(kept)) {
            Ok(_) => kept += 100,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Unavailable(line) if line.contains("no space left")), "{error:?}");
    let check = |store: &mut OpenStore| {
        let Loaded { state, hosts, .. } = load(&mut **store).unwrap();
        assert_eq!((hosts.len() as u128, u128::from(state.arrivals)), (kept, kept));
        let verified = store.verify(None).unwrap();
        assert_eq!((u128::from(verified.records), verified.fault), (kept / 100, None));
    };
    check(&mut store);
    let error = store.backup(&disk.dir.path().join("backup")).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    assert_eq!(names(disk.dir.path()), ["data"], "half a backup is left");
    drop(store);
    let mut store = OpenStore::at(&data).unwrap();
    check(&mut store);
    disk.remount("size=64m");
    store.commit(&batch(kept)).unwrap();
    assert_eq!(load(&mut *store).unwrap().hosts.len() as u128, kept + 100);
}

#[test]
fn a_disk_that_cannot_be_written_is_named() {
    let Some(disk) = Tmpfs::new(4096) else { return };
    let data = disk.dir.path().join("data");
    drop(OpenStore::at(&data).unwrap());
    disk.remount("ro");
    let error = OpenStore::at(&data).unwrap_err();
    let names_it = |line: &str| line.contains(data.to_str().unwrap()) && line.to_lowercase().contains("read-only");
    assert!(matches!(&error, Error::Unavailable(line) if names_it(line)), "{error:?}");
}

#[test]
fn a_missing_parent_and_a_file_for_a_directory_are_named() {
    let bed = Bed::new();
    let error = OpenStore::at(&bed.data().join("deep")).unwrap_err();
    assert!(matches!(&error, Error::Unavailable(line) if line.contains("deep")), "{error:?}");
    let file = bed.dir.path().join("file");
    std::fs::write(&file, "x").unwrap();
    assert!(is_foreign(&OpenStore::at(&file).unwrap_err()));
}

#[test]
fn a_log_that_a_reader_kept_from_ending_is_shortened_when_the_reader_is_gone() {
    let bed = Bed::new();
    let mut store = bed.open();
    let mebibyte = 1 << 20;
    let log = || bed.data().join("fleet.db-wal").metadata().unwrap().len();
    let mut write = |revision: u64| {
        // Each time other bytes: SQLite does not write a page again that stays as it is.
        let yaml = revision.to_string().repeat(8 * mebibyte / revision.to_string().len());
        let resource = (Kind::Channel, "c".to_owned(), Some((revision.to_string(), yaml)));
        store.commit(&Change { expected: revision, resources: vec![resource], ..Change::default() }).unwrap();
    };
    let reader = bed.raw();
    reader.execute_batch("BEGIN; SELECT * FROM book").unwrap();
    (0..20).for_each(&mut write);
    assert!(log() > 100 << 20, "the reader keeps it");
    reader.execute_batch("COMMIT").unwrap();
    (20..40).for_each(&mut write);
    assert!(log() <= 64 << 20, "{} bytes", log());
}

#[test]
fn what_is_in_doubt_stays_so_until_nobody_else_reads_the_log() {
    let bed = Bed::new();
    let mut store = bed.open();
    write_book(&mut store, &book(1));
    let reader = bed.raw();
    reader.execute_batch("BEGIN; SELECT * FROM book").unwrap();
    write_book(&mut store, &book(2));
    assert!(matches!(store.reopen(), Err(Error::Unavailable(_))), "the log has frames that a reader keeps");
    let change = Change { expected: 2, records: vec![record("x")], ..Change::default() };
    assert!(store.commit(&change).is_err());
    reader.execute_batch("COMMIT").unwrap();
    store.reopen().unwrap();
    store.commit(&change).unwrap();
}

#[test]
#[ignore = "writes with another umask"]
fn writer_with_an_umask() {
    let Some(dir) = helper_dir() else { return };
    let mut store = OpenStore::at(&dir).unwrap();
    write_book(&mut store, &book(1));
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    store.backup(&dir.parent().unwrap().join("backup")).unwrap();
    assert_eq!(mode(&dir.parent().unwrap().join("backup")), 0o600);
    assert_eq!(mode(&dir), 0o700);
    names(&dir).iter().for_each(|name| assert_eq!(mode(&dir.join(name)), 0o600, "{name}"));
    eprintln!("done");
}

#[test]
fn modes_do_not_depend_on_the_umask() {
    for umask in ["000", "077", "777"] {
        let bed = Bed::new();
        let script = format!("umask {umask}; exec \"$@\"");
        let words = ["sh", "-c", &script, "sh"];
        let output = helper(&words, "trouble::writer_with_an_umask", &bed.data()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("done"), "umask {umask}: {said}");
    }
}

#[test]
#[ignore = "looks at a store that another process has open"]
fn stranger() {
    let Some(dir) = helper_dir() else { return };
    let read = fleet_store::StoreReader::open(&dir.as_path().into()).and_then(|reader| reader.head());
    assert!(matches!(&read, Err(Error::Locked(line)) if line.contains("another process")), "{read:?}");
    assert!(fleet_store::backup(&dir, &dir.parent().unwrap().join("stolen")).is_err());
    let found = fleet_store::doctor(&dir.as_path().into(), || None);
    let last = found.last().unwrap();
    assert!(last.what.contains("is open in another process") && !last.advice.is_empty(), "{found:#?}");
    let theirs = vec![last.clone()];
    assert_eq!(fleet_store::doctor(&dir.as_path().into(), || Some(theirs.clone())), theirs, "the owner's word counts");
    eprintln!("done");
}

/// A page of a mapped file without room on the disk ends the process, where the file system reserves none: nothing is mapped.
#[test]
fn the_process_that_owns_the_database_maps_no_file_of_it_and_reads_beside_its_writer() {
    let bed = Bed::new();
    let mut store = bed.open();
    write_records(&mut store, &["x"]);
    let reader = store.reader().unwrap();
    assert_eq!(reader.head().unwrap().seq, 1);
    write_records(&mut store, &["y"]);
    assert_eq!(reader.head().unwrap().seq, 2);
    store.backup(&bed.dir.path().join("backup")).unwrap();
    assert!(!names(&bed.data()).iter().any(|name| name.contains("shm")), "{:?}", names(&bed.data()));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains(bed.data().to_str().unwrap()), "{maps}");
    let output = helper(&[], "trouble::stranger", &bed.data()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    write_records(&mut store, &["z"]);
    // A store that opens again closes first: whoever reads meanwhile is alone for a moment.
    drop((store, reader));
    let reader = fleet_store::StoreReader::open(&bed.place()).unwrap();
    assert_eq!(reader.head().unwrap().seq, 3);
    let mut store = bed.open();
    write_records(&mut store, &["a"]);
    assert_eq!(reader.head().unwrap().seq, 4);
    assert!(!names(&bed.data()).iter().any(|name| name.contains("shm")), "{:?}", names(&bed.data()));
}
