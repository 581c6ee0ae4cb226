//! Every way in which a new version can be broken, after a reload and after a start: it is found out, and the old version
//! is put back (SPEC §6, health).

use crate::support::*;

/// Long enough to see an agent die that was ready for a second.
const PATIENT: &str = "  watch: 1s\n  health:\n    stable: 3s\n    without_readiness: 4s\n    deadline: 8s\n";
/// A watch that outlasts an agent that dies after ten seconds.
const WATCHED: &str = "  watch: 40s\n  health:\n    stable: 1s\n    without_readiness: 2s\n    deadline: 8s\n";

/// How the new version comes up.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Reload,
    Start,
}

/// A bed whose agent of 1.0.0 is healthy and has written a row, and that would go to `new` in this way.
fn before(name: &str, settings: &str, how: How, new: &Archive) -> Option<Rig> {
    let rig = Rig::living(name, settings, &Archive::simple("1.0.0"))?;
    if how == How::Start {
        rig.drop_in("ExecReload=\n");
    }
    rig.note("by one");
    rig.release(new);
    Some(rig)
}

/// 1.0.0 runs as before, 2.0.0 is refused, nothing is left behind.
#[track_caller]
fn assert_back(rig: &Rig) {
    rig.until_ready();
    assert!(rig.link().ends_with("/1.0.0/bin/teleport"));
    assert_eq!((rig.running().as_str(), rig.sql("PRAGMA user_version")), ("1.0.0", vec!["1".to_owned()]));
    assert!(rig.has_note("by one"), "{:?}", rig.rows());
    let status = rig.status();
    assert_eq!(status["agent_version_installed"], "1.0.0");
    assert_eq!(status["refused"][0]["version"], "2.0.0");
    assert_eq!(status["refused"][0]["count"], 1);
    assert_eq!(status["recovery_pending"], false);
    rig.assert_tidy();
}

/// 2.0.0 of this behaviour fails for a reason that is one of `reasons`, and 1.0.0 is put back.
fn broken(behaviour: &str, how: How, reasons: &[&str]) {
    let new = Archive::simple("2.0.0").schema(2).behaviour(behaviour);
    let name = format!("{behaviour}-{}", if how == How::Start { "start" } else { "reload" });
    let Some(rig) = before(&name, PATIENT, how, &new) else { return };
    let ran = rig.updater(&["update"]).fails(1, "rolled back to 1.0.0").fails(1, "the new version is not healthy");
    assert!(reasons.iter().any(|reason| ran.stderr.contains(reason)), "{ran:#?}");
    assert_back(&rig);
    assert_eq!(rig.status()["last_result"]["error_code"], "unhealthy");
}

const GONE: [&str; 3] = ["exited immediately", "exited shortly after its start", "exited several times"];
const LOOPS: [&str; 2] = ["exited shortly after its start", "exited several times"];

#[test]
fn a_version_that_never_gets_ready_after_a_reload_is_rolled_back() {
    let reasons = ["the agent is not ready after 8 s", "the old version was still running after 8 s"];
    broken("never-ready", How::Reload, &reasons);
}

tests_of! { broken:
    a_version_that_never_gets_ready_after_a_start_is_rolled_back(
        "never-ready", How::Start, &["the agent is not ready after 8 s"]);
    a_version_that_exits_at_once_after_a_start_is_rolled_back("exit-at-once", How::Start, &GONE);
    a_version_that_loops_after_a_reload_is_rolled_back("crash-loop", How::Reload, &LOOPS);
    a_version_that_loops_after_a_start_is_rolled_back("crash-loop", How::Start, &LOOPS);
    a_version_that_spoils_the_schema_after_a_reload_is_rolled_back_with_the_database(
        "corrupts-schema", How::Reload, &GONE);
    a_version_that_spoils_the_schema_after_a_start_is_rolled_back_with_the_database(
        "corrupts-schema", How::Start, &GONE);
    a_version_that_spoils_the_database_file_after_a_reload_is_rolled_back_with_the_database(
        "corrupts-file", How::Reload, &GONE);
    a_version_that_spoils_the_database_file_after_a_start_is_rolled_back_with_the_database(
        "corrupts-file", How::Start, &GONE);
    a_version_that_lost_the_readiness_that_the_old_one_had_is_rolled_back(
        "no-socket", How::Reload, &["its readiness socket does not answer"]);
}

#[test]
fn a_successor_that_dies_at_once_behind_its_living_parent_is_noticed_long_before_the_deadline() {
    let new = Archive::simple("2.0.0").schema(2).behaviour("exit-at-once");
    // The default deadline of a minute.
    let Some(rig) = before("dead-child", "  watch: 1s\n", How::Reload, &new) else { return };
    let ran = rig.updater(&["update"]).fails(1, "rolled back to 1.0.0");
    let early = [
        "exited immediately after the reload; the old version keeps running",
        "exited shortly after its start; the old version keeps running",
    ];
    assert!(early.iter().any(|reason| ran.stderr.contains(reason)), "{ran:#?}");
    assert_back(&rig);
}

