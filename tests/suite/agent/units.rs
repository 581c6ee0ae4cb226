//! Our units under every systemd that can be had: what they forbid, what they still allow, what an old one ignores.

use crate::support::*;

const UNITS: [&str; 3] = ["teleport-update.service", "teleport-update-recover.service", "teleport-update.timer"];
const BOOTSTRAP: &str = "/usr/lib/teleport-update/teleport-update";
const JOURNAL: &str = "/var/lib/teleport/versions/.journal";
/// The roots of `root.sh` that differ in their systemd, with its version.
const ROOTS: [(&str, u32); 5] =
    [("xenial", 229), ("bionic", 237), ("bullseye", 247), ("bookworm", 252), ("trixie", 257)];
/// The oldest that is promised (RHEL 7).
const OLDEST: u32 = 219;
/// For what takes some seconds on an idle machine.
const SOON: Duration = Duration::from_secs(60);

tests_of! { ignores_what_is_younger:
    systemd_229_ignores_just_the_directives_that_the_guide_calls_younger("xenial");
    systemd_237_ignores_just_the_directives_that_the_guide_calls_younger("bionic");
}

#[test]
fn systemd_247_to_257_find_nothing_wrong_and_the_exposure_is_the_guides() {
    let guide = guide();
    for (root, version) in ROOTS.into_iter().filter(|(_, version)| *version >= 247) {
        let Some(bed) = bed_with_units(root, "exposure") else { return };
        let verify = bed.run(&["sh", "-c", &format!("systemd-analyze verify --man=no {}", UNITS.join(" "))]);
        assert!(verify.status.success() && verify.stderr.is_empty(), "{}", String::from_utf8_lossy(&verify.stderr));
        let exposure = |unit: &str| {
            let text = bed.sh(&format!("systemd-analyze --no-pager security {unit}"));
            let line = text.lines().last().unwrap_or_default().to_owned();
            line.split_whitespace()
                .find(|word| word.parse::<f32>().is_ok())
                .unwrap_or_else(|| panic!("{text}"))
                .to_owned()
        };
        let row = format!("| {version} | 9.6 | {} | {} |", exposure(UNITS[0]), exposure(UNITS[1]));
        assert!(guide.lines().any(|line| line == row), "docs/units.md lacks {row}");
    }
}

#[test]
fn each_directive_is_in_the_guides_table_and_says_what_is_lost_without_it() {
    let table = table();
    let used = directives();
    assert_eq!(used, table.keys().cloned().collect());
    for (directive, (since, lost)) in &table {
        // Nothing is lost where the oldest already has it.
        assert_eq!(*since > OLDEST, lost != "-", "{directive}: since {since}, lost: {lost}");
    }
}

tests_of! { life:
    a_life_with_systemd_229("xenial");
    a_life_with_systemd_237("bionic");
    a_life_with_systemd_247("bullseye");
    a_life_with_systemd_252("bookworm");
    a_life_with_systemd_257("trixie");
}

#[test]
fn a_reload_does_not_end_the_runs_of_an_old_systemd_nor_of_a_new_one() {
    for (root, _) in ROOTS {
        a_reload_does_not_end_the_runs(root);
    }
}

