//! `teleport-ent-updater`, the updater of the generation before, gives way to our package.

use super::toys::{self, Layout, Toy};
use super::{Apt, Dnf, Manager, OLD, host};
use crate::support::*;

/// A host with the old updater's timer running, and our package in its repository; not installed yet.
fn ours_beside(name: &str, manager: Manager) -> Option<Rig> {
    let ours = match manager {
        Apt => package::deb("1.0.0")?,
        Dnf => package::rpm("1.0.0")?,
    };
    let rig = host(name, manager, &Toy::new("teleport-ent", OLD, Layout::Plain), &[])?;
    // As on a host that has never seen ours.
    rig.bed.sh("rm -rf /usr/lib/teleport-update /usr/bin/teleport-update /usr/lib/systemd/system/teleport-update*");
    let dir = tempfile::tempdir().unwrap();
    // One after the other: a dnf that knows both installs ours when asked for the old one.
    let upgrader = match manager {
        Apt => toys::upgrader_deb(dir.path()),
        Dnf => toys::upgrader_rpm(dir.path()),
    };
    for package in [&upgrader, &ours] {
        let both = [upgrader.clone(), package.clone()];
        match manager {
            Apt => toys::apt_repository(&rig.bed, &both),
            Dnf => toys::dnf_repository(&rig.bed, &both),
        }
        if *package == upgrader {
            rig.bed.sh(&manager.install("teleport-ent-updater"));
        }
    }
    rig.start_agent();
    assert_eq!(rig.bed.sh("systemctl is-active teleport-upgrade.timer").trim(), "active");
    Some(rig)
}

fn gives_way(name: &str, manager: Manager) {
    let Some(rig) = ours_beside(name, manager) else { return };
    let pid = rig.bed.sh("systemctl show -p MainPID teleport");
    rig.bed.sh(&manager.install("teleport-update"));
    // A deb leaves its configuration file until it is purged.
    let left = ["", "config-files"];
    assert!(manager == Dnf || left.contains(&Apt.state(&rig, "teleport-ent-updater").as_str()));
    assert!(manager == Apt || Dnf.is_gone(&rig, "teleport-ent-updater"));
    // Neither its package nor the agent's was needed for that.
    assert!(!manager.is_gone(&rig, "teleport-ent"));
    let ended = |rig: &Rig| {
        // A link that enabled it may still be there; it leads nowhere, and no timer ticks.
        let state =
            rig.bed.sh("systemctl show -p LoadState -p ActiveState -p NextElapseUSecMonotonic teleport-upgrade.timer");
        assert!(state.contains("LoadState=not-found") && !state.contains("ActiveState=active"), "{state}");
        assert!(!rig.bed.run(&["systemctl", "start", "teleport-upgrade.service"]).status.success());
    };
    ended(&rig);
    assert_eq!(rig.bed.sh("systemctl show -p MainPID teleport"), pid);
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer").trim(), "active");
    rig.bed.reboot();
    rig.until_ready();
    ended(&rig);
    assert!(!rig.path("/root/upgrader-ran").exists());
}

tests_of! { gives_way:
    apt_replaces_the_upgrader_and_its_timer_ends("aptv1", Apt);
    dnf_replaces_the_upgrader_and_its_timer_ends("dnfv1", Dnf);
}
