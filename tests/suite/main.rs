//! Black-box tests: the real binary, on real files, against a cluster on loopback, in images, cells and beds.
//! They are one program: each further one would be linked with SQLite, TLS and the updater once more.
#![allow(clippy::disallowed_methods, reason = "the tests are outside the host that they test")]
#![allow(clippy::too_many_lines, reason = "a life of a host is told in one go")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are not themselves tests")]

/// A test for each row: its name, and what `$check` is called with.
macro_rules! tests_of {
    ($check:path: $($name:ident($($with:expr),*);)*) => { $(#[test] fn $name() { $check($($with),*); })* };
}

/// A test for each case of a transcript, of the same name, and one that no case is without its test.
macro_rules! cases_of {
    ($file:literal: $($name:ident;)*) => {
        $(#[test] fn $name() { $crate::support::transcript::play_case($file, stringify!($name)); })*
        #[test] fn every_case_has_its_test() { $crate::support::transcript::have_all($file, &[$(stringify!($name)),*]); }
    };
}

mod agent;
mod beds;
mod circles;
mod command;
mod crash;
mod docs;
mod download;
mod fleet;
mod images;
mod packaging;
mod rooms;
mod sources;
mod support;
