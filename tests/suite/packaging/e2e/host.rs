//! One host, its package manager, and what it lives through.

use super::matrix::Matrix;
use crate::support::repository::{apt_repository, dnf_repository, shim};
use crate::support::*;

/// The timer of these lives: as shipped, but it fires each second.
const EACH_SECOND: &str = "[Timer]\nOnBootSec=\nOnActiveSec=\nOnUnitInactiveSec=\nOnBootSec=1s\nOnActiveSec=1s\nOnUnitInactiveSec=1s\n\
    RandomizedDelaySec=0\nAccuracySec=100ms\n";
/// A unit that is started each second is not one that systemd should give up on.
const UNLIMITED: &str = "[Unit]\nStartLimitIntervalSec=0\n";
/// For an update and its verdict on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What installs packages on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manager {
    Apt,
    Dnf,
}

/// A host in its bed.
pub(super) struct Host {
    rig: Rig,
    manager: Manager,
    kind: &'static str,
    /// Architecture as archives are named, and the agent for it.
    agent: Option<(&'static str, Vec<u8>)>,
    /// The packages 1.0.0 and 1.2.0.
    packages: [PathBuf; 2],
    shim: tempfile::TempDir,
}

impl Host {
    /// A bed of this kind of root; `None`, saying why, where this machine can host none.
    pub(super) fn up(kind: &'static str, manager: Manager) -> Option<Self> {
        let built = |version| match manager {
            Manager::Apt => package::deb(version),
            Manager::Dnf => package::rpm(version),
        };
        Self::with(kind, manager, [built("1.0.0")?, built("1.2.0")?], None)
    }

