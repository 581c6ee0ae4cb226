//! A process that writes is killed, or its disk fails: all that was answered is there, and nothing half.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use fleet_engine::resource::Kind;
use fleet_store::{Change, Committed, Error, Result};

use crate::support::*;

/// Kills in a row, on the same data.
const KILLS: u64 = 40;
/// A writer ends by itself after so many changes: also if nobody kills it.
const CHANGES: u64 = 400;

/// Writes the change that leads to revision `next`: its number is in each part.
fn write(store: &mut OpenStore, next: u64) -> Result<Committed> {
    let book = book(next);
    let hosts = vec![host(1, &format!("{next}.0.0")), host(u128::from(next) + 10, &format!("{next}.0.0"))];
    store.commit(&Change {
        expected: next - 1,
        book: Some(&book),
        resources: vec![(Kind::Channel, "c".to_owned(), Some((next.to_string(), "yaml".to_owned())))],
        hosts,
        arrivals: next,
        records: vec![record(&next.to_string())],
        request: Some((format!("request {next}"), next.to_string())),
        ..Change::default()
    })
}

/// Whether all parts are of the same revision; which one.
fn check(store: &mut OpenStore) -> u64 {
    let Loaded { state, hosts, .. } = load(&mut **store).unwrap();
    let revision = state.revision;
    assert_eq!(state.book.map_or(0, |book| book.number), revision);
    assert_eq!(state.arrivals, revision);
    let verified = store.verify(None).unwrap();
    assert_eq!((verified.records, verified.fault), (revision, None));
    assert_eq!(hosts.len() as u64, if revision == 0 { 0 } else { revision + 1 });
    if revision > 0 {
        assert_eq!(hosts[0].version, format!("{revision}.0.0"));
        assert_eq!(state.resources[0].revision, revision.to_string());
    }
    assert_eq!(store.outcome(&format!("request {revision}")).unwrap().is_some(), revision > 0);
    assert_eq!(store.outcome(&format!("request {}", revision + 1)).unwrap(), None);
    revision
}

#[test]
#[ignore = "the writer that other tests start and kill"]
fn writer() {
    let Some(dir) = helper_dir() else { return };
    let mut store = OpenStore::at(&dir).unwrap();
    let first = store.revision().unwrap() + 1;
    for next in first..first + CHANGES {
        assert_eq!(write(&mut store, next).unwrap().revision, next);
        eprintln!("kept {next}");
    }
}

/// Starts a writer, and kills it some time after it kept `after` changes. Returns the last revision that it answered.
fn kill_a_writer(dir: &Path, after: u64, spin: u64) -> Option<u64> {
    let mut child = helper(&[], "crash::writer", dir).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(std::result::Result::ok);
    let revision = |line: String| line.strip_prefix("kept ").and_then(|number| number.parse().ok());
    let mut last: Option<u64> = None;
    for _ in 0..after {
        last = lines.next().and_then(revision).or(last);
    }
    (0..spin).for_each(|_| std::hint::spin_loop());
    child.kill().unwrap();
    child.wait().unwrap();
    // What it answered before it died counts as well.
    lines.filter_map(revision).last().or(last)
}

#[test]
fn a_killed_writer_loses_nothing_that_it_answered_and_leaves_nothing_half() {
    let bed = Bed::new();
    let mut random = Random(7);
    let mut before = 0;
    for round in 0..KILLS {
        let answered = kill_a_writer(&bed.data(), random.below(12), random.below(300_000)).unwrap_or(before);
        // A few are killed before there is a database.
        let mut store = bed.open();
        let kept = check(&mut store);
        assert!(kept == answered || kept == answered + 1, "round {round}: answered {answered}, kept {kept}");
        before = kept;
    }
    assert!(before > KILLS, "the writers wrote: {before}");
}

