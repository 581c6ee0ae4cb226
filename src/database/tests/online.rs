//! Copies of a running agent's database.

use super::*;

#[test]
fn a_running_agents_rows_are_copied_in_every_journal_mode() {
    for mode in ["WAL", "DELETE", "TRUNCATE", "PERSIST"] {
        let bed = Bed::new();
        let agent = bed.agent(mode, 50);
        let snapshot = bed.online().unwrap();
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
                let pace = Pace { deadline: Duration::from_secs(20), ..PACE };
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
fn the_pass_is_repeated_while_others_write_and_not_for_ever() {
    let bed = Bed::new();
    let agent = bed.agent("WAL", 10);
    bed.online_with(&|| {
        add(&agent, 1);
        false
    })
    .unwrap();
    // A row for each pass is the least.
    let (taken, live) = (bed.taken().len(), rows(&agent).len());
    assert!(taken > 12 && taken < live, "the last pass of three counts: {taken} of {live}");

    let once = Cell::new(3);
    bed.online_with(&|| {
        if once.get() > 0 {
            add(&agent, 1);
            once.set(once.get() - 1);
        }
        false
    })
    .unwrap();
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
    bed.failed().unwrap();
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
            bed.failed().unwrap()
        } else {
            bed.online().unwrap().backup
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
    std::fs::set_permissions(bed.snapshot().join(DATABASE_FILE), std::fs::Permissions::from_mode(0o600)).unwrap();
    prepare(&bed.snapshot(), &bed.db(), None).unwrap();
    check(&bed.prepared());
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
