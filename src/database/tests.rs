//! Snapshots and restoration with real SQLite files.

use std::cell::Cell;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::backup::{self, Backup, Content, DATABASE_FILE, DESCRIPTION_FILE};
use super::restore::{prepare, prepare_by_link};
use super::snapshot::Snapshot;
use super::*;
use crate::host::durable;
use crate::host::process::FileId;
use crate::host::signal::Cancelled;
use crate::report::{Code, Error, Result};
use protocol::{Edition, Revision};

/// A host with an agent's database and room for snapshots.
struct Bed {
    dir: tempfile::TempDir,
    revision: Revision,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        durable::create_dir_all(&dir.path().join("proc")).unwrap();
        Self { dir, revision: Revision { version: "15.1.0".parse().unwrap(), edition: Edition::Enterprise } }
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("proc/sqlite.db")
    }

    fn snapshot(&self) -> PathBuf {
        self.dir.path().join("snapshot")
    }

    fn prepared(&self) -> PathBuf {
        restore::prepared_path(&self.db())
    }

    /// A database in this journal mode with rows 1 to `rows`; its connection stays open like an agent's.
    fn agent(&self, mode: &str, rows: i64) -> Connection {
        let agent = Connection::open(self.db()).unwrap();
        agent.busy_timeout(Duration::from_secs(10)).unwrap();
        agent
            .execute_batch(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE t(id INTEGER PRIMARY KEY, x)"))
            .unwrap();
        add(&agent, rows);
        agent
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            proxy: "p:443",
            revision: &self.revision,
            host: None,
            now: "2026-01-02T03:04:05Z".parse().unwrap(),
            failed: false,
        }
    }

    fn online(&self) -> Result<Snapshot> {
        self.online_with(&|| false)
    }

    fn online_with(&self, cancelled: Cancelled<'_>) -> Result<Snapshot> {
        let pace = Pace { deadline: Duration::from_millis(200), cancelled };
        snapshot_online(&self.db(), &self.snapshot(), &self.subject(), false, &pace)
    }

    fn stopped(&self, at_rest: AtRest) -> Result<Snapshot> {
        let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
        snapshot_stopped(&self.db(), &self.snapshot(), &self.subject(), at_rest, &pace)
    }

    /// What the snapshot holds, after checking that it is complete, single and as described.
    fn taken(&self) -> Vec<i64> {
        assert_eq!(names(&self.snapshot()), [DESCRIPTION_FILE, DATABASE_FILE]);
        let backup = Backup::read(&self.snapshot()).unwrap().unwrap();
        backup::check_bytes(&self.snapshot(), &backup).unwrap();
        let rows = rows_at_rest(&self.snapshot().join(DATABASE_FILE));
        assert_eq!(names(&self.snapshot()).len(), 2, "looking at it makes no sidecars");
        rows
    }

    /// Leaves the live files as a crash of the agent would.
    fn crash(&self, agent: Connection, parts: &[&str]) {
        let saved: Vec<_> =
            parts.iter().map(|part| (*part, std::fs::read(sqlite::beside(&self.db(), part)).unwrap())).collect();
        drop(agent);
        for suffix in sqlite::SIDECARS {
            durable::remove_file(&sqlite::beside(&self.db(), suffix)).unwrap();
        }
        for (part, bytes) in saved {
            durable::write(&sqlite::beside(&self.db(), part), &bytes, 0o600).unwrap();
        }
    }

    /// The same for a WAL, and the database stays the file that it is.
    fn crash_in_place(&self, agent: Connection) {
        let log = std::fs::read(sqlite::beside(&self.db(), "-wal")).unwrap();
        let set = agent.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        set.unwrap();
        drop(agent);
        durable::write(&sqlite::beside(&self.db(), "-wal"), &log, 0o600).unwrap();
    }

    fn damage(&self) {
        let mut bytes = std::fs::read(self.db()).unwrap();
        assert!(bytes.len() > 8192);
        bytes[4096..8192].fill(0x5a);
        durable::write(&self.db(), &bytes, 0o600).unwrap();
    }
}

fn add(connection: &Connection, rows: i64) {
    for _ in 0..rows {
        connection.execute("INSERT INTO t(x) VALUES (randomblob(100))", []).unwrap();
    }
}

fn rows(connection: &Connection) -> Vec<i64> {
    let mut query = connection.prepare("SELECT id FROM t ORDER BY id").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(|id| id.unwrap()).collect()
}

fn rows_at_rest(db: &Path) -> Vec<i64> {
    rows(&sqlite::open_at_rest(db).unwrap())
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn up_to(last: i64) -> Vec<i64> {
    (1..=last).collect()
}

const REPLACED: AtRest = AtRest { will_be_replaced: true, even_if_damaged: false };
const UNDO: AtRest = AtRest { will_be_replaced: true, even_if_damaged: true };

#[test]
fn a_running_agents_rows_are_copied_in_every_journal_mode() {
    for mode in ["WAL", "DELETE", "TRUNCATE", "PERSIST"] {
        let bed = Bed::new();
        let agent = bed.agent(mode, 50);
        let snapshot = bed.online().unwrap();
        assert_eq!((snapshot.passes, snapshot.moved), (1, false), "{mode}");
        assert_eq!(bed.taken(), up_to(50), "{mode}");
        assert_eq!(Backup::read(&bed.snapshot()).unwrap(), Some(snapshot.backup));
        add(&agent, 1);
        assert_eq!(rows(&agent), up_to(51), "{mode}");
    }
}

#[test]
fn a_copy_taken_under_a_writing_thread_is_a_state_that_was_committed() {
    for mode in ["WAL", "DELETE"] {
        let bed = Bed::new();
        let agent = bed.agent(mode, 200);
        let (stop, committed) = (AtomicBool::new(false), AtomicI64::new(200));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let agent = agent;
                while !stop.load(Ordering::SeqCst) {
                    agent
                        .execute_batch(
                            "BEGIN IMMEDIATE; INSERT INTO t(x) VALUES (1); INSERT INTO t(x) VALUES (2); COMMIT",
                        )
                        .unwrap();
                    committed.fetch_add(2, Ordering::SeqCst);
                }
            });
            // Also when this thread panics: the scope waits for the other.
            let _stop = Stop(&stop);
            for _ in 0..5 {
                let before = committed.load(Ordering::SeqCst);
                let pace = Pace { deadline: Duration::from_secs(20), cancelled: &|| false };
                let taken = snapshot_online(&bed.db(), &bed.snapshot(), &bed.subject(), false, &pace);
                taken.unwrap();
                let rows = bed.taken();
                assert_eq!(rows, up_to(rows.len() as i64), "{mode}");
                assert!(rows.len().is_multiple_of(2) && rows.len() as i64 >= before, "{mode}");
            }
        });
    }
}

