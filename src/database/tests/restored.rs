//! Putting a snapshot in the place of the live database.

use super::*;

#[test]
fn a_restored_database_has_the_snapshots_rows_and_nothing_of_the_one_before() {
    for mode in ["WAL", "DELETE"] {
        let bed = Bed::new();
        let agent = bed.agent(mode, 10);
        bed.online().unwrap();
        add(&agent, 90);
        let parts: &[&str] = if mode == "WAL" { &["", "-wal", "-shm"] } else { &[""] };
        bed.crash(agent, parts);
        let before = std::fs::read(bed.db()).unwrap();
        let prepared = prepare(&bed.snapshot(), &bed.db(), None).unwrap();
        assert_eq!(std::fs::read(bed.db()).unwrap(), before);
        restore::commit(&prepared, &|| Ok(())).unwrap();
        assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE]);
        assert_eq!(rows(&Connection::open(bed.db()).unwrap()), up_to(10), "{mode}");
        assert!(!restore::swap(&bed.db(), false, &|| Ok(())).unwrap());
    }
}

#[test]
fn the_old_log_goes_before_the_new_file_comes() {
    let (bed, _) = Bed::with_snapshot("DELETE", 10);
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    let before = std::fs::metadata(bed.db()).unwrap().ino();
    // A log that cannot be removed must not meet the new file.
    durable::create_dir_all(&sqlite::beside(&bed.db(), "-wal")).unwrap();
    restore::swap(&bed.db(), false, &|| Ok(())).unwrap_err();
    assert_eq!(std::fs::metadata(bed.db()).unwrap().ino(), before);
    durable::remove_tree(&sqlite::beside(&bed.db(), "-wal")).unwrap();
    assert!(restore::swap(&bed.db(), false, &|| Ok(())).unwrap());
}

#[test]
fn a_log_that_turns_up_behind_the_rename_is_nobodys_to_remove() {
    let (bed, _) = Bed::with_snapshot("DELETE", 10);
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    let log = sqlite::beside(&bed.db(), "-wal");
    // By a program that opened the database after the last look.
    let look = || durable::write(&log, b"rows", 0o600);
    let looked_once = std::cell::Cell::new(false);
    let error = restore::swap(&bed.db(), false, &|| {
        if looked_once.replace(true) { look() } else { durable::write(&sqlite::beside(&bed.db(), "-shm"), b"", 0o600) }
    });
    assert_eq!(error.unwrap_err().code, Code::DatabaseBusy);
    assert_eq!(std::fs::read(&log).unwrap(), b"rows");
}

#[test]
fn a_restore_and_an_undo_lie_ready_under_different_names() {
    let (bed, backup) = Bed::with_snapshot("DELETE", 10);
    let digest = backup.id().unwrap();
    assert!(!restore::is_prepared(&bed.db()).unwrap());
    prepare(&bed.snapshot(), &bed.db(), Some(digest)).unwrap();
    assert!(!restore::is_prepared(&bed.db()).unwrap());
    let of_restore = prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    assert!(restore::is_prepared(&bed.db()).unwrap());
    let stat_data = of_restore.stat_data().unwrap();
    assert!(!is_unwritten(&bed.db(), stat_data).unwrap() && !is_unwritten(&bed.db(), None).unwrap());
    restore::commit(&of_restore, &|| Ok(())).unwrap();
    assert!(!restore::is_prepared(&bed.db()).unwrap() && is_unwritten(&bed.db(), stat_data).unwrap());
    durable::write(&sqlite::beside(&bed.db(), "-wal"), b"rows", 0o600).unwrap();
    assert!(!is_unwritten(&bed.db(), stat_data).unwrap());
    restore::discard(&bed.db()).unwrap();
    assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE, "sqlite.db-wal"]);
}

#[test]
fn a_snapshot_with_other_bytes_is_not_prepared() {
    let (bed, backup) = Bed::with_snapshot("DELETE", 500);
    let digest = backup.id().unwrap();
    let file = bed.snapshot().join(DATABASE_FILE);
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[4200] ^= 1;
    for bytes in [&bad[..], &good[..good.len() - 4096], b""] {
        durable::write(&file, bytes, 0o600).unwrap();
        for trusted in [None, Some(digest)] {
            assert_eq!(prepare(&bed.snapshot(), &bed.db(), trusted).unwrap_err().code, Code::BackupInvalid);
            assert_eq!(prepare_by_link(&bed.snapshot(), &bed.db(), trusted).unwrap_err().code, Code::BackupInvalid);
        }
        let backup = Backup::read(&bed.snapshot()).unwrap().unwrap();
        assert_eq!(backup::check_bytes(&bed.snapshot(), &backup).unwrap_err().code, Code::BackupInvalid);
    }
    durable::remove_file(&file).unwrap();
    assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).unwrap_err().code, Code::BackupMissing);
    // What cannot be read is not missing.
    durable::symlink(&file, &file).unwrap();
    assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).unwrap_err().code, Code::Io);
    durable::write(&file, &good, 0o600).unwrap();
    durable::remove_file(&bed.snapshot().join(DESCRIPTION_FILE)).unwrap();
    assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).unwrap_err().code, Code::BackupMissing);
    assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE]);
    prepare(&bed.snapshot(), &bed.db(), Some(digest)).unwrap();
}

