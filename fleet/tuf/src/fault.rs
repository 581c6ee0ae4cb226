//! A refusal of what somebody gave.

use error::{Code, Error};

/// It was given wrongly, or is not there.
pub(crate) fn usage(what: impl Into<String>) -> Error {
    Error::new(Code::Usage, what)
}