/// Ends a writing thread, at the latest with this value.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn the_pass_is_repeated_three_times_while_others_write() {
    let bed = Bed::new();
    let agent = bed.agent("WAL", 10);
    let snapshot = bed
        .online_with(&|| {
            add(&agent, 1);
            false
        })
        .unwrap();
    assert_eq!((snapshot.passes, snapshot.moved), (3, true));
    assert!(bed.taken().len() > 12, "the last pass counts");

    let once = Cell::new(3);
    let snapshot = bed
        .online_with(&|| {
            if once.get() > 0 {
                add(&agent, 1);
                once.set(once.get() - 1);
            }
            false
        })
        .unwrap();
    assert_eq!((snapshot.passes, snapshot.moved), (2, false));
    assert_eq!(bed.taken(), rows(&agent));
}

#[test]
fn a_writer_between_steps_does_not_start_the_copy_again() {
    let bed = Bed::new();
    Connection::open(bed.db()).unwrap().execute_batch("PRAGMA page_size = 512; VACUUM").unwrap();
    let agent = bed.agent("WAL", 10);
    // Three steps of 2 MiB.
    agent.execute("INSERT INTO t(x) VALUES (zeroblob(5000000))", []).unwrap();
    let calls = Cell::new(0);
    bed.online_with(&|| {
        add(&agent, 1);
        calls.set(calls.get() + 1);
        calls.get() > 100
    })
    .unwrap();
    assert!(calls.get() >= 3 * 3, "the copy has several steps");
    let rows = bed.taken();
    assert_eq!(rows, up_to(rows.len() as i64));
}

#[test]
fn what_is_not_committed_is_not_copied() {
    for mode in ["WAL", "DELETE"] {
        let bed = Bed::new();
        let agent = bed.agent(mode, 10);
        agent.execute_batch("BEGIN IMMEDIATE; INSERT INTO t(x) VALUES (1)").unwrap();
        bed.online().unwrap();
        assert_eq!(bed.taken(), up_to(10), "{mode}");
    }
}

#[test]
fn a_database_that_stays_busy_is_an_error_after_the_deadline() {
    let bed = Bed::new();
    let agent = bed.agent("DELETE", 10);
    agent.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let start = Instant::now();
    assert_eq!(bed.online().unwrap_err().code, Code::DatabaseBusy);
    assert!(start.elapsed() >= Duration::from_millis(200) && start.elapsed() < Duration::from_secs(20));
    assert!(!bed.snapshot().join(DESCRIPTION_FILE).exists());
    assert_eq!(bed.stopped(AtRest::default()).unwrap_err().code, Code::DatabaseBusy);
    assert_eq!(bed.stopped(UNDO).unwrap_err().code, Code::DatabaseBusy);
}

#[test]
fn a_database_that_is_free_before_the_deadline_is_copied() {
    let bed = Bed::new();
    let agent = bed.agent("DELETE", 10);
    agent.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let calls = Cell::new(0);
    bed.online_with(&|| {
        calls.set(calls.get() + 1);
        if calls.get() == 2 {
            agent.execute_batch("ROLLBACK").unwrap();
        }
        false
    })
    .unwrap();
    assert_eq!(bed.taken(), up_to(10));
}

#[test]
fn a_signal_ends_the_copy() {
    let bed = Bed::new();
    let _agent = bed.agent("WAL", 10);
    assert_eq!(bed.online_with(&|| true).unwrap_err().code, Code::Interrupted);
}

#[test]
fn rows_in_the_log_of_a_crashed_agent_are_copied_and_its_log_stays() {
    let bed = Bed::new();
    let agent = bed.agent("WAL", 100);
    bed.crash(agent, &["", "-wal"]);
    let log = std::fs::read(sqlite::beside(&bed.db(), "-wal")).unwrap();
    bed.online().unwrap();
    assert_eq!(bed.taken(), up_to(100));
    assert_eq!(std::fs::read(sqlite::beside(&bed.db(), "-wal")).unwrap(), log);
    bed.stopped(REPLACED).unwrap();
    assert_eq!(bed.taken(), up_to(100));
    assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE]);
}

#[test]
fn a_hot_journal_is_rolled_back_first() {
    for stopped in [false, true] {
        let bed = Bed::new();
        let agent = bed.agent("DELETE", 500);
        agent
            .execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN; DELETE FROM t WHERE id > 5")
            .unwrap();
        let journal = sqlite::beside(&bed.db(), "-journal");
        // Only a synced journal header makes it hot; spilled pages write it.
        assert!(std::fs::metadata(&journal).unwrap().len() > 4096);
        bed.crash(agent, &["", "-journal"]);
        if stopped {
            bed.stopped(AtRest::default()).unwrap()
        } else {
            bed.online().unwrap()
        };
        assert_eq!(bed.taken(), up_to(500), "stopped: {stopped}");
    }
}