#[test]
fn a_run_can_write_its_own_places_and_not_the_rest_of_the_system() {
    let Some(bed) = bed_with_units("bookworm", "confined") else { return };
    bed.write("/opt/x/kept", "", 0o644);
    bed.write("/home/mirror/file", "", 0o644);
    bed.write(BOOTSTRAP, PROBE, 0o755);
    bed.sh("systemctl start teleport-update.service");
    let tried = bed.sh("cat /var/tried");
    let (can, cannot): (Vec<&str>, Vec<&str>) = tried.lines().partition(|line| line.starts_with("yes "));
    let list =
        |lines: Vec<&str>| lines.iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect::<Vec<_>>();
    assert_eq!(
        list(can),
        [
            "touch /usr/local/probe",
            "touch /etc/systemd/system/probe",
            "touch /var/lib/probe",
            "touch /opt/x/probe",
            "touch /srv/probe",
            "cat /home/mirror/file",
            "unshare -n true",
            "readlink /proc/1/exe",
            "systemctl daemon-reload",
        ]
    );
    assert_eq!(
        list(cannot),
        [
            "touch /usr/probe",
            "touch /usr/bin/probe",
            "touch /usr/lib/teleport-update/probe",
            "touch /etc/probe",
            "touch /home/probe",
            "touch /root/probe",
            "test -e /tmp/secret",
            "mount -t tmpfs none /mnt",
            "unshare -m true",
            "mknod /var/lib/zero c 1 5",
            "chmod u+s /var/lib/probe",
            "chroot / true",
            "test -w /proc/sys/kernel/hostname",
            "test -e /dev/kmsg",
        ]
    );
    // The recovery of a package's removal is outside of all that.
    assert_eq!(bed.sh("cat /var/stopped"), "confined\nfree\n");
}

#[test]
fn the_package_that_a_killed_enable_left_is_removed_by_the_next_run_of_the_unit() {
    let Some(rig) = Rig::up_on("bookworm", "unit-package", &[]) else { return };
    rig.bed.write("/root/control", CONTROL, 0o644);
    rig.bed.write("/root/prerm", PRERM, 0o755);
    rig.bed
        .sh("mkdir -p /root/deb/DEBIAN /root/deb/usr/share/old && mv /root/control /root/prerm /root/deb/DEBIAN && \
         echo x >/root/deb/usr/share/old/file && dpkg-deb -b /root/deb /root/old.deb && dpkg -i /root/old.deb");
    rig.release(&Archive::simple("1.0.0"));
    assert_ne!(rig.enable(&[]).status, 0, "it was not killed");
    assert!(rig.path(JOURNAL).exists());
    assert!(rig.path("/usr/share/old/file").exists());

    let ran = rig.bed.run(&["systemctl", "start", "teleport-update.service"]);
    assert!(!ran.status.success(), "the update itself cannot do it");
    let said = rig.bed.sh("journalctl -o cat -u teleport-update");
    assert!(said.contains("its last ExecStopPost= line removes the package teleport"), "{said}");
    assert!(!rig.path(JOURNAL).exists(), "{said}");
    assert!(!rig.path("/usr/share/old/file").exists(), "{said}");
    assert!(rig.path("/etc/teleport.yaml").exists());
    assert_eq!(rig.bed.sh("cat /var/prerm"), "killed\nremoved\n");
    rig.bed.sh("systemctl start teleport-update.service");
    assert_eq!(rig.status()["agent_version_installed"], "1.0.0");
}

fn up_and_back_by_the_unit(rig: &Rig) {
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.bed.sh("systemctl start teleport-update.service");
    assert_eq!(rig.status()["agent_version_running"], "2.0.0");
    rig.wish("1.0.0");
    rig.bed.sh("systemctl start teleport-update.service");
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
}

