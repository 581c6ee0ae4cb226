//! What an update does to the agent's service: reload, restart, start or nothing, under systemd, under commands of the
//! operator, and under nobody (SPEC §6, service action).

use crate::support::*;

/// Starts the agent outside of every unit.
const BY_HAND: &str = "setsid /usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid \
                       </dev/null >/var/log/agent.log 2>&1 &";

#[test]
fn an_agent_that_was_stopped_stays_stopped_though_it_is_enabled() {
    let Some(rig) = Rig::living("stopped", FAST, &Archive::simple("1.0.0")) else { return };
    rig.bed.sh("systemctl stop teleport");
    rig.update_to(&Archive::simple("2.0.0"));
    assert!(rig.link().ends_with("/2.0.0/bin/teleport"));
    assert_eq!(rig.bed.sh("systemctl is-active teleport || true").trim(), "inactive");
    rig.go_to("1.0.0");
    assert!(rig.link().ends_with("/1.0.0/bin/teleport"));
    assert_eq!(rig.bed.sh("systemctl is-active teleport || true").trim(), "inactive");
}

#[test]
fn a_unit_that_cannot_be_reloaded_is_restarted_and_that_is_said() {
    let Some(rig) = Rig::living("no-reload", FAST, &Archive::simple("1.0.0")) else { return };
    rig.drop_in("ExecReload=\n");
    let life = rig.invocation();
    rig.note("by one");
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.updater(&["update"]).ok().says("so the agent was restarted");
    assert_eq!(rig.running(), "2.0.0");
    assert_ne!(rig.invocation(), life);
    assert!(rig.has_note("by one"));
}

#[test]
fn an_agent_that_ignores_sigterm_is_killed_by_its_manager_before_its_database_is_touched() {
    let Some(rig) = Rig::living("ignores-term", FAST, &Archive::simple("1.0.0")) else { return };
    rig.update_to(&Archive::simple("2.0.0").schema(2).behaviour("ignores-term"));
    rig.drop_in("TimeoutStopSec=1s\n");
    rig.note("by two");
    rig.go_to("1.0.0");
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("1.0.0", vec!["1".to_owned()]));
    assert!(rig.rows_kept("2.0.0").iter().any(|row| row.ends_with("|by two")), "its log was not lost");
}

/// The data directory of an agent that runs as a user of its own.
const OWN_DATA: &str = "/srv/agent";

/// User, group and mode of everything in that agent's data directory, from its top on, but for its socket and logs.
fn owners(rig: &Rig) -> String {
    rig.bed.sh(&format!(
        "cd {OWN_DATA} && find . ! -type s ! -name '*-wal' ! -name '*-shm' ! -name '*.log' -printf '%p %U:%G %m\\n' | sort"
    ))
}

#[test]
fn an_agent_with_a_user_of_its_own_is_upgraded_and_downgraded_and_its_files_stay_that_users() {
    let Some(rig) = Rig::up("own-user") else { return };
    rig.bed.write("/etc/teleport.yaml", format!("teleport:\n  data_dir: {OWN_DATA}\n"), 0o644);
    rig.bed.sh(&format!("mkdir {OWN_DATA} && chown nobody:daemon {OWN_DATA} && chmod 750 {OWN_DATA}"));
    let pid_file = "/run/agent/teleport.pid";
    rig.drop_in(&format!(
        "User=nobody\nGroup=daemon\nUMask=0027\nRuntimeDirectory=agent\nPIDFile={pid_file}\nExecStart=\n\
         ExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file={pid_file}\n"
    ));
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.bed.sh("systemctl enable --now teleport");
    rig.bed.until(&format!("test -S {OWN_DATA}/debug.sock && test -s {pid_file}"), SOON);
    let database = rig.path(OWN_DATA).join("proc/sqlite.db");
    let versions = || sql_of(&database, "SELECT DISTINCT version FROM rows ORDER BY version");
    let before = owners(&rig);
    assert!(before.contains("./proc/sqlite.db 65534:1 640"), "{before}");
    let is_whole = |version: &str, schema: &str| {
        assert_eq!((rig.running().as_str(), owners(&rig)), (version, before.clone()));
        assert_eq!(sql_of(&database, "PRAGMA user_version"), [schema]);
        assert_eq!(rig.bed.sh(&format!("stat -c %u /proc/$(cat {pid_file})")).trim(), "65534");
        rig.bed.sh(&format!("test -z \"$(find {OWN_DATA} ! -user nobody)\""));
        rig.updater(&["verify"]).ok();
        rig.assert_tidy();
    };
    is_whole("1.0.0", "1");
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    is_whole("2.0.0", "2");
    assert_eq!(versions(), ["1.0.0", "2.0.0"]);
    rig.go_to("1.0.0");
    is_whole("1.0.0", "1");
    // The restored rows, and one more of its new start.
    assert_eq!(versions(), ["1.0.0"]);
    assert_eq!(sql_of(&database, "SELECT count(*) FROM rows"), ["2"]);
    rig.go_to("2.0.0");
    is_whole("2.0.0", "2");
    assert_eq!(versions(), ["1.0.0", "2.0.0"]);
    // And where the version is broken its user gets his database back, too.
    rig.release(&Archive::simple("3.0.0").schema(3).behaviour("corrupts-schema"));
    rig.updater(&["update"]).fails(1, "rolled back to 2.0.0");
    is_whole("2.0.0", "2");
}

/// Settings for an agent that is run by commands.
fn plain_commands() -> String {
    format!(
        "{FAST}  service:\n    start: \"{BY_HAND}\"\n    stop: |-\n      pid=$(cat /run/teleport.pid) && kill $pid\n      \
         while kill -0 $pid; do sleep 0.05; done 2>/dev/null; rm -f /run/teleport.pid\n    \
         reload: kill -HUP $(cat /run/teleport.pid)\n    pid_file: /run/teleport.pid\n"
    )
}