#[test]
fn owner_and_mode_are_kept_and_the_directory_is_closed() {
    let bed = Bed::new();
    let _agent = bed.agent("WAL", 1);
    std::fs::set_permissions(bed.db(), std::fs::Permissions::from_mode(0o640)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        durable::chown(&bed.db(), 1234, 1235).unwrap();
    }
    bed.online().unwrap();
    let live = std::fs::metadata(bed.db()).unwrap();
    let check = |path: &Path| {
        let meta = std::fs::metadata(path).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode()), (live.uid(), live.gid(), live.mode()));
    };
    check(&bed.snapshot().join(DATABASE_FILE));
    assert_eq!(std::fs::metadata(bed.snapshot()).unwrap().mode() & 0o777, 0o700);
    bed.stopped(AtRest::default()).unwrap();
    check(&bed.snapshot().join(DATABASE_FILE));
    std::fs::set_permissions(bed.snapshot().join(DATABASE_FILE), std::fs::Permissions::from_mode(0o600)).unwrap();
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    check(&bed.prepared());
}

#[test]
fn a_host_without_database_is_described_and_nothing_is_created() {
    let bed = Bed::new();
    for snapshot in [bed.online().unwrap(), bed.stopped(UNDO).unwrap()] {
        assert_eq!(snapshot.backup.content, Content::Absent);
        assert_eq!(names(&bed.snapshot()), [DESCRIPTION_FILE]);
    }
    assert_eq!(names(bed.db().parent().unwrap()), [""; 0]);

    let _agent = bed.agent("WAL", 1);
    let prepared = prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    restore::commit(&prepared, &|| Ok(())).unwrap();
    restore::commit(&prepared, &|| Ok(())).unwrap();
    assert_eq!(names(bed.db().parent().unwrap()), [""; 0]);
}

#[test]
fn a_damaged_database_is_kept_as_failed_beside_an_agent_and_as_it_is_when_a_failed_run_is_undone() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 500));
    bed.damage();
    let beside = bed.online().unwrap();
    assert!(beside.raw && beside.backup.failed, "a move that keeps it does not need the copy");
    assert!(beside.damage.unwrap().what.starts_with(&format!("{} is damaged", bed.db().display())));
    assert_eq!(bed.stopped(REPLACED).unwrap_err().code, Code::DatabaseInvalid);
    for bytes in [std::fs::read(bed.db()).unwrap(), b"not a database at all".to_vec()] {
        durable::write(&bed.db(), &bytes, 0o600).unwrap();
        let snapshot = bed.stopped(UNDO).unwrap();
        assert!(snapshot.raw && snapshot.backup.failed);
        assert_eq!(std::fs::read(bed.snapshot().join(DATABASE_FILE)).unwrap(), bytes);
    }
}

#[test]
fn a_damaged_database_is_kept_with_its_log() {
    let bed = Bed::new();
    let agent = bed.agent("WAL", 500);
    agent.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); CREATE TABLE later(x)").unwrap();
    bed.crash(agent, &["", "-wal"]);
    bed.damage();
    let log = std::fs::read(sqlite::beside(&bed.db(), "-wal")).unwrap();
    assert!(log.len() > 4096);
    assert!(bed.stopped(UNDO).unwrap().raw);
    assert_eq!(std::fs::read(bed.snapshot().join("sqlite.db-wal")).unwrap(), log);
}

#[test]
fn a_database_that_was_waited_for_long_enough_is_taken_as_it_lies_with_every_row() {
    for mode in ["WAL", "DELETE"] {
        let bed = Bed::new();
        let agent = bed.agent(mode, 0);
        agent.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
        add(&agent, 50);
        agent.execute_batch("BEGIN EXCLUSIVE; UPDATE t SET x = 'not committed'").unwrap();
        assert_eq!(bed.online().unwrap_err().code, Code::DatabaseBusy);
        let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
        let taken = snapshot_online(&bed.db(), &bed.snapshot(), &bed.subject(), true, &pace).unwrap();
        assert!(!taken.backup.failed && taken.damage.unwrap().code == Code::DatabaseBusy);
        assert_eq!(bed.taken(), up_to(50), "{mode}");
        agent.execute_batch("COMMIT").unwrap();
    }
}

#[test]
fn a_link_is_made_only_of_a_file_that_will_be_replaced() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    assert!(!bed.stopped(AtRest::default()).unwrap().linked);
    assert_ne!(inode(&bed.db()), inode(&bed.snapshot().join(DATABASE_FILE)));
    assert!(bed.stopped(REPLACED).unwrap().linked);
    assert_eq!(inode(&bed.db()), inode(&bed.snapshot().join(DATABASE_FILE)));
}

/// Takes the database in its three parts; what happens between the first two is `meanwhile`.
fn in_parts(bed: &Bed, meanwhile: impl FnOnce()) -> (SnapshotId, Backup, Option<Error>) {
    let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
    link_ahead(&bed.db(), &bed.snapshot()).unwrap();
    meanwhile();
    let identity = take_stopped(&bed.db(), &bed.snapshot(), &bed.subject(), false, &pace).unwrap().id;
    let (backup, damage) = describe_taken(&bed.snapshot(), &bed.subject()).unwrap();
    (identity, backup, damage)
}

#[test]
fn a_database_taken_in_parts_has_every_row_and_is_the_live_file() {
    for mode in ["WAL", "DELETE"] {
        for parts in [&[][..], &["", "-wal", "-shm"][..]] {
            let bed = Bed::new();
            let agent = bed.agent(mode, 10);
            let (identity, backup, damage) = in_parts(&bed, || {
                add(&agent, 90);
                if parts.is_empty() || mode == "DELETE" { drop(agent) } else { bed.crash_in_place(agent) }
            });
            assert_eq!((identity, backup.failed, damage.is_none()), (SnapshotId::Linked, false, true));
            assert_eq!(bed.taken(), up_to(100), "{mode} {parts:?}");
            assert_eq!(FileId::of(bed.db()), FileId::of(bed.snapshot().join(DATABASE_FILE)));
        }
    }
}

