//! Another link directory for a host that is installed already: what systemd loads goes with the links, or nothing does.

use crate::support::*;

const UNIT: &str = "/usr/local/lib/systemd/system/teleport.service";

/// What systemd loads the unit from, and the program in it.
fn loaded(rig: &Rig) -> String {
    rig.bed.sh("systemctl show -p FragmentPath --value teleport; \
                systemctl show -p ExecStart --value teleport | sed 's/.*path=\\([^ ]*\\) .*/\\1/'")
}

/// Names of ours in the directory.
fn links(rig: &Rig, dir: &str) -> String {
    rig.bed.sh(&format!("find {dir} -lname '{VERSIONS}/*' -printf '%f ' | tr ' ' '\\n' | sort | xargs"))
}

/// Updates to `versions`, the agent running.
fn update(rig: &Rig, versions: &[&str]) {
    for version in versions {
        rig.update_to(&Archive::simple(version));
        assert_eq!(rig.running(), *version);
    }
}

#[test]
fn a_stopped_agents_links_move_with_its_unit_and_it_starts_again_after_any_number_of_updates() {
    let Some(rig) = Rig::living("path-moves", FAST, &Archive::simple("1.0.0")) else { return };
    let before = (loaded(&rig), links(&rig, "/usr/local/bin"));
    rig.bed.sh("systemctl stop teleport");
    rig.enable(&["--path", "/usr/sbin"]).ok();
    assert_eq!(loaded(&rig), format!("{UNIT}\n/usr/sbin/teleport\n"));
    assert_eq!((links(&rig, "/usr/local/bin").as_str(), links(&rig, "/usr/sbin")), ("\n", before.1.clone()));
    assert_eq!(rig.bed.sh("systemctl is-enabled teleport"), "enabled\n");
    rig.updater(&["verify"]).ok();
    for version in ["1.1.0", "1.2.0", "1.3.0"] {
        rig.update_to(&Archive::simple(version));
    }
    assert!(!rig.path(&format!("{VERSIONS}/1.0.0")).exists(), "the version that was enabled is gone");
    rig.bed.sh("systemctl start teleport");
    rig.until_ready();
    update(&rig, &["1.4.0", "1.5.0"]);
    rig.bed.reboot();
    rig.until_ready();
    assert_eq!(rig.running(), "1.5.0");
    // The same directory again is no move.
    let (life, process) = (rig.invocation(), rig.pid());
    rig.enable(&["--path", "/usr/sbin"]).ok();
    assert_eq!((rig.invocation(), rig.pid()), (life, process));

    rig.bed.sh("systemctl stop teleport");
    rig.enable(&["--path", "/usr/local/bin"]).ok();
    assert!(loaded(&rig).ends_with("\n/usr/local/bin/teleport\n"), "{}", loaded(&rig));
    assert_eq!((links(&rig, "/usr/local/bin"), links(&rig, "/usr/sbin").as_str()), (before.1, "\n"));
    assert_eq!(rig.bed.sh("systemctl is-enabled teleport"), "enabled\n");
    rig.updater(&["verify"]).ok();
    rig.bed.reboot();
    rig.until_ready();
    update(&rig, &["1.6.0", "1.7.0"]);
    rig.updater(&["uninstall", "--force"]).ok();
    assert_eq!(rig.bed.sh(&format!("find /usr /etc/systemd -lname '{VERSIONS}/*'")), "");
}

#[test]
fn a_running_agents_links_stay_and_the_refusal_says_what_to_do() {
    let Some(rig) = Rig::living("path-running", FAST, &Archive::simple("1.0.0")) else { return };
    let (before, unit) = (rig.footprint(), loaded(&rig));
    rig.enable(&["--path", "/usr/sbin"])
        .fails(1, "`systemctl stop teleport`")
        .says("the running agent was started from /usr/local/bin");
    assert_eq!((rig.footprint(), loaded(&rig)), (before, unit));
    assert_eq!(links(&rig, "/usr/sbin"), "\n");
    assert_eq!(rig.status()["last_result"]["error_code"], "agent_not_stopped");
    // The directory that is recorded is still the old one.
    rig.enable(&[]).ok();
    update(&rig, &["1.1.0"]);
}

