//! One error type: a stable code for machines, one line for people that says what failed, where, and what to do.

use std::fmt;
use std::path::Path;

use protocol::{Kind, ParseError};

/// Shorthand used everywhere in this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

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

    /// Whether it was written down for `status`.
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }

    /// The same for a command without flags for what is wrong: it stands in the settings then (exit 1).
    #[must_use]
    pub fn of_settings(mut self) -> Self {
        if self.code == Code::Usage {
            self.code = Code::ConfigInvalid;
        }
        self
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
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
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
            Kind::Answer => Code::ClusterAnswer,
        };
        Self { code, what: error.what, advice: error.advice.map(str::to_owned), recorded: false }
    }
}

/// Attaches the action and the path to an I/O error.
pub(crate) trait IoContext<T> {
    /// Turns an I/O error into [`Error`]; `action` is a clause such as "cannot write".
    fn at(self, action: &str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> IoContext<T> for std::result::Result<T, E> {
    fn at(self, action: &str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let what = format!("{action} {}: {error}", path.as_ref().display());
            let code = Code::of_io(&error);
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

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// Stable error codes: they appear in JSON logs and in `status`, and never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            /// Every code, for the documentation and its test.
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            /// The name in logs and `status`.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)+ }
            }
        }
    };
}

codes! {
    /// Bad arguments (exit 2).
    Usage = "usage",
    /// `updates.yaml` or `teleport.yaml` cannot be read as what it should be.
    ConfigInvalid = "config_invalid",
    /// No proxy address is known.
    ProxyMissing = "proxy_missing",
    /// `--proxy` differs from `teleport.yaml`.
    ProxyConflict = "proxy_conflict",
    /// Connection, TLS or time-out problem, or a status that may pass by itself.
    Network = "network",
    /// The cluster answered something that is no answer to find.
    ClusterAnswer = "cluster_answer",
    /// Neither the cluster nor the installation names an edition.
    EditionUnknown = "edition_unknown",
    /// The archive is not at its URL (404, 403, no such file).
    ArchiveMissing = "archive_missing",
    /// The archive's digest is not the announced one.
    ChecksumMismatch = "checksum_mismatch",
    /// The announced digest itself is missing or malformed.
    ChecksumInvalid = "checksum_invalid",
    /// A public key is configured and the signature is missing or wrong.
    SignatureInvalid = "signature_invalid",
    /// The archive is damaged or not a Teleport archive.
    ArchiveInvalid = "archive_invalid",
    /// The archive contains entries that no release would have.
    ArchiveHostile = "archive_hostile",
    /// The download stood still, dripped, or passed its deadline.
    DownloadStalled = "download_stalled",
    /// The unpacked binary prints another version than the one asked for.
    VersionMismatch = "version_mismatch",
    /// The binaries are for another machine.
    WrongArchitecture = "wrong_architecture",
    /// A file system has too little room.
    NoSpace = "no_space",
    /// Not allowed: run as root.
    Permission = "permission",
    /// A needed file system is mounted read-only or noexec.
    ReadOnly = "read_only",
    /// Another run holds the lock (exit 75).
    LockHeld = "lock_held",
    /// Another command, or a hand, has changed what this one was to change, and came later.
    Overtaken = "overtaken",
    /// The journal was written by an updater this one does not understand.
    JournalUnknown = "journal_unknown",
    /// Recovery of an interrupted run failed.
    RecoveryFailed = "recovery_failed",
    /// The target has no snapshot of the database: no downgrade.
    BackupMissing = "backup_missing",
    /// The target's snapshot is too old or from the future.
    BackupExpired = "backup_expired",
    /// The target's snapshot is not what its `backup.yaml` says.
    BackupInvalid = "backup_invalid",
    /// The agent's database stayed busy past the deadline.
    DatabaseBusy = "database_busy",
    /// The agent's database cannot be opened or fails its check.
    DatabaseInvalid = "database_invalid",
    /// The agent could not be proven stopped.
    AgentNotStopped = "agent_not_stopped",
    /// The agent keeps its data elsewhere than its configuration says.
    OtherDataDir = "other_data_dir",
    /// The service manager refused or did not answer.
    ServiceFailed = "service_failed",
    /// The new version did not become healthy and was rolled back.
    Unhealthy = "unhealthy",
    /// The cluster's version is below `min_version`.
    BelowMinVersion = "below_min_version",
    /// A channel names a version of a lower major.
    LowerMajor = "lower_major",
    /// The last maintenance window was over a day ago, and no later one is known.
    ScheduleStale = "schedule_stale",
    /// A string is not strict semver.
    VersionInvalid = "version_invalid",
    /// There is nothing to go back to.
    NoPrevious = "no_previous",
    /// A distribution package could not be removed safely.
    PackageFailed = "package_failed",
    /// The installation differs from its manifest.
    Damaged = "damaged",
    /// Something that is not ours stands where our links go.
    PathTaken = "path_taken",
    /// An agent that is not ours is newer than the target: a downgrade without a snapshot.
    NewerAgent = "newer_agent",
    /// SIGINT or SIGTERM.
    Interrupted = "interrupted",
    /// Any other failure of the operating system.
    Io = "io",
}

impl Code {
    /// The code that fits an I/O error.
    pub fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::*;
        match error.kind() {
            StorageFull | QuotaExceeded => Code::NoSpace,
            PermissionDenied => Code::Permission,
            ReadOnlyFilesystem => Code::ReadOnly,
            TimedOut => Code::Network,
            _ => Code::Io,
        }
    }

    /// The exit status that a command ending with this error has (SPEC §5).
    pub fn exit_status(self) -> u8 {
        match self {
            Code::Usage => 2,
            Code::LockHeld => 75,
            _ => 1,
        }
    }
}
