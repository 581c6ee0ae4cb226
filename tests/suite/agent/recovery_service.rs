//! SPEC §8 with a running agent under a real systemd: kills, power cuts, boots, shutdowns, and the agent's own session.

use crate::support::*;

const UPDATE: &str = "teleport-update.service";
const JOURNAL: &str = "/var/lib/teleport/versions/.journal";
/// For an event that takes a second or two on an idle machine.
const SOON: Duration = Duration::from_secs(60);

tests_of! { killed_updates:
    an_update_killed_before_the_agent_is_reloaded_is_undone(
        "undone", &[Moment::Intent("snapshot"), Moment::Intent("daemon_reload"), Moment::Intent("reload")]);
    an_update_killed_after_the_agent_was_reloaded_is_undone_with_its_database("reloaded", &[Moment::Intent("health")]);
    an_update_killed_around_its_commit_is_old_or_new("commit", &[Moment::Commit, Moment::AfterCommit]);
}

#[test]
fn a_downgrade_killed_before_or_after_its_agent_stood_still_brings_one_version_up_with_its_database() {
    let Some(rig) = rig("downgrade") else { return };
    rig.update_to(&version(2));
    rig.cluster.set_directive(testing::cluster::directive::Find::version("1.0.0"));
    for moment in ["stop", "restore", "health", "describe", "install"].map(Moment::Intent) {
        kill_at(&rig, &moment);
        rig.updater(&["recover"]).ok();
        let found = whole(&rig);
        assert_eq!(found, "2.0.0", "{moment:?}");
    }
    rig.updater(&["update", "--now"]).ok();
    assert_eq!(whole(&rig), "1.0.0");
}

#[test]
fn a_journal_that_cannot_be_written_to_in_the_downtime_leaves_an_agent_that_runs() {
    let Some(rig) = rig("unwritable") else { return };
    rig.update_to(&version(2));
    rig.cluster.set_directive(testing::cluster::directive::Find::version("1.0.0"));
    let from = nth(&rig, &Moment::Intent("restore"));
    let status =
        rig.injected("teleport-update", &["update", "--now"], "fdatasync", &format!("error=EROFS:when={from}+")).status;
    assert_eq!(status.code(), Some(1));
    rig.until_ready();
    assert_eq!(rig.status()["recovery_pending"], true);
    rig.updater(&["recover"]).ok();
    assert_eq!(whole(&rig), "2.0.0");
}

#[test]
fn a_rollback_killed_in_its_middle_is_undone() {
    let Some(rig) = rig("rollback") else { return };
    rig.update_to(&version(2));
    let status = rig.injected("teleport-update", &["rollback"], "fdatasync", "signal=KILL:when=15").status;
    assert!(!status.success());
    rig.updater(&["recover"]).ok();
    let found = whole(&rig);
    rig.updater(&["update"]).ok();
    assert_eq!(whole(&rig), found);
}

#[test]
fn a_power_cut_in_the_health_check_boots_into_the_old_version() {
    let Some(rig) = rig("cut") else { return };
    in_health_check(&rig);
    rig.bed.cut();
    rig.cluster.forget_requests();
    rig.bed.boot();
    rig.until_ready();
    assert!(rig.cluster.requests().is_empty(), "recovery at boot asks no network");
    boots_old(&rig);
}

#[test]
fn a_power_cut_after_the_commit_boots_into_the_new_version() {
    let Some(rig) = rig("cut-new") else { return };
    rig.release(&version(2));
    kill_at(&rig, &Moment::AfterCommit);
    rig.bed.cut();
    rig.bed.boot();
    rig.until_ready();
    assert_eq!(rig.updater(&["status", "--format", "json"]).ok().json()["agent_version_running"], "2.0.0");
    rig.updater(&["update"]).ok();
    assert_eq!(whole(&rig), "2.0.0");
}

#[test]
fn a_killed_run_of_the_unit_is_undone_by_its_stop_command() {
    let Some(rig) = rig("stop-post") else { return };
    in_health_check(&rig);
    rig.bed.sh(&format!("systemctl kill --signal=KILL --kill-who=main {UPDATE}"));
    rig.bed.until(
        &format!("! systemctl is-active -q {UPDATE} && ! systemctl show -p ActiveState {UPDATE} | grep -q activ"),
        SOON,
    );
    rig.until_ready();
    assert_eq!(whole(&rig), "1.0.0");
    let state = rig.bed.sh(&format!("systemctl show -p Result --value {UPDATE}"));
    assert_eq!(state.trim(), "signal");
}

