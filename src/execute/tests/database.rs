//! What happens to the database's rows when a run is undone.

use super::*;
use crate::database::backup::DATABASE_FILE;
use crate::database::{self, Backup, directory, restore};

/// From 1.0.0 to 2.0.0, which migrates the present rows.
pub(super) fn upgrade(bed: &Bed) -> Plan {
    plan(vec![Step::RecordAgent { running: false }, snapshot(false, "1.0.0"), bed.switch()])
}

/// From 1.0.0 to 2.0.0, whose own rows are restored.
pub(super) fn restoring(bed: &Bed) -> Plan {
    let dir = || "2.0.0".into();
    let left = || "1.0.0".into();
    let switch = vec![
        Step::RecordAgent { running: false },
        Step::PrepareRestore { dir: dir() },
        Step::PrepareSnapshot { dir: left() },
        Step::Stop,
        snapshot(true, "1.0.0"),
        Step::Restore { dir: dir() },
        bed.switch(),
        Step::Describe { dir: left(), failed: false },
        Step::Install { dir: left() },
    ];
    Plan { database: Database::Restore, service: ServiceAction::Restart, ..plan(switch) }
}

fn backup(bed: &Bed, dir: &str, name: &str) -> (Backup, Vec<String>) {
    let dir = bed.version(dir).join(name);
    (Backup::read(&dir).unwrap().unwrap(), rows(&dir.join(DATABASE_FILE)))
}

/// A snapshot of 2.0.0 with the row "two", and live rows of 1.0.0.
pub(super) fn with_snapshot_of_the_target(bed: &Bed) {
    write_rows(&bed.db(), &["two"]);
    let of_two = Plan { from: Some(revision("2.0.0")), ..plan(vec![snapshot(false, "2.0.0")]) };
    bed.commit(&of_two);
    durable::remove_file(&bed.db()).unwrap();
    write_rows(&bed.db(), &["one"]);
}

#[test]
fn a_failed_upgrade_leaves_the_old_rows_and_keeps_the_new_versions_as_evidence() {
    let bed = Bed::new();
    write_rows(&bed.db(), &["one"]);
    bed.fail(&upgrade(&bed), || write_rows(&bed.db(), &["migrated"]));
    assert_eq!(rows(&bed.db()), ["one"]);
    assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("1.0.0"));
    let (of_one, kept) = backup(&bed, "1.0.0", "backup");
    assert_eq!((of_one.version, of_one.failed, kept), (revision("1.0.0").version, false, vec!["one".to_owned()]));
    let (of_two, evidence) = backup(&bed, "2.0.0", "backup");
    assert_eq!((of_two.version, of_two.failed), (revision("2.0.0").version, true));
    assert_eq!(evidence, ["one", "migrated"]);
    assert_ne!(inode(&bed.db()), inode(&bed.version("1.0.0").join("backup").join(DATABASE_FILE)));
}

#[test]
fn an_upgrade_of_a_host_without_database_that_fails_leaves_none() {
    let bed = Bed::new();
    bed.fail(&upgrade(&bed), || write_rows(&bed.db(), &["new"]));
    assert!(!bed.db().exists());
    assert_eq!(backup(&bed, "2.0.0", "backup").1, ["new"]);
    // Nothing was written: there is nothing to keep.
    durable::remove_tree(&bed.version("2.0.0").join("backup")).unwrap();
    bed.fail(&upgrade(&bed), || ());
    assert!(!bed.db().exists() && !bed.version("2.0.0").join("backup").exists());
}

#[test]
fn a_restore_swaps_the_rows_and_tells_the_commit_which_backup_it_took() {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    let (_, told) = bed.commit_told(&restoring(&bed));
    assert_eq!(rows(&bed.db()), ["two"]);
    let (of_one, kept) = backup(&bed, "1.0.0", "backup");
    assert_eq!(kept, ["one"]);
    assert!(told.is_some() && told == of_one.id(), "{told:?}");
    assert!(!restore::prepared_path(&bed.db()).exists());
}

#[test]
fn a_restore_of_no_database_removes_the_live_one_and_brings_it_back_when_it_is_undone() {
    let bed = Bed::new();
    bed.commit(&Plan { from: Some(revision("2.0.0")), ..plan(vec![snapshot(false, "2.0.0")]) });
    write_rows(&bed.db(), &["one"]);
    bed.fail(&restoring(&bed), || assert!(!bed.db().exists()));
    assert_eq!(rows(&bed.db()), ["one"]);
    bed.commit(&restoring(&bed));
    assert!(!bed.db().exists());
}

#[test]
fn a_prepared_database_that_is_gone_is_an_error_and_nothing_is_lost() {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    let mut steps = restoring(&bed);
    steps.switch.remove(1);
    let undone = run(&bed.site(), &steps, "update", &mut |_| panic!("settled"), &mut |_| {}).unwrap_err();
    assert_eq!(undone.error.code, Code::BackupMissing);
    assert!(undone.recovery.is_none());
    assert_eq!(rows(&bed.db()), ["one"]);
}

#[test]
fn an_upgrade_from_a_damaged_database_that_fails_gives_it_back_as_it_was_with_its_log() {
    let bed = Bed::new();
    let log = bed.db().with_extension("db-wal");
    durable::write(&bed.db(), b"no database", 0o600).unwrap();
    durable::write(&log, b"rows of its log", 0o600).unwrap();
    bed.fail(&upgrade(&bed), || {
        durable::remove_file(&log).unwrap();
        durable::remove_file(&bed.db()).unwrap();
        write_rows(&bed.db(), &["begun anew"]);
    });
    let read = |path: &Path| std::fs::read(path).unwrap();
    assert_eq!((read(&bed.db()), read(&log)), (b"no database".to_vec(), b"rows of its log".to_vec()));
    assert_eq!(backup(&bed, "2.0.0", "backup").1, ["begun anew"]);
}

