//! Crash suites: each flow of the updater is cut short (killed, failed, or on a disk that loses power) at every place
//! where that makes a difference, and what the next run or boot makes of it is checked against SPEC §8.
//!
//! A [`Flow`] is one command on a prepared image, with the two states that may be found afterwards. [`Flow::check`]
//! never panics: a bed counts violations, a test turns them into failures.

pub mod database;
pub mod fleet;
pub mod flow;
pub mod flows;
pub mod host;
pub mod injector;
pub mod live;
pub mod power;
mod ptrace;
pub mod random;
pub mod release;
pub mod sources;
pub mod state;
pub mod suite;
pub mod suites;
pub mod syscalls;
pub mod tree;

pub use flow::{Flow, Found};
pub use flows::{NAMES, flow};
pub use host::{Host, Updater, copy};
pub use random::Random;
pub use state::State;
