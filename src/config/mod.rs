//! `updates.yaml`, `.credentials`, `.fleet-host` and `teleport.yaml`: what a file may say, as validated settings (SPEC §2).
//! Nothing here decides what to do with a setting.

pub(crate) mod agent;
pub(crate) mod credentials;
pub(crate) mod fleet_host;
pub(crate) mod go_updater;
mod record;
mod spec;
pub(crate) mod status;
pub(crate) mod updates;

pub use agent::AgentConfig;
pub(crate) use credentials::Credentials;
pub use go_updater::GoUpdater;
pub use spec::Spec;
pub(crate) use status::Status;
pub use status::{LastResult, Outcome};
pub use updates::Updates;
