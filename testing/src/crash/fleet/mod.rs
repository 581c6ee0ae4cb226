//! The rollout server is cut short, or its disk fails, at each system call that changes something or answers while a decision
//! is made: afterwards the decision is there whole or not at all, the same request makes it, and it acts once (FLEET §7).
//!
//! A [`Decision`] is one request on prepared data, with the two views that a server may show afterwards.

mod decision;
mod decisions;
mod host;
pub(crate) mod http;
mod point;
mod server;
pub mod suite;
mod view;

pub use decision::{Decision, Ready};
pub use decisions::{NAMES, decision};
pub use point::{Fault, faults, kills, try_at};
pub use server::Server;
