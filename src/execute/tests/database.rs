//! What happens to the database's rows when a run is undone.

use super::super::recovery::{self, Recovered};
use super::*;
use crate::database::backup::DATABASE_FILE;
use crate::database::{Backup, Content, directory, restore};

fn snapshot(stopped: bool, dir: &str) -> Step {
    Step::Snapshot { dir: dir.into(), stopped, failed: false }
}

/// From 1.0.0 to 2.0.0, which migrates the present rows.
fn upgrade(bed: &Bed) -> Plan {
    plan(vec![Step::Hold { running: false }, snapshot(false, "1.0.0"), bed.switch()])
}

/// From 1.0.0 to 2.0.0, whose own rows are restored.
fn restoring(bed: &Bed) -> Plan {
    let dir = || "2.0.0".into();
    let switch = vec![
        Step::Hold { running: false },
        Step::PrepareRestore { dir: dir() },
        Step::Stop,
        snapshot(true, "1.0.0"),
        Step::Restore { dir: dir() },
        bed.switch(),
    ];
    Plan { database: Database::Restore, service: ServiceAction::Restart, ..plan(switch) }
}

fn backup(bed: &Bed, dir: &str, name: &str) -> (Backup, Vec<String>) {
    let dir = bed.version(dir).join(name);
    (Backup::read(&dir).unwrap().unwrap(), rows(&dir.join(DATABASE_FILE)))
}

/// A snapshot of 2.0.0 with the row "two", and live rows of 1.0.0.
fn with_snapshot_of_the_target(bed: &Bed) {
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
    let undone = bed.fail(&upgrade(&bed), || write_rows(&bed.db(), &["migrated"]));
    assert!(undone.recovery.is_none());
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
fn a_restore_swaps_the_rows_and_its_undo_swaps_them_back_beside_the_snapshot() {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    let before = backup(&bed, "2.0.0", "backup");
    let undone = bed.fail(&restoring(&bed), || {
        assert_eq!(rows(&bed.db()), ["two"]);
        write_rows(&bed.db(), &["later"]);
    });
    assert!(undone.recovery.is_none());
    assert_eq!(rows(&bed.db()), ["one"]);
    // The snapshot is still to be restored from: the evidence lies beside it.
    assert_eq!(backup(&bed, "2.0.0", "backup"), before);
    let (evidence, kept) = backup(&bed, "2.0.0", EVIDENCE_BESIDE_SNAPSHOT);
    assert!(evidence.failed);
    assert_eq!(kept, ["two", "later"]);

    let finished = bed.commit(&restoring(&bed));
    assert_eq!(rows(&bed.db()), ["two"]);
    let (of_one, kept) = backup(&bed, "1.0.0", "backup");
    assert_eq!(kept, ["one"]);
    assert_eq!(finished.snapshot_sha256.as_deref(), of_one.identity());
    assert!(!restore::prepared_path(&bed.db()).exists());
}

#[test]
fn a_restore_that_ends_before_the_swap_leaves_no_second_name_of_the_live_file() {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    let mut steps = restoring(&bed);
    steps.switch.truncate(4);
    let file = inode(&bed.db());
    let undone = bed.fail(&steps, || {
        let snapshot = bed.version("1.0.0").join("backup").join(DATABASE_FILE);
        assert_eq!(inode(&snapshot), file, "it is linked and not copied");
    });
    assert!(undone.recovery.is_none());
    assert_eq!((inode(&bed.db()), rows(&bed.db())), (file, vec!["one".to_owned()]));
    assert_eq!(std::fs::metadata(bed.db()).unwrap().nlink(), 1);
    assert!(!restore::prepared_path(&bed.db()).exists());
    assert!(!bed.version("1.0.0").join("backup").exists());
}

#[test]
fn a_restore_that_ends_before_the_link_moves_is_undone_without_evidence() {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    let mut steps = restoring(&bed);
    steps.switch.truncate(5);
    let undone = bed.fail(&steps, || assert_eq!(rows(&bed.db()), ["two"]));
    assert!(undone.recovery.is_none());
    assert_eq!(rows(&bed.db()), ["one"]);
    assert!(!bed.version("2.0.0").join(EVIDENCE_BESIDE_SNAPSHOT).exists());
    assert_eq!(backup(&bed, "2.0.0", "backup").1, ["two"]);
}

#[test]
fn a_restore_of_no_database_removes_the_live_one_and_brings_it_back_when_it_is_undone() {
    let bed = Bed::new();
    bed.commit(&Plan { from: Some(revision("2.0.0")), ..plan(vec![snapshot(false, "2.0.0")]) });
    write_rows(&bed.db(), &["one"]);
    let undone = bed.fail(&restoring(&bed), || assert!(!bed.db().exists()));
    assert!(undone.recovery.is_none());
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
fn a_damaged_database_can_be_left_for_a_restored_one_and_is_not_taken_for_good() {
    let bed = Bed::new();
    with_snapshot_of_the_target(&bed);
    durable::write(&bed.db(), b"no database", 0o600).unwrap();
    // Beside a running agent it is not left at all.
    let undone = run(&bed.site(), &upgrade(&bed), "update", &mut |_| panic!("settled"), &mut |_| {}).unwrap_err();
    assert_eq!(undone.error.code, Code::DatabaseInvalid);
    assert!(!directory::new_in(&bed.version("1.0.0")).exists());
    bed.commit(&restoring(&bed));
    assert_eq!(rows(&bed.db()), ["two"]);
    let left = Backup::read(&bed.version("1.0.0").join("backup")).unwrap().unwrap();
    assert!(left.failed && matches!(left.content, Content::Database { size: Some(11), .. }));
}

#[test]
fn a_run_killed_after_the_link_moved_is_undone_once_even_if_the_undo_is_killed_as_well() {
    let bed = Bed::new();
    write_rows(&bed.db(), &["one"]);
    let mut journal = bed.kill(&upgrade(&bed), || write_rows(&bed.db(), &["migrated"]));
    // The first recovery got as far as the database, and its agent has written since.
    let error = Error::new(Code::Interrupted, "killed");
    let reason = Record::Undo { code: "interrupted".into(), reason: error.what.clone(), blame: false };
    journal.append(reason).unwrap();
    super::super::steps::undo(&bed.site(), &bed.switch(), &mut journal).unwrap();
    assert_eq!((rows(&bed.db()), journal.has(&Record::DatabaseBack)), (vec!["one".to_owned()], true));
    write_rows(&bed.db(), &["since"]);
    let journal = bed.reopen().unwrap();
    assert_eq!(recovery::run(&bed.site(), journal, &mut |_| {}).unwrap(), Recovered::Undone);
    assert_eq!(rows(&bed.db()), ["one", "since"]);
    assert_eq!(backup(&bed, "2.0.0", "backup").1, ["one", "migrated"]);
}
