//! Why a verb of this program did not do what it was asked: by that its exit status is chosen (FLEET §12).

use std::io;
use std::process::ExitCode;

use crate::terminal;

/// What wrong usage ends with.
const USAGE: u8 = 2;

/// Why a verb failed: a line for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UsageFault {
    /// What was asked for cannot be: a flag or a variable is wrong, or settings do not go together.
    Usage(String),
    /// A file, the server, or the configuration.
    Failed(String),
    /// Whoever reads us has read enough.
    Closed,
}

impl UsageFault {
    /// Says it; what the process ends with.
    pub(crate) fn tell(&self) -> ExitCode {
        let (line, status) = match self {
            Self::Usage(line) => (line, ExitCode::from(USAGE)),
            Self::Failed(line) => (line, ExitCode::FAILURE),
            Self::Closed => return ExitCode::SUCCESS,
        };
        terminal::say(format_args!("error: {line}"));
        status
    }
}

impl From<String> for UsageFault {
    fn from(line: String) -> Self {
        Self::Failed(line)
    }
}

impl From<io::Error> for UsageFault {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Failed(error.to_string()) }
    }
}