#[test]
fn an_old_version_that_does_not_follow_the_reload_is_a_failure_of_the_update_and_goes_on() {
    let old = Archive::simple("1.0.0").behaviour("hangs-on-reload");
    let settings = "  watch: 1s\n  health:\n    stable: 1s\n    deadline: 3s\n";
    let Some(rig) = Rig::living("hangs", settings, &old) else { return };
    rig.note("by one");
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.updater(&["update"]).fails(1, "the old version was still running after 3 s");
    assert_back(&rig);
}

#[test]
fn a_version_that_takes_some_seconds_to_get_ready_is_fine() {
    for how in [How::Reload, How::Start] {
        let new = Archive::simple("2.0.0").schema(2).behaviour("slow-start");
        let name = if how == How::Start { "slow-start" } else { "slow-reload" };
        let Some(rig) = before(name, FAST, how, &new) else { return };
        rig.updater(&["update"]).ok();
        assert_eq!(rig.running(), "2.0.0");
        assert!(rig.has_note("by one"));
    }
}

#[test]
fn a_version_without_readiness_is_fine_after_it_stood_for_longer() {
    let Some(rig) = Rig::up("no-socket") else { return };
    rig.release(&Archive::simple("1.0.0").behaviour("no-socket"));
    rig.enable(&[]).ok();
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport");
    rig.bed.until("test -s /run/teleport.pid", SOON);
    rig.update_to(&Archive::simple("2.0.0").behaviour("no-socket"));
    assert_eq!(rig.running(), "2.0.0");
}

#[test]
fn an_agent_that_was_failing_before_cannot_make_the_new_version_bad() {
    let Some(rig) = Rig::up("failing-before") else { return };
    rig.release(&Archive::simple("1.0.0").behaviour("exit-at-once"));
    rig.enable(&[]).ok();
    rig.drop_in("Restart=no\n");
    rig.bed.run(&["systemctl", "enable", "--now", "teleport"]);
    rig.bed.until("systemctl is-failed -q teleport", SOON);
    rig.release(&Archive::simple("2.0.0").behaviour("exit-at-once"));
    rig.updater(&["update"]).ok().says("was already failing before");
    rig.updater(&["update"]).ok();
    let status = rig.status();
    assert_eq!((&status["agent_version_installed"], &status["refused"]), (&"2.0.0".into(), &serde_json::json!([])));
}

#[test]
fn where_the_kernel_tells_of_no_event_looks_alone_find_out() {
    let Some(rig) = Rig::living("deaf", FAST, &Archive::simple("1.0.0")) else { return };
    // As before Linux 5.3, and where all inotify instances are taken.
    let deaf = |args: &[&str]| {
        let filter = ["-p", "SystemCallFilter=~inotify_init1 pidfd_open", "-p", "SystemCallErrorNumber=ENOSYS"];
        let unit = ["systemd-run", "--quiet", "--wait", "--pipe"].into_iter().chain(filter).chain(["teleport-update"]);
        Ran::of(&rig.bed.run(&unit.chain(args.iter().copied()).collect::<Vec<_>>()))
    };
    rig.release(&Archive::simple("2.0.0"));
    deaf(&["update"]).ok();
    assert_eq!(rig.running(), "2.0.0");
    rig.release(&Archive::simple("3.0.0").schema(2).behaviour("exit-at-once"));
    let ran = deaf(&["update"]).fails(1, "rolled back to 2.0.0");
    assert!(GONE.iter().any(|reason| ran.stderr.contains(reason)), "{ran:#?}");
    rig.until_ready();
    assert_eq!(rig.running(), "2.0.0");
}

// The watch.

fn falls_during_its_watch(behaviour: &str) {
    let new = Archive::simple("2.0.0").schema(2).behaviour(behaviour);
    let Some(rig) = before(&format!("watch-{behaviour}"), WATCHED, How::Reload, &new) else { return };
    rig.drop_in("Restart=no\n");
    rig.updater(&["update"]).fails(1, "2.0.0 (oss) failed while it was being watched").fails(1, "rolled back to 1.0.0");
    assert_back(&rig);
    let status = rig.status();
    assert_eq!(status["kept_databases"][0]["version"], "2.0.0");
    assert_eq!(status["watch_until"], serde_json::Value::Null);
    let last = &status["last_result"];
    assert_eq!((&last["outcome"], &last["error_code"]), (&"rolled_back".into(), &"unhealthy".into()));
    assert!(last["message"].as_str().unwrap().contains("the service failed"), "{last}");
}

