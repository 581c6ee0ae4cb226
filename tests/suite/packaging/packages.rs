//! The deb and the rpm: built, linted, installed, upgraded, downgraded, removed and purged by the real package managers.

use crate::support::package::built;
use crate::support::repository;
use crate::support::*;

cases_of! { "packaging/packages.txt":
    installing_the_deb_enables_the_units_and_nothing_else;
    installing_the_rpm_enables_the_units_and_nothing_else;
    the_deb_answers_to_the_names_of_the_rfd;
    the_rpm_answers_to_the_names_of_the_rfd;
    an_agent_lives_through_every_change_of_the_deb;
    an_agent_lives_through_every_change_of_the_rpm;
    a_timer_that_was_disabled_stays_so_when_the_deb_is_upgraded;
    a_timer_that_was_disabled_stays_so_when_the_rpm_is_upgraded;
    removing_the_deb_recovers_an_interrupted_update_first;
    removing_the_rpm_recovers_an_interrupted_update_first;
    the_deb_is_not_removed_under_a_run_at_work;
    the_rpm_is_not_removed_under_a_run_at_work;
    a_removal_recovers_a_further_installation_and_its_units_do_not_fail_afterwards;
    the_deb_leaves_the_go_updaters_units_alone;
    the_rpm_leaves_the_go_updaters_units_alone;
    a_package_that_an_interrupted_enable_has_yet_to_remove_is_not_waited_for_in_vain;
    a_purge_takes_the_settings_only_where_no_version_is_left;
    other_systemds_take_the_package;
    the_updater_updates_itself_and_the_package_stands_by;
    removing_the_deb_of_a_host_that_was_never_enabled_leaves_no_failed_unit;
    removing_the_rpm_of_a_host_that_was_never_enabled_leaves_no_failed_unit;
    the_deb_stops_and_starts_the_timers_of_further_installations;
    the_rpm_stops_and_starts_the_timers_of_further_installations;
    an_administrator_who_forbids_that_packages_start_services_is_obeyed;
    a_masked_timer_does_not_keep_the_boot_recovery_from_being_enabled;
    what_an_operator_disabled_is_remembered_until_the_deb_is_purged;
    a_removal_that_is_called_off_leaves_the_units_as_they_were;
    a_first_unpacking_that_fails_leaves_nothing;
    a_purge_says_nothing_and_takes_the_settings_of_further_installations;
    another_root_of_dpkgs_is_all_that_its_scripts_touch;
    the_rpm_takes_its_directories_along;
    the_policy_module_is_loaded_once_and_removed_wherever_the_store_is;
}

