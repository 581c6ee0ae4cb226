//! `updates.yaml`, `.credentials` and `teleport.yaml`: what a file may say, as validated settings (SPEC §2).
//! Nothing here decides what to do with a setting.

pub mod agent;
pub mod credentials;
pub mod go_updater;
pub mod status;
pub mod updates;

pub use agent::AgentConfig;
pub use credentials::Credentials;
pub use go_updater::GoUpdater;
pub use status::{LastResult, Outcome, Status};
pub use updates::{Spec, Updates};