    /// The same with these packages (1.0.0 and 1.2.0), and archives of another architecture.
    pub(super) fn with(
        kind: &'static str,
        manager: Manager,
        packages: [PathBuf; 2],
        agent: Option<(&'static str, Vec<u8>)>,
    ) -> Option<Self> {
        let rig = Rig::bare(kind, "e2e")?;
        Some(Self { rig, manager, kind, agent, packages, shim: tempfile::tempdir().unwrap() })
    }

    /// From the package to the purge.
    pub(super) fn live(self) {
        let mut matrix = Matrix::of("host", self.kind, &self.rig.bed);
        matrix.cell("install", || self.install());
        matrix.cell("enable", || self.enable());
        matrix.cell("update by the timer", || self.update_by_the_timer());
        matrix.cell("broken update rolled back", || self.broken_update());
        matrix.cell("downgrade", || self.downgrade());
        if self.agent.is_none() {
            matrix.cell("reboot in mid-update", || self.interrupted("reboot"));
        }
        matrix.cell("power cut in mid-update", || self.interrupted("cut"));
        matrix.cell("rollback by hand", || self.rollback());
        matrix.cell("package upgrade", || self.upgrade_the_package());
        matrix.cell("removal", || self.remove_the_package());
        matrix.cell("purge", || self.purge());
        matrix.write();
    }

    fn archive(&self, version: &str) -> Archive {
        match &self.agent {
            None => Archive::simple(version),
            Some((arch, program)) => Archive::new(version, "oss", arch).agent(program, "healthy", 1),
        }
    }

    /// Makes `packages` all that the host's package manager knows.
    fn offer(&self, packages: &[PathBuf]) {
        match self.manager {
            Manager::Apt => apt_repository(&self.rig.bed, packages),
            Manager::Dnf => {
                let shim = shim(self.shim.path());
                dnf_repository(&self.rig.bed, &[packages, &[shim]].concat());
            }
        }
    }

    fn manage(&self, apt: &str, dnf: &str) {
        self.rig.bed.sh(&match self.manager {
            Manager::Apt => format!("DEBIAN_FRONTEND=noninteractive apt-get -y {apt} </dev/null"),
            Manager::Dnf => format!("dnf -y {dnf} </dev/null"),
        });
    }

    fn install(&self) {
        self.offer(&self.packages[..1]);
        if self.manager == Manager::Dnf {
            self.rig.bed.sh("dnf -y install bed-shim </dev/null");
        }
        self.manage("install teleport-update", "install teleport-update");
        let enabled = self.rig.bed.sh("systemctl is-enabled teleport-update.timer teleport-update-recover.service");
        assert_eq!(enabled, "enabled\nenabled\n");
    }

    fn enable(&self) {
        self.rig.release(&self.archive("2.0.0"));
        self.rig.enable(&[]).ok();
        self.rig.start_agent();
        self.rig.note("of 2.0.0");
        assert_eq!(self.running(), "2.0.0");
    }

    fn update_by_the_timer(&self) {
        self.rig.bed.write("/etc/systemd/system/teleport-update.timer.d/e2e.conf", EACH_SECOND, 0o644);
        self.rig.bed.write("/etc/systemd/system/teleport-update.service.d/e2e.conf", UNLIMITED, 0o644);
        self.rig.release(&self.archive("2.1.0"));
        self.rig.bed.sh("systemctl daemon-reload && systemctl restart teleport-update.timer");
        self.until_running("2.1.0");
        assert!(self.rig.has_note("of 2.0.0"));
    }

    fn broken_update(&self) {
        self.rig.note("of 2.1.0");
        self.rig.release(&self.archive("2.2.0").behaviour("exit-at-once"));
        self.until("refused", |status| status["refused"].to_string().contains("2.2.0"));
        self.until_running("2.1.0");
        assert!(self.rig.has_note("of 2.1.0"));
    }

    fn downgrade(&self) {
        self.rig.release(&self.archive("2.0.0"));
        self.until_running("2.0.0");
        // Its own database came back; what 2.1.0 wrote is kept with 2.1.0.
        assert!(self.rig.has_note("of 2.0.0") && !self.rig.has_note("of 2.1.0"));
        assert!(self.rig.rows_kept("2.1.0").iter().any(|row| row.ends_with("|of 2.1.0")));
    }

    /// An update that is in its switch or its health check when the host goes.
    fn interrupted(&self, how: &str) {
        let old = self.running();
        let new = if old == "2.0.0" { "2.3.0" } else { "2.4.0" };
        self.rig.release(&self.archive(new));
        self.rig.bed.until(&format!("test -e {VERSIONS}/.journal"), PATIENCE);
        match how {
            "cut" => {
                self.rig.bed.cut();
                self.rig.bed.boot();
            }
            _ => self.reboot(),
        }
        // The boot has made it one or the other; the timer goes on from there.
        let at_boot = self.rig.link();
        assert!(
            [&*old, new].iter().any(|version| at_boot == format!("{VERSIONS}/{version}/bin/teleport")),
            "{at_boot}"
        );
        self.until_running(new);
        self.rig.bed.until(&format!("test ! -e {VERSIONS}/.journal"), PATIENCE);
        self.rig.updater(&["verify"]).ok();
        assert!(self.rig.has_note("of 2.0.0"));
    }

    /// An orderly reboot; where systemd is emulated, and hangs at the end of its shutdown, a cut.
    fn reboot(&self) {
        if self.agent.is_some() {
            self.rig.bed.cut();
            self.rig.bed.boot();
        } else {
            self.rig.bed.reboot();
        }
    }

    fn rollback(&self) {
        self.rig.bed.sh("systemctl stop teleport-update.timer");
        self.rig.bed.until("test \"$(systemctl is-active teleport-update.service)\" != activating", PATIENCE);
        let before = self.rig.status()["agent_version_previous"].as_str().unwrap().to_owned();
        self.rig.updater(&["rollback"]).ok();
        assert_eq!(self.running(), before);
        self.rig.bed.sh("systemctl start teleport-update.timer");
    }

    fn upgrade_the_package(&self) {
        let pid = self.rig.pid();
        self.offer(&self.packages);
        self.manage("upgrade", "upgrade");
        let version = self.rig.bed.sh(match self.manager {
            Manager::Apt => "dpkg-query -s teleport-update | sed -n 's/^Version: //p'",
            Manager::Dnf => "rpm -q --qf '%{VERSION}\\n' teleport-update",
        });
        assert_eq!((version.as_str(), self.rig.pid()), ("1.2.0\n", pid));
        self.rig.release(&self.archive("2.5.0"));
        self.until_running("2.5.0");
    }

    fn remove_the_package(&self) {
        self.rig.bed.sh("systemctl stop teleport-update.timer");
        self.rig.bed.until("test \"$(systemctl is-active teleport-update.service)\" != activating", PATIENCE);
        let pid = self.rig.pid();
        self.manage("remove teleport-update", "remove teleport-update");
        assert_eq!((self.rig.pid(), self.rig.link()), (pid, format!("{VERSIONS}/2.5.0/bin/teleport")));
        assert!(!self.rig.path("/usr/lib/teleport-update").exists());
        self.reboot();
        self.rig.until_ready();
        // Under an emulator some of the distribution's own fail.
        assert_eq!(self.rig.bed.sh("systemctl --failed --no-legend | grep teleport || true"), "");
    }

    fn purge(&self) {
        self.manage("install teleport-update", "install teleport-update");
        self.rig.bed.sh("systemctl disable --now teleport && teleport-update uninstall");
        self.manage("purge teleport-update", "remove teleport-update");
        assert!(!self.rig.path("/usr/local/bin/teleport").is_symlink());
        assert_eq!(self.rig.path(VERSIONS).exists(), self.manager == Manager::Dnf);
        assert!(self.rig.path("/var/lib/teleport/host_uuid").exists() && self.rig.path("/etc/teleport.yaml").exists());
        assert!(self.rig.has_note("of 2.0.0"));
    }

    fn running(&self) -> String {
        self.rig.status()["agent_version_running"].as_str().unwrap_or_default().to_owned()
    }

    fn until_running(&self, version: &str) {
        self.until(version, |status| {
            status["agent_version_running"] == version && status["agent_version_installed"] == version
        });
    }

    /// Polls `status` until `holds`.
    fn until(&self, what: &str, holds: impl Fn(&serde_json::Value) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.rig.status();
            if holds(&status) {
                return;
            }
            assert!(
                Instant::now() < end,
                "not {what} on {}: {status:#}\n{}",
                self.kind,
                self.rig.bed.sh("journalctl -u teleport-update -o cat | tail -n 40")
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