#[test]
fn a_stopped_run_of_the_unit_undoes_itself() {
    let Some(rig) = rig("stop") else { return };
    in_health_check(&rig);
    rig.bed.sh(&format!("systemctl stop {UPDATE}"));
    rig.until_ready();
    assert_eq!(whole(&rig), "1.0.0");
    assert_eq!(rig.status()["last_result"]["error_code"], "interrupted");
}

#[test]
fn a_run_that_a_shutdown_interrupts_is_old_after_the_boot() {
    let Some(rig) = rig("shutdown") else { return };
    in_health_check(&rig);
    rig.bed.halt();
    rig.bed.boot();
    boots_old(&rig);
    assert_eq!(rig.status()["refused"], Value::Array(Vec::new()));
}

#[test]
fn a_version_whose_reload_a_shutdown_cut_short_is_not_refused_for_it() {
    let Some(rig) = rig("cut-short") else { return };
    rig.drop_in("ExecReload=\nExecReload=/bin/touch /run/reloading\nExecReload=/bin/sleep 600\n");
    rig.release(&version(2));
    rig.bed.sh(&format!("systemctl start --no-block {UPDATE}"));
    rig.bed.until("test -e /run/reloading", SOON);
    rig.bed.halt();
    rig.bed.boot();
    boots_old(&rig);
    let status = rig.status();
    assert_eq!(status["refused"], Value::Array(Vec::new()), "{status:#}");
}

#[test]
fn a_downgrade_from_the_agents_own_session_moves_on_and_completes() {
    let Some(rig) = rig("session") else { return };
    rig.update_to(&version(2));
    rig.cluster.set_directive(testing::cluster::directive::Find::version("1.0.0"));
    // As a shell that the agent started for a user.
    rig.bed.write(
        "/root/inside",
        "#!/bin/sh\nfor procs in $(find /sys/fs/cgroup -path '*/teleport.service/cgroup.procs'); do echo $$ >$procs; done\n\
         grep -q teleport.service /proc/self/cgroup || exit 99\nexec teleport-update update >/var/said 2>&1\n",
        0o755,
    );
    let ran = rig.bed.run(&["/root/inside"]);
    assert_ne!(ran.status.code(), Some(99));
    rig.bed.until(
        "grep -q 'active_version: 1.0.0' /var/lib/teleport/versions/updates.yaml && ! test -e /var/lib/teleport/versions/.journal",
        SOON,
    );
    rig.until_ready();
    let said = rig.bed.sh("cat /var/said");
    assert!(said.contains("in a transient systemd scope"), "{said}");
    rig.bed.until("! systemctl list-units --all --plain --no-legend 'teleport-update-*.scope' | grep -q scope", SOON);
    assert_eq!(whole(&rig), "1.0.0");
}

#[test]
fn removing_everything_from_the_agents_own_session_completes() {
    let Some(rig) = rig("session-uninstall") else { return };
    rig.bed.write(
        "/root/inside",
        "#!/bin/sh\nfor procs in $(find /sys/fs/cgroup -path '*/teleport.service/cgroup.procs'); do echo $$ >$procs; done\n\
         exec teleport-update uninstall --force >/var/said 2>&1\n",
        0o755,
    );
    rig.bed.run(&["/root/inside"]);
    rig.bed.until("! test -e /usr/local/bin/teleport && ! test -e /var/lib/teleport/versions/1.0.0", SOON);
    rig.bed.until("! systemctl is-active -q teleport && ! test -e /var/lib/teleport/versions/.journal", SOON);
}

