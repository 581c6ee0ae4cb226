//! Stops that wait for the store (FLEET §3): each is tried until it is decided.

use fleet_engine::host::HostId;
use fleet_wire::api::{Act, Decided};

/// A stop that the store has not taken.
#[derive(Debug, Clone)]
pub(super) enum Stop {
    /// Of groups.
    Halt(Act),
    /// Of a host.
    Hold(HostId, Decided),
}

impl Stop {
    /// Whether it stops the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Halt(act), Self::Halt(other)) => act.command == other.command,
            (Self::Hold(host, _), Self::Hold(other, _)) => host == other,
            _ => false,
        }
    }
}
