//! `enable` on hosts whose agent came with the package `teleport` or `teleport-ent`, with the real apt and dnf: nothing of
//! the agent is lost to them, then or later.

pub(crate) mod toys;
mod trouble;
mod upgrader;

use Manager::{Apt, Dnf};
use Unit::{DisabledRunning, EnabledRunning, EnabledStopped, Masked};
use toys::{Layout, Toy};

use crate::support::*;

/// What the operator wrote, in a form that no tool would.
const CONFIG: &str = "# mine\nteleport:\n  data_dir: /var/lib/teleport\n  nodename: \"a b\"   \n";
const OURS: &str = "/var/lib/teleport/versions/1.0.0/bin/teleport";
const SOON: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Apt,
    Dnf,
}

impl Manager {
    fn install(self, package: &str) -> String {
        match self {
            Apt => format!("apt-get install -y -q {package}"),
            Dnf => format!("dnf -y -q install {package}"),
        }
    }

    /// Everything an operator, or a timer, may say later.
    fn later(self, package: &str) -> Vec<String> {
        let lines: &[&str] = match self {
            Apt => &[
                "remove -y -q PACKAGE",
                "purge -y -q PACKAGE",
                "autoremove -y -q --purge",
                "upgrade -y -q",
                "full-upgrade -y -q",
            ],
            Dnf => &["-y -q remove PACKAGE", "-y -q upgrade", "-y -q distro-sync", "-y -q autoremove"],
        };
        let tool = if self == Apt { "apt-get" } else { "dnf" };
        lines.iter().map(|line| format!("{tool} {}", line.replace("PACKAGE", package))).collect()
    }

    /// dpkg's word for the package's state; nothing if it knows none.
    fn state(self, rig: &Rig, package: &str) -> String {
        rig.bed.sh(&format!("dpkg-query -W -f '${{db:Status-Status}}' {package} 2>/dev/null || true"))
    }

    fn is_gone(self, rig: &Rig, package: &str) -> bool {
        match self {
            Apt => self.state(rig, package).is_empty(),
            Dnf => !rig.bed.run(&["rpm", "-q", package]).status.success(),
        }
    }
}

/// A host with `toy` installed from a repository that also has `newer`, the operator's configuration and data in place.
fn host(name: &str, manager: Manager, toy: &Toy, newer: &[Toy]) -> Option<Rig> {
    if manager == Dnf && Command::new("rpmbuild").arg("--version").output().is_err() {
        eprintln!("skipped: no rpmbuild");
        return None;
    }
    let rig = match manager {
        Apt => Rig::up(name)?,
        Dnf => Rig::up_on("bookworm-rpm", name, &[])?,
    };
    let dir = tempfile::tempdir().unwrap();
    let toys = || std::iter::once(toy).chain(newer);
    match manager {
        Apt => toys::apt_repository(&rig.bed, &toys().map(|toy| toy.deb(dir.path())).collect::<Vec<_>>()),
        Dnf => {
            let mut rpms: Vec<PathBuf> = toys().map(|toy| toy.rpm(dir.path())).collect();
            rpms.push(toys::shim(dir.path()));
            toys::dnf_repository(&rig.bed, &rpms);
        }
    }
    std::fs::remove_file(rig.path("/etc/teleport.yaml")).unwrap();
    let exact = if manager == Apt { '=' } else { '-' };
    rig.bed.sh(&manager.install(&format!("{}{exact}{}", toy.name, toy.version)));
    rig.bed.write("/etc/teleport.yaml", CONFIG, 0o640);
    rig.bed.sh("chgrp adm /etc/teleport.yaml");
    rig.bed.write("/var/lib/teleport/host_uuid", "11111111-2222-3333-4444-555555555555", 0o600);
    rig.bed.write("/var/lib/teleport/license.pem", [0, 255, 10, 13], 0o400);
    rig.bed.write("/var/lib/teleport/log/events/a b", "x", 0o600);
    rig.release(&Archive::simple("1.0.0"));
    Some(rig)
}

/// Configuration and data, as bytes, modes, owners and times.
fn belongings(rig: &Rig) -> Vec<(String, Vec<u8>, u32, u32, u32, i64)> {
    [
        "/etc/teleport.yaml",
        "/var/lib/teleport/host_uuid",
        "/var/lib/teleport/license.pem",
        "/var/lib/teleport/log/events/a b",
    ]
    .into_iter()
    .map(|path| {
        let meta = std::fs::metadata(rig.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let bytes = std::fs::read(rig.path(path)).unwrap();
        // The configuration can be a copy that was put back.
        let time = if path == "/etc/teleport.yaml" { 0 } else { meta.mtime() };
        (path.to_owned(), bytes, meta.mode(), meta.uid(), meta.gid(), time)
    })
    .collect()
}

fn exe(rig: &Rig) -> String {
    rig.bed.sh("readlink /proc/$(systemctl show -p MainPID --value teleport)/exe").trim().to_owned()
}

fn word(rig: &Rig, verb: &str) -> String {
    rig.bed.sh(&format!("systemctl {verb} teleport || true")).trim().to_owned()
}

/// By its full path: until then a `teleport-update` of the package's comes first in PATH.
fn enable(rig: &Rig) -> Ran {
    let (addr, base) = (rig.cluster.addr(), rig.cluster.base_url());
    let program = "/usr/lib/teleport-update/teleport-update";
    Ran::of(&rig.bed.run(&[program, "enable", "--proxy", &addr, "--base-url", &base, "--ca-file", "/root/ca.pem"]))
}

/// How the operator has set the agent's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    EnabledRunning,
    EnabledStopped,
    DisabledRunning,
    Masked,
}

