//! The command line of teleport-fleet: its words, its texts, and how it asks the server.
//!
//! The binary parses [`Cli`], carries out `serve`, `lint`, `simulate`, `restore` and `doctor` itself, and hands every other
//! verb to [`run()`].

pub mod args;
mod client;
mod console;
mod failure;
mod run;
mod show;

pub use args::{Cli, Global, Verb};
pub use client::Client;
pub use console::{Console, Editor};
pub use failure::Failure;
pub use run::{asked, run, run_on};
