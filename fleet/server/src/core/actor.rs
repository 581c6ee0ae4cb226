//! Who decides something, and the stops that the store has not taken.

use fleet_engine::host::HostId;
use fleet_wire::api::{Act, ApiError, Code, Decided, Role};

/// The id of a request that changes something.
///
/// # Errors
/// It has none of its own.
pub(super) fn own_id(id: &str) -> Result<uuid::Uuid, ApiError> {
    let message = "id is not a UUID: each request that changes something has its own";
    uuid::Uuid::parse_str(id).map_err(|_| ApiError::new(Code::BadRequest, message))
}

/// Who decides something, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Actor {
    /// `uid 0 (root)`, `token NAME`.
    pub(crate) who: String,
    /// `admin socket`, or an address.
    pub(crate) from: String,
    /// What he may do.
    pub(crate) role: Role,
}

/// A stop that the store has not taken: it is tried until it is decided (FLEET §3).
#[derive(Debug, Clone)]
pub(super) enum PendingStop {
    /// Of groups.
    Halt(Act),
    /// Of a host.
    Hold(HostId, Decided),
}

impl PendingStop {
    /// Whether it stops the same.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Halt(act), Self::Halt(other)) => act.command == other.command,
            (Self::Hold(host, _), Self::Hold(other, _)) => host == other,
            _ => false,
        }
    }
}
