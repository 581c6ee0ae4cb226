//! RFD 0169, the sixteen steps of `enable`, as SPEC §5 changes them: a test or more for each, named after it.
//! Steps 7, 9 to 11 and 15, and 12 on a managed host, are those of `update` (`rfd_update.rs`); step 4 is in
//! `download/space.rs`, and packages (3, 13 and 14) are in `packaging/old_packages`.

use crate::support::go::{agent, agent_unit};
use crate::support::*;

/// Longest wait for an event that is on its way.
const SOON: Duration = Duration::from_secs(30);

/// A host with an agent that nobody manages: plain binaries, a foreign link, a unit in `/etc`, a running process.
fn unmanaged(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.bed.write("/usr/local/bin/teleport", agent("0.9.0"), 0o755);
    rig.bed.write("/usr/local/bin/tctl", agent("0.9.0"), 0o750);
    rig.bed.write("/opt/old/tsh", agent("0.9.0"), 0o755);
    symlink("/opt/old/tsh", rig.path("/usr/local/bin/tsh")).unwrap();
    std::os::unix::fs::chown(rig.path("/usr/local/bin/tctl"), Some(1), Some(1)).unwrap();
    rig.bed.write("/etc/systemd/system/teleport.service", agent_unit(""), 0o644);
    rig.start_agent();
    Some(rig)
}

#[test]
fn enable_step_08_takes_over_an_unmanaged_agent_without_stopping_it() {
    let Some(rig) = unmanaged("enable-08") else { return };
    let invocation = property(&rig, "InvocationID");
    rig.release(&Archive::simple("1.0.0").schema(2));
    rig.enable(&[]).ok();
    assert_eq!(property(&rig, "InvocationID"), invocation);
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    assert_eq!(rig.sql("SELECT version FROM rows ORDER BY id"), ["0.9.0", "1.0.0"]);
    assert_eq!(link(&rig.path("/usr/local/bin/tsh")), binary("1.0.0", "tsh"));
    assert!(rig.path("/opt/old/tsh").exists(), "what the foreign link led to is not ours");
    assert!(!rig.path("/var/lib/teleport/versions/.unmanaged").exists());
}

#[test]
fn enable_step_08_and_12_keep_what_was_unmanaged_until_the_commit_and_put_it_back_when_the_version_fails() {
    let Some(rig) = unmanaged("enable-12") else { return };
    let bin = rig.path("/usr/local/bin");
    let before = tree(&bin);
    rig.release(&Archive::simple("1.0.0").schema(2).behaviour("corrupts-schema"));
    let unmanaged = rig.path("/var/lib/teleport/versions/.unmanaged");

    std::thread::scope(|scope| {
        let run = scope.spawn(|| rig.enable(&[]));
        until("the agent's link moves", || std::fs::read_link(bin.join("teleport")).is_ok());
        assert_eq!(std::fs::read(unmanaged.join("teleport")).unwrap(), agent("0.9.0"));
        assert_eq!(std::fs::read(unmanaged.join("tctl")).unwrap(), agent("0.9.0"));
        assert_eq!(sql_of(&unmanaged.join("backup/sqlite.db"), "SELECT version FROM rows"), ["0.9.0"]);
        run.join().unwrap().fails(1, "rolled back to the state before this run");
    });

    assert_eq!(tree(&bin), before);
    let tctl = std::fs::metadata(bin.join("tctl")).unwrap();
    assert_eq!((tctl.uid(), tctl.gid()), (1, 1));
    rig.until_ready();
    rig.bed.until("test \"$(systemctl is-active teleport)\" = active", SOON);
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
    let versions = rig.sql("SELECT DISTINCT version FROM rows");
    assert_eq!(versions, ["0.9.0"]);
    let status = rig.status();
    assert_eq!((&status["agent_updates_enabled"], &status["agent_version_installed"]), (&json!(false), &json!(null)));
    assert_eq!(status["last_result"]["outcome"], "rolled_back");
    assert!(!unmanaged.exists(), "{:?}", names(&unmanaged));
    assert!(!rig.path("/usr/local/lib/systemd/system/teleport.service").exists());
}