#[test]
fn links_and_data_where_the_unit_may_not_write_get_a_drop_in() {
    let Some(rig) = Rig::up_on("bookworm", "unit-paths", &[]) else { return };
    rig.bed.write("/etc/teleport.yaml", "teleport:\n  data_dir: /home/agent/data\n", 0o600);
    rig.bed.sh("mkdir -p /home/agent/data");
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&["--path", "/usr/sbin"]).ok();
    let drop_in = "/etc/systemd/system/teleport-update.service.d/10-teleport-update-paths.conf";
    let text = rig.bed.sh(&format!("cat {drop_in}"));
    assert!(text.contains("\nReadWritePaths=\"-/home/agent/data\" \"-/usr/sbin\"\n"), "{text}");
    assert_eq!(rig.bed.sh("systemd-analyze verify --man=no teleport-update.service 2>&1"), "");
    rig.bed.sh("systemctl enable --now teleport");
    rig.bed.until("test -S /home/agent/data/debug.sock", SOON);
    up_and_back_by_the_unit(&rig);
    assert_eq!(rig.bed.sh("readlink /usr/sbin/teleport"), "/var/lib/teleport/versions/1.0.0/bin/teleport\n");

    // Without it nothing is begun, and the message says what helps.
    rig.bed.sh(&format!("mv {drop_in} /root/kept; systemctl daemon-reload"));
    rig.wish("2.0.0");
    assert!(!rig.bed.run(&["systemctl", "start", "teleport-update.service"]).status.success());
    let said = rig.bed.sh("journalctl -o cat -n 20 -u teleport-update");
    assert!(said.contains("run `teleport-update enable` by hand"), "{said}");
    rig.enable(&[]).ok();
    assert!(rig.path(drop_in).exists());
    rig.updater(&["uninstall", "--force"]).ok();
    assert!(!rig.path(drop_in).exists());
}

#[test]
fn an_own_file_system_for_the_agents_directory_is_no_hindrance_to_the_unit() {
    let Some(rig) = Rig::up_on("bookworm", "unit-mount", &[]) else { return };
    let config = format!("version: v1\nkind: agent_versions\nspec:\n{FAST}");
    rig.bed.write("/root/updates.yaml", config, 0o644);
    rig.bed.sh("mount -t tmpfs teleport /var/lib/teleport && mkdir /var/lib/teleport/versions && \
         cp /root/updates.yaml /var/lib/teleport/versions");
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&["--path", "/opt/x/bin"]).ok();
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport");
    rig.bed.until("test -S /var/lib/teleport/debug.sock && test -s /run/teleport.pid", SOON);
    up_and_back_by_the_unit(&rig);
    assert_eq!(rig.bed.sh("readlink /opt/x/bin/teleport"), "/var/lib/teleport/versions/1.0.0/bin/teleport\n");
}

