//! The dashboard in Debian's Chromium, through WebDriver. Where Chromium is absent each test says that it is skipped.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the tests are outside the server that they test")]

mod directives;
mod driver;
#[allow(dead_code, reason = "the suite beside this one uses the rest")]
#[path = "../suite/reports/host.rs"]
mod host;
mod keyboard;
#[cfg(feature = "oidc")]
mod login;
mod pages;
mod pictures;
mod states;
#[allow(dead_code, unused_imports, reason = "the suite beside this one uses the rest")]
#[path = "../suite/support/mod.rs"]
mod support;
