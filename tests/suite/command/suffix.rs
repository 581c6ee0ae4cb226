//! `--install-suffix`: a second installation that shares nothing with the default one.

use crate::support::*;

const DEV_SOCKET: &str = "test -S /var/lib/teleport_dev/debug.sock && test -s /run/teleport_dev.pid";

/// Both installations with a running agent each, 1.0.0; the second one follows the group `dev`.
fn both(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    rig.prepare_dev();
    rig.enable(&["--install-suffix", "dev", "--group", "dev"]).ok();
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport_dev");
    rig.bed.until(DEV_SOCKET, Duration::from_secs(20));
    Some(rig)
}

fn dev(rig: &Rig, args: &[&str]) -> Ran {
    let args: Vec<&str> = ["--install-suffix", "dev"].into_iter().chain(args.iter().copied()).collect();
    rig.updater(&args)
}

fn pid(rig: &Rig) -> String {
    rig.bed.sh("cat /run/teleport.pid")
}

#[test]
fn a_second_agent_is_updated_and_rolled_back_beside_the_first() {
    let Some(rig) = both("suffix") else { return };
    let first = pid(&rig);
    let status = || dev(&rig, &["status", "--format", "json"]).ok().json();
    assert_eq!(status()["agent_version_running"], "1.0.0");
    let link = rig.bed.sh("readlink /opt/teleport/dev/bin/teleport");
    assert_eq!(link, "/var/lib/teleport_dev/versions/1.0.0/bin/teleport\n");
    let unit = rig.bed.sh("cat /etc/systemd/system/teleport_dev.service");
    for word in ["/opt/teleport/dev/bin/teleport start", "/etc/teleport_dev.yaml", "/run/teleport_dev.pid"] {
        assert!(unit.contains(word), "{word}: {unit}");
    }
    for word in ["/usr/local/bin", "/etc/teleport.yaml", "/run/teleport.pid"] {
        assert!(!unit.contains(word), "{word}: {unit}");
    }

    rig.cluster.publish(&Archive::simple("2.0.0").schema(2));
    rig.cluster.set_directive_for_group("dev", Find::version("2.0.0"));
    dev(&rig, &["update"]).ok();
    rig.updater(&["update"]).ok();
    assert_eq!(status()["agent_version_running"], "2.0.0");
    rig.cluster.publish(&Archive::simple("3.0.0").schema(3).behaviour("dies-soon"));
    rig.cluster.set_directive_for_group("dev", Find::version("3.0.0"));
    dev(&rig, &["update"]).fails(1, "rolled back to 2.0.0");
    rig.bed.until(DEV_SOCKET, Duration::from_secs(20));
    assert_eq!(status()["agent_version_running"], "2.0.0");
    let rows = sql_of(&rig.path("/var/lib/teleport_dev/proc/sqlite.db"), "PRAGMA user_version");
    assert_eq!(rows, ["2"]);
    // A downgrade restores its own database.
    rig.cluster.set_directive_for_group("dev", Find::version("1.0.0"));
    dev(&rig, &["update"]).ok();
    assert_eq!(status()["agent_version_running"], "1.0.0");
    // The first one never noticed.
    assert_eq!(pid(&rig), first);
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
}

