//! The client's workflow of The Update Framework, specification 1.0.34 §5: who must have signed what, in which order it is
//! asked for, and which of two versions counts. No input, no output and no clock of its own: a [`Place`] gives the bytes, the
//! caller the time.

mod document;
mod json;
mod keys;
mod paths;
mod roles;
mod trusted;
mod workflow;

pub use document::TargetFile;
pub use json::canonical;
pub use keys::{is_usable, verifies};
pub use roles::{ROLES, ROOT, SNAPSHOT, TARGETS, TIMESTAMP, file_name};
pub use trusted::TrustedSet;
pub use workflow::{Place, Repository};
