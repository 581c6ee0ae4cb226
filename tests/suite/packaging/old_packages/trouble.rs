//! Package managers at work, packages in a sorry state, packages that others need.

use super::toys::{Layout, Toy};
use super::{Apt, Dnf, EnabledRunning, Manager, OLD, OURS, SOON, belongings, enable, exe, host};
use crate::support::*;

fn plain() -> Toy {
    Toy::new("teleport", OLD, Layout::Plain)
}

/// Starts `enable` in the unit `enabling`; its words are in the journal.
fn enable_in_background(rig: &Rig) {
    let (addr, base) = (rig.cluster.addr(), rig.cluster.base_url());
    rig.updater_in_background("enabling", &format!("enable --proxy {addr} --base-url {base} --ca-file /root/ca.pem"));
}

fn ended_well(rig: &Rig, unit: &str) {
    rig.until_over(unit);
    let status = rig.bed.sh(&format!("systemctl show -p ExecMainStatus --value {unit}"));
    assert_eq!(status.trim(), "0", "{}", rig.bed.sh(&format!("journalctl -o cat -u {unit}")));
}

/// Another package is being installed, for as long as the test likes.
fn at_work(name: &str, manager: Manager) {
    let slow = Toy {
        before: "touch /root/slow-started\nwhile [ ! -e /root/go ]; do sleep 0.1; done\n",
        ..Toy::new("slow", "1", Layout::Empty)
    };
    let Some(rig) = host(name, manager, &plain(), &[slow]) else { return };
    EnabledRunning.set(&rig);
    let belongs = belongings(&rig);
    rig.bed.sh(&format!("systemd-run --quiet --unit=installing -p RemainAfterExit=yes {}", manager.install("slow")));
    rig.bed.until("test -e /root/slow-started", SOON);
    enable_in_background(&rig);
    rig.bed.until("journalctl -o cat -u enabling | grep -q 'waiting for another package manager, at most'", SOON);
    assert!(!manager.is_gone(&rig, "teleport"));
    // The agent does not wait for it.
    assert_eq!(exe(&rig), OURS);
    rig.bed.sh("touch /root/go");
    ended_well(&rig, "installing");
    ended_well(&rig, "enabling");
    assert!(manager.is_gone(&rig, "teleport") && !manager.is_gone(&rig, "slow"));
    assert_eq!(belongings(&rig), belongs);
    rig.until_ready();
    assert_eq!(exe(&rig), OURS);
}

tests_of! { at_work:
    a_real_apt_at_work_is_waited_for("aptwork", Apt);
    a_real_dnf_at_work_is_waited_for("dnfwork", Dnf);
}

/// yum claims a host for all of its run, long before it locks rpm's database. A pid that is left is nobody's claim.
#[test]
fn a_yum_that_claims_the_host_is_waited_for() {
    let Some(rig) = host("yumpid", Dnf, &plain(), &[]) else { return };
    EnabledRunning.set(&rig);
    rig.bed.sh("cp /bin/sleep /root/yum; systemd-run --quiet --unit=yum /root/yum 1000");
    rig.bed.sh("systemctl show -p MainPID --value yum >/run/yum.pid");
    enable_in_background(&rig);
    let waits = "at most .* s: /run/yum.pid says that process .*/root/yum";
    rig.bed.until(&format!("journalctl -o cat -u enabling | grep -q '{waits}'"), SOON);
    assert!(!Dnf.is_gone(&rig, "teleport"));
    rig.bed.sh("systemctl stop yum");
    ended_well(&rig, "enabling");
    assert!(Dnf.is_gone(&rig, "teleport"));
}

/// Killed while it waits, the removal is made up for by the next `enable`.
#[test]
fn an_enable_that_is_killed_while_it_waits_for_dnf_is_taken_up_by_the_next() {
    let slow = Toy {
        before: "touch /root/slow-started\nwhile [ ! -e /root/go ]; do sleep 0.1; done\n",
        ..Toy::new("slow", "1", Layout::Empty)
    };
    let Some(rig) = host("dnfkill", Dnf, &plain(), &[slow]) else { return };
    EnabledRunning.set(&rig);
    let belongs = belongings(&rig);
    rig.bed.sh(&format!("systemd-run --quiet --unit=installing {}", Dnf.install("slow")));
    rig.bed.until("test -e /root/slow-started", SOON);
    enable_in_background(&rig);
    rig.bed.until("journalctl -o cat -u enabling | grep -q 'waiting for another package manager, at most'", SOON);
    rig.bed.sh("systemctl kill -s KILL enabling");
    rig.until_over("enabling");
    rig.bed.sh("touch /root/go");
    rig.bed.until("rpm -q slow", SOON);
    enable(&rig).ok();
    assert!(Dnf.is_gone(&rig, "teleport"));
    assert_eq!(belongings(&rig), belongs);
    rig.until_ready();
    assert_eq!(exe(&rig), OURS);
}

