//! The deb and the rpm: built, linted, installed, upgraded, downgraded, removed and purged by the real package managers.

use Format::{Deb, Rpm};

use crate::support::package::built;
use crate::support::repository;
use crate::support::*;

const UNITS: &str = "teleport-update.timer teleport-update-recover.service";

/// Both formats in a bed: how each is installed and removed.
#[derive(Clone, Copy, Debug)]
enum Format {
    Deb,
    Rpm,
}

impl Format {
    /// A bed with the package of `version`.
    fn up(self, name: &str, version: &str) -> Option<Rig> {
        match self {
            Deb => Rig::with_deb("bookworm", name, version),
            Rpm => Rig::with_rpm(name, version),
        }
    }

    /// Installs, upgrades or downgrades.
    fn install(self, rig: &Rig, version: &str) {
        match self {
            Deb => install_deb(&rig.bed, &deb(version).unwrap()),
            Rpm => install_rpm(&rig.bed, &rpm(version).unwrap()),
        }
    }

    fn remove(self) -> &'static str {
        match self {
            Deb => "dpkg --remove teleport-update",
            Rpm => "rpm -e --force-debian teleport-update",
        }
    }

    /// The installed version, empty without.
    fn version(self, rig: &Rig) -> String {
        rig.bed
            .sh(match self {
                Deb => "dpkg-query -s teleport-update 2>/dev/null | sed -n '/^Status: .* installed$/,$s/^Version: //p'",
                Rpm => "rpm -q --qf '%{VERSION}\\n' teleport-update | grep -v 'not installed' || true",
            })
            .trim_end()
            .to_owned()
    }
}

