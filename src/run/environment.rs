//! Variables of the environment by which one of our processes tells another what it is.

pub(crate) use protocol::handover::GUARD;

/// The parent's pid, in a child that recovers under its parent's lock.
pub(crate) const LOCKED: &str = "TELEPORT_UPDATE_LOCKED";
/// Set in the transient unit: it is not left again.
pub(crate) const SCOPE: &str = "TELEPORT_UPDATE_SCOPE";
/// Set by systemd (232 and later) for `ExecStopPost=`: how the run ended (systemd.exec(5)).
pub(crate) const SERVICE_RESULT: &str = "SERVICE_RESULT";