/// An apt host with a running agent and the package brought into another state by `line`.
fn in_state(name: &str, line: &str, is: &str) {
    let newer = Toy { version: "0.9.9", after: "echo 'not today' >&2; exit 1\n", ..plain() };
    let Some(rig) = host(name, Apt, &plain(), &[newer]) else { return };
    EnabledRunning.set(&rig);
    let belongs = belongings(&rig);
    rig.bed.run(&["sh", "-c", line]);
    assert_eq!(rig.bed.sh("dpkg -s teleport | sed -n 's/^Status: //p'").trim(), is);
    enable(&rig).ok();
    assert!(Apt.is_gone(&rig, "teleport"));
    assert_eq!(belongings(&rig), belongs);
    rig.until_ready();
    assert_eq!(exe(&rig), OURS);
    assert_eq!(rig.bed.sh("dpkg --audit"), "");
    rig.bed.sh("apt-get check");
    rig.updater(&["verify"]).ok();
}

tests_of! { in_state:
    a_package_whose_configuration_failed_is_removed(
        "halfconf", "apt-get install -y teleport", "install ok half-configured");
    a_package_that_was_only_unpacked_is_removed(
        "unpacked", "dpkg --unpack /srv/apt/teleport_0.9.9_all.deb", "install ok unpacked");
    a_package_that_apt_holds_is_removed("held", "apt-mark hold teleport", "hold ok installed");
    a_package_that_dpkg_wants_installed_again_first_is_removed(
        "reinst", &status("install reinstreq half-installed"), "install reinstreq half-installed");
    a_package_that_waits_for_a_trigger_is_removed(
        "triggers", &status("install ok triggers-awaited\\nTriggers-Awaited: libc-bin"), "install ok triggers-awaited");
}

/// The line that makes dpkg take the package's state for `is`.
fn status(is: &str) -> String {
    format!("sed -i '/^Package: teleport$/,/^$/s/^Status: .*/Status: {is}/' /var/lib/dpkg/status")
}

/// Its agent ran no more, so it does not run then.
#[test]
fn a_package_that_was_removed_and_not_purged_can_no_longer_take_the_data_with_it() {
    let Some(rig) = host("debconf", Apt, &plain(), &[]) else { return };
    EnabledRunning.set(&rig);
    let belongs = belongings(&rig);
    rig.bed.sh("dpkg -r teleport");
    enable(&rig).ok();
    assert!(Apt.is_gone(&rig, "teleport"));
    assert_eq!((belongings(&rig), &rig.status()["agent_running"]), (belongs, &json!(false)));
}

#[test]
fn a_held_package_whose_script_failed_and_one_that_came_back_go_with_the_next_enable() {
    let Some(rig) = host("debhalf", Apt, &plain(), &[]) else { return };
    EnabledRunning.set(&rig);
    let fails = "[ -e /root/go ] || { echo not yet >\\&2; exit 1; }";
    rig.bed.sh(&format!(
        "apt-mark hold teleport; sed -i '2s/^/{}\\n/' /var/lib/dpkg/info/teleport.prerm",
        fails.replace('/', "\\/")
    ));
    enable(&rig).fails(1, "not yet");
    rig.cluster.forget_requests();
    for line in ["touch /root/go", "apt-get install -y teleport=0.9.0"] {
        rig.until_ready();
        assert_eq!(exe(&rig), OURS);
        rig.bed.sh(line);
        assert!(!Apt.is_gone(&rig, "teleport"));
        enable(&rig).ok();
        assert!(Apt.is_gone(&rig, "teleport"));
    }
    rig.until_ready();
    assert_eq!(exe(&rig), OURS);
    assert!(rig.cluster.requests_to("/cdn/").is_empty());
    rig.updater(&["verify"]).ok();
}

/// Refused, and nothing of the two packages is touched; when the other one has gone, the next `enable` goes on.
fn needed(name: &str, manager: Manager) {
    let needy =
        Toy { control: "Depends: teleport\n", head: "Requires: teleport", ..Toy::new("needy", "1", Layout::Empty) };
    let Some(rig) = host(name, manager, &plain(), &[needy]) else { return };
    EnabledRunning.set(&rig);
    rig.bed.sh(&manager.install("needy"));
    let belongs = belongings(&rig);
    enable(&rig).fails(1, "needy");
    assert!(!manager.is_gone(&rig, "teleport") && !manager.is_gone(&rig, "needy"));
    let status = rig.status();
    assert_eq!(
        (&status["last_result"]["error_code"], &status["agent_updates_enabled"]),
        (&json!("package_failed"), &json!(true))
    );
    assert_eq!(exe(&rig), OURS);
    let pid = property(&rig, "MainPID");
    rig.bed.sh(match manager {
        Apt => "apt-get purge -y needy",
        Dnf => "dnf -y remove --noautoremove needy",
    });
    enable(&rig).ok();
    assert!(manager.is_gone(&rig, "teleport"));
    assert_eq!(belongings(&rig), belongs);
    rig.until_ready();
    assert_eq!(exe(&rig), OURS);
    // Its own scripts stop the agent; it was started again.
    assert_ne!(property(&rig, "MainPID"), pid);
}

tests_of! { needed:
    a_deb_that_another_needs_stays("aptneeds", Apt);
    an_rpm_that_another_needs_stays("dnfneeds", Dnf);
}