#[test]
fn its_timer_and_boot_unit_are_its_own_and_both_installations_update_at_once() {
    let Some(rig) = both("suffixunits") else { return };
    rig.bed.sh("systemctl is-enabled teleport-update_dev.timer teleport-update-recover_dev.service");
    rig.bed.sh("systemctl is-active teleport-update_dev.timer");
    let show = |unit: &str, property: &str| rig.bed.sh(&format!("systemctl show -p {property} {unit}"));
    let command = "/usr/lib/teleport-update/teleport-update --install-suffix dev";
    assert!(show("teleport-update_dev.service", "ExecStart").contains(&format!("{command} update ")));
    assert!(show("teleport-update_dev.service", "ExecStopPost").contains(&format!("{command} recover ")));
    assert!(show("teleport-update-recover_dev.service", "ExecStart").contains(&format!("{command} recover --boot ")));
    assert!(show("teleport-update-recover_dev.service", "Before").contains("teleport_dev.service"));
    assert!(
        show("teleport-update-recover_dev.service", "Before").split([' ', '=']).all(|unit| unit != "teleport.service")
    );
    assert_eq!(show("teleport-update_dev.timer", "Unit"), "Unit=teleport-update_dev.service\n");
    let files = rig.bed.sh("cat /etc/systemd/system/teleport-update*_dev.*");
    assert!(!files.contains("/var/lib/teleport/") && !files.contains("/var/lib/teleport "), "{files}");
    rig.bed.sh("systemd-analyze verify --man=no /etc/systemd/system/teleport-update*_dev.*");

    // Each holds its own lock while the other works.
    let [first, second] = ["/var/lib/teleport", "/var/lib/teleport_dev"]
        .map(|dir| std::fs::File::open(rig.path(&format!("{dir}/versions/.lock"))).unwrap());
    first.lock().unwrap();
    dev(&rig, &["disable"]).ok();
    dev(&rig, &["enable"]).ok();
    drop(first);
    second.lock().unwrap();
    rig.updater(&["disable"]).ok();
    rig.updater(&["enable"]).ok();
    drop(second);

    rig.release(&Archive::simple("2.0.0"));
    rig.bed.sh("systemctl start teleport-update.service teleport-update_dev.service");
    assert_eq!(rig.status()["agent_version_running"], "2.0.0");
    let status = dev(&rig, &["status", "--format", "json"]).ok().json();
    assert_eq!(status["agent_version_running"], "2.0.0");
}

#[test]
fn its_interrupted_run_is_undone_at_boot_before_its_agent_starts() {
    let Some(rig) = both("suffixboot") else { return };
    rig.cluster.publish(&Archive::simple("2.0.0").schema(2).behaviour("never-ready"));
    rig.cluster.set_directive_for_group("dev", Find::version("2.0.0"));
    rig.bed.sh(
        "systemctl disable --now teleport-update_dev.timer; systemctl start --no-block teleport-update_dev.service",
    );
    // Within the health check: switched, not committed.
    rig.bed.until("readlink /opt/teleport/dev/bin/teleport | grep 2.0.0", Duration::from_secs(20));
    rig.bed.cut();
    rig.bed.boot();
    rig.bed.until(DEV_SOCKET, Duration::from_secs(20));
    let status = dev(&rig, &["status", "--format", "json"]).ok().json();
    assert_eq!((&status["agent_version_running"], &status["recovery_pending"]), (&"1.0.0".into(), &false.into()));
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
}

#[test]
fn its_uninstall_leaves_the_first_alone() {
    let Some(rig) = both("suffixuninstall") else { return };
    let first = pid(&rig);
    let of_first = || {
        let mut lines = tree(&rig.path("/usr/local"));
        lines.extend(tree(&rig.path("/etc/systemd/system")).into_iter().filter(|line| !line.contains("_dev")));
        lines.extend(tree(&rig.path("/var/lib/teleport/versions")));
        lines
    };
    let before = of_first();
    dev(&rig, &["uninstall"]).fails(1, "systemctl disable --now teleport_dev");
    dev(&rig, &["uninstall", "--force"]).ok();
    assert_eq!(of_first(), before);
    assert_eq!(pid(&rig), first);
    assert_eq!(rig.bed.sh("find /etc/systemd /opt/teleport -name '*_dev*' -o -name 'teleport'"), "/opt/teleport\n");
    assert_eq!(rig.bed.sh("systemctl list-units --all --plain --no-legend 'teleport*_dev*'"), "");
    rig.bed.sh("test -e /etc/teleport_dev.yaml && test -e /var/lib/teleport_dev/host_uuid");
    dev(&rig, &["uninstall"]).ok();
}