impl Unit {
    fn set(self, rig: &Rig) {
        match self {
            EnabledRunning => rig.start_agent(),
            EnabledStopped => drop(rig.bed.sh("systemctl enable teleport")),
            DisabledRunning => {
                rig.bed.sh("systemctl start teleport");
                rig.until_ready();
            }
            Masked => drop(rig.bed.sh("systemctl mask teleport")),
        }
    }

    fn runs(self) -> bool {
        matches!(self, EnabledRunning | DisabledRunning)
    }
}

/// The whole story for one kind of host.
fn lives_on(name: &str, manager: Manager, toy: &Toy, unit: Unit) {
    let newer = Toy { version: "0.9.9", ..toy.clone() };
    let Some(rig) = host(name, manager, toy, &[newer]) else { return };
    unit.set(&rig);
    let state = |rig: &Rig| (word(rig, "is-enabled"), word(rig, "is-active"));
    let (belongs, was) = (belongings(&rig), state(&rig));
    enable(&rig).ok();
    assert!(manager.is_gone(&rig, toy.name));
    if unit.runs() {
        rig.until_ready();
        assert_eq!(exe(&rig), OURS);
    }
    assert_eq!(state(&rig), was);
    let pid = rig.bed.sh("systemctl show -p MainPID teleport");
    for line in manager.later(toy.name) {
        rig.bed.exec(&["sh", "-c", &line]);
        assert_eq!(belongings(&rig), belongs, "{line}");
        assert_eq!(rig.bed.sh("systemctl show -p MainPID teleport"), pid, "{line}");
    }
    assert!(manager.is_gone(&rig, toy.name));
    assert_eq!(state(&rig), was);
    rig.updater(&["verify"]).ok();
    // Nothing of the package comes first in PATH, and none of its files is left behind.
    let left =
        rig.bed.sh("ls -d /root/go-updater-ran /opt/teleport/system 2>/dev/null; find /usr/local/bin -xtype l -ls");
    assert_eq!(left, "");
    assert!(!rig.path("/etc/teleport.yaml.rpmsave").exists());
    rig.bed.reboot();
    assert_eq!(word(&rig, "is-enabled"), was.0);
    if unit == EnabledRunning {
        rig.until_ready();
        assert_eq!(exe(&rig), OURS);
    }
}

const OLD: &str = "0.9.0";

tests_of! { lives_on:
    apt_enabled_and_running("aptplain", Apt, &Toy::new("teleport", OLD, Layout::Plain), EnabledRunning);
    apt_enabled_and_stopped_with_the_configuration_as_a_conffile(
        "aptconf", Apt, &Toy::new("teleport-ent", OLD, Layout::WithConfig), EnabledStopped);
    apt_disabled_and_running_with_the_files_in_opt(
        "aptopt", Apt, &Toy::new("teleport-ent", OLD, Layout::Linked), DisabledRunning);
    apt_enabled_and_running_with_the_files_in_opt(
        "aptoptrun", Apt, &Toy::new("teleport", OLD, Layout::Linked), EnabledRunning);
    apt_masked("aptmask", Apt, &Toy::new("teleport", OLD, Layout::Plain), Masked);
    dnf_enabled_and_running("dnfplain", Dnf, &Toy::new("teleport-ent", OLD, Layout::Plain), EnabledRunning);
    dnf_enabled_and_stopped_with_the_files_in_opt(
        "dnfopt", Dnf, &Toy::new("teleport", OLD, Layout::Linked), EnabledStopped);
    dnf_disabled_and_running_with_the_configuration_in_the_package(
        "dnfconf", Dnf, &Toy::new("teleport", OLD, Layout::WithConfig), DisabledRunning);
    dnf_masked("dnfmask", Dnf, &Toy::new("teleport", OLD, Layout::Plain), Masked);
}

/// systemd would neither reload nor start such an agent again, whichever version it is.
#[test]
fn an_agent_that_was_masked_while_it_runs_is_left_alone_until_it_is_not() {
    let Some(rig) = host("maskrun", Apt, &Toy::new("teleport", OLD, Layout::Plain), &[]) else { return };
    EnabledRunning.set(&rig);
    rig.bed.sh("systemctl mask teleport");
    let before = (tree(&rig.path("/usr/local/bin")), rig.bed.sh("systemctl show -p MainPID teleport"));
    enable(&rig).fails(1, "teleport.service is masked while the agent runs");
    assert_eq!((tree(&rig.path("/usr/local/bin")), rig.bed.sh("systemctl show -p MainPID teleport")), before);
    assert!(!Apt.is_gone(&rig, "teleport") && !rig.path("/var/lib/teleport/versions/.journal").exists());
    rig.bed.sh("systemctl unmask teleport");
    enable(&rig).ok();
    rig.until_ready();
    assert_eq!(exe(&rig), OURS);
    assert!(Apt.is_gone(&rig, "teleport"));
}
