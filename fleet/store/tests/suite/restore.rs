//! A restore comes up held, says what it left, loses nothing, and is all or nothing.

use std::path::PathBuf;

use fleet_engine::rollout_state::RolloutState;
use fleet_store::{Error, restore};

use crate::support::*;

/// Data with rollout 2 in which `released` is let go while all others are held, and a backup of it.
fn with_backup(bed: &Bed) -> PathBuf {
    let mut store = bed.open();
    let mut book = book(2);
    book.holds.all = true;
    book.holds.release("released");
    book.holds.hold("held");
    write_book(&mut store, &book);
    write_records(&mut store, &["before"]);
    let to = bed.dir.path().join("backup");
    store.backup(&to).unwrap();
    to
}

fn replaced(bed: &Bed) -> Vec<String> {
    names(&bed.data()).into_iter().filter(|name| name.starts_with("fleet.db.replaced-")).collect()
}

#[test]
fn a_restored_store_is_held_in_a_new_epoch_and_names_what_it_left() {
    let bed = Bed::new();
    let backup = with_backup(&bed);
    let mut store = bed.open();
    let epoch = store.load().unwrap().epoch;
    write_book(&mut store, &book(3));
    let left = write_records(&mut store, &["lost"]).pop().unwrap();
    drop(store);
    let restored = restore(&backup, &bed.data(), true).unwrap();
    assert_eq!((restored.rollout, restored.left.as_ref().unwrap().hash.as_str()), (2, left.hash.as_str()));
    let mut store = bed.open();
    let state = store.load().unwrap();
    let held = state.book.unwrap();
    assert_eq!(held.number, 2);
    assert_eq!(held.given(), 3, "is given to nobody again");
    assert!(held.holds.has("released") && held.holds.has("held") && held.holds.has("any"));
    assert!(state.is_restored_held);
    assert_ne!(state.epoch, epoch);
    assert_eq!(state.revision, restored.revision);
    assert_eq!(state.revision, 3, "higher than any that was seen");
    let record = store.audit(1, 9).unwrap().pop().unwrap();
    assert_eq!((record.seq, record.action.as_str(), record.done), (2, "restore", true));
    assert_eq!(record.detail["left"]["hash"], left.hash.as_str());
    assert_eq!((record.before.as_str(), record.after.as_str()), ("2", "3"));
    assert_eq!(store.verify(None).unwrap().fault, None);
    let fault = store.verify(Some(&left.hash)).unwrap().fault.unwrap();
    assert!(fault.contains("restore of record 2"), "{fault}");
    let free = RolloutState { holds: fleet_engine::rollout_state::Holds::default(), ..held };
    write_book(&mut store, &free);
    assert!(!store.load().unwrap().is_restored_held, "`run --all` ends it");
}

#[test]
fn the_replaced_database_is_kept_whole() {
    let bed = Bed::new();
    let backup = with_backup(&bed);
    let mut store = bed.open();
    write_book(&mut store, &book(9));
    write_records(&mut store, &["lost"]);
    drop(store);
    let path = restore(&backup, &bed.data(), true).unwrap().replaced.unwrap();
    assert_eq!(replaced(&bed), [path.file_name().unwrap().to_str().unwrap()]);
    restore(&backup, &bed.data(), true).unwrap();
    assert_eq!(replaced(&bed).len(), 2, "a second one takes no name of the first");
    let other = Bed::new();
    std::fs::create_dir(other.data()).unwrap();
    std::fs::rename(path, other.database()).unwrap();
    let mut old = other.open();
    assert_eq!(old.load().unwrap().book.unwrap().number, 9);
    assert_eq!(old.verify(None).unwrap().records, 2);
}

#[test]
fn a_backup_goes_into_an_empty_directory() {
    let (bed, other) = (Bed::new(), Bed::new());
    let backup = with_backup(&bed);
    let restored = restore(&backup, &other.data(), false).unwrap();
    assert_eq!((restored.replaced, restored.left), (None, None));
    let state = other.open().load().unwrap();
    assert!(state.is_restored_held && state.book.unwrap().holds.all);
}

