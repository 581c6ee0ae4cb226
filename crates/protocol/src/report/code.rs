//! Codes of the errors that hosts report ([`super::Change::code`]): those of the updater, which never change their meaning.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// Stable error codes: they appear in JSON logs, reports and `status`, and never change their meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            /// Every code. A newer updater may report others.
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            /// The name in logs, reports and `status`.
            pub const fn as_str(self) -> &'static str {
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
    /// Metadata of the TUF repository is older than its signers allow.
    TufExpired = "tuf_expired",
    /// This clock is before the program was made: no end of metadata can be judged.
    TufClock = "tuf_clock",
    /// Metadata of the TUF repository is not signed as it must be, or is none.
    TufInvalid = "tuf_invalid",
    /// The TUF repository went back to what was before.
    TufRollback = "tuf_rollback",
    /// The archive is not the one that the signers of the TUF repository mean.
    TufMismatch = "tuf_mismatch",
    /// The signers of the TUF repository name no such archive.
    TufUnlisted = "tuf_unlisted",
    /// The host's trusted root of TUF is missing or damaged.
    TufState = "tuf_state",
    /// The settings do not let this installer act, or this updater does not know it.
    InstallerRefused = "installer_refused",
    /// The answer lacks what its installer needs.
    TargetIncomplete = "target_incomplete",
    /// The script is not there, is not root's alone, is not the one that is meant, or failed.
    ScriptFailed = "script_failed",
    /// The script ended with success, and the agent does not run the version.
    ScriptNoEffect = "script_no_effect",
    /// SIGINT or SIGTERM.
    Interrupted = "interrupted",
    /// Any other failure of the operating system.
    Io = "io",
}

/// The new version did not become healthy, and was rolled back.
pub const UNHEALTHY: &str = Code::Unhealthy.as_str();

/// What failed there is the way to the version and not the version itself: the host is tried again (FLEET §3).
pub const OF_THE_WAY: [Code; 6] = [
    Code::Network,
    Code::DownloadStalled,
    Code::LockHeld,
    Code::Interrupted,
    // The age of metadata and clocks says nothing of a release (DIRECTIVES §5.3).
    Code::TufExpired,
    Code::TufClock,
];

/// What failed there is what the mirror has, which can be repaired there.
const OF_THE_MIRROR: [Code; 7] = [
    Code::ArchiveMissing,
    Code::ChecksumMismatch,
    Code::ChecksumInvalid,
    Code::TufInvalid,
    Code::TufRollback,
    Code::TufMismatch,
    Code::TufUnlisted,
];

/// What failed there is what the mirror has or the host trusts, which speaks of no version that runs: nobody goes back for it
/// (DIRECTIVES §5.3).
pub const SENDS_NOBODY_BACK: [Code; 5] =
    [Code::TufInvalid, Code::TufRollback, Code::TufMismatch, Code::TufUnlisted, Code::TufState];

/// Whether what failed is the way to the version, or the mirror: the same version may be good.
pub fn is_outside_of_the_release(code: &str) -> bool {
    OF_THE_WAY.iter().chain(&OF_THE_MIRROR).any(|known| known.as_str() == code)
}

/// Whether a code is one of [`OF_THE_WAY`].
pub fn is_of_the_way(code: &str) -> bool {
    OF_THE_WAY.iter().any(|known| known.as_str() == code)
}
