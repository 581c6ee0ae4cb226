//! A database that is older than what was seen, another one, or a backup put in place by hand comes up held; a crash holds nothing.

use fleet_engine::rollout_state::{HaltCause, Holds, RolloutState};
use fleet_store::{FindingLevel, doctor};

use crate::support::*;

/// Nothing is held, one decision is on record, and a copy of the database lies beside it.
fn with_copy(bed: &Bed) -> std::path::PathBuf {
    let mut store = bed.open();
    write_book(&mut store, &book(2));
    write_records(&mut store, &["version"]);
    drop(store);
    let copy = bed.dir.path().join("copy");
    std::fs::copy(bed.database(), &copy).unwrap();
    copy
}

/// Why the data is strange when it is opened, and its holds.
fn taken(bed: &Bed) -> (Option<String>, Holds) {
    let mut store = bed.open();
    let holds = store.load().unwrap().book.map(|book| book.holds).unwrap_or_default();
    (store.strange().map(str::to_owned), holds)
}

#[test]
fn an_older_database_that_is_put_back_is_held() {
    let bed = Bed::new();
    let copy = with_copy(&bed);
    let epoch = bed.open().load().unwrap().epoch;
    let lost = write_records(&mut bed.open(), &["halt"]).pop().unwrap();
    std::fs::copy(&copy, bed.database()).unwrap();
    let found = doctor(&bed.place(), || None);
    let problem = found.iter().find(|finding| finding.level == FindingLevel::Problem).unwrap();
    assert!(problem.what.contains("record 2") && problem.what.contains("ends with 1"), "{problem:?}");
    let (line, holds) = taken(&bed);
    assert!(line.unwrap().contains("record 2"));
    assert!(holds.all && holds.cause == HaltCause::StoreLost && holds.has("any"));
    let (line, holds) = taken(&bed);
    assert!(line.is_none() && holds.all, "it is found once, and lasts");
    let mut store = bed.open();
    let state = store.load().unwrap();
    assert_ne!(state.epoch, epoch, "hosts tell again");
    let fault = store.verify(Some(&lost.hash)).unwrap().fault.unwrap();
    assert!(fault.contains("record 2"), "it names the record that it left: {fault}");
    let free = RolloutState { holds: Holds::default(), ..state.book.unwrap() };
    write_book(&mut store, &free);
    drop(store);
    assert_eq!(taken(&bed), (None, Holds::default()), "`run --all` ends it");
}

#[test]
fn a_database_that_is_gone_or_another_one_is_held() {
    let bed = Bed::new();
    with_copy(&bed);
    std::fs::remove_file(bed.database()).unwrap();
    let (line, holds) = taken(&bed);
    assert!(line.unwrap().contains("ends with 0") && holds.cause == HaltCause::StoreLost && holds.all);
    let (bed, other) = (Bed::new(), Bed::new());
    with_copy(&bed);
    write_records(&mut other.open(), &["one", "two", "three"]);
    std::fs::copy(other.database(), bed.database()).unwrap();
    assert!(taken(&bed).1.all, "its records are more, and others");
}

#[test]
fn a_backup_that_is_put_in_place_by_hand_is_held_as_after_a_restore() {
    let (bed, other) = (Bed::new(), Bed::new());
    with_copy(&bed);
    let backup = bed.dir.path().join("backup");
    bed.open().backup(&backup).unwrap();
    std::fs::create_dir(other.data()).unwrap();
    std::fs::copy(&backup, other.database()).unwrap();
    let (line, holds) = taken(&other);
    assert!(line.unwrap().contains("backup") && holds.all && holds.cause == HaltCause::Restore);
    assert!(other.open().load().unwrap().is_restored_held);
    assert_eq!(taken(&other).0, None);
    assert_eq!(taken(&bed), (None, Holds::default()), "what was copied is no backup");
}

#[test]
fn a_restore_is_not_taken_for_a_loss() {
    let bed = Bed::new();
    with_copy(&bed);
    let backup = bed.dir.path().join("backup");
    bed.open().backup(&backup).unwrap();
    write_records(&mut bed.open(), &["halt"]);
    let witness = bed.data().join("fleet.db.witness");
    let before = std::fs::read(&witness).unwrap();
    fleet_store::restore(&backup, &bed.data(), true).unwrap();
    assert_ne!(std::fs::read(&witness).unwrap(), before, "a restore notes its own record");
    let (line, holds) = taken(&bed);
    assert_eq!((line, holds.cause), (None, HaltCause::Restore));
    // Killed before that.
    std::fs::write(&witness, &before).unwrap();
    let (line, holds) = taken(&bed);
    assert_eq!((line, holds.cause), (None, HaltCause::Restore));
}

#[test]
fn a_crash_between_decision_and_witness_holds_nothing() {
    let bed = Bed::new();
    with_copy(&bed);
    let witness = bed.data().join("fleet.db.witness");
    let before = std::fs::read(&witness).unwrap();
    write_records(&mut bed.open(), &["halt"]);
    let after = std::fs::read(&witness).unwrap();
    assert_ne!(after, before, "it is written with the decision");
    std::fs::write(&witness, &before).unwrap();
    std::fs::write(bed.data().join("fleet.db.witness.unfinished"), "half").unwrap();
    assert_eq!(taken(&bed), (None, Holds::default()));
    let head = |bytes: Vec<u8>| bytes.split(|byte| *byte == b'[').next().unwrap().to_owned();
    assert_eq!(head(std::fs::read(&witness).unwrap()), head(after), "the start notes it");
    assert!(!names(&bed.data()).iter().any(|name| name.ends_with(".unfinished")));
    std::fs::remove_file(&witness).unwrap();
    assert_eq!(taken(&bed), (None, Holds::default()), "data of an earlier version");
    assert!(witness.exists());
}

