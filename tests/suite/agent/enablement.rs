//! `systemctl enable` and its kin go on working for the operator although the unit is a link into a version.

use crate::support::*;

/// What the operator sees: is-enabled, and what the links in `/etc` lead to.
fn seen(rig: &Rig) -> (String, Vec<String>) {
    let word = rig.bed.sh("systemctl is-enabled teleport || true").trim().to_owned();
    let links = rig.bed.sh("find /etc/systemd/system -type l -name teleport.service -exec readlink {} \\;");
    (word, links.lines().map(str::to_owned).collect())
}

fn leads_to(links: &[String], version: &str) -> bool {
    !links.is_empty()
        && links
            .iter()
            .all(|link| link == &format!("/var/lib/teleport/versions/{version}/etc/systemd/teleport.service"))
}

#[test]
fn the_agent_stays_enabled_through_updates_downgrades_and_the_end_of_the_enabling_version() {
    let Some(rig) = Rig::on_one("enablement") else { return };
    let (word, links) = seen(&rig);
    assert_eq!(word, "enabled");
    assert!(leads_to(&links, "1.0.0"), "{links:#?}");
    for version in ["1.1.0", "1.2.0", "1.3.0"] {
        rig.update_to(&Archive::simple(version));
        let (word, links) = seen(&rig);
        assert_eq!(word, "enabled");
        assert!(leads_to(&links, version), "{links:#?}");
    }
    assert!(!rig.path("/var/lib/teleport/versions/1.0.0").exists(), "the version that was enabled is gone");
    rig.update_to(&Archive::simple("1.2.0"));
    let (word, links) = seen(&rig);
    assert_eq!(word, "enabled");
    assert!(leads_to(&links, "1.2.0"), "{links:#?}");
    // The boot agrees.
    rig.bed.reboot();
    rig.until_ready();
    assert_eq!(rig.status()["agent_version_running"], "1.2.0");

    rig.bed.sh("systemctl reenable teleport");
    let (word, links) = seen(&rig);
    assert_eq!(word, "enabled");
    assert!(leads_to(&links, "1.2.0"), "{links:#?}");
    rig.bed.sh("systemctl status teleport; systemctl cat teleport | grep ExecStart");
}

#[test]
fn disabled_by_hand_it_stays_disabled_through_updates_and_can_be_enabled_again() {
    let Some(rig) = Rig::on_one("disabled") else { return };
    rig.bed.sh("systemctl disable teleport");
    let (word, links) = seen(&rig);
    assert_ne!(word, "enabled");
    assert_eq!(links, [""; 0]);
    // Running although disabled: still updated.
    for version in ["1.1.0", "1.2.0"] {
        rig.update_to(&Archive::simple(version));
        assert_eq!(rig.status()["agent_version_running"], version);
        assert_eq!(seen(&rig).1, [""; 0]);
    }
    rig.bed.reboot();
    assert_eq!(rig.status()["agent_running"], false);
    rig.bed.sh("systemctl enable --now teleport");
    rig.until_ready();
    let (word, links) = seen(&rig);
    assert_eq!(word, "enabled");
    assert!(leads_to(&links, "1.2.0"), "{links:#?}");
    // Masked by the operator: that is the operator's word.
    rig.bed.sh("systemctl disable --now teleport; systemctl mask teleport");
    rig.update_to(&Archive::simple("1.3.0"));
    assert_eq!(seen(&rig), ("masked".to_owned(), vec!["/dev/null".to_owned()]));
    assert_eq!(rig.status()["agent_running"], false);
}
