//! A backup is whole, private, and never in the way of something else.

use std::os::unix::fs::PermissionsExt;
use std::thread;

use fleet_store::{Change, Error, restore};

use crate::support::*;

/// The names beside the data: what a backup made or left.
fn beside(bed: &Bed) -> Vec<String> {
    names(bed.dir.path()).into_iter().filter(|name| name != "data").collect()
}

#[test]
fn a_backup_of_an_open_store_is_one_private_file_that_holds_everything() {
    let bed = Bed::new();
    let mut store = bed.open();
    write_book(&mut store, &book(3));
    store.commit(&Change { expected: 1, hosts: vec![host(1, "1.0.0")], ..Change::default() }).unwrap();
    let head = write_records(&mut store, &["x"]).pop().unwrap().hash;
    let to = bed.dir.path().join("backup");
    store.backup(&to).unwrap();
    assert_eq!(beside(&bed), ["backup"]);
    assert_eq!(to.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    write_records(&mut store, &["later"]);
    // As a store of its own: all is there but what came later.
    let other = Bed::new();
    let mut copy = other.open_copy(&to);
    assert_eq!(load(&mut *copy).unwrap(), load(&mut *store).unwrap());
    assert_eq!(copy.verify(None).unwrap().head.hash, head);
}

#[test]
fn a_backup_goes_over_nothing() {
    let bed = Bed::new();
    let store = bed.open();
    let to = bed.dir.path().join("backup");
    std::fs::write(&to, "precious").unwrap();
    assert!(matches!(store.backup(&to), Err(Error::Refused(_))));
    assert_eq!(std::fs::read(&to).unwrap(), b"precious");
    std::fs::remove_file(&to).unwrap();
    std::os::unix::fs::symlink("nowhere", &to).unwrap();
    assert!(matches!(store.backup(&to), Err(Error::Refused(_))), "a link to nowhere");
    for own in ["fleet.db", "fleet.db-journal", "fleet.db-wal", "fleet.lock", "fleet.db.unfinished", "fleet.db.witness"]
    {
        let before = names(&bed.data());
        assert!(matches!(store.backup(&bed.data().join(own)), Err(Error::Refused(_))), "{own}");
        assert_eq!(names(&bed.data()), before);
    }
}

#[test]
fn a_missing_directory_is_named_and_nothing_is_made() {
    let bed = Bed::new();
    let store = bed.open();
    let error = store.backup(&bed.dir.path().join("no/backup")).unwrap_err();
    assert!(matches!(&error, Error::Unavailable(line) if line.contains("/no")), "{error:?}");
    assert!(beside(&bed).is_empty());
    let nothing = tempfile::tempdir().unwrap();
    assert!(fleet_store::backup(nothing.path(), &bed.dir.path().join("backup")).is_err());
    assert!(beside(&bed).is_empty() && names(nothing.path()).is_empty());
}

#[test]
fn a_backup_beside_a_writer_is_of_one_point_in_time() {
    let bed = Bed::new();
    let mut store = bed.open();
    let hosts = |version: u64| (1..500).map(|id| host(id, &format!("{version}.0.0"))).collect::<Vec<_>>();
    let data = bed.data();
    let backups = bed.dir.path().to_owned();
    let reader = thread::spawn(move || {
        for number in 0..5 {
            fleet_store::backup(&data, &backups.join(format!("backup-{number}"))).unwrap();
        }
    });
    let mut version = 0;
    while !reader.is_finished() {
        version += 1;
        let change = Change {
            expected: version - 1,
            book: Some(&book(version)),
            hosts: hosts(version),
            records: vec![record("x")],
            ..Change::default()
        };
        store.commit(&change).unwrap();
    }
    reader.join().unwrap();
    for number in 0..5 {
        let other = Bed::new();
        let mut copy = other.open_copy(&bed.dir.path().join(format!("backup-{number}")));
        let Loaded { state, hosts, .. } = load(&mut *copy).unwrap();
        assert_eq!(state.book.map_or(0, |book| book.number), state.revision);
        assert!(hosts.iter().all(|host| host.version == format!("{}.0.0", state.revision)));
        let verified = copy.verify(None).unwrap();
        assert_eq!((verified.records, verified.fault), (state.revision, None));
    }
}

#[test]
fn a_backup_of_a_store_that_nobody_serves_leaves_its_data_ready() {
    let bed = Bed::new();
    write_book(&mut bed.open(), &book(1));
    let to = bed.dir.path().join("backup");
    fleet_store::backup(&bed.data(), &to).unwrap();
    assert_eq!(bed.open().revision().unwrap(), 1);
    let other = Bed::new();
    assert_eq!(restore(&to, &other.data(), false).unwrap().rollout, 1);
    assert!(OpenStore::at(&other.data()).is_ok());
}

/// A server that is killed during a download leaves its copy; another file is somebody's.
#[test]
fn copies_that_nobody_reads_any_more_go_with_the_next_start_and_other_files_stay() {
    let bed = Bed::new();
    drop(bed.open());
    let uuid = "6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1ae1";
    let gone =
        [format!(".backup-{uuid}"), format!("..backup-{uuid}.partial-7"), format!("..backup-{uuid}.partial-7-wal")];
    let stay =
        [format!("backup-{uuid}"), ".backup-monday".to_owned(), format!(".backup-{uuid}.gz"), ".other".to_owned()];
    for name in gone.iter().chain(&stay) {
        std::fs::write(bed.data().join(name), "x").unwrap();
    }
    drop(bed.open());
    let names = names(&bed.data());
    assert!(gone.iter().all(|name| !names.contains(name)), "{names:?}");
    assert!(stay.iter().all(|name| names.contains(name)), "{names:?}");
}
