//! The rollout server's deb and rpm: built, linted, installed, configured, upgraded, removed and purged for real; what its unit
//! forbids; and the policy that comes with it.

use Format::{Deb, Rpm};

use crate::support::*;

cases_of! { "packaging/fleet.txt":
    a_server_lives_through_every_change_of_the_deb;
    a_server_lives_through_every_change_of_the_rpm;
    the_server_has_no_right_that_it_does_not_need;
    root_restores_a_backup_and_the_server_starts_again;
    the_unit_starts_under_older_and_newer_systemd;
    a_start_that_fails_is_told_and_an_upgrade_starts_nothing_that_was_stopped;
    a_purge_takes_the_servers_own_files_and_follows_no_link;
    another_root_of_dpkgs_is_all_that_its_scripts_touch;
}

/// As an operator writes it: the certificate's key is for the server's group alone.
pub(super) const CONFIGURE: &str = concat!("set -e\n", include_str!("fleet.sh"), "configure");
/// After a removal, what an operator does with the file that rpm has kept under another name.
pub(super) const PUT_BACK: &str = "cp -p /etc/teleport-fleet.yaml.rpmsave /etc/teleport-fleet.yaml 2>/dev/null || true";

/// Both formats in a bed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    Deb,
    Rpm,
}

impl Format {
    /// Of a bed with its package manager.
    pub(super) fn root(self) -> &'static str {
        if let Deb = self { "bookworm" } else { "bookworm-rpm" }
    }

    /// Installs, or upgrades to, `version`.
    pub(super) fn install(self, bed: &Bed, version: &str) {
        match self {
            Deb => install_deb(bed, &Product::Fleet.deb(version).unwrap()),
            Rpm => install_rpm(bed, &Product::Fleet.rpm(version).unwrap()),
        }
    }

    /// Removes it; what it was told stays.
    pub(super) fn remove(self, bed: &Bed) {
        bed.sh(match self {
            Deb => "dpkg --remove teleport-fleet",
            Rpm => "rpm -e --force-debian teleport-fleet",
        });
    }
}

fn program(words: &[&str]) -> Ran {
    Ran::of(&Command::new(Product::Fleet.program()).env_clear().args(words).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn two_builds_of_the_same_give_the_same_bytes() {
    let Some(first) = Product::Fleet.built("1.0.0") else { return };
    let dir = tempfile::tempdir().unwrap();
    let again = dir.path().join("elsewhere");
    Product::Fleet.build_in(dir.path(), "1.0.0", &Product::Fleet.program(), &again);
    let sums = |dir: &std::path::Path| std::fs::read_to_string(dir.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&first), sums(&again));
    assert_eq!(sums(&first).lines().count(), 2);
}

#[test]
fn the_image_is_reproducible_and_whole_and_serves_from_a_read_only_root_without_a_right() {
    let script = Command::new(checkout("tests/suite/packaging/oci.sh")).arg(Product::Fleet.program()).output().unwrap();
    let said = Ran::of(&script).ok().stdout;
    let wanted = "two builds give the same bytes\nthe layout is whole\n";
    // Another root than its own has root alone.
    let serves = "ok       the server is ready\nUid: 65532 65532 65532 65532\nCapEff: 0000000000000000\n";
    assert!(said == wanted.to_owned() + if rustix::process::geteuid().is_root() { serves } else { "" }, "{said}");
}

#[test]
fn the_distributions_checkers_find_nothing() {
    let Some(dir) = Product::Fleet.built("1.0.0") else { return };
    let lint = Command::new(checkout("packaging/lint.sh")).arg(dir).stdin(Stdio::null()).output().unwrap();
    Ran::of(&lint).ok();
}

#[test]
fn the_policy_of_the_package_is_legal_and_wise_for_every_size_of_fleet() {
    let files = ["policy.yaml", "version.yaml"].map(|name| checkout("packaging/fleet/examples").join(name));
    for hosts in ["10", "1000", "100000"] {
        let words = ["lint", "--strict", "--hosts", hosts, files[0].to_str().unwrap(), files[1].to_str().unwrap()];
        let ran = program(&words).ok();
        assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
    }
    let policy = std::fs::read_to_string(&files[0]).unwrap();
    for word in ["canary_count: 5", "max_in_flight: 10%", "soak_hours: ", "max_failed_before_halt: "] {
        assert!(policy.contains(word), "{word}");
    }
}

#[test]
fn the_manual_page_renders_without_a_warning_and_has_every_verb() {
    let page = program(&["man"]).ok().stdout;
    for word in [".TH teleport-fleet 8", ".SS \"serve\"", ".SS \"autoupdate agents start\\-update\"", "EXIT STATUS"] {
        assert!(page.contains(word), "{word}");
    }
    look::renders(&page);
}
