//! What people and programs read: a file a screen. Texts of `tctl autoupdate` are those of FLEET §6, word for word.

pub(crate) mod acted;
pub(crate) mod entries;
pub(crate) mod explain;
pub(crate) mod flat;
pub(crate) mod hosts;
pub(crate) mod report;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod value;
pub(crate) mod version_control;

pub(crate) use fleet_wire::words::reported;
pub(crate) use fleet_wire::{reason, rollout, text};