#[test]
fn a_link_made_ahead_leaves_the_running_agent_as_it_is_and_shortens_its_log() {
    let bed = Bed::new();
    let agent = bed.agent("WAL", 100);
    assert!(link_ahead(&bed.db(), &bed.snapshot()).unwrap());
    assert!(!bed.snapshot().join("sqlite.db-wal").exists());
    let (log, written): (i64, i64) =
        agent.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| Ok((row.get(1)?, row.get(2)?))).unwrap();
    assert_eq!(log, written, "every page of the log is in the file");
    add(&agent, 1);
    assert_eq!(rows(&agent), up_to(101));
}

#[test]
fn a_database_that_was_replaced_or_came_or_went_after_its_link_was_made_is_taken_anew() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    let (identity, ..) = in_parts(&bed, || {
        durable::remove_file(&bed.db()).unwrap();
        drop(bed.agent("WAL", 20));
    });
    assert_eq!((identity, bed.taken()), (SnapshotId::Linked, up_to(20)));
    let (identity, backup, _) = in_parts(&bed, || durable::remove_file(&bed.db()).unwrap());
    assert_eq!((identity, backup.content), (SnapshotId::Absent, Content::Absent));
    assert_eq!(names(&bed.snapshot()), [DESCRIPTION_FILE]);
    let (identity, ..) = in_parts(&bed, || drop(bed.agent("DELETE", 5)));
    assert_eq!((identity, bed.taken()), (SnapshotId::Linked, up_to(5)));
}

#[test]
fn a_database_on_another_file_system_is_copied_when_it_is_stopped_and_known_by_its_digest() {
    let Ok(elsewhere) = tempfile::tempdir_in("/dev/shm") else { return };
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    if FileId::of(elsewhere.path()).map(|id| id.dev) == FileId::of(bed.db()).map(|id| id.dev) {
        return;
    }
    let dir = elsewhere.path().join("snapshot");
    assert!(!link_ahead(&bed.db(), &dir).unwrap());
    let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
    let identity = take_stopped(&bed.db(), &dir, &bed.subject(), false, &pace).unwrap().id;
    let (backup, damage) = describe_taken(&dir, &bed.subject()).unwrap();
    assert_eq!((Some(identity), damage.is_none()), (backup.id(), true));
    assert_eq!(rows_at_rest(&dir.join(DATABASE_FILE)), up_to(10));
}

#[test]
fn damage_is_found_when_nobody_waits_any_more_and_the_copy_is_never_restored() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 500));
    bed.damage();
    for bytes in [std::fs::read(bed.db()).unwrap(), b"not a database at all".to_vec()] {
        durable::write(&bed.db(), &bytes, 0o600).unwrap();
        let (_, backup, damage) = in_parts(&bed, || ());
        assert_eq!((backup.failed, damage.unwrap().code), (true, Code::DatabaseInvalid));
        assert_eq!(std::fs::read(bed.snapshot().join(DATABASE_FILE)).unwrap(), bytes);
    }
    // What cannot be opened at all has its log beside it.
    durable::write(&sqlite::beside(&bed.db(), "-wal"), b"a log", 0o600).unwrap();
    let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
    let take = |even| take_stopped(&bed.db(), &bed.snapshot(), &bed.subject(), even, &pace);
    assert_eq!(take(false).unwrap_err().code, Code::DatabaseInvalid);
    take(true).unwrap();
    let (backup, damage) = describe_taken(&bed.snapshot(), &bed.subject()).unwrap();
    assert!(backup.failed && damage.is_none(), "it was told before");
    assert_eq!(std::fs::read(bed.snapshot().join("sqlite.db-wal")).unwrap(), b"a log");
}

#[test]
fn nothing_taken_is_not_described_as_no_database() {
    let bed = Bed::new();
    directory::make_fresh(&bed.snapshot()).unwrap();
    assert_eq!(describe_taken(&bed.snapshot(), &bed.subject()).unwrap_err().code, Code::BackupMissing);
}

#[test]
fn a_restored_database_has_the_snapshots_rows_and_nothing_of_the_one_before() {
    for mode in ["WAL", "DELETE"] {
        let bed = Bed::new();
        let agent = bed.agent(mode, 10);
        bed.online().unwrap();
        add(&agent, 90);
        let parts: &[&str] = if mode == "WAL" { &["", "-wal", "-shm"] } else { &[""] };
        bed.crash(agent, parts);
        let before = std::fs::read(bed.db()).unwrap();
        let prepared = prepare(&bed.snapshot(), &bed.db(), None).unwrap();
        assert_eq!(std::fs::read(bed.db()).unwrap(), before);
        restore::commit(&prepared, &|| Ok(())).unwrap();
        assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE]);
        assert_eq!(rows(&Connection::open(bed.db()).unwrap()), up_to(10), "{mode}");
        assert!(!restore::swap(&bed.db(), &|| Ok(())).unwrap());
    }
}

#[test]
fn the_old_log_goes_before_the_new_file_comes() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 10));
    bed.online().unwrap();
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    let before = std::fs::metadata(bed.db()).unwrap().ino();
    // A log that cannot be removed must not meet the new file.
    durable::create_dir_all(&sqlite::beside(&bed.db(), "-wal")).unwrap();
    restore::swap(&bed.db(), &|| Ok(())).unwrap_err();
    assert_eq!(std::fs::metadata(bed.db()).unwrap().ino(), before);
    durable::remove_tree(&sqlite::beside(&bed.db(), "-wal")).unwrap();
    assert!(restore::swap(&bed.db(), &|| Ok(())).unwrap());
}

