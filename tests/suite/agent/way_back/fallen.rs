//! An agent that falls, is stopped, or does not come back: told apart by what the service manager has seen.

use super::{agent, story};
use crate::support::*;

/// A watch in which a version that dies three seconds after it was ready does so.
const WATCHED: &str = "  watch: 20s\n  health:\n    stable: 300ms\n    without_readiness: 2s\n    deadline: 8s\n";
/// A check that an operator has the time to act in.
const CHECKED: &str = "  watch: 1s\n  health:\n    stable: 6s\n    without_readiness: 6s\n    deadline: 15s\n";
/// Keeps the agent's unit from starting as long as the file is there.
const MAINTENANCE: &str = "[Unit]\nConditionPathExists=!/etc/maintenance\n";

/// 1.0.0 runs, in a unit with these lines, and 2.0.0 is released.
fn host(name: &str, settings: &str, unit: &str, two: &Archive) -> Option<Rig> {
    let rig = Rig::living(name, settings, &Archive::simple("1.0.0"))?;
    rig.drop_in(unit);
    rig.release(two);
    Some(rig)
}

/// 2.0.0 is ready and falls in its watch: 1.0.0 runs again.
#[track_caller]
fn comes_back(rig: &Rig) {
    let ran = rig.updater(&["update"]);
    assert_ne!(ran.status, 0, "{ran:#?}\n{}", story(rig));
    assert!(ran.stderr.contains("failed while it was being watched"), "{ran:#?}\n{}", story(rig));
    assert_eq!(agent(rig, &format!("after the way back: {ran:#?}")).version, "1.0.0");
    assert_eq!(rig.status()["refused"][0]["version"], "2.0.0");
}

fn falling() -> Archive {
    Archive::simple("2.0.0").schema(2).behaviour("ready-then-dies")
}

#[test]
fn a_disabled_agent_that_falls_in_its_watch_is_started_by_the_way_back() {
    let Some(rig) = host("fell-disabled", WATCHED, "Restart=no\n", &falling()) else { return };
    rig.bed.sh("systemctl disable teleport");
    comes_back(&rig);
}

#[test]
fn an_agent_that_is_given_up_by_the_start_limit_has_fallen() {
    let limit = "Restart=always\n[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1\n";
    let Some(rig) = host("fell-limit", WATCHED, limit, &falling()) else { return };
    comes_back(&rig);
}

#[test]
fn an_agent_that_ends_by_itself_with_a_status_of_success_has_fallen() {
    let unit = "Restart=on-failure\nSuccessExitStatus=1\n";
    let Some(rig) = host("fell-success", WATCHED, unit, &falling()) else { return };
    comes_back(&rig);
}

/// Reloads until the successor is there, which is not the service manager's child then: it never sees that one's end.
const TAKEN_OVER: &str = "ExecReload=\nExecReload=/bin/sh -c 'kill -HUP $MAINPID; \
    until pgrep -P $MAINPID >/run/teleport.pid; do sleep 0.01; done'\n";

/// A run to a healthy 2.0.0, in whose check the agent is the new one by now.
fn checking(name: &str) -> Option<Rig> {
    let rig = updating(name, "", &Archive::simple("2.0.0").schema(2))?;
    rig.bed.until("test \"$(systemctl show -p MainPID --value teleport)\" = \"$(cat /run/teleport.pid)\"", SOON);
    Some(rig)
}

/// A run to this 2.0.0, whose process is there by now.
fn updating(name: &str, unit: &str, two: &Archive) -> Option<Rig> {
    let rig = host(name, CHECKED, unit, two)?;
    rig.updater_in_background("run", "update");
    let new = format!("{VERSIONS}/2.0.0/bin/teleport");
    rig.bed.until(&format!("test \"$(readlink /proc/$(cat /run/teleport.pid)/exe)\" = {new}"), SOON);
    Some(rig)
}

/// The run ends well, at 2.0.0, which nobody blames.
#[track_caller]
fn ends_well(rig: &Rig) {
    rig.until_over("run");
    assert_eq!(rig.bed.sh("systemctl show -p Result --value run").trim(), "success", "{}", story(rig));
    assert!(rig.link().contains("/2.0.0/"), "{}", story(rig));
    assert_eq!(rig.status()["refused"], serde_json::json!([]), "{}", story(rig));
}

