//! The toy agent's program: found beside the test, built if need be, made slim.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// The toy agent without trailer and without debug information, ready for [`crate::cluster::Archive::agent`].
///
/// # Panics
/// If it can be neither found nor built.
pub fn agent_program() -> Arc<[u8]> {
    static PROGRAM: OnceLock<Arc<[u8]>> = OnceLock::new();
    Arc::clone(PROGRAM.get_or_init(|| slim(&std::fs::read(agent_program_path()).unwrap()).into()))
}

/// Where the toy agent is: `$TOY_AGENT`, else beside the running test; built there if missing or outdated.
///
/// # Panics
/// If it can be neither found nor built.
pub fn agent_program_path() -> PathBuf {
    if let Some(path) = std::env::var_os("TOY_AGENT") {
        return path.into();
    }
    let profile = profile_directory();
    let path = profile.join("toy-agent");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/toy-agent");
    if !path.exists() || changed(&path) < newest(&source) {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "-p", "testing", "--bin", "toy-agent"]);
        cargo.arg("--target-dir").arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "cannot build the toy agent");
    }
    path
}

/// `<target>/debug` or `<target>/release`, as seen from the running program.
pub(crate) fn profile_directory() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let directory = program.parent().unwrap();
    match directory.file_name().and_then(|name| name.to_str()) {
        Some("deps" | "examples") => directory.parent().unwrap().to_owned(),
        _ => directory.to_owned(),
    }
}

/// The ELF file cut behind its last loaded segment: no section headers, no debug information, same program.
///
/// # Panics
/// If `elf` is no little-endian 64-bit ELF file.
pub fn slim(elf: &[u8]) -> Vec<u8> {
    assert!(elf.starts_with(b"\x7fELF\x02\x01"), "not a little-endian 64-bit ELF file");
    let word = |at: usize| u16::from_le_bytes(elf[at..at + 2].try_into().unwrap()) as usize;
    let long = |at: usize| usize::try_from(u64::from_le_bytes(elf[at..at + 8].try_into().unwrap())).unwrap();
    let (segments, segment_size, count) = (long(0x20), word(0x36), word(0x38));
    let end = (0..count).map(|number| segments + number * segment_size).map(|at| long(at + 0x08) + long(at + 0x20));
    let mut slim = elf[..end.max().unwrap()].to_vec();
    // e_shoff, then e_shnum and e_shstrndx: the section headers are gone.
    slim[0x28..0x30].fill(0);
    slim[0x3c..0x40].fill(0);
    slim
}

fn changed(path: &Path) -> SystemTime {
    path.metadata().and_then(|found| found.modified()).unwrap()
}

fn newest(directory: &Path) -> SystemTime {
    std::fs::read_dir(directory).unwrap().map(|entry| changed(&entry.unwrap().path())).max().unwrap()
}