#[test]
fn a_log_that_turns_up_behind_the_rename_is_nobodys_to_remove() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 10));
    bed.online().unwrap();
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    let log = sqlite::beside(&bed.db(), "-wal");
    // By a program that opened the database after the last look.
    let look = || durable::write(&log, b"rows", 0o600);
    let looked_once = std::cell::Cell::new(false);
    let error = restore::swap(&bed.db(), &|| {
        if looked_once.replace(true) { look() } else { durable::write(&sqlite::beside(&bed.db(), "-shm"), b"", 0o600) }
    });
    assert_eq!(error.unwrap_err().code, Code::DatabaseBusy);
    assert_eq!(std::fs::read(&log).unwrap(), b"rows");
}

#[test]
fn a_restore_and_an_undo_lie_ready_under_different_names() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 10));
    let digest = bed.online().unwrap().backup.id().unwrap();
    assert!(!restore::is_prepared(&bed.db()).unwrap());
    prepare(&bed.snapshot(), &bed.db(), Some(digest)).unwrap();
    assert!(!restore::is_prepared(&bed.db()).unwrap());
    let of_restore = prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    assert!(restore::is_prepared(&bed.db()).unwrap());
    let stat_data = of_restore.stat_data().unwrap();
    assert!(!is_unwritten(&bed.db(), stat_data).unwrap() && !is_unwritten(&bed.db(), None).unwrap());
    restore::commit(&of_restore, &|| Ok(())).unwrap();
    assert!(!restore::is_prepared(&bed.db()).unwrap() && is_unwritten(&bed.db(), stat_data).unwrap());
    durable::write(&sqlite::beside(&bed.db(), "-wal"), b"rows", 0o600).unwrap();
    assert!(!is_unwritten(&bed.db(), stat_data).unwrap());
    restore::discard(&bed.db()).unwrap();
    assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE, "sqlite.db-wal"]);
}

#[test]
fn a_swap_that_was_cut_after_the_old_log_went_is_finished() {
    let bed = Bed::new();
    let agent = bed.agent("WAL", 10);
    bed.online().unwrap();
    add(&agent, 5);
    bed.crash(agent, &["", "-wal"]);
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    durable::remove_file(&sqlite::beside(&bed.db(), "-wal")).unwrap();
    assert!(restore::swap(&bed.db(), &|| Ok(())).unwrap());
    assert_eq!(rows(&Connection::open(bed.db()).unwrap()), up_to(10));
}

#[test]
fn a_discarded_preparation_leaves_nothing() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    bed.online().unwrap();
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    restore::discard(&bed.db()).unwrap();
    restore::discard(&bed.db()).unwrap();
    assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE]);
}

#[test]
fn a_snapshot_with_other_bytes_is_not_prepared() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 500));
    let digest = bed.online().unwrap().backup.id().unwrap();
    let file = bed.snapshot().join(DATABASE_FILE);
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[4200] ^= 1;
    for bytes in [&bad[..], &good[..good.len() - 4096], b""] {
        durable::write(&file, bytes, 0o600).unwrap();
        for trusted in [None, Some(digest)] {
            assert_eq!(prepare(&bed.snapshot(), &bed.db(), trusted).unwrap_err().code, Code::BackupInvalid);
            assert_eq!(prepare_by_link(&bed.snapshot(), &bed.db(), trusted).unwrap_err().code, Code::BackupInvalid);
        }
        let backup = Backup::read(&bed.snapshot()).unwrap().unwrap();
        assert_eq!(backup::check_bytes(&bed.snapshot(), &backup).unwrap_err().code, Code::BackupInvalid);
    }
    durable::remove_file(&file).unwrap();
    assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).unwrap_err().code, Code::BackupMissing);
    // What cannot be read is not missing.
    durable::symlink(&file, &file).unwrap();
    assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).unwrap_err().code, Code::Io);
    durable::write(&file, &good, 0o600).unwrap();
    durable::remove_file(&bed.snapshot().join(DESCRIPTION_FILE)).unwrap();
    assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).unwrap_err().code, Code::BackupMissing);
    assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE]);
    prepare(&bed.snapshot(), &bed.db(), Some(digest)).unwrap();
}

#[test]
fn a_description_without_digest_still_needs_a_good_database() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 500));
    let mut backup = bed.online().unwrap().backup;
    backup.content = Content::Database { size: None, sha256: None };
    backup.write(&bed.snapshot()).unwrap();
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    durable::write(&bed.snapshot().join(DATABASE_FILE), b"junk", 0o600).unwrap();
    assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).unwrap_err().code, Code::BackupInvalid);
}

#[test]
fn the_way_back_without_room_links_the_snapshot_even_if_it_is_the_live_file() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    bed.stopped(REPLACED).unwrap();
    let prepared = prepare_by_link(&bed.snapshot(), &bed.db(), None).unwrap();
    restore::commit(&prepared, &|| Ok(())).unwrap();
    assert_eq!(names(bed.db().parent().unwrap()), [DATABASE_FILE]);
    durable::remove_tree(&bed.snapshot()).unwrap();
    assert_eq!(rows(&Connection::open(bed.db()).unwrap()), up_to(10));
}

#[test]
fn a_database_behind_a_link_is_replaced_behind_the_link() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 10));
    let elsewhere = bed.dir.path().join("elsewhere");
    durable::rename(&bed.db(), &elsewhere).unwrap();
    durable::symlink(&elsewhere, &bed.db()).unwrap();
    bed.online().unwrap();
    assert_eq!(bed.taken(), up_to(10));
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    assert!(restore::swap(&bed.db(), &|| Ok(())).unwrap());
    assert_eq!(std::fs::read_link(bed.db()).unwrap(), elsewhere);
    assert_eq!(rows(&Connection::open(bed.db()).unwrap()), up_to(10));
}

