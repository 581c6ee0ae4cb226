//! The Teleport agent updater of RFD 0169: installs, updates, downgrades and rolls back the agent on Linux servers.
//!
//! A program, not a library: what `main` needs is public, and what the oracles of tests and fuzzing judge ([`testing`]).
//! docs/architecture.md says what each room is for, and which may use which.
//!
//! `SPEC §n` in comments is section n of `docs/specification.md`.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make what a host may come upon, and nobody keeps it")
)]

pub mod cli;
mod command;
mod config;
mod context;
mod database;
mod execute;
mod host;
mod inspect;
#[cfg(test)]
#[allow(clippy::too_many_lines, reason = "an account of the specification, in its order")]
mod model;
mod plan;
mod release;
mod report;
mod run;
mod service;
mod store;
#[doc(hidden)]
pub mod testing;

pub use command::run;
pub use context::Context;
pub use host::{Host, signal};
pub use report::Report;
