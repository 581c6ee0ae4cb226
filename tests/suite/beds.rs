//! The beds themselves, and our units in one: ordering, time-outs and exit statuses are systemd's to grant.
//!
//! The updater here is a script that writes down how it was called; what the real one does is tested elsewhere.

use crate::support::*;

const BOOTSTRAP: &str = "/usr/lib/teleport-update/teleport-update";
const JOURNAL: &str = "/var/lib/teleport/versions/.journal";
const UNITS: [&str; 3] = ["teleport-update.service", "teleport-update.timer", "teleport-update-recover.service"];

/// Says how it was called, then does what `/etc/behaviour` says for that command.
const UPDATER: &str = r#"#!/bin/sh
echo "$*" >>/var/calls
behaviour=$(sed -n "s/^$1: //p" /etc/behaviour 2>/dev/null)
eval "$behaviour"
"#;

/// An agent that writes down when it was started.
const AGENT: &str = "[Service]\nExecStart=/bin/sh -c 'echo agent >>/var/calls; exec sleep infinity'\n\
                     [Install]\nWantedBy=multi-user.target\n";

#[test]
fn a_command_in_a_bed_gives_back_its_output_and_status() {
    let Some(bed) = Bed::up("status") else { return };
    let run = bed.run(&["sh", "-c", "cat /proc/1/comm; exit 9"]);
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(9), b"systemd\n".as_slice()));
    assert_eq!(bed.exec(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(bed.sh("hostname").trim(), bed.name());
}

#[test]
fn a_bed_cannot_set_the_clock_of_the_host() {
    let Some(bed) = Bed::up("clock") else { return };
    for output in
        [bed.run(&["grep", "CapBnd", "/proc/self/status"]), bed.exec(&["grep", "CapBnd", "/proc/self/status"])]
    {
        let line = String::from_utf8(output.stdout).expect("ascii");
        let bits = u64::from_str_radix(line.split_whitespace().last().expect("a number"), 16).expect("hex");
        const CAP_SYS_TIME: u32 = 25;
        assert_eq!(bits >> CAP_SYS_TIME & 1, 0, "{line}");
    }
}

#[test]
fn a_cut_bed_boots_again_from_the_same_disk() {
    let Some(bed) = Bed::up("cut") else { return };
    bed.write("/var/mark", "kept", 0o644);
    let before = bed.sh("cat /proc/sys/kernel/random/boot_id /proc/1/stat");
    bed.cut();
    assert!(!bed.exec(&["true"]).status.success(), "still running");
    bed.boot();
    assert_eq!(bed.sh("cat /var/mark"), "kept");
    assert_ne!(bed.sh("cat /proc/sys/kernel/random/boot_id /proc/1/stat"), before);
    bed.halt();
    bed.boot();
    bed.reboot();
    assert_eq!(bed.sh("cat /var/mark"), "kept");
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let Some(bed) = bed_with_units("verify") else { return };
    let mut command = vec!["systemd-analyze", "verify", "--man=no"];
    command.extend(UNITS);
    let verify = bed.run(&command);
    assert!(verify.status.success() && verify.stderr.is_empty(), "{}", String::from_utf8_lossy(&verify.stderr));
}

#[test]
fn an_interrupted_update_is_recovered_at_boot_before_the_agent_starts() {
    let Some(bed) = bed_with_units("recover") else { return };
    bed.write("/etc/behaviour", "recover: sleep 0.5; echo recovered >>/var/calls\n", 0o644);
    bed.write(JOURNAL, "", 0o600);
    bed.cut();
    bed.boot();
    assert_eq!(bed.sh("cat /var/calls"), "recover --boot\nrecovered\nagent\n");
}

#[test]
fn without_a_journal_nothing_is_recovered_at_boot() {
    let Some(bed) = bed_with_units("no-journal") else { return };
    bed.reboot();
    assert_eq!(bed.sh("cat /var/calls"), "agent\n");
}

#[test]
fn the_agent_starts_after_a_recovery_that_fails() {
    let Some(bed) = bed_with_units("failing") else { return };
    bed.write("/etc/behaviour", "recover: kill -ABRT $$\n", 0o644);
    bed.write(JOURNAL, "", 0o600);
    bed.reboot();
    assert_eq!(bed.sh("cat /var/calls"), "recover --boot\nagent\n");
}

#[test]
fn the_agent_starts_after_a_recovery_that_hangs() {
    let Some(bed) = bed_with_units("hanging") else { return };
    // The shape, not the length: 91 s of waiting would teach nothing more.
    bed.write(
        "/etc/systemd/system/teleport-update-recover.service.d/short.conf",
        "[Service]\nTimeoutStartSec=1s\nTimeoutStopSec=1s\n",
        0o644,
    );
    bed.write("/etc/behaviour", "recover: trap '' TERM; while :; do sleep 1; done\n", 0o644);
    bed.write(JOURNAL, "", 0o600);
    bed.reboot();
    assert_eq!(bed.sh("cat /var/calls"), "recover --boot\nagent\n");
}

#[test]
fn a_killed_run_is_followed_by_a_recovery() {
    let Some(bed) = bed_with_units("killed") else { return };
    bed.write("/etc/behaviour", "update: kill -KILL $$\n", 0o644);
    assert!(!bed.run(&["systemctl", "start", "teleport-update"]).status.success());
    // Twice: confined, and free of it.
    assert_eq!(bed.sh("cat /var/calls"), "update\nrecover\nrecover\n");
}

#[test]
fn a_stopped_run_is_asked_to_end_before_it_is_recovered() {
    let Some(bed) = bed_with_units("stopped") else { return };
    let behaviour = "update: trap 'echo safe point >>/var/calls; exit 1' TERM; while :; do sleep 0.05; done\n";
    bed.write("/etc/behaviour", behaviour, 0o644);
    bed.sh("systemctl start --no-block teleport-update");
    bed.until("test -s /var/calls", Duration::from_secs(10));
    bed.sh("systemctl stop teleport-update");
    assert_eq!(bed.sh("cat /var/calls"), "update\nsafe point\nrecover\nrecover\n");
}

#[test]
fn a_lock_held_by_another_run_is_no_failure_of_the_unit() {
    let Some(bed) = bed_with_units("locked") else { return };
    bed.write("/etc/behaviour", "update: exit 75\n", 0o644);
    bed.sh("systemctl start teleport-update");
    bed.write("/etc/behaviour", "update: exit 1\n", 0o644);
    assert!(!bed.run(&["systemctl", "start", "teleport-update"]).status.success());
}

#[test]
fn the_timer_runs_again_after_every_run_also_a_failed_one() {
    let Some(bed) = bed_with_units("timer") else { return };
    // Minutes become tenths of seconds; the kinds of timer stay the unit's own.
    let unit = std::fs::read_to_string(beds::checkout("systemd/teleport-update.timer"))
        .expect("the timer")
        .replace("=2min", "=100ms")
        .replace("=10min", "=100ms")
        .replace("=30s", "=1ms");
    bed.write("/etc/systemd/system/teleport-update.timer", unit, 0o644);
    bed.write("/etc/behaviour", "update: exit 1\n", 0o644);
    bed.sh("systemctl daemon-reload && systemctl enable --now teleport-update.timer");
    bed.until("test $(grep -c update /var/calls) -ge 3", Duration::from_secs(20));
}

/// A bed with our units where the packages put them, the boot unit enabled, and an enabled agent that is not yet started.
fn bed_with_units(name: &str) -> Option<Bed> {
    let bed = Bed::up(name)?;
    for unit in UNITS {
        bed.put(beds::checkout(&format!("systemd/{unit}")), format!("/lib/systemd/system/{unit}"));
    }
    bed.write(BOOTSTRAP, UPDATER, 0o755);
    bed.write("/etc/systemd/system/teleport.service", AGENT, 0o644);
    bed.sh("systemctl daemon-reload && systemctl -q enable teleport.service teleport-update-recover.service");
    Some(bed)
}