#[test]
fn each_refusal_of_sqlite_is_told_for_what_it_is() {
    use rusqlite::ffi;
    for (sqlite_code, code) in [
        (ffi::SQLITE_BUSY, Code::DatabaseBusy),
        (ffi::SQLITE_BUSY_SNAPSHOT, Code::DatabaseBusy),
        (ffi::SQLITE_LOCKED, Code::DatabaseBusy),
        (ffi::SQLITE_FULL, Code::NoSpace),
        (ffi::SQLITE_PERM, Code::Permission),
        (ffi::SQLITE_AUTH, Code::Permission),
        (ffi::SQLITE_READONLY, Code::ReadOnly),
        (ffi::SQLITE_IOERR, Code::Io),
        (ffi::SQLITE_CORRUPT, Code::DatabaseInvalid),
        (ffi::SQLITE_NOTADB, Code::DatabaseInvalid),
    ] {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(sqlite_code), None);
        assert_eq!(sqlite::is_busy(&error), code == Code::DatabaseBusy, "{sqlite_code}");
        let told = sqlite::explain(error, "cannot open", Path::new("/db"));
        assert_eq!(told.code, code, "{sqlite_code}");
        assert!(told.what.starts_with("cannot open /db: "), "{told}");
    }
}

#[test]
fn a_database_that_is_no_file_or_cannot_be_looked_at_is_not_taken_for_absent() {
    let bed = Bed::new();
    let file = bed.dir.path().join("file");
    durable::write(&file, b"", 0o600).unwrap();
    durable::create_dir_all(&bed.db()).unwrap();
    let pace = Pace { deadline: Duration::ZERO, cancelled: &|| false };
    for db in [bed.db(), file.join("sqlite.db")] {
        let kept = snapshot_online(&db, &bed.snapshot(), &bed.subject(), false, &pace).unwrap();
        assert_eq!((kept.backup.failed, kept.backup.content), (true, Content::Absent));
    }
}

#[test]
fn a_failed_versions_snapshot_says_so_however_good_its_database_is() {
    let bed = Bed::new();
    drop(bed.agent("WAL", 1));
    let subject = Subject { failed: true, ..bed.subject() };
    let pace = Pace { deadline: Duration::from_secs(10), cancelled: &|| false };
    for at_rest in [AtRest::default(), UNDO] {
        let taken = snapshot_stopped(&bed.db(), &bed.snapshot(), &subject, at_rest, &pace).unwrap();
        assert_eq!((taken.raw, taken.backup.failed), (false, true));
        let taken = bed.stopped(at_rest).unwrap();
        assert_eq!((taken.raw, taken.backup.failed), (false, false));
    }
    assert!(snapshot_online(&bed.db(), &bed.snapshot(), &subject, false, &pace).unwrap().backup.failed);
}

#[test]
fn size_and_digest_of_a_snapshot_are_each_asked_for_by_themselves() {
    let bed = Bed::new();
    drop(bed.agent("DELETE", 10));
    let mut backup = bed.online().unwrap().backup;
    let Content::Database { size, sha256 } = backup.content else { panic!() };
    let (size, other) = (size.unwrap(), Some(protocol::Digest([0; 32])));
    for (size, sha256, is_good) in [
        (Some(size), None, true),
        (None, sha256, true),
        (Some(size + 1), None, false),
        (None, other, false),
        (Some(size), other, false),
    ] {
        backup.content = Content::Database { size, sha256 };
        backup.write(&bed.snapshot()).unwrap();
        assert_eq!(backup::check_bytes(&bed.snapshot(), &backup).is_ok(), is_good, "{:?}", backup.content);
        assert_eq!(prepare(&bed.snapshot(), &bed.db(), None).is_ok(), is_good, "{:?}", backup.content);
    }
    // Neither is known, and it is not there.
    backup.content = Content::Database { size: None, sha256: None };
    backup.write(&bed.snapshot()).unwrap();
    durable::remove_file(&bed.snapshot().join(DATABASE_FILE)).unwrap();
    let missing = backup::check_bytes(&bed.snapshot(), &backup).unwrap_err();
    assert_eq!(missing.code, Code::BackupMissing);
}

#[test]
fn the_label_of_the_live_file_goes_to_the_prepared_one() {
    const LABEL: &str = "security.selinux";
    let bed = Bed::new();
    drop(bed.agent("WAL", 1));
    bed.online().unwrap();
    let label = b"system_u:object_r:var_lib_t:s0\0";
    // Only root may, and only where the file system has such attributes.
    if rustix::fs::lsetxattr(bed.db(), LABEL, label, rustix::fs::XattrFlags::empty()).is_err() {
        return;
    }
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    let mut found = [0; 64];
    let length = rustix::fs::lgetxattr(bed.prepared(), LABEL, &mut found[..]).unwrap();
    assert_eq!(found[..length], label[..]);
}

/// The agent's own user.
const AGENT: u32 = 900;

