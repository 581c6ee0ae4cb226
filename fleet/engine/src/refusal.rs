//! Why something was not done.

use std::fmt;

use crate::resource::Faults;

/// Why a command, a resource, a draft or a plan was refused; then nothing changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable code of the admin API.
    pub code: &'static str,
    /// The sentence; of resources that cannot be read a line for each fault.
    pub message: String,
}

impl Refusal {
    /// By this code.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// It does not go with something else.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new("conflict", message)
    }
}

impl From<Faults> for Refusal {
    fn from(faults: Faults) -> Self {
        Self::new("bad_resource", faults.to_string())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