#[test]
fn a_hand_that_changes_the_directory_takes_no_link_from_a_running_agent() {
    let Some(rig) = Rig::living("path-by-hand", FAST, &Archive::simple("1.0.0")) else { return };
    rig.edit(&format!("{VERSIONS}/updates.yaml"), "\nspec:\n", "\nspec:\n  path: /opt/tp/bin\n");
    let before = loaded(&rig);
    rig.release(&Archive::simple("1.1.0"));
    rig.updater(&["update"])
        .fails(1, "the running agent was started from /usr/local/bin, but its links are to be in /opt/tp/bin");
    assert_eq!((loaded(&rig), rig.running().as_str()), (before, "1.0.0"));
    rig.bed.sh("systemctl stop teleport");
    rig.updater(&["update"]).ok();
    rig.bed.sh("systemctl start teleport");
    rig.until_ready();
    assert_eq!(loaded(&rig), format!("{UNIT}\n/opt/tp/bin/teleport\n"));
    assert_eq!((links(&rig, "/usr/local/bin").as_str(), rig.running().as_str()), ("\n", "1.1.0"));
    rig.updater(&["verify"]).ok();
    update(&rig, &["1.2.0", "1.3.0", "1.4.0"]);
}

#[test]
fn a_unit_of_the_operators_that_starts_the_old_link_is_not_left_without_it() {
    let Some(rig) = Rig::living("path-own-unit", FAST, &Archive::simple("1.0.0")) else { return };
    let own = "/etc/systemd/system/teleport.service.d/own.conf";
    rig.bed.sh("systemctl stop teleport");
    rig.bed.write(own, "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start\n", 0o644);
    rig.bed.sh("systemctl daemon-reload");
    rig.updater(&["verify"]).ok();
    let before = links(&rig, "/usr/local/bin");
    rig.enable(&["--path", "/usr/sbin"]).fails(1, "own.conf starts /usr/local/bin/teleport");
    assert_eq!((links(&rig, "/usr/local/bin"), links(&rig, "/usr/sbin").as_str()), (before, "\n"));
    rig.edit(own, "/usr/local/bin", "/usr/sbin");
    rig.enable(&["--path", "/usr/sbin"]).ok();
    rig.edit(own, "/usr/sbin", "/usr/local/bin");
    rig.updater(&["verify"]).fails(1, "own.conf starts /usr/local/bin/teleport, but the links are in /usr/sbin");
}

#[test]
fn a_version_of_the_unit_that_masks_ours_is_found_and_repaired_while_the_agent_is_stopped() {
    let Some(rig) = Rig::up("path-masked") else { return };
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&["--path", "/usr/sbin"]).ok();
    // As an older updater left it.
    let mask = "/etc/systemd/system/teleport.service";
    rig.bed.sh(&format!(
        "ln -s {VERSIONS}/1.0.0/etc/systemd/teleport.service {mask}; \
         ln -s {VERSIONS}/1.0.0/bin/teleport /usr/local/bin/teleport; systemctl enable --now teleport"
    ));
    rig.until_ready();
    assert_eq!(loaded(&rig), format!("{mask}\n/usr/local/bin/teleport\n"));
    rig.updater(&["verify"]).fails(1, &format!("{mask} leads to {VERSIONS}/1.0.0"));
    rig.updater(&["verify", "--repair"]).fails(1, "`systemctl stop teleport`");
    rig.bed.sh("systemctl stop teleport");
    rig.updater(&["verify", "--repair"]).ok();
    assert_eq!(loaded(&rig), format!("{UNIT}\n/usr/sbin/teleport\n"));
    rig.updater(&["uninstall"]).ok();
    assert_eq!(rig.bed.sh(&format!("find /usr /etc/systemd -lname '{VERSIONS}/*'")), "");
}

#[test]
fn a_timer_that_is_off_is_told_of() {
    let Some(rig) = Rig::up("timer-off") else { return };
    rig.release(&Archive::simple("1.0.0"));
    let advice = "so there are no automatic updates: run `systemctl enable --now teleport-update.timer`";
    rig.enable(&[]).ok().says(advice);
    let text = || rig.updater(&["status", "--format", "text"]).ok().stdout;
    assert!(text().contains(advice), "{}", text());
    assert!(rig.updater(&["verify"]).ok().stderr.contains(advice), "told, and no damage");
    rig.bed.sh("systemctl enable teleport-update.timer");
    let ran = rig.enable(&[]).ok();
    assert!(!ran.stderr.contains("by themselves") && !text().contains("by themselves"), "{ran:#?}");
    rig.bed.sh("systemctl disable teleport-update.timer; ln -s /dev/null /etc/systemd/system/teleport-update.timer; \
                systemctl daemon-reload");
    rig.enable(&[]).ok();
    assert!(text().contains("`systemctl unmask teleport-update.timer; "), "{}", text());
}
