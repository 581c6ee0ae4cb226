//! One error type: a stable code for machines, one line for people that says what failed, where, and what to do.

mod file;

use std::fmt;
use std::path::Path;

use protocol::{Kind, ParseError};

pub use file::read_limited;
pub use protocol::report::code::Code;

/// What can fail with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure as it is told to the operator (SPEC §5, exit status).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Stable name for logs and `status`.
    pub code: Code,
    /// What failed and on which path or URL; no trailing full stop.
    pub what: String,
    /// What the operator can do about it.
    pub advice: Option<String>,
    /// It already stands in `updates.yaml`.
    pub recorded: bool,
}

impl Error {
    /// An error without advice. `what` names the action that failed and the path or URL it failed on.
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), advice: None, recorded: false }
    }

    /// Adds what the operator can do about it.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Marks it as written down for `status`, so that it is not written twice.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.recorded = true;
        self
    }

    /// The same for a command without flags for what is wrong: it stands in the settings then (exit 1).
    #[must_use]
    pub fn of_settings(mut self) -> Self {
        if self.code == Code::Usage {
            self.code = Code::ConfigInvalid;
        }
        self
    }

    /// The exit status of a command that ends with it (SPEC §5).
    pub fn exit_status(&self) -> u8 {
        match self.code {
            Code::Usage => 2,
            Code::LockHeld => 75,
            _ => 1,
        }
    }

    /// Puts a clause before the message: `context: what`.
    #[must_use]
    pub fn during(mut self, context: impl fmt::Display) -> Self {
        self.what = format!("{context}: {}", self.what);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.advice.as_ref().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl std::error::Error for Error {}

impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        let code = match error.kind {
            Kind::Version => Code::VersionInvalid,
            Kind::Edition => Code::EditionUnknown,
            Kind::Arch => Code::WrongArchitecture,
            Kind::Digest => Code::ChecksumInvalid,
            Kind::Installer => Code::InstallerRefused,
            Kind::Answer => Code::ClusterAnswer,
        };
        Self { code, what: error.what, advice: error.advice.map(str::to_owned), recorded: false }
    }
}

/// Attaches the action and the path to an I/O error.
pub trait IoContext<T> {
    /// Turns an I/O error into [`Error`]; `action` is a clause such as "cannot write".
    fn at(self, action: &str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn at(self, action: &str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let what = format!("{action} {}: {error}", path.as_ref().display());
            let code = code_of_io(&error);
            let advice = match code {
                Code::NoSpace => Some("free space on that file system and run the command again"),
                Code::Permission => Some(
                    "run as root; if you already are root, check for an immutable flag (`lsattr`) or an SELinux denial",
                ),
                Code::ReadOnly => Some(
                    "remount it writable or choose another directory; if teleport-update.service started this run, run \
                     `teleport-update enable` by hand, which allows the service to write there",
                ),
                _ => None,
            };
            Error { code, what, advice: advice.map(str::to_owned), recorded: false }
        })
    }
}

/// Tells what is not there from what cannot be looked at.
pub trait IfPresent<T> {
    /// `None` where nothing is, or no directory is on the way.
    fn if_present(self) -> std::io::Result<Option<T>>;
}

impl<T, E: Into<std::io::Error>> IfPresent<T> for std::result::Result<T, E> {
    fn if_present(self) -> std::io::Result<Option<T>> {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        match self.map_err(Into::into) {
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
            found => found.map(Some),
        }
    }
}

/// The code that fits an I/O error.
pub fn code_of_io(error: &std::io::Error) -> Code {
    use std::io::ErrorKind::*;
    match error.kind() {
        StorageFull | QuotaExceeded => Code::NoSpace,
        PermissionDenied => Code::Permission,
        ReadOnlyFilesystem => Code::ReadOnly,
        TimedOut => Code::Network,
        _ => Code::Io,
    }
}