/// The restore fails with this kind of error, and the data stays as it is.
fn assert_refused(bed: &Bed, backup: &std::path::Path, force: bool, is_right: impl Fn(&Error) -> bool) {
    let before = OpenStore::at(&bed.data()).map(|mut store| load(&mut *store));
    let error = restore(backup, &bed.data(), force).unwrap_err();
    assert!(is_right(&error), "{error:?}");
    assert!(!error.message().contains("unfinished") && !error.message().contains('\n'), "{error}");
    assert_eq!(OpenStore::at(&bed.data()).map(|mut store| load(&mut *store)), before);
    let left = names(&bed.data());
    let own = ["fleet.db", "fleet.db.spare", "fleet.db.witness", "fleet.lock"];
    assert!(left.iter().all(|name| own.contains(&name.as_str())), "{left:?}");
}

#[test]
fn newer_data_is_replaced_only_by_force() {
    let bed = Bed::new();
    let backup = with_backup(&bed);
    let mut store = bed.open();
    write_book(&mut store, &book(3));
    drop(store);
    assert_refused(&bed, &backup, false, |error| matches!(error, Error::Refused(line) if line.contains("rollout 3")));
    restore(&backup, &bed.data(), true).unwrap();
    let bed = Bed::new();
    let backup = with_backup(&bed);
    // A later step of the same rollout is no newer one.
    write_book(&mut bed.open(), &book(2));
    restore(&backup, &bed.data(), false).unwrap();
}

#[test]
fn the_data_of_a_running_server_is_not_replaced() {
    let bed = Bed::new();
    let backup = with_backup(&bed);
    let store = bed.open();
    assert!(matches!(restore(&backup, &bed.data(), true), Err(Error::Locked(_))));
    assert_eq!(store.revision().unwrap(), 1);
    assert!(replaced(&bed).is_empty());
}

#[test]
fn a_bad_backup_is_refused_also_by_force() {
    let bed = Bed::new();
    let backup = with_backup(&bed);
    let whole = std::fs::read(&backup).unwrap();
    let bad = bed.dir.path().join("bad");
    for content in [&b""[..], b"not a database", &whole[..whole.len() / 2]] {
        std::fs::write(&bad, content).unwrap();
        assert_refused(&bed, &bad, true, |error| matches!(error, Error::Foreign(_)));
    }
    let mut damaged = whole.clone();
    damaged[5000..9000].fill(0x5A);
    std::fs::write(&bad, damaged).unwrap();
    assert_refused(&bed, &bad, true, |error| matches!(error, Error::Foreign(_)));
    std::fs::write(&bad, &whole).unwrap();
    rusqlite::Connection::open(&bad).unwrap().execute("UPDATE schema_version SET version = 9", []).unwrap();
    assert_refused(&bed, &bad, true, |error| matches!(error, Error::Newer(_)));
    std::fs::write(&bad, &whole).unwrap();
    std::fs::write(bed.dir.path().join("bad-wal"), "frames").unwrap();
    assert_refused(&bed, &bad, true, |error| matches!(error, Error::Refused(line) if line.contains("in use")));
    assert_refused(&bed, &bed.dir.path().join("none"), true, |error| matches!(error, Error::Unavailable(_)));
    assert_refused(&bed, &bed.database(), true, |error| matches!(error, Error::Refused(_)));
}

#[test]
fn a_backup_whose_audit_log_was_changed_needs_force() {
    let bed = Bed::new();
    let backup = with_backup(&bed);
    let raw = rusqlite::Connection::open(&backup).unwrap();
    raw.execute_batch("DROP TRIGGER audit_is_not_changed; UPDATE audit SET who = 'nobody'").unwrap();
    raw.close().unwrap();
    assert_refused(&bed, &backup, false, |error| matches!(error, Error::Refused(line) if line.contains("record 1")));
    restore(&backup, &bed.data(), true).unwrap();
    assert!(bed.open().verify(None).unwrap().fault.is_some(), "it is still seen");
}