#[test]
fn what_stood_in_the_place_of_the_database_stays_there_and_a_database_that_came_instead_goes() {
    for replaced in [false, true] {
        let bed = Bed::new();
        durable::create_dir_all(&bed.db()).unwrap();
        bed.fail(&upgrade(&bed), || {
            if replaced {
                durable::remove_tree(&bed.db()).unwrap();
                write_rows(&bed.db(), &["begun anew"]);
            }
        });
        assert_eq!(bed.db().is_dir(), !replaced);
        assert!(!bed.db().is_file(), "the old version never had it");
        assert_eq!(bed.version("2.0.0").join("backup").exists(), replaced, "and it is kept");
    }
}

/// A snapshot of 1.0.0 of an earlier time, which a new one replaces.
fn with_an_earlier_snapshot(bed: &Bed) -> (Backup, Vec<String>) {
    write_rows(&bed.db(), &["earlier"]);
    bed.commit(&plan(vec![snapshot(false, "1.0.0")]));
    durable::remove_file(&bed.db()).unwrap();
    backup(bed, "1.0.0", "backup")
}

/// Nothing but the host before the run: rows and file of the live database, no second name of it, the earlier snapshot.
fn assert_as_before(bed: &Bed, file: u64, earlier: &(Backup, Vec<String>)) {
    assert_eq!((rows(&bed.db()), std::fs::metadata(bed.db()).unwrap().nlink()), (vec!["one".to_owned()], 1));
    assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("1.0.0"));
    assert!(!restore::prepared_path(&bed.db()).exists() && !directory::new_in(&bed.version("1.0.0")).exists());
    if inode(&bed.db()) == file {
        assert_eq!(&backup(bed, "1.0.0", "backup"), earlier);
    }
}

#[test]
fn a_restore_that_is_killed_or_fails_behind_any_of_its_steps_is_undone_to_the_rows_that_were_left() {
    // No plan describes a backup and fails before it installs it without naming that step: there is no (8, false).
    for (last, is_killed) in (1..=9).flat_map(|last| [(last, true), (last, false)]).filter(|way| *way != (8, false)) {
        let bed = Bed::new();
        let earlier = with_an_earlier_snapshot(&bed);
        with_snapshot_of_the_target(&bed);
        let (file, of_target) = (inode(&bed.db()), backup(&bed, "2.0.0", "backup"));
        let mut steps = restoring(&bed);
        steps.switch.truncate(last);
        let later = || {
            assert_eq!(rows(&bed.db()), if last < 6 { ["one"] } else { ["two"] });
            if last > 6 {
                write_rows(&bed.db(), &["later"]);
            }
        };
        if is_killed {
            bed.kill(&steps, later);
            bed.recover();
        } else {
            bed.fail(&steps, later);
        }
        assert_as_before(&bed, file, &earlier);
        assert_eq!(inode(&bed.db()) == file, last != 9, "behind step {last}, killed: {is_killed}");
        // The snapshot can be restored again; the evidence lies beside it.
        assert_eq!(backup(&bed, "2.0.0", "backup"), of_target);
        let evidence = bed.version("2.0.0").join(EVIDENCE_BESIDE_SNAPSHOT);
        assert_eq!(evidence.exists(), last > 6, "behind step {last}");
        if last > 6 {
            let (evidence, kept) = backup(&bed, "2.0.0", EVIDENCE_BESIDE_SNAPSHOT);
            assert_eq!((evidence.failed, kept), (true, vec!["two".to_owned(), "later".to_owned()]));
        }
        // What was installed is of the same rows.
        assert_eq!(backup(&bed, "1.0.0", "backup").1, if last == 9 { ["one"] } else { ["earlier"] });
    }
}

#[test]
fn no_intent_of_a_restore_is_written_before_the_note_of_the_snapshot_that_it_replaces() {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    bed.kill(&restoring(&bed), || ());
    let journal = bed.reopen().unwrap();
    let place = |wanted: &dyn Fn(&Record) -> bool| journal.records().iter().position(wanted).unwrap();
    let noted = place(&|record| matches!(record, Record::Done { step: 4, .. }));
    let stop = place(&|record| *record == Record::Intent { step: 3 });
    assert_eq!(journal.records()[stop + 1], Record::Intent { step: 4 });
    assert_eq!(journal.records()[noted + 1..noted + 3], [Record::Intent { step: 5 }, Record::Intent { step: 6 }]);
}

#[test]
fn a_snapshot_that_was_put_back_as_the_file_that_it_is_is_no_second_name_of_it_afterwards() {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    let file = inode(&bed.db());
    let mut steps = restoring(&bed);
    steps.switch.truncate(7);
    let mut journal = bed.kill(&steps, || ());
    let taken = directory::new_in(&bed.version("1.0.0"));
    let prepared = database::restore::prepare_by_link(&taken, &bed.db(), Some(SnapshotId::Linked)).unwrap();
    restore::commit(&prepared, &|| Ok(())).unwrap();
    journal.append(Record::DatabaseBack).unwrap();
    bed.recover();
    assert_eq!((inode(&bed.db()), rows(&bed.db())), (file, vec!["one".to_owned()]));
    assert_eq!(std::fs::metadata(bed.db()).unwrap().nlink(), 1);
}