#[test]
fn a_second_installation_is_updated_and_downgraded_by_its_own_confined_unit() {
    let Some(rig) = Rig::up_on("bookworm", "unit-suffix", &[]) else { return };
    rig.release(&Archive::simple("1.0.0"));
    rig.prepare_dev();
    rig.enable(&["--install-suffix", "dev"]).ok();
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport_dev");
    rig.bed.until("test -S /var/lib/teleport_dev/debug.sock && test -s /run/teleport_dev.pid", SOON);
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.bed.sh("systemctl start teleport-update_dev.service");
    let running = || {
        let ran = rig.updater(&["--install-suffix", "dev", "status", "--format", "json"]).ok();
        ran.json()["agent_version_running"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(running(), "2.0.0");
    rig.wish("1.0.0");
    rig.bed.sh("systemctl start teleport-update_dev.service");
    assert_eq!(running(), "1.0.0");
    let shown = rig.bed.sh("systemctl show -p ReadOnlyPaths -p PrivateDevices teleport-update_dev.service");
    assert!(shown.contains("/usr") && shown.contains("PrivateDevices=yes"), "{shown}");
}

/// A container without CAP_SYS_PTRACE, as Docker and Podman make them: the kernel does not show the confined unit what the
/// agent runs and has open, for the agent may do more than the unit.
fn up_without_ptrace(name: &str) -> Option<Rig> {
    let rig = Rig::up_on("bookworm", name, &["--drop-capability=CAP_SYS_PTRACE"])?;
    rig.release(&Archive::simple("1.0.0").schema(1));
    rig.enable(&[]).ok();
    rig.start_agent();
    Some(rig)
}

/// Runs the unit, which must fail with the one line about what cannot be seen, and change and refuse nothing.
fn fails_for_what_it_cannot_see(rig: &Rig) {
    let before = rig.footprint();
    rig.bed.sh("journalctl --rotate --vacuum-time=1s >/dev/null 2>&1 || true");
    assert!(!rig.bed.run(&["systemctl", "start", "teleport-update.service"]).status.success());
    let said = rig.bed.sh("journalctl -o cat -n 20 -u teleport-update");
    assert!(said.contains("cannot find out which program pid "), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE is missing in this unit or container"), "{said}");
    assert!(said.contains("docs/units.md"), "{said}");
    let status = rig.status();
    assert_eq!(status["last_result"]["error_code"], "permission", "{status:#}");
    assert_eq!(status["refused"], serde_json::json!([]), "{status:#}");
    assert_eq!(status["recovery_pending"], false, "{status:#}");
    assert_eq!(rig.footprint(), before);
}

#[test]
fn an_update_by_a_unit_that_cannot_see_the_agent_changes_nothing_and_the_guides_drop_in_makes_it_work() {
    let Some(rig) = up_without_ptrace("unit-no-ptrace") else { return };
    rig.release(&Archive::simple("2.0.0").schema(2));
    fails_for_what_it_cannot_see(&rig);
    assert_eq!(rig.running(), "1.0.0");
    // Readers that see nothing still answer.
    for command in ["status --format json", "verify"] {
        rig.bed.sh(&format!("setpriv --reuid=65534 --regid=65534 --clear-groups teleport-update {command}"));
    }

    // The guide's drop-in, word for word.
    let guide = guide();
    let text = guide.split("service.d/processes.conf`").nth(1).expect("a drop-in for processes");
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("    "))
        .take_while(|line| line.starts_with("    "))
        .map(str::trim)
        .collect();
    assert_eq!(lines[0], "[Service]");
    rig.bed.write("/etc/systemd/system/teleport-update.service.d/processes.conf", lines.join("\n"), 0o644);
    rig.bed.sh("systemctl daemon-reload; systemctl start teleport-update.service");
    assert_eq!(rig.running(), "2.0.0");
    rig.wish("1.0.0");
    rig.bed.sh("systemctl start teleport-update.service");
    assert_eq!(rig.running(), "1.0.0");
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
}

#[test]
fn by_hand_an_update_works_without_the_capability_beside_processes_of_other_users() {
    let Some(rig) = up_without_ptrace("hand-no-ptrace") else { return };
    rig.bed.sh("systemd-run --quiet --unit=other -p User=nobody sleep 1000");
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.updater(&["update", "--now"]).ok();
    assert_eq!(rig.running(), "2.0.0");
    rig.wish("1.0.0");
    rig.updater(&["update", "--now"]).ok();
    assert_eq!(rig.running(), "1.0.0");
    // Of the other user's process it cannot be seen what it runs, and so no version may go.
    for version in ["3.0.0", "4.0.0"] {
        rig.release(&Archive::simple(version).schema(1));
        rig.updater(&["update", "--now"]).ok();
    }
    for version in ["1.0.0", "2.0.0", "3.0.0", "4.0.0"] {
        assert!(rig.path(&format!("/var/lib/teleport/versions/{version}")).exists(), "{version} was removed");
    }
}

#[test]
fn a_downgrade_by_a_unit_that_cannot_see_an_agent_run_by_hand_leaves_its_database_alone() {
    let Some(rig) = up_without_ptrace("unit-blind") else { return };
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.updater(&["update", "--now"]).ok();
    rig.bed.sh("systemctl stop teleport");
    rig.bed.sh("rm -f /run/teleport.pid");
    rig.bed.sh("systemd-run --quiet --unit=by-hand /usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid");
    rig.until_ready();
    rig.note("of the live agent");
    rig.wish("1.0.0");
    fails_for_what_it_cannot_see(&rig);
    assert!(rig.has_note("of the live agent"));
    assert_eq!(rig.sql("PRAGMA user_version"), ["2"]);
    // The live agent's file is the one that stands there.
    let seen = rig.bed.sh("ls -l /proc/$(cat /run/teleport.pid)/fd");
    assert!(seen.contains("/var/lib/teleport/proc/sqlite.db"), "{seen}");
    assert!(!seen.contains("sqlite.db (deleted)"), "{seen}");
}

#[test]
fn the_preset_enables_timer_and_recovery_and_nothing_else() {
    let Some(bed) = bed_with_units("bookworm", "preset") else { return };
    let preset = "packaging/systemd-preset/80-teleport-update.preset";
    bed.put(checkout(preset), "/usr/lib/systemd/system-preset/80-teleport-update.preset");
    // As on the distributions whose default is to disable.
    bed.write("/usr/lib/systemd/system-preset/99-default-disable.preset", "disable *\n", 0o644);
    bed.sh("systemctl -q preset-all");
    let enabled =
        bed.sh("systemctl list-unit-files --state=enabled --no-legend --plain 'teleport*' | cut -d' ' -f1 | sort");
    assert_eq!(enabled, "teleport-update-recover.service\nteleport-update.timer\n");
    // Also where the agent is not enabled: it hangs on timers.target.
    bed.reboot();
    bed.sh(
        "systemctl is-active teleport-update.timer; test \"$(systemctl is-active teleport-update-recover)\" = inactive",
    );
    // An operator's own comes first.
    bed.write("/etc/systemd/system-preset/10-mine.preset", "disable teleport-update.timer\n", 0o644);
    bed.sh("systemctl -q preset teleport-update.timer");
    assert_eq!(bed.sh("systemctl is-enabled teleport-update.timer || true"), "disabled\n");
}

#[test]
fn needrestart_leaves_the_agent_alone_because_it_is_told_to() {
    let Some(rig) = Rig::up_on("bookworm-needrestart", "needrestart", &[]) else { return };
    let told = "/etc/needrestart/conf.d/80-teleport-agent.conf";
    rig.bed.put(checkout("packaging/needrestart/80-teleport-agent.conf"), told);
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    // A process whose program was replaced, which is what needrestart looks for.
    let binary = "/var/lib/teleport/versions/1.0.0/bin/teleport";
    rig.bed.sh(&format!("cp {binary} {binary}.new && mv {binary}.new {binary}"));
    let run = || rig.bed.sh("NEEDRESTART_MODE=a needrestart -r a -l 2>&1");
    let first = rig.pid();
    let said = run();
    assert!(said.contains("teleport.service"), "not even seen: {said}");
    assert_eq!(rig.pid(), first, "{said}");
    // So that the above says something: without the file it does restart.
    rig.bed.sh(&format!("rm {told}"));
    let said = run();
    rig.until_ready();
    assert_ne!(rig.pid(), first, "{said}");
}

/// What a run may and may not do, tried in its place.
const PROBE: &str = r#"#!/bin/sh
if [ "$1" = recover ]; then
    if touch /usr/recovered 2>/dev/null; then echo free; else echo confined; fi >>/var/stopped
    exit
fi
try() { if "$@" >/dev/null 2>&1; then echo "yes $*"; else echo "no $*"; fi >>/var/tried; }
for dir in /usr /usr/bin /usr/lib/teleport-update /usr/local /etc /etc/systemd/system /var/lib /opt/x /srv /home /root; do
    try touch $dir/probe
done
try cat /home/mirror/file
try test -e /tmp/secret
try mount -t tmpfs none /mnt
try unshare -m true
try unshare -n true
try mknod /var/lib/zero c 1 5
try chmod u+s /var/lib/probe
try chroot / true
try test -w /proc/sys/kernel/hostname
try test -e /dev/kmsg
try readlink /proc/1/exe
try systemctl daemon-reload
"#;

const CONTROL: &str = "Package: teleport\nVersion: 0.9.0\nArchitecture: all\n\
                       Maintainer: Nobody <nobody@example.com>\nDescription: toy\n";

/// Kills the updater that removes the package for the first time.
const PRERM: &str = "#!/bin/sh\n\
    if test -e /var/prerm; then echo removed >>/var/prerm; exit 0; fi\n\
    echo killed >>/var/prerm\npkill -KILL -x teleport-update\nexit 1\n";

/// A command as a shell that the agent started for a user would run it.
const IN_AGENTS_SESSION: &str = "#!/bin/sh\n\
    for procs in $(find /sys/fs/cgroup -path '*/teleport.service/cgroup.procs'); do echo $$ >$procs; done\n\
    grep -q teleport.service /proc/self/cgroup || exit 99\n\
    exec teleport-update update --now >/var/said 2>&1\n";

/// Install, update by the timer really firing, broken version, downgrade from the agent's own session, power cut in the
/// middle of an update, and an update after the boot.
fn life(root: &str) {
    let Some(rig) = Rig::up_on(root, "life", &[]) else { return };
    let config = "/var/lib/teleport/versions/updates.yaml";
    // A broken agent dies after a second, and this machine may be busy.
    rig.edit(config, "stable: 1s", "stable: 3s");
    rig.edit(config, "deadline: 8s", "deadline: 30s");
    rig.release(&Archive::simple("1.0.0").schema(1));
    rig.enable(&[]).ok();
    rig.start_agent();
    let running = |version: &str| {
        let linked = format!("readlink /usr/local/bin/teleport | grep -q versions/{version}/");
        rig.bed.until(&format!("{linked} && ! test -e {JOURNAL}"), SOON);
        rig.until_ready();
        assert_eq!(rig.running(), version);
        assert_eq!(rig.sql("PRAGMA user_version"), [version.split('.').next().unwrap()]);
    };
    running("1.0.0");

    // Minutes become tenths of seconds; the kinds of timer stay the unit's own. This machine has been up for longer than
    // OnBootSec=: a package that has just been installed needs no reboot.
    let timer = std::fs::read_to_string(checkout("systemd/teleport-update.timer")).unwrap();
    let fast =
        timer.replace("=2min", "=100ms").replace("=12min", "=3s").replace("=10min", "=300ms").replace("=30s", "=1ms");
    rig.bed.write("/etc/systemd/system/teleport-update.timer", fast, 0o644);
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport-update.timer teleport-update-recover.service");
    running("2.0.0");

    rig.release(&Archive::simple("3.0.0").schema(3).behaviour("crash-loop"));
    rig.bed.until(&format!("grep -Eq '(^|[ -])version: 3.0.0' {config} && ! test -e {JOURNAL}"), SOON);
    running("2.0.0");
    assert_eq!(rig.status()["refused"][0]["version"], "3.0.0");
    rig.bed.sh("systemctl stop teleport-update.timer teleport-update.service");

    rig.wish("1.0.0");
    if root == "xenial" {
        // In a container with v1 control groups nobody tells this one that a group is empty; it waits for its time-out.
        rig.drop_in("TimeoutStopSec=2s\n");
    }
    rig.bed.write("/root/inside", IN_AGENTS_SESSION, 0o755);
    // The shell is stopped with the agent.
    assert_ne!(rig.bed.run(&["/root/inside"]).status.code(), Some(99));
    running("1.0.0");
    let said = rig.bed.sh("cat /var/said");
    assert!(said.contains("in a transient systemd scope"), "{said}");

    rig.edit(config, "deadline: 30s", "deadline: 600s");
    rig.release(&Archive::simple("4.0.0").schema(4).behaviour("never-ready"));
    rig.bed.sh("systemctl start --no-block teleport-update.service");
    let successor = "for exe in /proc/[0-9]*/exe; do readlink $exe; done | grep -q 4.0.0/bin/teleport$";
    rig.bed.until(&format!("test -e {JOURNAL} && ({successor})"), SOON);
    rig.wish("1.0.0");
    rig.bed.cut();
    rig.bed.boot();
    running("1.0.0");
    rig.edit(config, "deadline: 600s", "deadline: 30s");
    rig.release(&Archive::simple("5.0.0").schema(5));
    running("5.0.0");
    rig.updater(&["verify"]).ok();
}

/// A reload of systemd (any package's installation) between the time after boot and the end of its random delay.
fn a_reload_does_not_end_the_runs(root: &str) {
    let Some(bed) = bed_with_units(root, "timer-reload") else { return };
    // The first time has passed, its delay has not.
    let timer = std::fs::read_to_string(checkout("systemd/teleport-update.timer")).unwrap();
    let first = timer.replacen("=2min", "=1ms", 1).replace("RandomizedDelaySec=2min", "RandomizedDelaySec=1000h");
    assert_ne!(first, timer);
    bed.write("/etc/systemd/system/teleport-update.timer", first, 0o644);
    let state = "systemctl show -p SubState teleport-update.timer";
    bed.sh("systemctl daemon-reload; systemctl restart teleport-update.timer");
    assert_eq!(bed.sh(state), "SubState=waiting\n");
    bed.sh("systemctl daemon-reload");
    assert_eq!(bed.sh(state), "SubState=waiting\n");
}

fn ignores_what_is_younger(root: &str) {
    let version = ROOTS.into_iter().find(|(name, _)| *name == root).unwrap().1;
    let Some(bed) = bed_with_units(root, "younger") else { return };
    let said = bed.run(&[
        "sh",
        "-c",
        "cd /usr/lib/systemd/system; for unit in teleport-update*; do \
                          systemd-analyze verify --man=no $unit || systemd-analyze verify $unit; done 2>&1",
    ]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let ignored: BTreeSet<String> = said.lines().filter_map(ignored_in).collect();
    let younger: BTreeSet<String> =
        table().into_iter().filter(|(_, (since, _))| *since > version).map(|(name, _)| name).collect();
    assert_eq!(ignored, younger, "{said}");
    // They are ignored, and the unit is loaded.
    assert!(bed.sh("systemctl show -p LoadState teleport-update.service").contains("loaded"));
}

/// The directive that systemd says in `line` to ignore, as the guide names it.
fn ignored_in(line: &str) -> Option<String> {
    if let Some((_, rest)) = line.split_once("Unknown lvalue '") {
        return rest.split('\'').next().map(str::to_owned);
    }
    if line.contains("ignoring: +") {
        return Some("ExecStopPost=+".to_owned());
    }
    line.contains("ignoring: @").then(|| "SystemCallFilter=@".to_owned())
}

/// Every directive of our units; `ExecStopPost=+` and `SystemCallFilter=@` for values younger than theirs.
fn directives() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for unit in UNITS {
        let text = std::fs::read_to_string(checkout(&format!("systemd/{unit}"))).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.split_once('=') else { continue };
            found.insert(name.to_owned());
            if value.starts_with('+') {
                found.insert(format!("{name}=+"));
            }
            if name == "SystemCallFilter" && value.contains('@') {
                found.insert(format!("{name}=@"));
            }
        }
    }
    found
}

fn guide() -> String {
    std::fs::read_to_string(checkout("docs/units.md")).unwrap()
}

/// The guide's table of directives: since which systemd, and what is lost before.
fn table() -> BTreeMap<String, (u32, String)> {
    let mut rows = BTreeMap::new();
    for line in guide().lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, since, lost] = cells[..] else { continue };
        let Ok(since) = since.parse() else { continue };
        for name in names.split(", ") {
            let name = name.trim_matches('`').to_owned();
            assert!(rows.insert(name.clone(), (since, lost.to_owned())).is_none(), "{name} twice");
        }
    }
    rows
}

/// A bed with our units and an updater that does nothing.
fn bed_with_units(root: &str, name: &str) -> Option<Bed> {
    let bed = Bed::up_on(root, name, &[])?;
    for unit in UNITS {
        bed.put(checkout(&format!("systemd/{unit}")), Path::new("/usr/lib/systemd/system").join(unit));
    }
    bed.write(BOOTSTRAP, "#!/bin/sh\n", 0o755);
    bed.sh("systemctl daemon-reload");
    Some(bed)
}