fn script(line: &str) -> Ran {
    Ran::of(&Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn two_builds_of_the_same_give_the_same_bytes() {
    let Some(first) = built("1.0.0") else { return };
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join("elsewhere");
    // On another file system, whose directories have another size.
    let other = std::path::Path::new("/dev/shm");
    let work = tempfile::tempdir_in(if other.is_dir() { other } else { dir.path() }).unwrap();
    Product::Updater.build_in(work.path(), "1.0.0", &updater(), &again);
    for name in ["teleport-update_1.0.0_amd64.deb", "teleport-update-1.0.0-1.x86_64.rpm", "SHA256SUMS"] {
        assert!(std::fs::read(first.join(name)).unwrap() == std::fs::read(again.join(name)).unwrap(), "{name} differs");
    }
    script(&format!("cd {} && sha256sum --check --strict SHA256SUMS", again.display())).ok();
}

#[test]
fn the_distributions_checkers_find_nothing() {
    let Some(dir) = built("1.0.0") else { return };
    script(&format!("{} {}", checkout("packaging/lint.sh").display(), dir.display())).ok();
}

#[test]
fn both_packages_hold_the_same_and_need_nothing() {
    let Some(dir) = built("1.0.0") else { return };
    let (deb, rpm) = (deb("1.0.0").unwrap(), rpm("1.0.0").unwrap());
    let of_deb = script(&format!("dpkg-deb -c {} | sed -n 's/^[-l].* \\.\\(\\/[^ ]*\\).*/\\1/p'", deb.display())).ok();
    let files = "rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]'";
    let of_rpm = script(&format!("{files} {} | sed -n 's/^[-l][^ ]* //p'", rpm.display())).ok();
    // Documentation and zsh have places of their own in each distribution.
    let common = |list: &str| {
        let is_common = |path: &&str| {
            !["/doc/", "/licenses/", "/zsh/", "/lintian/", "/system-preset/"].iter().any(|part| path.contains(part))
        };
        let mut paths: Vec<String> = list.lines().filter(is_common).map(str::to_owned).collect();
        paths.sort();
        paths
    };
    assert_eq!(common(&of_deb.stdout), common(&of_rpm.stdout));
    assert!(of_deb.stdout.contains("/usr/lib/teleport-update/teleport-update\n"), "{of_deb:?} in {}", dir.display());
    // Asked for by the package's name in RFD 0169 it comes as well.
    let provides = script(&format!("dpkg-deb -f {} Provides", deb.display())).ok();
    assert_eq!(provides.stdout, "teleport-ent-updater, teleport-updater\n");
    let provides = script(&format!("rpm -qp --provides {}", rpm.display())).ok();
    for name in ["teleport-ent-updater", "teleport-updater"] {
        assert!(provides.stdout.contains(&format!("{name} = 1.0.0-1\n")), "{provides:?}");
    }
    let depends = script(&format!("dpkg-deb -f {} Depends Pre-Depends", deb.display())).ok();
    assert_eq!(depends.stdout, "");
    let requires =
        script(&format!("rpm -qRp {} 2>/dev/null | grep -v '^rpmlib(\\|^/bin/sh$\\|^config('", rpm.display()));
    assert_eq!(requires.stdout, "");
}

#[test]
fn an_interrupted_update_is_recovered_by_the_package_that_came_in_between() {
    let Some(rig) = Rig::with_deb("bookworm", "pk-between", "1.0.0") else { return };
    rig.release(&Archive::simple("2.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    rig.release(&Archive::simple("2.1.0"));
    rig.kill_in_the_switch("teleport-update", &["update", "--now"]);
    let writer = std::fs::read_to_string(rig.path(&format!("{VERSIONS}/.journal"))).unwrap();
    assert!(writer.contains("/usr/lib/teleport-update/teleport-update"), "{writer}");
    // The writer's path now holds another program.
    let other = tempfile::tempdir().unwrap();
    let padded = other.path().join("updater");
    std::fs::copy(updater(), &padded).unwrap();
    script(&format!("strip {0} && echo later >>{0}", padded.display())).ok();
    Product::Updater.build("1.3.0", &padded, &other.path().join("out"));
    install_deb(&rig.bed, &other.path().join("out/teleport-update_1.3.0_amd64.deb"));
    rig.bed.sh("systemctl start teleport-update.service");
    assert!(!rig.path(&format!("{VERSIONS}/.journal")).exists());
    assert_eq!(rig.status()["agent_version_running"], "2.1.0");
}

#[test]
fn in_one_transaction_rpm_installs_systemd_before_the_package_that_asks_it_to_enable_units() {
    let Some(rpm) = rpm("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm-rpm", "pk-order") else { return };
    let dir = tempfile::tempdir().unwrap();
    rig.bed.put(repository::rpm(dir.path(), "systemd", "252", "", &[], &[]), "/root/systemd.rpm");
    rig.bed.put(&rpm, "/root/a.rpm");
    for files in ["/root/a.rpm /root/systemd.rpm", "/root/systemd.rpm /root/a.rpm"] {
        let said = rig.bed.sh(&format!("rpm -i --nodeps --force-debian --test -vv {files} 2>&1"));
        let order: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("D: ========== +++ ")).collect();
        assert!(order.len() == 2 && order[0].starts_with("systemd-252"), "{order:?}");
    }
}

#[test]
fn the_example_scripts_can_be_run_where_they_are_installed() {
    let (Some(deb), Some(rpm)) = (deb("1.0.0"), rpm("1.0.0")) else { return };
    for unpack in [
        format!("dpkg-deb -x {} .", deb.display()),
        format!(
            "rpm2cpio {} | cpio --quiet -idm 2>/dev/null || rpm2archive - <{} | tar -xz",
            rpm.display(),
            rpm.display()
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        script(&format!("cd {} && {unpack}", dir.path().display())).ok();
        let examples = dir.path().join("usr/share/doc/teleport-update/examples");
        for line in tree(&examples) {
            let [path, mode, ..] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
            if path.ends_with('/') {
                continue;
            }
            let is_script = std::fs::read(examples.join(path)).unwrap().starts_with(b"#!");
            assert_eq!(mode, if is_script { "755" } else { "644" }, "{path} by {unpack}");
        }
    }
}