/// A bed whose data directory is the agent's user's, as is all that lies in it; `None` without root.
fn agents_bed(mode: &str) -> Option<(Bed, Connection)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return None;
    }
    let bed = Bed::new();
    std::fs::set_permissions(bed.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let proc = bed.db().parent().unwrap().to_owned();
    let agent = bed.agent(mode, 20);
    for path in names(&proc).iter().map(|name| proc.join(name)).chain([proc.clone()]) {
        std::os::unix::fs::chown(path, Some(AGENT), Some(AGENT)).unwrap();
    }
    std::fs::set_permissions(bed.db(), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(&proc, std::fs::Permissions::from_mode(0o700)).unwrap();
    Some((bed, agent))
}

#[test]
fn where_the_data_directory_is_the_agents_users_all_is_done_and_all_stays_his() {
    for mode in ["WAL", "DELETE"] {
        let Some((bed, agent)) = agents_bed(mode) else { return };
        let all_his = |when: &str| {
            for name in names(bed.db().parent().unwrap()) {
                let meta = std::fs::symlink_metadata(bed.db().with_file_name(&name)).unwrap();
                assert_eq!((meta.uid(), meta.gid()), (AGENT, AGENT), "{mode}: {name} {when}");
                // SQLite gives what is beside a database the mode that this had then.
                assert!(name.starts_with("sqlite.db-") || meta.mode() & 0o777 == 0o600, "{mode}: {name} {when}");
            }
        };
        bed.online().unwrap();
        assert_eq!(bed.taken(), up_to(20), "{mode}");
        all_his("after the copy");
        assert_eq!(std::fs::metadata(bed.snapshot().join(DATABASE_FILE)).unwrap().uid(), AGENT);
        add(&agent, 5);
        prepare(&bed.snapshot(), &bed.db(), None).unwrap();
        all_his("prepared");
        let ahead = bed.dir.path().join("left");
        assert!(link_ahead(&bed.db(), &ahead).unwrap(), "{mode}");
        drop(agent);
        let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
        let taken = take_stopped(&bed.db(), &ahead, &bed.subject(), false, &pace).unwrap();
        assert!(taken.lock.is_some() && taken.id == SnapshotId::Linked, "{mode}");
        assert!(restore::swap(&bed.db(), &|| Ok(())).unwrap());
        drop(taken);
        assert_eq!(rows_at_rest(&bed.db()), up_to(20), "{mode}");
        all_his("restored");
        // And back: the file itself, then a copy.
        for way in [prepare_by_link, prepare] {
            let back = way(&ahead, &bed.db(), Some(SnapshotId::Linked)).unwrap();
            restore::commit(&back, &|| Ok(())).unwrap();
            assert_eq!(rows_at_rest(&bed.db()), up_to(25), "{mode}");
            all_his("put back");
        }
        restore::discard(&bed.db()).unwrap();
        assert_eq!(names(bed.db().parent().unwrap()), ["sqlite.db"], "{mode}");
    }
}

/// What the agent's user can take from itself, as a shell would do it in its directory.
const TAKEN: [&str; 5] = [
    "chmod 000 proc/sqlite.db",
    "chmod 500 proc",
    "chmod 000 proc/sqlite.db proc/sqlite.db-*; chmod 000 proc",
    "chmod 000 .",
    "chmod 111 .; chmod 400 proc",
];

/// The data directory with all that is in it is the agent's user's; snapshots are beside it, root's. The agent is stopped.
fn agents_data() -> Option<(Bed, tempfile::TempDir)> {
    let (mut bed, agent) = agents_bed("WAL")?;
    let roots = std::mem::replace(&mut bed.dir, tempfile::tempdir().unwrap());
    // What is a snapshot's place for the bed is root's; the database is the agent's.
    std::fs::set_permissions(bed.dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    durable::rename(&roots.path().join("proc"), &bed.dir.path().join("proc")).unwrap();
    std::os::unix::fs::chown(bed.dir.path(), Some(AGENT), Some(AGENT)).unwrap();
    drop(agent);
    Some((bed, roots))
}

fn as_its_user(bed: &Bed, command: &str) {
    use std::os::unix::process::CommandExt;
    let mut shell = std::process::Command::new("sh");
    let shell = shell.args(["-c", command]).current_dir(bed.dir.path()).uid(AGENT).gid(AGENT);
    assert!(shell.output().unwrap().status.success() || command.contains("-*"), "{command}");
}

#[test]
fn what_the_agents_user_takes_from_itself_keeps_it_neither_from_a_copy_nor_from_its_old_database() {
    for command in TAKEN {
        let Some((bed, roots)) = agents_data() else { return };
        let snapshot = roots.path().join("snapshot");
        as_its_user(&bed, command);
        let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
        let taken = snapshot_online(&bed.db(), &snapshot, &bed.subject(), false, &pace).unwrap();
        assert!(taken.damage.is_none() && !taken.backup.failed, "{command}");
        let agent = Connection::open(bed.db()).unwrap();
        add(&agent, 5);
        drop(agent);
        as_its_user(&bed, command);
        let back = prepare(&snapshot, &bed.db(), taken.backup.id()).unwrap();
        as_its_user(&bed, "chmod 500 proc");
        restore::commit(&back, &|| Ok(())).unwrap();
        assert_eq!(rows_at_rest(&bed.db()), up_to(20), "{command}");
        as_its_user(&bed, command);
        let left = roots.path().join("left");
        link_ahead(&bed.db(), &left).unwrap();
        let taken = take_stopped(&bed.db(), &left, &bed.subject(), false, &pace).unwrap();
        assert_eq!(taken.id, SnapshotId::Linked, "{command}");
        as_its_user(&bed, command);
        prepare(&snapshot, &bed.db(), None).unwrap();
        as_its_user(&bed, command);
        assert!(restore::swap(&bed.db(), &|| Ok(())).unwrap(), "{command}");
        restore::discard(&bed.db()).unwrap();
        assert_eq!(names(bed.db().parent().unwrap()), ["sqlite.db"], "{command}");
        let meta = std::fs::metadata(bed.db()).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o700), (AGENT, 0o600), "{command}");
    }
}

#[test]
fn the_way_back_makes_the_directory_anew_that_the_agents_user_has_taken_away() {
    for command in [
        "mv proc away",
        "mv proc away; ln -s away proc",
        "mv proc away; echo x >proc",
        "mv proc away; mkdir -m 0 proc",
        "cd proc; rm sqlite.db*; mkdir -p sqlite.db/x sqlite.db-wal/x sqlite.db-journal/x; chmod 0 sqlite.db",
        "cd proc; rm sqlite.db*; mkfifo sqlite.db; ln -s . sqlite.db-wal",
        "cd proc; rm sqlite.db*; ln -s ../x sqlite.db",
        "cd proc; mkdir -p .sqlite.db.teleport-update-undo/x .sqlite.db.teleport-update/x",
    ] {
        let Some((bed, roots)) = agents_data() else { return };
        let snapshot = roots.path().join("snapshot");
        let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
        let taken = snapshot_online(&bed.db(), &snapshot, &bed.subject(), false, &pace).unwrap();
        as_its_user(&bed, command);
        let back = prepare(&snapshot, &bed.db(), taken.backup.id()).unwrap();
        restore::commit(&back, &|| Ok(())).unwrap();
        assert_eq!(rows_at_rest(&bed.db()), up_to(20), "{command}");
        let proc = std::fs::symlink_metadata(bed.db().parent().unwrap()).unwrap();
        assert!(proc.is_dir() && proc.uid() == AGENT && proc.mode() & 0o700 == 0o700, "{command}: {proc:?}");
        assert_eq!(std::fs::metadata(bed.db()).unwrap().uid(), AGENT, "{command}");
    }
}

