//! What in a version's directory has a name that others know (SPEC §4, layout).

/// The agent's name, in a version and as a link.
pub(crate) const AGENT: &str = "teleport";
/// The agent in a version.
pub(crate) const AGENT_FILE: &str = "bin/teleport";
/// This program's name, in a version and as a link.
pub(crate) const UPDATER: &str = "teleport-update";
/// The name that RFD 0169 has for it.
pub(crate) const UPDATER_OF_THE_RFD: &str = "teleport-updater";
/// Names under which an archive may carry an updater.
pub(crate) const UPDATERS: [&str; 2] = [UPDATER, UPDATER_OF_THE_RFD];
/// The agent's unit in a version.
pub(crate) const UNIT: &str = "etc/systemd/teleport.service";