/// A point in the journal of an update.
#[derive(Debug)]
enum Moment {
    /// The intent of that step is written: what stands before it is done.
    Intent(&'static str),
    /// The commit is written.
    Commit,
    /// The commit is synced, and so the run goes on behind it.
    AfterCommit,
}

/// 1.0.0 runs; what may be needed at boot is enabled.
fn rig(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.release(&version(1));
    rig.enable(&[]).ok();
    rig.start_agent();
    rig.bed.sh("systemctl enable teleport-update-recover.service");
    Some(rig)
}

fn version(number: i64) -> Archive {
    Archive::simple(&format!("{number}.0.0")).schema(number)
}

/// Updates to one version after the other, each killed once; whichever state is found, the next run gets there.
fn killed_updates(name: &str, moments: &[Moment]) {
    let Some(rig) = rig(name) else { return };
    for (number, moment) in (2..).zip(moments) {
        let (old, new) = (format!("{}.0.0", number - 1), format!("{number}.0.0"));
        rig.release(&version(number));
        kill_at(&rig, moment);
        rig.updater(&["recover"]).ok();
        let found = whole(&rig);
        match moment {
            Moment::AfterCommit => assert_eq!(found, new, "{moment:?}"),
            Moment::Commit => assert!(found == old || found == new, "{moment:?}: {found}"),
            _ => assert_eq!(found, old, "{moment:?}"),
        }
        rig.updater(&["update", "--now"]).ok();
        assert_eq!(whole(&rig), new, "{moment:?}");
    }
}

/// Runs `update` and kills it at that moment.
fn kill_at(rig: &Rig, moment: &Moment) {
    let status = rig
        .injected(
            "teleport-update",
            &["update", "--now"],
            "fdatasync",
            &format!("signal=KILL:when={}", nth(rig, moment)),
        )
        .status;
    assert!(!status.success(), "{moment:?} was not met");
}

/// Which write of the journal that is.
fn nth(rig: &Rig, moment: &Moment) -> usize {
    let plan = rig.updater(&["plan", "--now", "--format", "json"]).ok().json();
    // A write for the beginning, then one for each step's intent, with what was done before; some are written together.
    let steps: Vec<String> =
        plan["switch"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap().to_owned()).collect();
    let together = |step: &usize| {
        let pair = [&steps[step - 1], &steps[*step]].map(String::as_str);
        matches!(pair, ["stop", "snapshot"] | ["restore", "link_agent"] | ["link_agent", "start"])
    };
    let written = |last: usize| 2 + last - (1..=last).filter(together).count();
    let end = written(steps.len() - 1);
    match moment {
        Moment::Intent(step) => written(index(&steps, step)),
        Moment::Commit => end + 1,
        Moment::AfterCommit => end + 2,
    }
}

fn index(steps: &[String], wanted: &str) -> usize {
    steps.iter().position(|step| step == wanted).unwrap_or_else(|| panic!("no {wanted} in {steps:?}"))
}

/// Starts the unit and returns while it waits for a verdict on 2.0.0, which never comes.
fn in_health_check(rig: &Rig) {
    let config = rig.path("/var/lib/teleport/versions/updates.yaml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("deadline: 8s", "deadline: 600s")).unwrap();
    rig.release(&version(2).behaviour("never-ready"));
    rig.bed.sh(&format!("systemctl start --no-block {UPDATE}"));
    // The successor lives, and nothing is committed.
    let successor = "for exe in /proc/[0-9]*/exe; do readlink $exe; done | grep -q 2.0.0/bin/teleport$";
    rig.bed.until(&format!("grep -q '\"record\":\"intent\"' {JOURNAL} && ({successor})"), SOON);
}

/// After a boot without anybody's help.
fn boots_old(rig: &Rig) {
    rig.until_ready();
    rig.bed.until(&format!("! test -e {JOURNAL}"), SOON);
    assert_eq!(whole(rig), "1.0.0");
    assert_eq!(rig.bed.sh("systemctl show -p Result --value teleport-update-recover").trim(), "success");
}

/// The version that the host is on, in every respect.
fn whole(rig: &Rig) -> String {
    rig.until_ready();
    let status: Value = rig.status();
    let installed = status["agent_version_installed"].as_str().unwrap_or_default().to_owned();
    assert_eq!(status["agent_version_linked"], installed.as_str(), "{status:#}");
    assert_eq!(status["agent_version_running"], installed.as_str(), "{status:#}");
    assert_eq!(status["recovery_pending"], false, "{status:#}");
    assert_eq!(status["update_in_progress"], false, "{status:#}");
    let schema = installed.split('.').next().unwrap().to_owned();
    assert_eq!(rig.sql("PRAGMA user_version"), [schema], "{status:#}");
    assert_eq!(rig.sql("PRAGMA quick_check"), ["ok"]);
    rig.updater(&["verify"]).ok();
    let left = rig.bed.sh("find /var/lib/teleport /usr/local /etc/systemd -name '.staging-*' -o -name '.retired-*' \
         -o -name '.teleport-update-tmp-*' -o -name .journal -o -name .updates.yaml.next -o -name '.backup.*' \
         -o -name '.sqlite.db.teleport-update*' -o -name .unmanaged");
    assert_eq!(left, "");
    installed
}