#[test]
#[ignore = "the writer whose disk fails once"]
fn writer_with_a_failing_disk() {
    let Some(dir) = helper_dir() else { return };
    let mut store = OpenStore::at(&dir).unwrap();
    let mut next = check(&mut store) + 1;
    let last = next + 12;
    while next < last {
        match write(&mut store, next) {
            Ok(committed) => {
                assert_eq!(committed.revision, next);
                next += 1;
            }
            Err(Error::Unavailable(line)) => {
                eprintln!("unavailable: {line}");
                assert_eq!(check(&mut store), next - 1, "nothing was written");
            }
            Err(Error::Unknown(line)) => {
                eprintln!("unknown: {line}");
                let refused = write(&mut store, next);
                assert!(matches!(refused, Err(Error::Unavailable(_))), "it went on in doubt: {refused:?}");
                store.reopen().unwrap();
                let kept = check(&mut store);
                assert!(kept == next - 1 || kept == next, "{kept} is neither before nor after {next}");
                next = kept + 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    eprintln!("done");
}

/// Runs the writer with the `when`th of these system calls on the log failing so. Returns what it said.
fn with_fault(dir: &Path, fault: &str, when: u32) -> String {
    let log = dir.join("fleet.db-wal");
    let inject = format!("inject={fault}:when={when}");
    let log = log.to_str().unwrap();
    let words = ["strace", "-f", "-o", "/dev/null", "-P", log, "-e", &inject];
    let output = helper(&words, "crash::writer_with_a_failing_disk", dir).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("done"), "{fault} at {when}: {said}");
    said
}

#[test]
fn after_a_failed_sync_the_outcome_is_unknown_and_is_found_by_opening_again() {
    if !has_strace() {
        return;
    }
    let bed = Bed::new();
    drop(bed.open());
    let said: Vec<String> = (1..6).map(|when| with_fault(&bed.data(), "fsync,fdatasync:error=EIO", when)).collect();
    assert!(said.iter().any(|said| said.contains("unknown: ")), "{said:?}");
}

#[test]
fn a_failed_write_to_the_log_loses_nothing_and_is_never_taken_for_a_success() {
    if !has_strace() {
        return;
    }
    let bed = Bed::new();
    drop(bed.open());
    for fault in ["write,pwrite64:error=EIO", "write,pwrite64:error=ENOSPC"] {
        let said: Vec<String> = [1, 2, 4, 7, 12].map(|when| with_fault(&bed.data(), fault, when)).into();
        assert!(said.iter().any(|said| said.contains("unknown: ") || said.contains("unavailable: ")), "{said:?}");
        let is_full = fault.contains("ENOSPC");
        assert!(!is_full || said.iter().all(|said| !said.contains("unknown: ")), "a full disk is no riddle: {said:?}");
    }
}

#[test]
#[ignore = "opens a store, and is killed while it makes it"]
fn maker() {
    let Some(dir) = helper_dir() else { return };
    drop(OpenStore::at(&dir).unwrap());
    eprintln!("done");
}

#[test]
fn a_database_whose_making_was_killed_is_made_by_the_next_start() {
    if !has_strace() {
        return;
    }
    let calls = "rename,renameat2,unlink,unlinkat,fsync,fdatasync,mkdir,ftruncate,fchmod,fchown";
    for when in 1.. {
        let bed = Bed::new();
        let inject = format!("inject={calls}:signal=SIGKILL:when={when}");
        let words = ["strace", "-f", "-o", "/dev/null", "-e", &inject];
        let output = helper(&words, "crash::maker", &bed.data()).output().unwrap();
        assert_eq!(check(&mut bed.open()), 0, "killed at {when}");
        assert!(!names(&bed.data()).iter().any(|name| name.contains("unfinished")), "killed at {when}");
        if output.status.success() {
            assert!(when > 5, "the calls were seen");
            return;
        }
    }
}

/// SQLite, which could not read the log, believes at the end that nothing is in it, and removes it with all that was decided.
#[test]
fn a_start_that_cannot_read_the_log_leaves_it_to_the_next_one() {
    if !has_strace() {
        return;
    }
    let bed = Bed::new();
    kill_a_writer(&bed.data(), 5, 0);
    let log = bed.data().join("fleet.db-wal");
    let words = ["strace", "-f", "-o", "/dev/null", "-P", log.to_str().unwrap(), "-e", "inject=pread64:error=EIO"];
    let output = helper(&words, "crash::maker", &bed.data()).output().unwrap();
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(check(&mut bed.open()) >= 5);
}
