//! Hosts of RFD 0109's updater (`teleport-ent-updater`): taken over by `enable`, given back by `uninstall`.

use crate::support::go::upgrader;
use crate::support::*;

/// What of the updater is on the host.
fn of_upgrader(root: &Path) -> Vec<String> {
    let lines = ["etc", "usr/sbin", "usr/lib/systemd/system"].into_iter().flat_map(|dir| tree(&root.join(dir)));
    lines.filter(|line| line.contains("teleport-upgrade")).collect()
}

#[test]
fn on_a_running_host_its_timer_stops_and_uninstall_starts_it_again() {
    let Some(rig) = Rig::up("sourcetake") else { return };
    upgrader(rig.bed.root(), "updates.example.com/v1/stable/cloud");
    rig.bed.sh(
        "systemctl daemon-reload; systemctl start teleport-upgrade.timer; systemctl is-active teleport-upgrade.timer",
    );
    let before = of_upgrader(rig.bed.root());
    rig.cluster.publish(&Archive::simple("1.0.0"));
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    let state = |property: &str| {
        rig.bed.sh(&format!("systemctl show -p {property} --value teleport-upgrade.timer")).trim().to_owned()
    };
    assert_eq!((state("ActiveState").as_str(), state("UnitFileState").as_str()), ("inactive", "disabled"));
    rig.bed.reboot();
    rig.until_ready();
    assert_eq!(state("ActiveState"), "inactive");
    rig.updater(&["uninstall", "--force"]).ok();
    assert_eq!(of_upgrader(rig.bed.root()), before);
    assert_eq!((state("ActiveState").as_str(), state("UnitFileState").as_str()), ("active", "enabled"));
    rig.bed.sh("test ! -e /root/upgrader-ran");
}
