//! Why a verb of this program did not do what it was asked: by that its exit status is chosen (FLEET §12).

use std::fmt;
use std::io;
use std::process::ExitCode;

/// What wrong usage ends with.
pub(crate) const USAGE: u8 = 2;

/// Why a verb failed: a line for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UsageFault {
    /// What was asked for cannot be: a flag or a variable is wrong, or settings do not go together.
    Usage(String),
    /// A file, the server, or the configuration.
    Failed(String),
}

impl UsageFault {
    /// What the process ends with.
    pub(crate) fn status(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(USAGE),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl From<String> for UsageFault {
    fn from(line: String) -> Self {
        Self::Failed(line)
    }
}

impl From<io::Error> for UsageFault {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl fmt::Display for UsageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(line) | Self::Failed(line) => f.write_str(line),
        }
    }
}