#[test]
fn a_witness_that_cannot_be_written_keeps_no_decision_from_being_made() {
    let bed = Bed::new();
    let mut store = bed.open();
    let (witness, way) = (bed.data().join("fleet.db.witness"), bed.data().join("fleet.db.witness.unfinished"));
    std::fs::create_dir(&way).unwrap();
    let head = write_records(&mut store, &["halt"]).pop().unwrap();
    assert!(!std::fs::read_to_string(&witness).unwrap().contains(&head.hash));
    assert!(store.unwitnessed().unwrap().message().contains("fleet.db.witness"), "{:?}", store.unwitnessed());
    std::fs::remove_dir(&way).unwrap();
    let expected = store.revision().unwrap();
    store.commit(&fleet_store::Change { expected, ..Default::default() }).unwrap();
    assert!(std::fs::read_to_string(&witness).unwrap().contains(&head.hash), "the next write notes it");
    assert_eq!(store.unwitnessed(), None);
}

#[test]
fn a_damaged_witness_is_refused_in_a_line() {
    let bed = Bed::new();
    with_copy(&bed);
    std::fs::write(bed.data().join("fleet.db.witness"), "{").unwrap();
    let error = OpenStore::at(&bed.data()).unwrap_err().to_string();
    assert!(error.contains("fleet.db.witness is damaged") && !error.contains('\n'), "{error}");
}

/// Stops the server as a crash does, after some decisions, and puts `file` in the database's place: the log is left beside it.
fn crashed_with(bed: &Bed, file: &std::path::Path) -> std::path::PathBuf {
    let (log, kept) = (bed.data().join("fleet.db-wal"), bed.dir.path().join("log"));
    let mut store = bed.open();
    write_records(&mut store, &["halt", "run"]);
    std::fs::copy(&log, &kept).unwrap();
    drop(store);
    std::fs::copy(file, bed.database()).unwrap();
    std::fs::copy(&kept, &log).unwrap();
    kept
}

/// The only log that was set aside.
fn set_aside(bed: &Bed) -> std::path::PathBuf {
    let is_kept = |name: &String| name.starts_with("fleet.db.replaced-") && name.ends_with("-wal");
    let kept: Vec<_> = names(&bed.data()).into_iter().filter(is_kept).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    bed.data().join(&kept[0])
}

#[test]
fn a_backup_beside_the_log_of_a_crash_is_held_and_the_log_is_kept_and_never_read() {
    for has_witness in [true, false] {
        let bed = Bed::new();
        with_copy(&bed);
        let backup = bed.dir.path().join("backup");
        bed.open().backup(&backup).unwrap();
        let log = crashed_with(&bed, &backup);
        if !has_witness {
            std::fs::remove_file(bed.data().join("fleet.db.witness")).unwrap();
        }
        let (line, holds) = taken(&bed);
        assert!(holds.all && holds.has("any"), "{line:?}");
        assert_eq!(holds.cause == HaltCause::Restore, !has_witness);
        let kept = set_aside(&bed);
        assert!(line.unwrap().contains(kept.to_str().unwrap()));
        assert_eq!(std::fs::read(kept).unwrap(), std::fs::read(log).unwrap());
        let mut store = bed.open();
        assert_eq!(store.strange(), None, "it is found once");
        assert!(store.load().unwrap().is_restored_held);
        assert_eq!(store.verify(None).unwrap().fault, None);
    }
}

#[test]
fn an_older_copy_beside_a_newer_log_is_held_and_the_log_is_not_read_into_it() {
    let bed = Bed::new();
    let copy = with_copy(&bed);
    crashed_with(&bed, &copy);
    let (line, holds) = taken(&bed);
    assert!(holds.all && holds.cause == HaltCause::StoreLost, "{line:?}");
    set_aside(&bed);
    let mut store = bed.open();
    let subjects: Vec<_> = store.audit(0, 10).unwrap().into_iter().map(|entry| entry.subject).collect();
    assert_eq!(subjects, ["version", "store"], "nothing of the log is in it");
    assert_eq!(store.load().unwrap().book.unwrap().holds.cause, HaltCause::StoreLost);
}

#[test]
fn the_log_of_a_crash_is_read_into_its_own_database_whatever_a_power_cut_left_of_the_witness() {
    let bed = Bed::new();
    with_copy(&bed);
    let (witness, log, kept) =
        (bed.data().join("fleet.db.witness"), bed.data().join("fleet.db-wal"), bed.dir.path().join("crash"));
    std::fs::create_dir(&kept).unwrap();
    let before = std::fs::read_to_string(&witness).unwrap();
    let mut store = bed.open();
    write_records(&mut store, &["halt"]);
    for file in [&bed.database(), &log, &witness] {
        std::fs::copy(file, kept.join(file.file_name().unwrap())).unwrap();
    }
    drop(store);
    // As the earlier version wrote it; as it is; and with the generation before as well, which is durable before the next begins.
    let head = before.split(",\"generations\"").next().unwrap().to_owned() + "}";
    let now = std::fs::read_to_string(kept.join("fleet.db.witness")).unwrap();
    let of = |text: &str| text.split(['[', ']']).nth(1).unwrap().to_owned();
    let both = before.replace(&of(&before), &format!("{},{}", of(&before), of(&now)));
    for text in [head, now, both] {
        for file in [&bed.database(), &log] {
            std::fs::copy(kept.join(file.file_name().unwrap()), file).unwrap();
        }
        std::fs::write(&witness, &text).unwrap();
        let mut store = bed.open();
        assert_eq!(store.strange(), None, "{text}");
        assert_eq!(store.audit(0, 10).unwrap().len(), 2, "{text}");
        assert!(!store.load().unwrap().book.unwrap().holds.all);
    }
}
