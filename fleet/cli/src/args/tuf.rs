//! Verbs of a TUF repository of one's own.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use fleet_tuf::{Founders, KnownOfRelease, Policy, SignOrder};

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
    Init {
        /// The directory
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// Whose keys it has
        #[command(flatten)]
        keys: Founders,
        /// How long they are good
        #[command(flatten)]
        policy: Policy,
    },
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
        /// What is known of these archives
        #[command(flatten)]
        known: KnownOfRelease,
    },
    /// Sign what waits and is the key's; new targets are compared with your own copy of the archives
    Sign {
        /// The repository
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// By whom, and after which comparison
        #[command(flatten)]
        order: SignOrder,
    },
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
        keys: Founders,
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