#[test]
fn a_version_that_falls_again_waits_longer_and_its_failed_snapshot_is_not_restored() {
    let settings = "  watch: 30s\n  health:\n    stable: 200ms\n    deadline: 8s\n";
    let new = Archive::simple("2.0.0").schema(2).behaviour("crash-loop");
    let Some(rig) = before("falls-again", settings, How::Reload, &new) else { return };
    rig.drop_in("Restart=no\n");
    rig.updater(&["update"]).fails(1, "failed while it was being watched");
    rig.until_ready();
    assert_eq!(wait_in_minutes(&rig.status()), 60);
    rig.note("between the two");
    rig.updater(&["update", "--now"])
        .fails(1, "failed while it was being watched")
        .says("the database backup of 2.0.0 (oss) is not restored");
    rig.until_ready();
    assert!(rig.has_note("by one") && rig.has_note("between the two"), "{:?}", rig.rows());
    let status = rig.status();
    assert_eq!((status["refused"][0]["count"].as_u64(), wait_in_minutes(&status)), (Some(2), 120));
}

tests_of! { falls_during_its_watch:
    a_version_that_is_ready_and_dies_in_its_watch_is_left_by_a_new_run("ready-then-dies");
    a_version_that_dies_after_ten_seconds_is_left_by_a_new_run("dies-after-ten");
}

/// A run that is committed and watches.
fn watching(rig: &Rig) {
    rig.updater_in_background("run", "update");
    rig.bed.until(&format!("grep -q '^    until:' {VERSIONS}/updates.yaml && test ! -e {VERSIONS}/.journal"), SOON);
}

#[test]
fn the_lock_is_free_during_the_watch_and_a_killed_watch_is_taken_up_by_the_next_run() {
    let new = Archive::simple("2.0.0").schema(2);
    let settings = "  watch: 6s\n  health:\n    stable: 1s\n    deadline: 8s\n";
    let Some(rig) = before("watch-killed", settings, How::Reload, &new) else { return };
    watching(&rig);
    rig.bed.until(&format!("flock -n {VERSIONS}/.lock true"), SOON);
    let status = rig.status();
    assert_eq!(status["update_in_progress"], false);
    assert_eq!(status["agent_version_installed"], "2.0.0");
    assert!(status["watch_until"].is_string());
    rig.bed.sh("systemctl kill -s KILL run");
    rig.until_over("run");
    rig.cluster.forget_requests();
    rig.updater(&["update"]).ok().says("watching ");
    let status = rig.status();
    assert_eq!((&status["watch_until"], &status["agent_version_running"]), (&serde_json::Value::Null, &"2.0.0".into()));
}

#[test]
fn a_version_that_fell_while_its_watcher_was_dead_is_left_by_the_next_run() {
    let new = Archive::simple("2.0.0").schema(2).behaviour("ready-then-dies");
    let Some(rig) = before("watch-fell", WATCHED, How::Reload, &new) else { return };
    rig.drop_in("Restart=no\n");
    watching(&rig);
    rig.bed.sh("systemctl kill -s KILL run");
    rig.until_over("run");
    rig.bed.until("systemctl is-failed -q teleport", SOON);
    rig.updater(&["update"]).fails(1, "2.0.0 (oss) failed while it was being watched").fails(1, "rolled back to 1.0.0");
    assert_back(&rig);
}

#[test]
fn a_watch_that_ends_well_is_not_the_end_of_another_versions_watch() {
    let settings = "  watch: 15s\n  health:\n    stable: 1s\n    without_readiness: 2s\n    deadline: 8s\n";
    let Some(rig) = before("two-watches", settings, How::Reload, &Archive::simple("2.0.0").schema(2)) else { return };
    rig.drop_in("Restart=no\n");
    watching(&rig);
    rig.edit(&format!("{VERSIONS}/updates.yaml"), "  watch: 15s", "  watch: 60s");
    rig.release(&Archive::simple("3.0.0").schema(3).behaviour("dies-after-ten"));
    let ran = rig.updater(&["pin", "--force-version", "3.0.0"]);
    ran.fails(1, "3.0.0 (oss) failed while it was being watched").fails(1, "rolled back to 2.0.0");
    rig.until_over("run");
    assert!(rig.link().ends_with("/2.0.0/bin/teleport"));
    rig.until_ready();
    assert_eq!(rig.running(), "2.0.0");
}

