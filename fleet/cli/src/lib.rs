//! The command line of teleport-fleet: its words, its texts, and how it asks the server.
//!
//! The binary parses [`FleetCli`], carries out `serve`, `lint`, `simulate`, `restore` and `doctor` itself, and hands every other
//! verb to [`run()`].

pub mod args;
mod client;
mod console;
mod failure;
mod file;
mod run;
mod show;

pub use args::{FleetCli, GlobalArgs, Verb};
pub use client::{ApiClient, trusting};
pub use console::{Console, Editor};
pub use failure::Failure;
pub use file::{find_entry, open_to_all, read_file, read_open, read_text};
pub use run::{asked, run, run_on};
pub use show::value::document;
