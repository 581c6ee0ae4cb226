//! What is kept in `fuzz/corpus`, the seeds among it, goes through the checks of the targets without a fuzzer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of tests")]
#![allow(clippy::disallowed_methods, reason = "the test is outside the host it tests")]

use std::fs;
use std::thread;

use oracles::{TARGETS, corpus};

/// Most bytes of one kept input, and of all of them.
const MAX_LEN: usize = 32 << 10;
const MAX_TOTAL: usize = 1 << 20;

/// What a target has: seeds, and what a fuzzer has found; by file name.
fn kept(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = match fs::read_dir(corpus().join(target)) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => panic!("{target}: {error}"),
    };
    files.sort();
    files.iter().map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
}

#[test]
fn every_kept_input_passes_its_oracle() {
    let mut failed = Vec::new();
    for (target, oracle) in TARGETS {
        let kept = kept(target);
        assert!(!kept.is_empty(), "{target} has no input");
        for (name, bytes) in kept {
            // A thread each: what one input spoils is not held against the next.
            if thread::spawn(move || oracle(&bytes)).join().is_err() {
                failed.push((*target, name));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn the_kept_inputs_are_small() {
    let kept: Vec<_> = TARGETS.iter().flat_map(|(target, _)| kept(target)).collect();
    let sizes: Vec<usize> = kept.iter().map(|(_, bytes)| bytes.len()).collect();
    assert!(sizes.len() > 300 && sizes.iter().all(|size| *size <= MAX_LEN), "{sizes:?}");
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