#[test]
fn a_watch_ends_silently_when_another_run_was_at_work_with_the_agent() {
    let settings = "  watch: 60s\n  health:\n    stable: 1s\n    without_readiness: 2s\n    deadline: 4s\n";
    let Some(rig) = before("overtaken", settings, How::Reload, &Archive::simple("2.0.0").schema(2)) else { return };
    watching(&rig);
    rig.release(&Archive::simple("3.0.0").schema(3).behaviour("dies-soon"));
    rig.updater(&["pin", "--force-version", "3.0.0"]).fails(1, "rolled back to 2.0.0");
    rig.until_over("run");
    let status = rig.status();
    assert_eq!((rig.running().as_str(), &status["refused"][0]["version"]), ("2.0.0", &"3.0.0".into()));
    assert_eq!(status["refused"].as_array().unwrap().len(), 1, "{status:#}");
    assert_eq!(status["watch_until"], serde_json::Value::Null);
}

#[test]
fn a_watch_that_is_over_leads_back_no_more_whatever_the_agent_does_then() {
    let Some(rig) = before("stale-watch", WATCHED, How::Reload, &Archive::simple("2.0.0").schema(2)) else { return };
    rig.drop_in("Restart=no\n");
    watching(&rig);
    rig.bed.sh("systemctl kill -s KILL run");
    rig.until_over("run");
    rig.note("of a season");
    let file = format!("{VERSIONS}/updates.yaml");
    let config = std::fs::read_to_string(rig.path(&file)).unwrap();
    let until = config.lines().find(|line| line.starts_with("    until:")).unwrap();
    rig.edit(&file, until, "    until: 2026-01-02T03:04:05+00:00");
    rig.bed.sh("systemctl kill -s KILL teleport");
    rig.bed.until("systemctl is-failed -q teleport", SOON);
    rig.updater(&["update"]).ok();
    assert!(rig.link().ends_with("/2.0.0/bin/teleport"));
    assert_eq!(rig.status()["watch_until"], serde_json::Value::Null);
    rig.start_agent();
    assert!(rig.has_note("of a season"));
}

// Refused versions.

/// A bed that has rolled 2.0.0 back once.
fn refused_once(name: &str) -> Option<Rig> {
    let settings = "  watch: 1s\n  health:\n    stable: 1s\n    deadline: 2s\n";
    let new = Archive::simple("2.0.0").schema(2).behaviour("never-ready");
    let rig = before(name, settings, How::Reload, &new)?;
    rig.updater(&["update"]).fails(1, "rolled back to 1.0.0");
    rig.until_ready();
    rig.cluster.forget_requests();
    Some(rig)
}

fn wait_in_minutes(status: &serde_json::Value) -> i64 {
    let time = |key: &str| status["refused"][0][key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    time("retry_at").duration_since(time("time")).as_mins()
}

#[test]
fn a_refused_version_rests_for_a_growing_time_and_an_operator_can_insist() {
    let Some(rig) = refused_once("refused") else { return };
    let process = rig.pid();
    assert_eq!(wait_in_minutes(&rig.status()), 60);
    let ran = rig.updater(&["update"]).ok();
    assert_eq!(ran.stderr.trim().lines().count(), 1, "{ran:#?}");
    assert!(ran.stderr.contains("2.0.0") && ran.stderr.contains("is not tried again yet"), "{ran:#?}");
    assert!(rig.cluster.requests_to(".tar.gz").is_empty(), "nothing is downloaded");
    assert_eq!(rig.pid(), process);
    rig.updater(&["update", "--now"]).fails(1, "rolled back to 1.0.0");
    rig.until_ready();
    let status = rig.status();
    assert_eq!((status["refused"][0]["count"].as_u64(), wait_in_minutes(&status)), (Some(2), 120));
    // When the wait is over it is tried again by itself.
    let retry_at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string();
    let config = std::fs::read_to_string(rig.path(&format!("{VERSIONS}/updates.yaml"))).unwrap();
    let line = config.lines().find(|line| line.contains("retry_at:")).unwrap();
    rig.edit(&format!("{VERSIONS}/updates.yaml"), line, &format!("      retry_at: {retry_at}"));
    rig.updater(&["update"]).fails(1, "rolled back to 1.0.0");
    assert_eq!(rig.status()["refused"][0]["count"], 3);
}

#[test]
fn a_new_target_clears_what_was_refused() {
    let Some(rig) = refused_once("new-target") else { return };
    rig.update_to(&Archive::simple("3.0.0").schema(3));
    let status = rig.status();
    assert_eq!((&status["agent_version_running"], &status["refused"]), (&"3.0.0".into(), &serde_json::json!([])));
    assert!(rig.has_note("by one"));
}

#[test]
fn enabling_again_tries_a_refused_version_at_once() {
    let Some(rig) = refused_once("enable-again") else { return };
    // Repaired under the same name.
    rig.release(&Archive::simple("2.0.0").schema(2));
    std::fs::remove_file(rig.path(&format!("{VERSIONS}/2.0.0/sha256"))).unwrap();
    rig.enable(&[]).ok();
    let status = rig.status();
    assert_eq!((&status["agent_version_running"], &status["refused"]), (&"2.0.0".into(), &serde_json::json!([])));
}
