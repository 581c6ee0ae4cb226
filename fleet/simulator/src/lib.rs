//! Questions the engine of `teleport-fleet` with a virtual clock (FLEET §6): `simulate --script`, and made-up hosts that
//! ask, obey and report.
//!
//! The engine is the server's own. Nothing here reads a clock or a file: text in, text out.

mod crowd;
pub mod forecast;
mod line;
mod script;
mod script_hosts;

pub use script::{Played, run};
