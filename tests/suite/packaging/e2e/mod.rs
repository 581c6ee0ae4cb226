//! A host's whole life, from the package to the purge, in each kind of bed, and that of the rollout server's package. Each step is
//! a cell of the matrix that `make e2e` prints; what is not ignored is in `make test` as well.

mod fleet;
mod host;
mod matrix;

use host::{Host, Manager};

use crate::support::*;

#[test]
fn a_life_with_apt() {
    let Some(host) = Host::up("bookworm", Manager::Apt) else { return };
    host.live();
}

#[test]
fn a_life_with_dnf() {
    let Some(host) = Host::up("bookworm-rpm", Manager::Dnf) else { return };
    host.live();
}

#[test]
#[ignore = "make e2e"]
fn a_life_with_an_older_systemd() {
    let Some(host) = Host::up("bullseye", Manager::Apt) else { return };
    host.live();
}

#[test]
#[ignore = "make e2e"]
fn a_life_with_a_newer_systemd() {
    let Some(host) = Host::up("trixie", Manager::Apt) else { return };
    host.live();
}

/// The kernel's ability to run aarch64 programs, for as long as it is asked for.
struct Emulation;

impl Emulation {
    /// `None`, saying why, where this machine cannot.
    fn on() -> Option<Self> {
        let output = Command::new(checkout("tests/beds/binfmt.sh")).arg("on").output().unwrap();
        if output.status.code() == Some(77) {
            eprintln!("skipped: {}", String::from_utf8_lossy(&output.stdout).trim());
            return None;
        }
        assert!(output.status.success(), "{output:?}");
        Some(Self)
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        Command::new(checkout("tests/beds/binfmt.sh")).arg("off").status().ok();
    }
}

/// With `E2E_ARM64_PACKAGES` (a directory with the arm64 packages 1.0.0 and 1.2.0) and `E2E_ARM64_AGENT`, from `make e2e`.
#[test]
#[ignore = "make e2e"]
fn a_life_on_arm64() {
    let Some(_emulation) = Emulation::on() else { return };
    let of = |name: &str| std::env::var_os(name).unwrap_or_else(|| panic!("{name}: see `make e2e`"));
    let packages = std::path::PathBuf::from(of("E2E_ARM64_PACKAGES"));
    let packages = ["1.0.0", "1.2.0"].map(|version| packages.join(format!("teleport-update_{version}_arm64.deb")));
    let agent = std::fs::read(of("E2E_ARM64_AGENT")).unwrap();
    let Some(host) = Host::with("bookworm-arm64", Manager::Apt, packages, Some(("arm64", agent))) else { return };
    host.live();
}