#[test]
fn a_description_without_digest_still_needs_a_good_database() {
    let (bed, mut backup) = Bed::with_snapshot("DELETE", 500);
    backup.content = Content::Database { size: None, sha256: None };
    backup.write(&bed.snapshot()).unwrap();
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    durable::write(&bed.snapshot().join(DATABASE_FILE), b"junk", 0o600).unwrap();
    assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).unwrap_err().code, Code::BackupInvalid);
}

#[test]
fn a_database_behind_a_link_is_replaced_behind_the_link() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    let elsewhere = bed.dir.path().join("elsewhere");
    durable::rename(&bed.db(), &elsewhere).unwrap();
    durable::symlink(&elsewhere, &bed.db()).unwrap();
    bed.online().unwrap();
    assert_eq!(bed.taken(), up_to(10));
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    assert!(restore::swap(&bed.db(), false, &|| Ok(())).unwrap());
    assert_eq!(std::fs::read_link(bed.db()).unwrap(), elsewhere);
    assert_eq!(rows(&Connection::open(bed.db()).unwrap()), up_to(10));
}

#[test]
fn each_refusal_of_sqlite_is_told_for_what_it_is() {
    use rusqlite::ffi;
    for (sqlite_code, code) in [
        (ffi::SQLITE_BUSY, Code::DatabaseBusy),
        (ffi::SQLITE_BUSY_SNAPSHOT, Code::DatabaseBusy),
        (ffi::SQLITE_LOCKED, Code::DatabaseBusy),
        (ffi::SQLITE_FULL, Code::NoSpace),
        (ffi::SQLITE_PERM, Code::Permission),
        (ffi::SQLITE_AUTH, Code::Permission),
        (ffi::SQLITE_READONLY, Code::ReadOnly),
        (ffi::SQLITE_IOERR, Code::Io),
        (ffi::SQLITE_CORRUPT, Code::DatabaseInvalid),
        (ffi::SQLITE_NOTADB, Code::DatabaseInvalid),
    ] {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(sqlite_code), None);
        assert_eq!(sqlite::is_busy(&error), code == Code::DatabaseBusy, "{sqlite_code}");
        let told = sqlite::explain(error, "cannot open", Path::new("/db"));
        assert_eq!(told.code, code, "{sqlite_code}");
        assert!(told.what.starts_with("cannot open /db: "), "{told}");
    }
}

#[test]
fn a_database_that_is_no_file_or_cannot_be_looked_at_is_not_taken_for_absent() {
    let bed = Bed::new();
    let file = bed.dir.path().join("file");
    durable::write(&file, b"", 0o600).unwrap();
    durable::create_dir_all(&bed.db()).unwrap();
    for db in [bed.db(), file.join("sqlite.db")] {
        let kept = snapshot_online(&db, &bed.snapshot(), &bed.subject(), false, &PACE).unwrap();
        assert_eq!((kept.backup.failed, kept.backup.content), (true, Content::Absent));
    }
}

#[test]
fn a_failed_versions_snapshot_says_so_however_good_its_database_is() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 1));
    for failed in [true, false] {
        let subject = Subject { failed, ..bed.subject() };
        let online = snapshot_online(&bed.db(), &bed.snapshot(), &subject, false, &PACE).unwrap();
        assert_eq!((online.raw, online.backup.failed), (false, failed));
        assert_eq!(take_failed(&bed.db(), &bed.snapshot(), &subject, &PACE).unwrap().failed, failed);
    }
}

#[test]
fn size_and_digest_of_a_snapshot_are_each_asked_for_by_themselves() {
    let (bed, mut backup) = Bed::with_snapshot("DELETE", 10);
    let Content::Database { size, sha256 } = backup.content else { panic!() };
    let (size, other) = (size.unwrap(), Some(protocol::Digest([0; 32])));
    for (size, sha256, is_good) in [
        (Some(size), None, true),
        (None, sha256, true),
        (Some(size + 1), None, false),
        (None, other, false),
        (Some(size), other, false),
    ] {
        backup.content = Content::Database { size, sha256 };
        backup.write(&bed.snapshot()).unwrap();
        assert_eq!(backup::check_bytes(&bed.snapshot(), &backup).is_ok(), is_good, "{:?}", backup.content);
        assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).is_ok(), is_good, "{:?}", backup.content);
    }
    // Neither is known, and it is not there.
    backup.content = Content::Database { size: None, sha256: None };
    backup.write(&bed.snapshot()).unwrap();
    durable::remove_file(&bed.snapshot().join(DATABASE_FILE)).unwrap();
    let missing = backup::check_bytes(&bed.snapshot(), &backup).unwrap_err();
    assert_eq!(missing.code, Code::BackupMissing);
}

#[test]
fn the_label_of_the_live_file_goes_to_the_prepared_one() {
    const LABEL: &str = "security.selinux";
    let (bed, _) = Bed::with_snapshot("WAL", 1);
    let label = b"system_u:object_r:var_lib_t:s0\0";
    // Only root may, and only where the file system has such attributes.
    if rustix::fs::lsetxattr(bed.db(), LABEL, label, rustix::fs::XattrFlags::empty()).is_err() {
        return;
    }
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    let mut found = [0; 64];
    let length = rustix::fs::lgetxattr(bed.prepared(), LABEL, &mut found[..]).unwrap();
    assert_eq!(found[..length], label[..]);
}
