//! What a stopped or crashed agent's database is taken as.

use super::*;

#[test]
fn a_host_without_database_is_described_and_nothing_is_created() {
    let bed = Bed::new();
    for backup in [bed.online().unwrap().backup, bed.failed().unwrap()] {
        assert_eq!(backup.content, Content::Absent);
        assert_eq!(names(&bed.snapshot()), [DESCRIPTION_FILE]);
    }
    assert_eq!(names(bed.db().parent().unwrap()), [""; 0]);

    let _agent = bed.agent("WAL", 1);
    let prepared = prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    restore::commit(&prepared, &|| Ok(())).unwrap();
    restore::commit(&prepared, &|| Ok(())).unwrap();
    assert_eq!(names(bed.db().parent().unwrap()), [""; 0]);
}

#[test]
fn a_damaged_database_is_kept_as_failed_beside_an_agent() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 500));
    bed.damage();
    let beside = bed.online().unwrap();
    assert!(beside.raw && beside.backup.failed, "a move that keeps it does not need the copy");
    assert!(beside.damage.unwrap().what.starts_with(&format!("{} is damaged", bed.db().display())));
}

#[test]
fn a_database_that_was_waited_for_long_enough_is_taken_as_it_lies_with_every_row() {
    for mode in ["WAL", "DELETE"] {
        let bed = Bed::new();
        let agent = bed.agent(mode, 0);
        agent.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
        add(&agent, 50);
        agent.execute_batch("BEGIN EXCLUSIVE; UPDATE t SET x = 'not committed'").unwrap();
        assert_eq!(bed.online().unwrap_err().code, Code::DatabaseBusy);
        let taken = snapshot_online(&bed.db(), &bed.snapshot(), &bed.subject(), true, &PACE).unwrap();
        assert!(!taken.backup.failed && taken.damage.unwrap().code == Code::DatabaseBusy);
        assert_eq!(bed.taken(), up_to(50), "{mode}");
        agent.execute_batch("COMMIT").unwrap();
    }
}

/// Takes the database in its three parts; what happens between the first two is `meanwhile`.
fn in_parts(bed: &Bed, meanwhile: impl FnOnce()) -> (SnapshotId, Backup, Option<Error>) {
    link_ahead(&bed.db(), &bed.snapshot()).unwrap();
    meanwhile();
    let identity = take_stopped(&bed.db(), &bed.snapshot(), &bed.subject(), false, &PACE).unwrap().id;
    let (backup, damage) = describe_taken(&bed.snapshot(), &bed.subject()).unwrap();
    (identity, backup, damage)
}

#[test]
fn a_database_taken_in_parts_has_every_row_and_is_the_live_file() {
    for mode in ["WAL", "DELETE"] {
        for parts in [&[][..], &["", "-wal", "-shm"][..]] {
            let bed = Bed::new();
            let agent = bed.agent(mode, 10);
            let (identity, backup, damage) = in_parts(&bed, || {
                add(&agent, 90);
                if parts.is_empty() || mode == "DELETE" { drop(agent) } else { bed.crash_in_place(agent) }
            });
            assert_eq!((identity, backup.failed, damage.is_none()), (SnapshotId::Linked, false, true));
            assert_eq!(bed.taken(), up_to(100), "{mode} {parts:?}");
            assert_eq!(FileId::of(bed.db()), FileId::of(bed.snapshot().join(DATABASE_FILE)));
        }
    }
}

#[test]
fn a_link_made_ahead_leaves_the_running_agent_as_it_is_and_shortens_its_log() {
    let bed = Bed::new();
    let agent = bed.agent("WAL", 100);
    assert!(link_ahead(&bed.db(), &bed.snapshot()).unwrap());
    assert!(!bed.snapshot().join("sqlite.db-wal").exists());
    let (log, written): (i64, i64) =
        agent.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(log, written, "every page of the log is in the file");
    add(&agent, 1);
    assert_eq!(rows(&agent), up_to(101));
}

#[test]
fn a_database_that_was_replaced_or_came_or_went_after_its_link_was_made_is_taken_anew() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    let (identity, ..) = in_parts(&bed, || {
        durable::remove_file(&bed.db()).unwrap();
        drop(bed.agent("WAL", 20));
    });
    assert_eq!((identity, bed.taken()), (SnapshotId::Linked, up_to(20)));
    let (identity, backup, _) = in_parts(&bed, || durable::remove_file(&bed.db()).unwrap());
    assert_eq!((identity, backup.content), (SnapshotId::Absent, Content::Absent));
    assert_eq!(names(&bed.snapshot()), [DESCRIPTION_FILE]);
    let (identity, ..) = in_parts(&bed, || drop(bed.agent("DELETE", 5)));
    assert_eq!((identity, bed.taken()), (SnapshotId::Linked, up_to(5)));
}

#[test]
fn a_database_on_another_file_system_is_copied_when_it_is_stopped_and_known_by_its_digest() {
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    if FileId::of(elsewhere.path()).map(|id| id.dev) == FileId::of(bed.db()).map(|id| id.dev) {
        return;
    }
    let dir = elsewhere.path().join("snapshot");
    assert!(!link_ahead(&bed.db(), &dir).unwrap());
    let identity = take_stopped(&bed.db(), &dir, &bed.subject(), false, &PACE).unwrap().id;
    let (backup, damage) = describe_taken(&dir, &bed.subject()).unwrap();
    assert_eq!((Some(identity), damage.is_none()), (backup.id(), true));
    assert_eq!(rows_at_rest(&dir.join(DATABASE_FILE)), up_to(10));
}

#[test]
fn damage_is_found_when_nobody_waits_any_more_and_the_copy_is_never_restored() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 500));
    bed.damage();
    for bytes in [std::fs::read(bed.db()).unwrap(), b"not a database at all".to_vec()] {
        durable::write(&bed.db(), &bytes, 0o600).unwrap();
        let (_, backup, damage) = in_parts(&bed, || ());
        assert_eq!((backup.failed, damage.unwrap().code), (true, Code::DatabaseInvalid));
        assert_eq!(std::fs::read(bed.snapshot().join(DATABASE_FILE)).unwrap(), bytes);
    }
    // What cannot be opened at all has its log beside it.
    durable::write(&sqlite::beside(&bed.db(), "-wal"), b"a log", 0o600).unwrap();
    let take = |even| take_stopped(&bed.db(), &bed.snapshot(), &bed.subject(), even, &PACE);
    assert_eq!(take(false).unwrap_err().code, Code::DatabaseInvalid);
    take(true).unwrap();
    let (backup, damage) = describe_taken(&bed.snapshot(), &bed.subject()).unwrap();
    assert!(backup.failed && damage.is_none(), "it was told before");
    assert_eq!(std::fs::read(bed.snapshot().join("sqlite.db-wal")).unwrap(), b"a log");
    // So it is for an undo, whose first try may have left its names.
    bed.failed().unwrap();
    assert_eq!(std::fs::read(bed.snapshot().join("sqlite.db-wal")).unwrap(), b"a log");
}

#[test]
fn nothing_taken_is_not_described_as_no_database() {
    let bed = Bed::new();
    directory::make_fresh(&bed.snapshot()).unwrap();
    assert_eq!(describe_taken(&bed.snapshot(), &bed.subject()).unwrap_err().code, Code::BackupMissing);
}
