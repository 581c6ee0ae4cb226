//! SPEC §6: an agent that something else starts while it stands still for a restore, under a real systemd, on a slow disk.

use crate::support::*;

const SETTINGS: &str = "  watch: 0s\n  health:\n    stable: 1s\n    without_readiness: 2s\n    deadline: 8s\n";
const ROWS: &str = "SELECT id, version FROM rows";
const DATABASE: &str = "/var/lib/teleport/proc/sqlite.db";
/// A slow disk: how much longer each sync takes, microseconds: an agent starts in much less, also where much else runs.
const SLOW: &str = "delay_enter=200000";

#[test]
fn an_agent_that_is_started_before_the_swap_keeps_its_database_and_the_target_is_not_blamed() {
    // The intent of the restore is written by then, and not synced.
    started_when("before-swap", |steps| {
        let restore = steps.iter().position(|step| step == "restore").unwrap();
        format!("grep -q '\"intent\",\"step\":{restore}' {VERSIONS}/.journal")
    });
}

#[test]
fn an_agent_that_is_started_after_the_swap_keeps_its_database_and_the_target_is_not_blamed() {
    started_when("after-swap", |_| format!("! test {DATABASE} -ef {VERSIONS}/2.0.0/.backup.new/sqlite.db"));
}

/// Goes from 2.0.0 to 1.0.0 while a racer starts the agent as soon as `moment` is true.
fn started_when(name: &str, moment: impl Fn(&[String]) -> String) {
    let Some(rig) = Rig::living(name, SETTINGS, &version(1)) else { return };
    rig.update_to(&version(2));
    rig.wish("1.0.0");
    let plan = rig.updater(&["plan", "--now", "--format", "json"]).ok().json();
    let steps = plan["switch"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap().to_owned());
    let moment = moment(&steps.collect::<Vec<_>>());
    let link = format!("test -e {VERSIONS}/2.0.0/.backup.new/sqlite.db");
    rig.bed.write(
        "/root/racer",
        format!("#!/bin/bash\nuntil {link}; do :; done\nuntil {moment}; do :; done\nexec systemctl start teleport\n"),
        0o755,
    );
    rig.until_written("2.0.0");
    rig.bed.sh("systemd-run --quiet --unit=racer -p RemainAfterExit=yes /root/racer");
    let ran = rig.injected("teleport-update", &["update", "--now"], "fsync,fdatasync", SLOW);
    let said = String::from_utf8_lossy(&ran.stderr);
    rig.until_over("racer");
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("started"), "it is told that something started the agent: {said}");
    rig.until_ready();
    let status = rig.status();
    assert_eq!(status["agent_version_running"], "2.0.0", "{said}{status:#}");
    assert_eq!(status["recovery_pending"], false, "{said}");
    assert_eq!(status["refused"], serde_json::json!([]), "1.0.0 did not run: {said}");
    assert_eq!(rig.sql("PRAGMA user_version"), ["2"], "{said}");
    assert_eq!(rig.sql("PRAGMA quick_check"), ["ok"], "{said}");
    let acknowledged = rig.acknowledged();
    let live: HashSet<String> = rig.sql(ROWS).into_iter().collect();
    // What was written to the restored one was never 2.0.0's own, and is kept beside it.
    let aside = rig.path(&format!("{VERSIONS}/1.0.0/backup-failed/sqlite.db"));
    let aside = if aside.exists() { sql_of(&aside, ROWS) } else { Vec::new() };
    let lost = acknowledged.iter().filter(|row| !live.contains(*row) && !aside.contains(row)).count();
    assert_eq!(lost, 0, "of {} rows, {} aside: {said}", acknowledged.len(), aside.len());
    rig.updater(&["update", "--now"]).ok();
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    assert_eq!(sql_of(&rig.snapshot("2.0.0"), "PRAGMA quick_check"), ["ok"]);
}

/// Writes as fast as leaves the other one of a reload its turn.
fn version(number: i64) -> Archive {
    Archive::simple(&format!("{number}.0.0")).schema(number).writes().trailer_field("pace_ms", 1.into())
}