#[test]
fn what_is_above_the_agents_directory_need_not_be_open_to_its_user() {
    for mode in ["WAL", "DELETE"] {
        let Some((bed, agent)) = agents_bed(mode) else { return };
        // systemd's /var/lib/private, and a directory of a supplementary group.
        std::fs::set_permissions(bed.dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        bed.online().unwrap();
        assert_eq!(bed.taken(), up_to(20), "{mode}");
        add(&agent, 5);
        let ahead = bed.dir.path().join("left");
        assert!(link_ahead(&bed.db(), &ahead).unwrap(), "{mode}");
        drop(agent);
        let pace = Pace { deadline: Duration::from_millis(200), cancelled: &|| false };
        let taken = take_stopped(&bed.db(), &ahead, &bed.subject(), false, &pace).unwrap();
        assert_eq!(taken.id, SnapshotId::Linked, "{mode}");
        prepare(&bed.snapshot(), &bed.db(), None).unwrap();
        assert!(restore::swap(&bed.db(), &|| Ok(())).unwrap());
        drop(taken);
        let back = prepare(&ahead, &bed.db(), Some(SnapshotId::Linked)).unwrap();
        back.check().unwrap();
        restore::commit(&back, &|| Ok(())).unwrap();
        assert_eq!(rows_at_rest(&bed.db()), up_to(25), "{mode}");
        assert_eq!(names(bed.db().parent().unwrap()), ["sqlite.db"], "{mode}");
    }
}

#[test]
fn what_the_agents_user_puts_in_the_place_of_its_database_leads_root_nowhere() {
    let secret_is_safe = |bed: &Bed, secret: &Path, before: &[u8], what: &str| {
        let meta = std::fs::metadata(secret).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o777), (0, 0o600), "{what}");
        assert_eq!(std::fs::read(secret).unwrap(), before, "{what}");
        let below = |dir: &Path| -> Vec<PathBuf> {
            std::fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
        };
        let kept = [bed.snapshot(), bed.dir.path().join("left")];
        for file in kept.iter().flat_map(|dir| below(dir)) {
            assert!(!file.is_symlink() && std::fs::read(&file).unwrap() != before, "{what}: {}", file.display());
        }
    };
    for what in ["link", "log", "directory", "fifo"] {
        let Some((bed, agent)) = agents_bed("DELETE") else { return };
        bed.online().unwrap();
        drop(agent);
        let good = bed.dir.path().join("good");
        durable::rename(&bed.snapshot(), &good).unwrap();
        // A database of root's, of the same name: another agent's, or a builder's.
        let others = bed.dir.path().join("others");
        durable::create_dir_all(&others).unwrap();
        let secret = others.join("sqlite.db");
        Connection::open(&secret).unwrap().execute_batch("CREATE TABLE secret(x)").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        let before = std::fs::read(&secret).unwrap();
        let db = bed.db();
        match what {
            "link" => durable::remove_file(&db).and_then(|()| durable::symlink(&secret, &db)).unwrap(),
            "log" => durable::symlink(&secret, &sqlite::beside(&db, "-journal")).unwrap(),
            "directory" => {
                let proc = db.parent().unwrap();
                durable::remove_tree(proc).unwrap();
                durable::symlink(&others, proc).unwrap();
                std::os::unix::fs::chown(bed.dir.path(), Some(AGENT), Some(AGENT)).unwrap();
            }
            _ => {
                durable::remove_file(&db).unwrap();
                let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                rustix::fs::mknodat(rustix::fs::CWD, &db, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            }
        }
        let pace = Pace { deadline: Duration::from_millis(100), cancelled: &|| false };
        // Whether each succeeds is another question: root must not have been led astray.
        let _ = bed.online().map(|taken| assert!(taken.backup.failed, "{what}"));
        secret_is_safe(&bed, &secret, &before, what);
        let _ = link_ahead(&db, &bed.dir.path().join("left"));
        let _ = take_stopped(&db, &bed.dir.path().join("left"), &bed.subject(), true, &pace);
        secret_is_safe(&bed, &secret, &before, what);
        for trusted in [None, Some(SnapshotId::Linked)] {
            if let Ok(prepared) = prepare(&good, &db, trusted) {
                let _ = restore::commit(&prepared, &|| Ok(()));
            }
            secret_is_safe(&bed, &secret, &before, what);
        }
        assert_eq!(names(&others), ["sqlite.db"], "{what}");
    }
}

#[test]
fn what_goes_by_is_not_there_a_second_time_and_a_lock_is_not_asked_twice() {
    let tries = Cell::new(0);
    let fails = |times: u32, code: Code| {
        tries.set(0);
        sqlite::twice(|| {
            tries.set(tries.get() + 1);
            if tries.get() <= times { Err(Error::new(code, format!("try {}", tries.get()))) } else { Ok(()) }
        })
        .map_err(|error| error.what)
    };
    assert_eq!((fails(1, Code::DatabaseInvalid), fails(1, Code::Io)), (Ok(()), Ok(())));
    assert_eq!((fails(2, Code::DatabaseInvalid), tries.get()), (Err("try 1".to_owned()), 2));
    assert_eq!((fails(1, Code::DatabaseBusy), tries.get()), (Err("try 1".to_owned()), 1));
}
