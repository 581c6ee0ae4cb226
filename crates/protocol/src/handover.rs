//! The protocol between updaters (RFD 0169, an updater in the archive).

/// What `teleport-update version --format json` must declare for a command to be handed to that updater: same command line,
/// same files, signs of life (SPEC §4, §5).
pub const PROTOCOL: &str = "rfd0169/1";
