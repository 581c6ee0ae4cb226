//! Drafts and plans of version directives (DIRECTIVES §3).

use std::path::PathBuf;

use clap::Subcommand;

/// The draft that is meant where none is named.
pub(super) const DRAFT: &str = "static/default";

/// Subcommands of `version-control`.
#[derive(Debug, Clone, Subcommand)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet create-draft directive.yaml\n  \
                  teleport-fleet version-control plan                  # freeze it: who would go where\n  \
                  teleport-fleet version-control review ID --approve   # another person\n  \
                  teleport-fleet version-control apply ID")]
pub enum VersionControlVerb {
    /// Show the active directive, installers, what hosts run and what people are warned of
    Status,
    /// Freeze a draft or a file as a plan, and show what it would do
    Plan {
        /// The draft
        #[arg(value_name = "KIND/NAME", default_value = DRAFT, conflicts_with = "file")]
        draft: String,
        /// One version-directive in place of a draft; `-` is standard input
        #[arg(short, long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// List the plans that were not applied
    Pending,
    /// Show a plan, and what it would do now
    Show {
        /// Its UUID
        id: String,
    },
    /// Approve or deny a plan that somebody else made
    Review {
        /// The plan's UUID
        id: String,
        /// It may be applied
        #[arg(long, required_unless_present = "deny", conflicts_with = "deny")]
        approve: bool,
        /// It may not: that ends it
        #[arg(long)]
        deny: bool,
        /// Why
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Have each host that a plan would update try that, and install nothing
    DryRun {
        /// Its UUID
        id: String,
    },
    /// Make a plan the active version directive
    Apply {
        /// Its UUID
        id: String,
        /// Only check, and say what would happen
        #[arg(long)]
        dry_run: bool,
    },
}
