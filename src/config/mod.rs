//! `updates.yaml`, `.credentials` and `teleport.yaml`: what a file may say, as validated settings (SPEC §2).
//!
//! The YAML tree in [`document`] keeps what it does not understand; [`view`] turns parts of it into typed values and
//! names file and line where it cannot. Nothing here decides what to do with a setting.

pub mod agent;
pub mod credentials;
pub mod document;
mod emit;
pub mod go_updater;
mod parse;
pub mod scalar;
pub mod status;
pub mod updates;
pub mod view;

pub use agent::AgentConfig;
pub use credentials::Credentials;
pub use document::{Fault, Node, Value};
pub use go_updater::GoUpdater;
pub use status::{Attempt, FailedRows, LastResult, Outcome, Refused, Status, Watch};
pub use updates::{Health, Network, ServiceCommands, Spec, Updates};
pub use view::View;
