//! The faults that `make planted` plants fit the source: one that cannot be planted is seen by no suite.
#![allow(clippy::disallowed_methods, reason = "test support")]

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn every_fault_can_be_planted() {
    if Command::new("patch").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: no patch");
        return;
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let faults: Vec<_> = std::fs::read_dir(checkout.join("tests/crash/planted"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "patch"))
        .collect();
    assert!(!faults.is_empty());
    for fault in faults {
        let output = Command::new("patch")
            .args(["--dry-run", "--strip=1", "--directory"])
            .arg(&checkout)
            .stdin(File::open(&fault).unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", fault.display(), String::from_utf8_lossy(&output.stdout));
    }
}