/// Whether the units are enabled, a word each.
fn enabled(rig: &Rig) -> Vec<String> {
    let output = rig.bed.run(&["sh", "-c", &format!("systemctl is-enabled {UNITS}")]);
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// What must outlive every change of the package, but for sockets and what a living agent writes.
fn of_the_agent(rig: &Rig) -> Vec<String> {
    let mut found: Vec<String> = ["/usr/local/bin", "/usr/local/lib/systemd", "/etc/systemd/system", VERSIONS]
        .iter()
        .flat_map(|dir| tree(&rig.path(dir)).into_iter().map(move |line| format!("{dir}/{line}")))
        .filter(|line| !line.contains("teleport-update") && !line.contains("updates.yaml") && !line.contains(".lock"))
        .collect();
    found.push(std::fs::read_to_string(rig.path("/etc/teleport.yaml")).unwrap());
    found
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

fn an_installation_enables_the_units_and_nothing_else(format: Format) {
    let Some(rig) = format.up("pk-install", "1.0.0") else { return };
    assert_eq!(enabled(&rig), ["enabled", "enabled"]);
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer"), "active\n");
    assert_eq!(rig.bed.sh("systemctl list-timers --no-legend teleport-update.timer | wc -l"), "1\n");
    let own = rig.bed.sh("readlink -f /usr/bin/teleport-update");
    assert_eq!(own, "/usr/lib/teleport-update/teleport-update\n");
    // Nobody has said `enable`: there is nothing to do, and no failed unit.
    rig.bed.sh("systemctl start teleport-update.service; test -z \"$(systemctl --failed --no-legend)\"");
    assert!(!rig.path("/usr/local/bin/teleport").exists());
}

tests_of! { an_installation_enables_the_units_and_nothing_else:
    installing_the_deb_enables_the_units_and_nothing_else(Deb);
    installing_the_rpm_enables_the_units_and_nothing_else(Rpm);
}

/// SPEC §5: under every name of RFD 0169 the commands run too. These are its lines for the unit and for installers.
fn the_names_of_the_rfd_run_the_program(format: Format) {
    let Some(rig) = format.up("pk-names", "1.0.0") else { return };
    rig.release(&Archive::simple("2.0.0"));
    let (addr, base) = (rig.cluster.addr(), rig.cluster.base_url());
    rig.bed.sh(&format!(
        "TELEPORT_CDN_BASE_URL={base} teleport-updater enable --proxy {addr} --ca-file /root/ca.pem && \
         teleport-updater version && teleport-updater help enable | grep -q 'Usage: teleport-updater enable'"
    ));
    assert_eq!(rig.status()["proxy"], addr);
    rig.release(&Archive::simple("2.1.0"));
    rig.bed.write(
        "/etc/systemd/system/rfd.service",
        "[Service]\nType=oneshot\nExecStart=/usr/bin/teleport-updater update\n",
        0o644,
    );
    rig.bed.sh("systemctl daemon-reload; systemctl start rfd");
    assert_eq!(rig.link(), format!("{VERSIONS}/2.1.0/bin/teleport"));
    let own = rig.bed.sh("readlink -f /usr/bin/teleport-updater");
    assert_eq!(own, "/usr/lib/teleport-update/teleport-update\n");
    rig.bed.sh(format.remove());
    assert!(std::fs::symlink_metadata(rig.path("/usr/bin/teleport-updater")).is_err());
}

tests_of! { the_names_of_the_rfd_run_the_program:
    the_deb_answers_to_the_names_of_the_rfd(Deb);
    the_rpm_answers_to_the_names_of_the_rfd(Rpm);
}

fn an_agent_lives_through_upgrade_downgrade_removal_and_reinstallation(format: Format) {
    let Some(rig) = format.up("pk-life", "1.0.0") else { return };
    rig.release(&Archive::simple("2.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    let (pid, files) = (rig.pid(), of_the_agent(&rig));
    let unchanged = |when: &str| {
        assert_eq!(rig.pid(), pid, "{when}");
        assert_eq!(of_the_agent(&rig), files, "{when}");
    };
    format.install(&rig, "1.2.0");
    unchanged("upgraded");
    assert_eq!((format.version(&rig).as_str(), enabled(&rig)), ("1.2.0", vec!["enabled".into(), "enabled".into()]));
    format.install(&rig, "1.1.0");
    unchanged("downgraded");
    assert_eq!(format.version(&rig), "1.1.0");
    assert_eq!(enabled(&rig), ["enabled", "enabled"]);
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer"), "active\n");

    rig.bed.sh(format.remove());
    unchanged("removed");
    assert!(!rig.path("/usr/lib/teleport-update").exists() && !rig.path("/usr/bin/teleport-update").exists());
    assert_eq!(rig.bed.sh("systemctl is-active teleport"), "active\n");
    assert!(rig.bed.sh("systemctl --failed --no-legend").is_empty());
    rig.bed.reboot();
    assert_eq!(rig.bed.sh("systemctl is-active teleport"), "active\n");
    assert!(rig.bed.sh("systemctl --failed --no-legend").is_empty());

    format.install(&rig, "1.2.0");
    assert_eq!(enabled(&rig), ["enabled", "enabled"]);
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer"), "active\n");
    rig.release(&Archive::simple("2.1.0"));
    rig.bed.sh("systemctl start teleport-update.service");
    assert_eq!(rig.status()["agent_version_running"], "2.1.0");
}

tests_of! { an_agent_lives_through_upgrade_downgrade_removal_and_reinstallation:
    an_agent_lives_through_every_change_of_the_deb(Deb);
    an_agent_lives_through_every_change_of_the_rpm(Rpm);
}

fn what_an_operator_disabled_stays_disabled(format: Format) {
    let Some(rig) = format.up("pk-off", "1.0.0") else { return };
    rig.bed.sh("systemctl disable --now teleport-update.timer");
    rig.bed.sh("echo '# mine' >>/etc/needrestart/conf.d/80-teleport-agent.conf");
    format.install(&rig, "1.2.0");
    assert_eq!(enabled(&rig), ["disabled", "enabled"]);
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer || true"), "inactive\n");
    rig.bed.sh("grep -qx '# mine' /etc/needrestart/conf.d/80-teleport-agent.conf");
}

tests_of! { what_an_operator_disabled_stays_disabled:
    a_timer_that_was_disabled_stays_so_when_the_deb_is_upgraded(Deb);
    a_timer_that_was_disabled_stays_so_when_the_rpm_is_upgraded(Rpm);
}

/// Sets up a run that is killed between its journal and its commit, by hand, and gives back the bed.
fn interrupted(format: Format, name: &str) -> Option<Rig> {
    let rig = format.up(name, "1.0.0")?;
    rig.release(&Archive::simple("2.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    rig.release(&Archive::simple("2.1.0"));
    rig.kill_in_the_switch("teleport-update", &["update", "--now"]);
    rig.bed.until(&format!("test -e {VERSIONS}/.journal"), SOON);
    Some(rig)
}

fn removal_recovers_first(format: Format) {
    let Some(rig) = interrupted(format, "pk-cut") else { return };
    rig.bed.sh(format.remove());
    assert!(!rig.path(&format!("{VERSIONS}/.journal")).exists());
    assert_eq!(rig.link(), format!("{VERSIONS}/2.0.0/bin/teleport"));
}

tests_of! { removal_recovers_first:
    removing_the_deb_recovers_an_interrupted_update_first(Deb);
    removing_the_rpm_recovers_an_interrupted_update_first(Rpm);
}

#[test]
fn an_interrupted_update_is_recovered_by_the_package_that_came_in_between() {
    let Some(rig) = interrupted(Deb, "pk-between") else { return };
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

fn a_run_at_work_is_waited_for_or_named(format: Format) {
    let Some(rig) = format.up("pk-busy", "1.0.0") else { return };
    rig.bed.sh(&format!(
        "mkdir -p -m 700 {VERSIONS}/.lock; systemd-run --quiet --unit=holder flock {VERSIONS}/.lock sleep 1000; \
         until ! flock -n {VERSIONS}/.lock true; do sleep 0.05; done"
    ));
    let ran = Ran::of(&rig.bed.run(&["sh", "-c", format.remove()]));
    assert_ne!(ran.status, 0, "{ran:?}");
    assert!(format!("{}{}", ran.stderr, ran.stdout).contains("another run is at work"), "{ran:?}");
    assert_eq!(format.version(&rig), "1.0.0");
    if let Deb = format {
        // dpkg calls postinst again: nothing is left switched off.
        assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer"), "active\n");
    }
    rig.bed.sh("systemctl stop holder");
    rig.bed.sh(format.remove());
    assert_eq!(format.version(&rig), "");
}

tests_of! { a_run_at_work_is_waited_for_or_named:
    the_deb_is_not_removed_under_a_run_at_work(Deb);
    the_rpm_is_not_removed_under_a_run_at_work(Rpm);
}

/// A further installation, `dev`, of 2.0.0.
fn enable_dev(rig: &Rig) {
    rig.prepare_dev();
    rig.release(&Archive::simple("2.0.0"));
    rig.enable(&["--install-suffix", "dev"]).ok();
}

#[test]
fn a_removal_recovers_a_further_installation_and_its_units_do_not_fail_afterwards() {
    let Some(rig) = Rig::with_deb("bookworm", "pk-suffix", "1.0.0") else { return };
    let state = "/var/lib/teleport_dev/versions";
    enable_dev(&rig);
    rig.release(&Archive::simple("2.1.0"));
    rig.kill_in_the_switch("teleport-update", &["--install-suffix", "dev", "update", "--now"]);
    assert!(rig.path(&format!("{state}/.journal")).exists());
    rig.bed.sh("dpkg --remove teleport-update");
    assert!(!rig.path(&format!("{state}/.journal")).exists());
    assert_eq!(
        std::fs::read_link(rig.path("/opt/teleport/dev/bin/teleport")).unwrap().to_str().unwrap(),
        format!("{state}/2.0.0/bin/teleport")
    );
    rig.bed.reboot();
    rig.bed.sh("systemctl start teleport-update_dev.service");
    assert_eq!(rig.bed.sh("systemctl --failed --no-legend"), "");
}

/// Before `enable` another updater goes on with its work, whose units have the same names.
fn the_go_updaters_units_are_its_own(format: Format) {
    let Some(rig) = Rig::bare(if let Deb = format { "bookworm" } else { "bookworm-rpm" }, "pk-go") else { return };
    let Some(_) = built("1.0.0") else { return };
    for (unit, body) in [
        ("service", "[Service]\nType=oneshot\nExecStart=/bin/true\n"),
        ("timer", "[Timer]\nOnUnitActiveSec=1h\nOnActiveSec=1h\n[Install]\nWantedBy=teleport.service\n"),
    ] {
        let mark = "# teleport-update 17.3.0\n# DO NOT EDIT THIS FILE\n";
        rig.bed.write(format!("/etc/systemd/system/teleport-update.{unit}"), format!("{mark}{body}"), 0o644);
    }
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport-update.timer");
    let seen = |rig: &Rig| {
        let state = "systemctl is-enabled teleport-update.timer; systemctl is-active teleport-update.timer; \
                     systemctl show -p ActiveEnterTimestampMonotonic teleport-update.timer; true";
        (rig.bed.sh(state), tree(&rig.path("/etc/systemd/system/teleport.service.wants")))
    };
    let before = seen(&rig);
    format.install(&rig, "1.0.0");
    assert_eq!(seen(&rig), before);
    rig.bed.sh(format.remove());
    assert_eq!(seen(&rig), before);
    rig.bed.sh("systemctl disable --now teleport-update.timer");
    let off = rig.bed.sh("systemctl is-enabled teleport-update.timer; systemctl is-active teleport-update.timer; true");
    format.install(&rig, "1.0.0");
    let still =
        rig.bed.sh("systemctl is-enabled teleport-update.timer; systemctl is-active teleport-update.timer; true");
    assert_eq!((off.as_str(), still.as_str()), ("disabled\ninactive\n", "disabled\ninactive\n"));
}

tests_of! { the_go_updaters_units_are_its_own:
    the_deb_leaves_the_go_updaters_units_alone(Deb);
    the_rpm_leaves_the_go_updaters_units_alone(Rpm);
}

#[test]
fn a_package_that_an_interrupted_enable_has_yet_to_remove_is_not_waited_for_in_vain() {
    let Some(rig) = Rig::with_deb("bookworm", "pk-yet", "1.0.0") else { return };
    rig.bed.write(format!("{VERSIONS}/.journal"), "00000000 {\"step\":\"remove_package\"}\n", 0o644);
    let ran = Ran::of(&rig.bed.run(&["dpkg", "--remove", "teleport-update"]));
    assert!(ran.status != 0 && ran.stderr.contains("run `teleport-update recover`"), "{ran:?}");
    assert_eq!(Deb.version(&rig), "1.0.0");
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer"), "active\n");
}

#[test]
fn a_purge_takes_the_settings_only_where_no_version_is_left() {
    let Some(rig) = Rig::with_deb("bookworm", "pk-purge", "1.0.0") else { return };
    rig.release(&Archive::simple("2.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    let files = of_the_agent(&rig);
    let purged = Ran::of(&rig.bed.run(&["dpkg", "--purge", "teleport-update"])).ok();
    assert!(format!("{}{}", purged.stdout, purged.stderr).contains(&format!("kept {VERSIONS}")), "{purged:?}");
    assert_eq!(of_the_agent(&rig), files);
    assert!(rig.path(&format!("{VERSIONS}/updates.yaml")).exists());

    install_deb(&rig.bed, &deb("1.0.0").unwrap());
    rig.bed.sh("systemctl disable --now teleport; teleport-update uninstall");
    rig.bed.sh("dpkg --purge teleport-update");
    assert!(!rig.path(VERSIONS).exists(), "{:?}", tree(&rig.path(VERSIONS)));
    assert!(rig.path("/var/lib/teleport/host_uuid").exists() && rig.path("/etc/teleport.yaml").exists());
    let left = rig.bed.sh("find / -xdev -name '*teleport-update*' ! -path '/proc/*' ! -path '/root/*' ! -path '/var/log/*' ! -path '/tmp/*'");
    assert_eq!(left, "");
}

#[test]
fn other_systemds_take_the_package() {
    for root in ["xenial", "bionic", "bullseye", "trixie"] {
        let Some(rig) = Rig::with_deb(root, "pk-other", "1.0.0") else { continue };
        assert_eq!(enabled(&rig), ["enabled", "enabled"], "{root}");
        assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer"), "active\n", "{root}");
        rig.release(&Archive::simple("2.0.0"));
        rig.enable(&[]).ok();
        rig.start_agent();
        rig.release(&Archive::simple("2.1.0"));
        rig.bed.sh("systemctl start teleport-update.service");
        assert_eq!(rig.status()["agent_version_running"], "2.1.0", "{root}");
        rig.bed.sh("systemctl disable --now teleport-update.timer");
        install_deb(&rig.bed, &deb("1.2.0").unwrap());
        assert_eq!(enabled(&rig), ["disabled", "enabled"], "{root}");
        rig.bed.sh("dpkg --purge teleport-update");
        assert_eq!(rig.bed.sh("systemctl is-active teleport; systemctl --failed --no-legend"), "active\n", "{root}");
        assert_eq!(rig.bed.sh("find /etc/systemd -name 'teleport-update*'"), "", "{root}");
    }
}

/// The road of SPEC §5: package 1.0, then a version that carries updater 1.1, then package 1.2, then that updater breaks.
#[test]
fn the_updater_updates_itself_and_the_package_stands_by() {
    let Some(rig) = Rig::with_deb("bookworm", "pk-road", "1.0.0") else { return };
    rig.configure(FAST);
    let own = std::fs::read(updater()).unwrap();
    rig.release(&Archive::simple("2.0.0").updater(&own));
    rig.enable(&[]).ok();
    rig.start_agent();
    assert_eq!(
        std::fs::read_link(rig.path("/usr/local/bin/teleport-update")).unwrap().to_str().unwrap(),
        format!("{VERSIONS}/2.0.0/bin/teleport-update")
    );
    // What runs is not the package's any more, and no package changes that.
    install_deb(&rig.bed, &deb("1.2.0").unwrap());
    assert_eq!(rig.link(), format!("{VERSIONS}/2.0.0/bin/teleport"));
    rig.release(&Archive::simple("2.1.0").updater(
        b"#!/bin/sh\n[ \"$1\" = version ] || exit 70\n\
        echo '{\"version\":\"9.9.9\",\"protocol\":\"rfd0169/1\"}'\n",
    ));
    rig.bed.sh("systemctl start teleport-update.service");
    assert_eq!(rig.link(), format!("{VERSIONS}/2.1.0/bin/teleport"));
    // The active version's updater now breaks at each call: the package's does the work.
    rig.release(&Archive::simple("2.2.0").updater(&own));
    rig.bed.sh("systemctl start teleport-update.service");
    let log = rig.bed.sh("journalctl -u teleport-update -o cat");
    assert!(
        log.contains(
            "ended unexpectedly (exit status 70); /usr/lib/teleport-update/teleport-update continues in its place"
        ),
        "{log}"
    );
    assert_eq!(rig.status()["agent_version_running"], "2.2.0");
    assert_eq!(
        std::fs::read_link(rig.path("/usr/local/bin/teleport-update")).unwrap().to_str().unwrap(),
        format!("{VERSIONS}/2.2.0/bin/teleport-update")
    );
}

/// What each timer does, a word each: the package's, and the one of the installation `dev`.
fn timers(rig: &Rig) -> String {
    rig.bed.sh("systemctl is-active teleport-update.timer teleport-update_dev.timer || true")
}

fn a_removal_without_any_enable_leaves_a_sound_system(format: Format) {
    let Some(rig) = format.up("pk-never", "1.0.0") else { return };
    rig.bed.sh("rm -r /var/lib/teleport");
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer"), "active\n");
    rig.bed.sh(format.remove());
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer || true"), "inactive\n");
    assert_eq!(rig.bed.sh("systemctl --failed --no-legend; systemctl is-system-running"), "running\n");
}

tests_of! { a_removal_without_any_enable_leaves_a_sound_system:
    removing_the_deb_of_a_host_that_was_never_enabled_leaves_no_failed_unit(Deb);
    removing_the_rpm_of_a_host_that_was_never_enabled_leaves_no_failed_unit(Rpm);
}

fn the_timer_of_a_further_installation_goes_and_comes_with_the_package(format: Format) {
    let Some(rig) = format.up("pk-timers", "1.0.0") else { return };
    enable_dev(&rig);
    assert_eq!(timers(&rig), "active\nactive\n");
    let journal = "/var/lib/teleport_dev/versions/.journal";
    rig.bed.write(journal, "00000000 {\"step\":\"remove_package\"}\n", 0o644);
    let ran = Ran::of(&rig.bed.run(&["sh", "-c", format.remove()]));
    assert!(
        ran.status != 0 && format!("{}{}", ran.stdout, ran.stderr).contains("--install-suffix dev recover`"),
        "{ran:?}"
    );
    assert_eq!(timers(&rig), "active\nactive\n", "after a removal that failed");
    std::fs::remove_file(rig.path(journal)).unwrap();
    rig.bed.sh(format.remove());
    assert_eq!(timers(&rig), "inactive\ninactive\n", "removed");
    format.install(&rig, "1.0.0");
    assert_eq!(timers(&rig), "active\nactive\n", "installed again");
}

tests_of! { the_timer_of_a_further_installation_goes_and_comes_with_the_package:
    the_deb_stops_and_starts_the_timers_of_further_installations(Deb);
    the_rpm_stops_and_starts_the_timers_of_further_installations(Rpm);
}

#[test]
fn an_administrator_who_forbids_that_packages_start_services_is_obeyed() {
    let Some(deb) = deb("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm", "pk-policy") else { return };
    rig.bed.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755);
    install_deb(&rig.bed, &deb);
    assert_eq!(enabled(&rig), ["enabled", "enabled"]);
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer || true"), "inactive\n");
}

#[test]
fn a_masked_timer_does_not_keep_the_boot_recovery_from_being_enabled() {
    for format in [Deb, Rpm] {
        let Some(rig) = Rig::bare(if let Deb = format { "bookworm" } else { "bookworm-rpm" }, "pk-mask") else {
            return;
        };
        let Some(_) = built("1.0.0") else { return };
        rig.bed.sh("systemctl mask teleport-update.timer");
        format.install(&rig, "1.0.0");
        assert_eq!(enabled(&rig), ["masked", "enabled"], "{format:?}");
        rig.bed.sh(format.remove());
        assert_eq!(rig.bed.sh("find /etc/systemd -name 'teleport-update-recover*'"), "", "{format:?}");
    }
}

#[test]
fn what_an_operator_disabled_is_remembered_until_the_deb_is_purged() {
    let Some(rig) = Rig::with_deb("bookworm", "pk-choice", "1.0.0") else { return };
    rig.bed.sh("systemctl disable --now teleport-update.timer; dpkg --remove teleport-update");
    install_deb(&rig.bed, &deb("1.0.0").unwrap());
    assert_eq!(enabled(&rig), ["disabled", "enabled"]);
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer || true"), "inactive\n");
    rig.bed.sh("systemctl enable --now teleport-update.timer; dpkg --remove teleport-update");
    install_deb(&rig.bed, &deb("1.0.0").unwrap());
    assert_eq!(enabled(&rig), ["enabled", "enabled"], "what was enabled since then");
    rig.bed.sh("systemctl disable teleport-update.timer; dpkg --purge teleport-update");
    assert!(!rig.path("/var/lib/teleport-update").exists());
    install_deb(&rig.bed, &deb("1.0.0").unwrap());
    assert_eq!(enabled(&rig), ["enabled", "enabled"], "after a purge");
}

#[test]
fn a_removal_that_is_called_off_leaves_the_units_as_they_were() {
    let Some(rig) = Rig::with_deb("bookworm", "pk-calledoff", "1.0.0") else { return };
    rig.bed.sh("systemctl disable teleport-update-recover.service");
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.deb");
    let control = "Architecture: all\nConflicts: teleport-update\nReplaces: teleport-update\n";
    // dpkg has taken ours away, all but its files, when this one fails.
    repository::deb(&other, "other", "1.0.0", control, "", &[("preinst", "#!/bin/sh\nexit 1\n".to_owned())], &[]);
    rig.bed.put(&other, "/root/other.deb");
    let ran = Ran::of(&rig.bed.run(&["dpkg", "-i", "/root/other.deb"]));
    assert!(ran.status != 0 && Deb.version(&rig) == "1.0.0", "{ran:?}");
    assert_eq!(enabled(&rig), ["enabled", "disabled"], "{ran:?}");
    assert_eq!(rig.bed.sh("systemctl is-active teleport-update.timer"), "active\n");
}

#[test]
fn a_first_unpacking_that_fails_leaves_nothing() {
    let Some(deb) = deb("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm", "pk-unpack") else { return };
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other.deb");
    let file = ("usr/bin/teleport-update".to_owned(), b"theirs".to_vec(), 0o755);
    repository::deb(&other, "other", "1.0.0", "Architecture: all\n", "", &[], &[file]);
    rig.bed.put(&other, "/root/other.deb");
    rig.bed.put(&deb, "/root/teleport-update.deb");
    rig.bed.sh("dpkg -i /root/other.deb");
    let ran = Ran::of(&rig.bed.run(&["dpkg", "-i", "/root/teleport-update.deb"]));
    assert!(ran.status != 0 && ran.stderr.contains("trying to overwrite"), "{ran:?}");
    assert!(!rig.path("/var/lib/teleport-update").exists());
}

#[test]
fn a_purge_says_nothing_and_takes_the_settings_of_further_installations() {
    let Some(rig) = Rig::with_deb("bookworm", "pk-purges", "1.0.0") else { return };
    let config = format!("version: v1\nkind: agent_versions\nspec:\n{FAST}");
    for name in ["dev", "kept"] {
        rig.bed.write(format!("/var/lib/teleport_{name}/versions/updates.yaml"), &config, 0o644);
    }
    rig.bed.write("/var/lib/teleport_kept/versions/1.0.0/sha256", "", 0o644);
    let purged = Ran::of(&rig.bed.run(&["dpkg", "--purge", "teleport-update"])).ok();
    let lines: Vec<&str> = purged.stderr.lines().collect();
    assert!(matches!(lines[..], [one] if one.contains("kept /var/lib/teleport_kept/versions")), "{purged:#?}");
    assert!(!rig.path("/var/lib/teleport_dev/versions").exists() && !rig.path(VERSIONS).exists());
    assert!(rig.path("/var/lib/teleport_kept/versions/updates.yaml").exists());
}

#[test]
fn another_root_of_dpkgs_is_all_that_its_scripts_touch() {
    let Some(deb) = deb("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm", "pk-chrootless") else { return };
    rig.bed.put(&deb, "/root/teleport-update.deb");
    let seen = |rig: &Rig| {
        [tree(&rig.path("/etc/systemd")), tree(&rig.path(VERSIONS)), tree(&rig.path("/usr/lib/systemd/system"))]
    };
    let before = seen(&rig);
    let dpkg = "dpkg --root=/srv/image --force-script-chrootless --force-depends";
    rig.bed.sh(&format!(
        "mkdir -p /srv/image/var/lib/dpkg/info /srv/image/var/lib/dpkg/updates && : >/srv/image/var/lib/dpkg/status && \
         {dpkg} -i /root/teleport-update.deb"
    ));
    let wants = rig.path("/srv/image/etc/systemd/system/timers.target.wants/teleport-update.timer");
    assert!(std::fs::symlink_metadata(&wants).is_ok(), "{:?}", tree(&rig.path("/srv/image/etc")));
    assert_eq!(seen(&rig), before);
    rig.bed.write(format!("/srv/image{VERSIONS}/updates.yaml"), "version: v1\n", 0o644);
    rig.bed.sh(&format!("{dpkg} --purge teleport-update"));
    assert!(std::fs::symlink_metadata(&wants).is_err() && !rig.path(&format!("/srv/image{VERSIONS}")).exists());
    assert!(!rig.path("/var/lib/teleport-update").exists() && !rig.path("/srv/image/var/lib/teleport-update").exists());
    assert_eq!(seen(&rig), before);
}

#[test]
fn the_rpm_takes_its_directories_along() {
    let Some(rpm) = rpm("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm-rpm", "pk-dirs") else { return };
    let directories =
        "find / -xdev -type d ! -path '/proc*' ! -path '/var/*' ! -path '/root/*' ! -path '/tmp/*' | sort";
    let all = || rig.bed.sh(directories).lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let before = all();
    install_rpm(&rig.bed, &rpm);
    assert!(all().difference(&before).count() > 5);
    rig.bed.sh(Rpm.remove());
    let after = all();
    // Those belong to the package `filesystem` of every rpm distribution.
    let known = ["/usr/share/licenses", "/usr/share/man/man8"];
    let differ: Vec<_> = after.symmetric_difference(&before).filter(|dir| !known.contains(&dir.as_str())).collect();
    assert!(differ.is_empty(), "{differ:?}");
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
        script(&format!("cd {}/mirror && ./mirror.sh --to x", examples.display())).fails(2, "at least one version");
    }
}

/// On ostree systems (CoreOS, RHEL image mode) the policy's store is in /etc/selinux.
#[test]
fn the_policy_module_is_loaded_once_and_removed_wherever_the_store_is() {
    let Some(rig) = Rig::bare("bookworm", "pk-store") else { return };
    rig.bed.put(checkout("selinux/scriptlets.sh"), "/root/scriptlets.sh");
    rig.bed.write("/usr/share/selinux/packages/teleport-update.cil", "module", 0o644);
    rig.bed.write("/etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=targeted\n", 0o644);
    rig.bed.write("/etc/selinux/targeted/policy/policy.33", "", 0o644);
    rig.bed.write("/usr/sbin/setfiles", "#!/bin/sh\n", 0o755);
    for store in ["/var/lib/selinux", "/etc/selinux"] {
        let module = format!("{store}/targeted/active/modules/200/teleport-update");
        let semodule = format!(
            "#!/bin/sh\necho \"$*\" >>/root/calls\n\
             case \"$*\" in *' -i '*) mkdir -p {module} ;; *' -r '*) rmdir {module} ;; esac\n"
        );
        rig.bed.write("/usr/sbin/semodule", semodule, 0o755);
        rig.bed.sh(". /root/scriptlets.sh; selinux_install; selinux_install; selinux_remove; selinux_remove");
        let calls = rig.bed.sh("cat /root/calls; rm /root/calls");
        let (load, remove) =
            ("-n -X 200 -i /usr/share/selinux/packages/teleport-update.cil", "-n -X 200 -r teleport-update");
        assert_eq!(calls, format!("{load}\n{remove}\n"), "{store}");
    }
}
