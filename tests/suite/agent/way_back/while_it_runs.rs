//! What happens beside a run, and is no fault of the new version.

use super::{agent, story};
use crate::support::*;

/// A watch that an operator has the time to act in.
const WATCHED: &str = "  watch: 8s\n  health:\n    stable: 300ms\n    without_readiness: 2s\n    deadline: 8s\n";
/// A verdict that has passed its deadline after a pause of some seconds.
const SHORT: &str = "  watch: 1s\n  health:\n    stable: 1s\n    without_readiness: 2s\n    deadline: 5s\n";

/// A run by hand to 2.0.0, which is committed and watches.
fn watching(name: &str) -> Option<Rig> {
    let rig = Rig::living(name, WATCHED, &Archive::simple("1.0.0"))?;
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.updater_in_background("run", "update");
    rig.bed.until(&format!("grep -q '^    until:' {VERSIONS}/updates.yaml && test ! -e {VERSIONS}/.journal"), SOON);
    Some(rig)
}

/// It goes on and ends well, with 2.0.0.
#[track_caller]
fn ends_well(rig: &Rig) {
    rig.until_over("run");
    let result = rig.bed.sh("systemctl show -p Result --value run");
    assert_eq!(result.trim(), "success", "{}", story(rig));
    assert!(rig.link().contains("/2.0.0/"), "{}", story(rig));
    assert_eq!(rig.status()["refused"], serde_json::json!([]), "{}", story(rig));
}

#[test]
fn an_operator_who_restarts_the_agent_in_its_watch_is_no_crash() {
    let Some(rig) = watching("watch-restart") else { return };
    for _ in 0..3 {
        rig.bed.sh("systemctl restart teleport");
        rig.until_ready();
    }
    ends_well(&rig);
    assert_eq!(agent(&rig, "after the watch").version, "2.0.0");
}

#[test]
fn an_operator_who_reloads_the_agent_in_its_watch_is_no_crash() {
    let Some(rig) = watching("watch-reload") else { return };
    for _ in 0..3 {
        let old = rig.pid();
        rig.bed.sh("systemctl reload teleport");
        rig.bed.until(&format!("test -s /run/teleport.pid && test $(cat /run/teleport.pid) != {old}"), SOON);
    }
    ends_well(&rig);
    assert_eq!(agent(&rig, "after the watch").version, "2.0.0");
}

#[test]
fn an_operator_who_stops_the_agent_in_its_watch_is_no_crash_and_it_stays_stopped() {
    let Some(rig) = watching("watch-stop") else { return };
    rig.bed.sh("systemctl stop teleport");
    ends_well(&rig);
    // `failed` where systemd had not yet seen the main process of after the reload, and killed it.
    assert_eq!(
        rig.bed.sh("systemctl show -p SubState --value teleport | sed s/failed/dead/").trim(),
        "dead",
        "{}",
        story(&rig)
    );
}

#[test]
fn an_updater_that_stood_still_past_the_deadline_does_not_blame_the_healthy_version() {
    let Some(rig) = Rig::living("frozen", SHORT, &Archive::simple("1.0.0")) else { return };
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("slow-start"));
    rig.updater_in_background("run", "update");
    let new = "/var/lib/teleport/versions/2.0.0/bin/teleport";
    // It waits for the new version, which needs three seconds, and stands still until these and the deadline are over.
    rig.bed.until(&format!("find /proc/[0-9]*/exe -lname {new} | grep -q ."), SOON);
    rig.bed.sh("sleep 0.5; pkill -STOP -x teleport-update");
    rig.bed.until(&format!("test \"$(readlink /proc/$(cat /run/teleport.pid)/exe)\" = {new}"), SOON);
    rig.bed.sh("sleep 3; pkill -CONT -x teleport-update");
    ends_well(&rig);
    assert_eq!(agent(&rig, "after the pause").version, "2.0.0");
}
