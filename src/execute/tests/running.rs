//! Undoing beside processes that this program neither started nor can stop.

use std::process::{Child, Stdio};

use super::super::recovery::{self, Recovered};
use super::*;

/// A process of a version's binary, ended with the value.
struct Agent(Child);

impl Agent {
    fn start(binary: &Path) -> Self {
        durable::copy_synced(Path::new("/bin/sleep"), binary, 0o755).unwrap();
        #[allow(clippy::disallowed_methods, reason = "the tests need a process that outlives a call")]
        let mut command = std::process::Command::new(binary);
        command.arg("600").stdin(Stdio::null());
        loop {
            match command.spawn() {
                // A child of another test still has the new file open for writing.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                other => return Self(other.unwrap()),
            }
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn unserved(bed: &Bed) -> Plan {
    let snapshot = Step::Snapshot { dir: "1.0.0".into(), stopped: false, failed: false };
    Plan { service: ServiceAction::None, ..plan(vec![snapshot, bed.switch()]) }
}

#[test]
fn an_old_agent_that_nobody_stopped_keeps_the_database_it_has_in_use() {
    let bed = Bed::new();
    write_rows(&bed.db(), &["one"]);
    let _agent = Agent::start(&bed.version("1.0.0").join("bin/teleport"));
    let undone = bed.fail(&unserved(&bed), || write_rows(&bed.db(), &["its own"]));
    assert!(undone.recovery.is_none(), "{:?}", undone.recovery);
    assert_eq!(rows(&bed.db()), ["one", "its own"]);
    assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("1.0.0"));
}

#[test]
fn where_the_agent_was_to_be_stopped_one_that_runs_keeps_the_undo_waiting() {
    for (service, database) in [(ServiceAction::Reload, Database::Keep), (ServiceAction::None, Database::Restore)] {
        let bed = Bed::new();
        write_rows(&bed.db(), &["one"]);
        let agent = Agent::start(&bed.version("1.0.0").join("bin/teleport"));
        let undone = bed.fail(&Plan { service, database, ..unserved(&bed) }, || write_rows(&bed.db(), &["new"]));
        assert_eq!(undone.recovery.unwrap().code, Code::AgentNotStopped);
        assert_eq!(rows(&bed.db()), ["one", "new"]);
        drop(agent);
        let journal = bed.reopen().unwrap();
        assert_eq!(recovery::run(&bed.site(), journal, &mut |_| {}).unwrap(), Recovered::Undone);
        assert_eq!(rows(&bed.db()), ["one"]);
    }
}

#[test]
fn a_new_agent_that_somebody_started_must_go_before_the_database_comes_back() {
    let bed = Bed::new();
    write_rows(&bed.db(), &["one"]);
    let binary = bed.version("2.0.0").join("bin/teleport");
    let journal = bed.kill(&unserved(&bed), || write_rows(&bed.db(), &["new"]));
    let agent = Agent::start(&binary);
    let error = recovery::run(&bed.site(), journal, &mut |_| panic!("undone")).unwrap_err();
    assert_eq!(error.code, Code::RecoveryFailed);
    assert_eq!(rows(&bed.db()), ["one", "new"]);
    drop(agent);
    let journal = bed.reopen().unwrap();
    assert_eq!(journal.recoveries(), 1);
    assert_eq!(recovery::run(&bed.site(), journal, &mut |_| {}).unwrap(), Recovered::Undone);
    assert_eq!(rows(&bed.db()), ["one"]);
    assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("1.0.0"));
}