/// A bed whose agent is run by commands; the unit is masked.
fn by_commands(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.bed.sh("systemctl mask teleport");
    rig.configure(&plain_commands());
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.bed.exec(&["sh", "-c", BY_HAND]);
    rig.until_ready();
    Some(rig)
}

#[test]
fn an_agent_run_by_commands_is_updated_downgraded_and_reversed() {
    let Some(rig) = by_commands("commands") else { return };
    rig.note("by one");
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.updater_outside_units(&["update"]).ok();
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("2.0.0", vec!["2".to_owned()]));
    rig.note("by two");
    rig.wish("1.0.0");
    rig.updater_outside_units(&["update"]).ok();
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("1.0.0", vec!["1".to_owned()]));
    assert!(rig.has_note("by one") && !rig.has_note("by two"));
    rig.wish("2.0.0");
    rig.updater_outside_units(&["update"]).ok();
    assert!(rig.running() == "2.0.0" && rig.has_note("by two"));
    assert_eq!(rig.bed.sh("systemctl is-active teleport || true").trim(), "inactive", "the masked unit is left alone");
}

#[test]
fn an_agent_run_by_commands_gets_its_old_version_back_when_the_new_one_is_broken() {
    for behaviour in ["never-ready", "exit-at-once"] {
        let Some(rig) = by_commands(&format!("commands-{behaviour}")) else { return };
        rig.note("by one");
        rig.release(&Archive::simple("2.0.0").schema(2).behaviour(behaviour));
        rig.updater_outside_units(&["update"]).fails(1, "rolled back to 1.0.0");
        rig.until_ready();
        assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("1.0.0", vec!["1".to_owned()]));
        assert!(rig.has_note("by one"));
        rig.assert_tidy();
    }
}

/// A bed whose agent runs outside of its unit, under nobody that we know.
fn foreign_agent(name: &str, settings: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.configure(settings);
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.bed.exec(&["sh", "-c", BY_HAND]);
    rig.until_ready();
    rig.release(&Archive::simple("2.0.0").schema(2));
    Some(rig)
}

#[test]
fn an_agent_that_nobody_known_runs_is_updated_in_files_only() {
    let Some(rig) = foreign_agent("foreign", FAST) else { return };
    let process = rig.pid();
    rig.updater(&["update"]).ok().says("it keeps running the old version until you restart it");
    assert!(rig.link().ends_with("/2.0.0/bin/teleport"));
    assert_eq!(rig.pid(), process);
    assert_eq!(rig.bed.sh("systemctl is-active teleport || true").trim(), "inactive", "no second agent");
}

#[test]
fn without_a_service_manager_the_look_at_the_processes_decides() {
    let settings = format!("{FAST}  database_timeout: 1s\n");
    let Some(rig) = foreign_agent("none", &settings) else { return };
    // As in a container: systemd is not there for the updater.
    let hidden = "mount -t tmpfs none /run/systemd && exec teleport-update update";
    let update = || rig.bed.exec(&["unshare", "-m", "sh", "-c", hidden]);
    let process = rig.pid();
    assert!(update().status.success());
    assert!(rig.link().ends_with("/2.0.0/bin/teleport") && rig.pid() == process);
    rig.note("by one");
    rig.wish("1.0.0");
    let refused = update();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && error.contains("the agent is not stopped"), "{error}");
    assert!(rig.link().ends_with("/2.0.0/bin/teleport") && rig.pid() == process && rig.has_note("by one"));
    rig.assert_tidy();
    rig.bed.sh("kill $(cat /run/teleport.pid); while pgrep -x teleport; do sleep 0.05; done");
    assert!(update().status.success());
    assert!(rig.link().ends_with("/1.0.0/bin/teleport"));
    assert!(!rig.has_note("by one") && rig.rows_kept("2.0.0").iter().any(|row| row.ends_with("|by one")));
}

#[test]
fn a_failure_after_the_switch_under_an_agent_that_cannot_be_stopped_puts_back_the_link_alone() {
    let Some(rig) = foreign_agent("foreign-undo", FAST) else { return };
    let process = rig.pid();
    // The daemon-reload fails that follows the one which is tried before the first step, and meanwhile the agent, which runs on,
    // has written.
    let shim = "#!/bin/sh\ncase \"$*\" in *daemon-reload*) if [ -e /ask ]; then rm /ask; elif [ -e /fail ]; then mv /fail /failed; until [ -e /go ]; do \
                sleep 0.05; done; exit 1; fi ;; esac\nexec /usr/bin/systemctl.real \"$@\"\n";
    rig.bed.sh("mv /usr/bin/systemctl /usr/bin/systemctl.real");
    rig.bed.write("/usr/bin/systemctl", shim, 0o755);
    rig.bed.write("/ask", "", 0o644);
    rig.bed.write("/fail", "", 0o644);
    rig.updater_in_background("run", "update");
    rig.bed.until("test -e /failed", SOON);
    assert!(rig.link().ends_with("/2.0.0/bin/teleport"));
    rig.note("written after the snapshot");
    rig.bed.write("/go", "", 0o644);
    rig.until_over("run");
    assert!(rig.link().ends_with("/1.0.0/bin/teleport"));
    assert_eq!(rig.pid(), process);
    assert!(rig.has_note("written after the snapshot"), "the agent's own database is left alone");
    assert_eq!(rig.status()["recovery_pending"], false);
    assert!(!rig.path(&format!("{VERSIONS}/2.0.0/backup")).exists());
    rig.assert_tidy();
}
