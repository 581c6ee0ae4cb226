//! What is asked before the first byte is downloaded, and of what was unpacked.

use super::super::room;
use super::*;
use crate::database::backup::DATABASE_FILE;
use crate::database::{directory, room_for_copy};
use crate::host::machine;

#[test]
fn room_is_asked_for_the_version_and_for_the_database_twice() {
    let bed = Bed::new();
    let site = bed.site();
    let moved = plan(vec![snapshot(false, "1.0.0"), bed.switch()]);
    let code = |plan: &Plan, version: Option<u64>, rows: u64| {
        room::check_for(&site, plan, version, rows).map_err(|error| error.code)
    };
    let free = machine::free_bytes(&bed.layout.versions).unwrap();
    assert_eq!(code(&moved, Some(0), 0), Ok(()));
    assert_eq!(code(&moved, Some(free), 0), Err(Code::NoSpace));
    // Snapshot and the copy for the way back: each alone would fit. Nothing is downloaded.
    assert_eq!(code(&moved, None, free / 10 * 6), Err(Code::NoSpace));
    assert_eq!(code(&plan(vec![bed.switch()]), None, free / 10 * 6), Ok(()));
    assert_eq!(code(&moved, None, free / 10 * 3), Ok(()));
}

#[test]
fn a_restore_takes_room_for_its_copy() {
    let bed = Bed::new();
    let site = bed.site();
    let free = machine::free_bytes(&bed.layout.versions).unwrap();
    let copy = directory::of(&bed.version("1.0.0")).join(DATABASE_FILE);
    durable::create_dir_all(durable::parent(&copy)).unwrap();
    let restore = plan(vec![Step::PrepareRestore { dir: "1.0.0".into() }, bed.switch()]);
    let code = |plan: &Plan| room::check_for(&site, plan, None, 0).map_err(|error| error.code);
    for (bytes, expected) in [(free / 2, Ok(())), (free, Err(Code::NoSpace))] {
        let file = std::fs::File::create(&copy).unwrap();
        file.set_len(bytes).unwrap();
        assert_eq!(code(&restore), expected);
    }
    assert_eq!(code(&plan(vec![bed.switch()])), Ok(()));
}

#[test]
fn what_a_way_back_copies_to_another_file_system_takes_room_there() {
    let bed = Bed::new();
    let site = bed.site();
    let free = machine::free_bytes(&bed.layout.link_dir).unwrap();
    let (here, there) = (tempfile::tempdir_in(&bed.layout.root).unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
    let code = |dir: &Path| {
        let kept = dir.join("teleport");
        // Larger than the disk, whatever others write and remove meanwhile, and all holes.
        durable::write(&kept, b"", 0o644).unwrap();
        std::fs::OpenOptions::new().write(true).open(&kept).unwrap().set_len(2 * free).unwrap();
        let mut back = bed.switch();
        let Step::LinkAgent { place, .. } = &mut back else { panic!() };
        (place.was, place.now) = (place.now.clone(), Node::Kept(kept));
        room::check_for(&site, &plan(vec![back]), None, 0).map_err(|error| error.code)
    };
    assert_eq!(code(there.path()), Err(Code::NoSpace));
    assert_eq!(code(here.path()), Ok(()), "a rename");
}

#[test]
fn a_database_and_its_log_take_room_and_a_hole_of_terabytes_takes_none() {
    let bed = Bed::new();
    durable::write(&bed.db(), &[1; 3000], 0o600).unwrap();
    durable::write(&bed.db().with_extension("db-wal"), &[1; 200], 0o600).unwrap();
    assert_eq!(room_for_copy(&bed.db()), 3200);
    let with_hole = |bytes| std::fs::File::options().write(true).open(bed.db()).unwrap().set_len(bytes).unwrap();
    // What a disk has anyway is counted as if it were written.
    with_hole(1 << 30);
    assert_eq!(room_for_copy(&bed.db()), (1 << 30) + 200);
    with_hole(1 << 42);
    assert_eq!(room_for_copy(&bed.db()), 200);
}
