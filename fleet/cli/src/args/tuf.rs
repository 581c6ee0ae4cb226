//! Verbs of a TUF repository of one's own, and of a mirror.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Subcommands of `tuf`: they work on a directory, without the server.
#[derive(Debug, Clone, Subcommand)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet tuf key anna        # each person, on a machine of his own: anna and anna.pub\n  \
                  teleport-fleet tuf init repo --root-key anna.pub --root-key bert.pub --root-key cleo.pub \\\n      \
                  --targets-key dora.pub --targets-key emil.pub --online-key online.pub\n  \
                  teleport-fleet tuf add repo teleport-v17.0.1-linux-amd64-bin.tar.gz\n  \
                  teleport-fleet tuf sign repo --key dora --check ~/own-downloads\n  \
                  teleport-fleet tuf commit repo --online-key online")]
pub enum TufVerb {
    /// Make a key: FILE is the secret one (mode 0600), FILE.pub the public one
    Key {
        /// The file; it must not be there yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Make a repository: its root and targets then wait for their signatures
    Init(TufInit),
    /// Name archives in the next targets; without any, give the targets a new end
    Add {
        /// The repository
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// The archives, each under its own name
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Name this one no longer: no host installs it from now on
        #[arg(long, value_name = "NAME")]
        remove: Vec<String>,
    },
    /// Sign what waits and is the key's; new targets are compared with your own copy of the archives
    Sign(TufSign),
    /// Publish what has its signatures
    Commit(TufOnline),
    /// Give snapshot and timestamp a new end, if half of their time is over (for cron; `serve` does it by itself)
    Refresh {
        /// The repository and its key
        #[command(flatten)]
        online: TufOnline,
        /// Begin above this version, after a directory was lost
        #[arg(long, value_name = "VERSION", default_value_t = 0)]
        above: u64,
    },
    /// Make a next root: with other keys for some roles, or only a new end
    Rotate {
        /// The repository
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// All keys that these roles have from then on
        #[command(flatten)]
        keys: TufKeys,
    },
    /// Look at a repository as a host does, and show when each role ends
    Check {
        /// The repository, or the URL of its metadata
        #[arg(value_name = "DIR|URL")]
        place: String,
        /// The root that the host trusts
        #[arg(long, value_name = "FILE")]
        root: PathBuf,
        /// As if it were this time [default: now]
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
}

/// Whose keys roles have.
#[derive(Debug, Clone, Default, Args)]
pub struct TufKeys {
    /// Public key of somebody who signs the root (PEM file; Ed25519, P-256 or RSA)
    #[arg(long, value_name = "FILE")]
    pub root_key: Vec<PathBuf>,
    /// Public key of somebody who signs targets
    #[arg(long, value_name = "FILE")]
    pub targets_key: Vec<PathBuf>,
    /// Public key for snapshot and timestamp
    #[arg(long, value_name = "FILE")]
    pub online_key: Option<PathBuf>,
    /// How many must sign the root [default: 2]
    #[arg(long, value_name = "N")]
    pub root_threshold: Option<u64>,
    /// How many must sign targets [default: 2]
    #[arg(long, value_name = "N")]
    pub targets_threshold: Option<u64>,
    /// Let all root keys be needed: one that is lost ends the repository
    #[arg(long)]
    pub no_spare: bool,
}

/// Options of `tuf init`.
#[derive(Debug, Clone, Args)]
pub struct TufInit {
    /// The directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Whose keys it has
    #[command(flatten)]
    pub keys: TufKeys,
    /// How long the root is good
    #[arg(long, value_name = "DAYS", default_value_t = 365)]
    pub root_days: u32,
    /// How long targets are good
    #[arg(long, value_name = "DAYS", default_value_t = 90)]
    pub targets_days: u32,
    /// How long the snapshot is good
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    pub snapshot_days: u32,
    /// How long the timestamp is good: so long can a mirror withhold what is new
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    pub timestamp_days: u32,
    /// How often `tuf refresh` comes at least
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub refresh_hours: u32,
}

/// Options of `tuf sign`.
#[derive(Debug, Clone, Args)]
pub struct TufSign {
    /// The repository
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Your key: a PEM file, or exec:COMMAND, which gets the bytes and prints the signature
    #[arg(long, value_name = "KEY")]
    pub key: String,
    /// Your own copy of the archives, had by another way than the first signer's
    #[arg(long, value_name = "DIR", conflicts_with = "unchecked")]
    pub check: Option<PathBuf>,
    /// Sign new targets without comparing them; it is recorded
    #[arg(long)]
    pub unchecked: bool,
}

/// A repository and the key of its online roles.
#[derive(Debug, Clone, Args)]
pub struct TufOnline {
    /// The repository
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The key for snapshot and timestamp: a PEM file, or exec:COMMAND
    #[arg(long, value_name = "KEY")]
    pub online_key: String,
}

/// Options of `mirror`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet mirror --versions 17.0.1,17.0.2 --edition enterprise --arch amd64,arm64 --to /srv/mirror\n  \
                  teleport-fleet mirror --versions 17.0.2 --edition oss --to out --tuf-root root.json --from https://mirror.example.com")]
pub struct MirrorArgs {
    /// Versions, comma-separated
    #[arg(long, value_name = "V,..", value_delimiter = ',', required = true)]
    pub versions: Vec<String>,
    /// Editions, comma-separated: oss, enterprise, enterprise-fips
    #[arg(long, value_name = "EDITION,..", value_delimiter = ',', required = true)]
    pub edition: Vec<String>,
    /// Machines, comma-separated: amd64, arm64, arm, 386
    #[arg(long, value_name = "ARCH,..", value_delimiter = ',', default_value = "amd64")]
    pub arch: Vec<String>,
    /// Directory that becomes the mirror
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Where archives are
    #[arg(long, value_name = "URL", default_value = "https://cdn.teleport.dev")]
    pub from: String,
    /// Root of the TUF repository there, whose signers must mean each archive
    #[arg(long, value_name = "FILE")]
    pub tuf_root: Option<PathBuf>,
    /// Key that must have signed each archive (P-256, PEM file)
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
}