#[test]
fn data_that_cannot_be_read_is_replaced_by_force_and_kept_with_its_log() {
    let bed = Bed::new();
    let backup = with_backup(&bed);
    std::fs::write(bed.database(), "ruin").unwrap();
    std::fs::write(bed.data().join("fleet.db-wal"), "frames").unwrap();
    assert!(matches!(restore(&backup, &bed.data(), false), Err(Error::Refused(_))));
    let restored = restore(&backup, &bed.data(), true).unwrap();
    assert_eq!(restored.left, None);
    let path = restored.replaced.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"ruin");
    let mut log = path.into_os_string();
    log.push("-wal");
    assert_eq!(std::fs::read(log).unwrap(), b"frames");
    let mut store = bed.open();
    assert_eq!(store.load().unwrap().book.unwrap().number, 2);
    assert!(store.audit(1, 1).unwrap()[0].detail["left_unreadable"].is_string());
}

#[test]
#[ignore = "leaves a log that is not in the database yet"]
fn killed_writer() {
    let Some(dir) = helper_dir() else { return };
    let mut store = OpenStore::at(&dir).unwrap();
    write_book(&mut store, &book(9));
    write_records(&mut store, &["kept only in the log"]);
    eprintln!("done");
    std::process::abort();
}

#[test]
#[ignore = "restores, and is killed at some point"]
fn restorer() {
    let Some(dir) = helper_dir() else { return };
    restore(&dir.parent().unwrap().join("backup"), &dir, true).unwrap();
    eprintln!("done");
}

/// Old data with rollout 9, mostly in its log, and a backup with rollout 2.
fn crashed_bed() -> Bed {
    let bed = Bed::new();
    with_backup(&bed);
    assert!(!helper(&[], "restore::killed_writer", &bed.data()).status().unwrap().success());
    assert!(bed.data().join("fleet.db-wal").metadata().unwrap().len() > 0);
    bed
}

fn copy_of(bed: &Bed) -> Bed {
    let copy = Bed::new();
    std::fs::copy(bed.dir.path().join("backup"), copy.dir.path().join("backup")).unwrap();
    std::fs::create_dir(copy.data()).unwrap();
    bytes(&bed.data()).iter().for_each(|(name, bytes)| std::fs::write(copy.data().join(name), bytes).unwrap());
    copy
}

#[test]
fn a_restore_that_is_killed_at_any_point_leaves_the_old_or_the_new_database_whole() {
    if !has_strace() {
        return;
    }
    let crashed = crashed_bed();
    let calls = "rename,renameat2,link,linkat,unlink,unlinkat,fsync,fdatasync,ftruncate,fchmod,fchown";
    let (mut old, mut new) = (0, 0);
    for when in 1.. {
        let bed = copy_of(&crashed);
        let inject = format!("inject={calls}:signal=SIGKILL:when={when}");
        let words = ["strace", "-f", "-o", "/dev/null", "-e", &inject];
        let output = helper(&words, "restore::restorer", &bed.data()).output().unwrap();
        let (mut store, is_done) = (bed.open(), output.status.success());
        let state = store.load().unwrap();
        let number = state.book.unwrap().number;
        assert_eq!(store.verify(None).unwrap().fault, None);
        match number {
            9 => assert!(!state.is_restored_held && replaced(&bed).is_empty(), "killed at {when}"),
            2 => assert!(state.is_restored_held && replaced(&bed).len() == 1, "killed at {when}"),
            other => panic!("killed at {when}: rollout {other}"),
        }
        old += u32::from(number == 9);
        new += u32::from(number == 2);
        if let Some(name) = replaced(&bed).first() {
            let other = Bed::new();
            std::fs::create_dir(other.data()).unwrap();
            std::fs::copy(bed.data().join(name), other.database()).unwrap();
            assert_eq!(other.open().load().unwrap().book.unwrap().number, 9, "killed at {when}: the old data is lost");
        }
        if is_done {
            break;
        }
    }
    assert!(old > 5 && new > 1, "{old} times the old, {new} times the new one");
}
