//! What is asked before the first byte is downloaded, and of what was unpacked.

use super::super::prepare::runs_here;
use super::super::room;
use super::database::snapshot;
use super::*;
use crate::host::machine;
use crate::release::Arch;

/// A file without content that takes no room, and says that it is this large.
fn sparse(path: &Path, bytes: u64) {
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
    file.set_len(bytes).unwrap();
}

#[test]
fn room_is_asked_for_the_version_and_for_the_database_twice() {
    let bed = Bed::new();
    let site = bed.site();
    let moved = plan(vec![snapshot(false, "1.0.0"), bed.switch()]);
    let code = |plan: &Plan, version: Option<u64>| room::check(&site, plan, version).map_err(|error| error.code);
    let free = machine::free_bytes(&bed.layout.versions).unwrap();
    let log = bed.db().with_extension("db-wal");
    assert_eq!(code(&moved, Some(0)), Ok(()));
    assert_eq!(code(&moved, Some(free)), Err(Code::NoSpace));
    // Snapshot and the copy for the way back: each alone would fit. Nothing is downloaded.
    sparse(&bed.db(), free / 10 * 6);
    assert_eq!(code(&moved, None), Err(Code::NoSpace));
    assert_eq!(code(&plan(vec![bed.switch()]), None), Ok(()));
    sparse(&bed.db(), free / 10 * 3);
    assert_eq!(code(&moved, None), Ok(()));
    sparse(&log, free / 10 * 3);
    assert_eq!(code(&moved, None), Err(Code::NoSpace));
}

#[test]
fn a_program_for_another_machine_is_told_by_its_head() {
    let bed = Bed::new();
    let file = bed.layout.root.join("program");
    let other = if Arch::NATIVE == Arch::Amd64 { Arch::Arm64 } else { Arch::Amd64 };
    for (arch, length, expected) in [(Arch::NATIVE, 20, true), (other, 20, false), (Arch::NATIVE, 19, false)] {
        let mut head = vec![0; 18];
        head.extend(arch.elf_machine().to_le_bytes());
        durable::write(&file, &head[..length], 0o755).unwrap();
        assert_eq!(runs_here(&file), expected, "{arch} {length}");
    }
    assert!(!runs_here(&bed.layout.root.join("none")));
}