#[test]
fn an_operator_who_stops_the_agent_in_its_check_is_no_crash_and_it_stays_stopped() {
    let Some(rig) = checking("check-stop") else { return };
    stays_stopped(&rig);
}

#[test]
fn an_operator_who_stops_an_agent_that_is_not_the_managers_child_is_no_crash_and_it_stays_stopped() {
    let slow = Archive::simple("2.0.0").schema(2).behaviour("slow-start");
    for predecessor in ["lives", "has ended"] {
        let Some(rig) = updating(&format!("check-{}", &predecessor[..3]), TAKEN_OVER, &slow) else { return };
        rig.bed.until("journalctl -u teleport | grep 'not our child'", SOON);
        if predecessor == "has ended" {
            rig.bed.until("test \"$(ps -o ppid= -p $(cat /run/teleport.pid) | tr -d ' ')\" = 1", SOON);
        }
        stays_stopped(&rig);
    }
}

#[track_caller]
fn stays_stopped(rig: &Rig) {
    rig.bed.sh("systemctl stop teleport");
    ends_well(rig);
    assert!(!rig.bed.run(&["systemctl", "is-active", "-q", "teleport"]).status.success(), "{}", story(rig));
}

#[test]
fn an_operator_who_restarts_the_agent_in_its_check_is_no_crash() {
    let Some(rig) = checking("check-restart") else { return };
    rig.drop_in("ExecStartPre=/bin/sleep 3\n");
    rig.bed.sh("systemctl restart teleport");
    ends_well(&rig);
    assert_eq!(agent(&rig, "after the check").version, "2.0.0");
}

#[test]
fn an_agent_that_may_not_start_is_told_and_its_version_is_not_refused() {
    let unit = format!("ExecReload=\n{MAINTENANCE}");
    let Some(rig) = host("no-start", WATCHED, &unit, &Archive::simple("2.0.0").schema(2)) else { return };
    rig.bed.sh("touch /etc/maintenance");
    let ran = rig.updater(&["update"]);
    assert_ne!(ran.status, 0, "{ran:#?}");
    assert!(ran.stderr.contains("the agent does not run: teleport.service is inactive"), "{ran:#?}");
    let status = rig.status();
    assert_eq!((&status["refused"], &status["recovery_pending"]), (&serde_json::json!([]), &false.into()), "{ran:#?}");
    assert!(rig.link().contains("/1.0.0/"), "{}", story(&rig));
    rig.bed.sh("rm /etc/maintenance; systemctl start teleport");
    assert_eq!(agent(&rig, "after the maintenance").version, "1.0.0");
}

#[test]
fn a_service_manager_that_does_not_answer_tells_nothing_about_a_version() {
    let Some(rig) = host("no-answer", WATCHED, "", &Archive::simple("2.0.0").schema(2)) else { return };
    // From the reload until the undo, which stands in the journal, nobody may ask for the unit's state.
    rig.bed.sh(&format!(
        "mv /usr/bin/systemctl /usr/bin/systemctl.real; printf '%s\\n' '#!/bin/sh' 'case \" $* \" in *\" reload \"*) \
         touch /mute ;; *\" show \"*) test ! -e /mute || grep -q undo {VERSIONS}/.journal || exit 1 ;; esac' \
         'exec systemctl.real \"$@\"' >/usr/bin/systemctl; chmod 755 /usr/bin/systemctl",
    ));
    let ran = Ran::of(&rig.bed.run(&["teleport-update", "update"]));
    rig.bed.sh("rm -f /mute; mv /usr/bin/systemctl.real /usr/bin/systemctl");
    assert_ne!(ran.status, 0, "{ran:#?}");
    assert_eq!(rig.status()["refused"], serde_json::json!([]), "{ran:#?}\n{}", story(&rig));
    let next = rig.updater(&["update", "--now"]);
    assert_eq!((next.status, agent(&rig, "at the end").version), (0, "2.0.0".to_owned()), "{next:#?}");
}
