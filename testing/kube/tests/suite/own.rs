//! Nothing is left of a bed, whatever becomes of those who use it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use kube_bed::{KubeBed, stateful_set, wait_until};

use crate::{FIRST, PATIENCE};

/// Set where this program runs as a test that is killed.
const HOLDS: &str = "KUBE_BED_TEST_HOLDS";

/// Whether a program works in this folder.
fn is_used(dir: &Path) -> bool {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.map(|process| std::fs::read(process.path().join("cmdline")).unwrap_or_default())
        .any(|words| String::from_utf8_lossy(&words).contains(dir.to_str().unwrap()))
}

#[test]
fn a_bed_of_ones_own_ends_with_its_value() {
    let Some(bed) = KubeBed::start() else { return };
    let space = bed.namespace("own");
    space.client.create(&stateful_set(&space, "agent", FIRST, 1, "Parallel")).unwrap();
    wait_until(PATIENCE, "ready", || space.ready_pods().len() == 1);
    drop(space);
    let dir = bed.dir.clone();
    assert!(is_used(&dir) && dir.exists());
    drop(bed);
    assert!(!is_used(&dir) && !dir.exists());
}

#[test]
fn a_bed_ends_when_its_test_is_killed() {
    if std::env::var_os(HOLDS).is_some() {
        let bed = KubeBed::start().unwrap();
        println!("\nDIR {}", bed.dir.display());
        // Until it is killed.
        std::io::stdin().lines().for_each(drop);
        return;
    }
    if KubeBed::shared().is_none() {
        return;
    }
    let mut test = Command::new(std::env::current_exe().unwrap())
        .args(["own::a_bed_ends_when_its_test_is_killed", "--exact", "--nocapture"])
        .env(HOLDS, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(test.stdout.take().unwrap()).lines().map(Result::unwrap);
    let dir = lines.find_map(|line| line.strip_prefix("DIR ").map(std::path::PathBuf::from)).unwrap();
    assert!(is_used(&dir));
    test.kill().unwrap();
    test.wait().unwrap();
    wait_until(PATIENCE, "nothing is left", || !is_used(&dir) && !dir.exists());
}
