//! What is kept in `fuzz/corpus` goes through the same checks as when it was found, without a fuzzer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of tests")]
#![allow(clippy::disallowed_methods, reason = "the test is outside the host it tests")]

use std::fs;
use std::path::PathBuf;
use std::thread;

use oracles::{TARGETS, corpus};

/// Most bytes of one kept input, and of all of them.
const MAX_LEN: usize = 32 << 10;
const MAX_TOTAL: usize = 1 << 20;

fn kept(target: &str) -> Vec<PathBuf> {
    let dir = corpus().join(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "nothing is kept for {target}");
    files
}

#[test]
fn every_kept_input_passes_its_oracle() {
    let mut failed = Vec::new();
    for (target, oracle) in TARGETS {
        for file in kept(target) {
            let bytes = fs::read(&file).unwrap();
            // A thread each: what one input spoils is not held against the next.
            if thread::spawn(move || oracle(&bytes)).join().is_err() {
                failed.push(file);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn the_kept_inputs_are_small() {
    let sizes: Vec<usize> =
        TARGETS.iter().flat_map(|(target, _)| kept(target)).map(|file| fs::read(file).unwrap().len()).collect();
    assert!(sizes.iter().all(|size| *size <= MAX_LEN), "{sizes:?}");
    assert!(sizes.iter().sum::<usize>() < MAX_TOTAL, "{}", sizes.iter().sum::<usize>());
}

#[test]
fn every_oracle_has_a_fuzz_target_and_every_target_an_oracle() {
    let fuzz = corpus().join("..");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    let mut targets: Vec<_> =
        fs::read_dir(fuzz.join("fuzz_targets")).unwrap().map(|entry| entry.unwrap().path()).collect();
    targets.sort();
    let names: Vec<_> = targets.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for (path, (name, _)) in targets.iter().zip(TARGETS) {
        assert!(fs::read_to_string(path).unwrap().contains(&format!("oracles::{name}(bytes)")), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name}");
    }
}
