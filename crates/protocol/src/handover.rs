//! The protocol between updaters (RFD 0169, an updater in the archive).

/// What `teleport-update version --format json` must declare for a command to be handed to that updater: same command line,
/// same files, same exit statuses (SPEC §4, §5).
pub const PROTOCOL: &str = "rfd0169/1";

/// Variable that is set in another updater that was started in this one's place: it never hands over again.
pub const GUARD: &str = "TELEPORT_UPDATE_REEXEC";

/// Exit status of an updater that was started so, in place of 1: it has said which failure it was.
pub const FAILED: u8 = 76;
