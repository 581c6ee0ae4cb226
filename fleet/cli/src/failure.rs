//! What ends a verb with exit status 1, or 2 for wrong usage: a code for programs, a line for people.

use std::fmt;
use std::io;

use serde::Deserialize;

/// Why a verb failed: the server's refusal, or what kept it from asking.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Failure {
    /// A stable code: one of `fleet_wire::api::Code`, a newer server's, or one of the constants here.
    pub code: String,
    /// What failed, where, and what to do.
    pub message: String,
}

impl Failure {
    /// The server cannot be reached.
    pub(crate) const UNREACHABLE: &str = "unreachable";
    /// It did not answer in time, or the connection broke.
    pub(crate) const NO_ANSWER: &str = "no_answer";
    /// What it answered is no answer of the admin API.
    pub(crate) const BAD_ANSWER: &str = "bad_answer";
    /// A file or a program on this host.
    pub const LOCAL: &str = "local";
    /// What was typed cannot be asked: the exit status is 2, not 1.
    pub const USAGE: &str = "usage";
    /// What `wait` waits for does not come by itself any more: the exit status is 3.
    pub(crate) const MISSED: &str = "missed";
    /// `wait` ended first: the exit status is 4.
    pub(crate) const TIMED_OUT: &str = "timed_out";
    /// Something would change, as `apply --dry-run` has said: no fault, but the exit status is 5.
    pub(crate) const DIFFERS: &str = "differs";
    /// The output cannot be written.
    pub(crate) const UNWRITTEN: &str = "unwritten";
    /// Whoever reads the output has read enough: no fault.
    pub(crate) const CLOSED: &str = "closed";

    /// A failure of this code.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }

    /// A failure of a file or program: `what` says which, as in `cannot read FILE`.
    pub fn local(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(Self::LOCAL, format!("{what}: {error}"))
    }

    /// Whether it has this code of the API.
    pub fn is(&self, code: fleet_wire::api::Code) -> bool {
        serde_json::to_value(code).is_ok_and(|code| code == self.code.as_str())
    }
}

/// From writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Self::CLOSED, "");
        }
        Self::new(Self::UNWRITTEN, format!("cannot write the output: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
