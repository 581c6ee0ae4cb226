//! What people and programs read: a file a screen. Texts of `tctl autoupdate` are those of ROLLOUTS.md §4, word for word.

pub(crate) mod acted;
pub(crate) mod advice;
pub(crate) mod entries;
pub(crate) mod explain;
pub(crate) mod flat;
pub(crate) mod holds;
pub(crate) mod hosts;
pub(crate) mod reason;
pub(crate) mod report;
pub(crate) mod rollout;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod value;
pub(crate) mod written;
