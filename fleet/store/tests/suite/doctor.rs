//! What `doctor` finds, and that it changes nothing.

use std::os::unix::fs::PermissionsExt;

use fleet_store::{Finding, FindingLevel, doctor};
use jiff::{SignedDuration, Timestamp};

use crate::support::*;

fn found(bed: &Bed, part: &str) -> Finding {
    let findings = doctor(&bed.place(), || None);
    let found = findings.iter().find(|finding| finding.what.contains(part));
    found.cloned().unwrap_or_else(|| panic!("nothing about {part:?}: {findings:#?}"))
}

fn level(bed: &Bed, part: &str) -> FindingLevel {
    let found = found(bed, part);
    assert!(found.level == FindingLevel::Ok || !found.advice.is_empty(), "{found:?}");
    found.level
}

/// A store with a book, a record and a backup.
fn healthy() -> Bed {
    let bed = Bed::new();
    let mut store = bed.open();
    write_book(&mut store, &book(1));
    write_records(&mut store, &["x"]);
    store.backup(&bed.dir.path().join("backup")).unwrap();
    drop(store);
    bed
}

/// Changes the database as somebody with a shell would.
fn change(bed: &Bed, sql: &str) {
    let raw = bed.raw();
    raw.execute_batch(sql).unwrap();
    raw.close().unwrap();
}

#[test]
fn a_healthy_store_has_no_findings_and_is_not_touched() {
    let bed = healthy();
    // The clock is right: the record is of the past.
    change(&bed, "DROP TRIGGER audit_is_not_changed");
    let before = bytes(&bed.data());
    let findings = doctor(&bed.place(), || None);
    assert!(findings.iter().all(|finding| finding.level == FindingLevel::Ok), "{findings:#?}");
    assert!(findings.len() >= 9, "all was looked at: {findings:#?}");
    assert!(bytes(&bed.data()) == before);
}

#[test]
fn a_running_server_is_looked_at_and_goes_on() {
    let bed = healthy();
    let mut store = bed.open();
    write_records(&mut store, &["only in the log"]);
    let findings = doctor(&bed.place(), || None);
    assert!(findings.iter().all(|finding| finding.level == FindingLevel::Ok), "{findings:#?}");
    assert!(findings.iter().any(|finding| finding.what.contains("2 records")), "{findings:#?}");
    write_records(&mut store, &["more"]);
}

#[test]
fn files_that_others_may_read_or_write_are_found() {
    let bed = healthy();
    let set = |mode| std::fs::set_permissions(bed.database(), std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o640);
    assert_eq!(level(&bed, "others may read"), FindingLevel::Warning);
    set(0o602);
    assert_eq!(level(&bed, "others may write"), FindingLevel::Problem);
}

#[test]
fn damage_a_newer_schema_and_a_changed_log_are_problems() {
    let bed = healthy();
    change(&bed, "DROP TRIGGER audit_is_not_changed; UPDATE audit SET who = 'somebody else'");
    assert_eq!(level(&bed, "audit log is damaged"), FindingLevel::Problem);
    change(&bed, "UPDATE schema_version SET version = 9");
    assert_eq!(level(&bed, "schema 9"), FindingLevel::Problem);
    let whole = std::fs::read(bed.database()).unwrap();
    std::fs::write(bed.database(), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(level(&bed, "is damaged"), FindingLevel::Problem);
    std::fs::remove_file(bed.database()).unwrap();
    assert_eq!(level(&bed, "fleet.db is not there"), FindingLevel::Problem);
    std::fs::remove_dir_all(bed.data()).unwrap();
    assert_eq!(level(&bed, "data"), FindingLevel::Problem);
}

#[test]
fn holds_that_are_left_are_named() {
    let bed = healthy();
    let hold = |change: &dyn Fn(&mut fleet_engine::rollout_state::Holds)| {
        let mut held = book(1);
        change(&mut held.holds);
        write_book(&mut bed.open(), &held);
    };
    hold(&|holds| holds.hold("prod"));
    assert_eq!(level(&bed, "held by an operator: prod"), FindingLevel::Warning);
    hold(&|holds| holds.all = true);
    assert_eq!(level(&bed, "every group is held"), FindingLevel::Warning);
    fleet_store::restore(&bed.dir.path().join("backup"), &bed.data(), true).unwrap();
    assert_eq!(level(&bed, "since a restore"), FindingLevel::Warning);
}

#[test]
fn a_clock_behind_the_newest_record_is_a_problem() {
    let bed = healthy();
    let mut store = bed.open();
    let at = Timestamp::now() + SignedDuration::from_hours(1);
    let records = vec![fleet_wire::api::AuditEntry { at, ..record("from the future") }];
    store.commit(&fleet_store::Change { expected: 1, records, ..Default::default() }).unwrap();
    drop(store);
    assert_eq!(level(&bed, "the clock is behind"), FindingLevel::Problem);
}

#[test]
fn a_missing_or_old_backup_is_worth_a_word() {
    let bed = Bed::new();
    drop(bed.open());
    assert_eq!(level(&bed, "no backup was ever made"), FindingLevel::Warning);
    let bed = healthy();
    assert_eq!(level(&bed, "the last backup is of"), FindingLevel::Ok);
    change(&bed, "UPDATE store SET backup_at = '2020-01-01T00:00:00Z'");
    assert_eq!(level(&bed, "the last backup is of 2020"), FindingLevel::Warning);
}

#[test]
fn a_full_disk_is_a_problem() {
    let Some(disk) = Tmpfs::new(1024) else { return };
    let data = disk.dir.path().join("data");
    drop(OpenStore::at(&data).unwrap());
    let findings = doctor(&data.as_path().into(), || None);
    let found = findings.iter().find(|finding| finding.what.contains("MiB free")).unwrap();
    assert_eq!(found.level, FindingLevel::Problem);
}
