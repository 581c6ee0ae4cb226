//! Who decides something.

use fleet_wire::api::{ApiError, Code, Role};

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

impl Actor {
    /// Which key is a host's says an admin.
    ///
    /// # Errors
    /// He is none.
    pub(super) fn decides_on_keys(&self) -> Result<(), ApiError> {
        let Self { who, role, .. } = self;
        let message = || format!("{who} has the role {role}; which key is right says the role admin");
        if *role < Role::Admin { Err(ApiError::new(Code::Forbidden, message())) } else { Ok(()) }
    }
}
