//! A host's whole life, from the package to the purge, in each kind of bed. Each step is a cell of the matrix that
//! `make e2e` prints; the beds of the first test and the second are in `make test` as well.
#![allow(clippy::disallowed_methods, reason = "the test is outside the host it tests")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are not themselves tests")]

mod host;
#[path = "../support/mod.rs"]
mod support;

use host::{Host, Manager};

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
