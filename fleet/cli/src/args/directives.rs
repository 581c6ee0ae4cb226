//! Drafts and plans of version directives (DIRECTIVES §3).

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The draft that is meant where none is named.
const DRAFT: &str = "static/default";

/// Options of `create-draft`.
#[derive(Debug, Clone, Args)]
pub struct CreateDraft {
    /// One version-directive in YAML or JSON; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Its name
    #[arg(long, value_name = "KIND/NAME", default_value = DRAFT)]
    pub name: String,
}

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
    Plan(PlanArgs),
    /// List the plans that were not applied
    Pending,
    /// Show a plan, and what it would do now
    Show {
        /// Its UUID
        id: String,
    },
    /// Approve or deny a plan that somebody else made
    Review(ReviewArgs),
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

/// Options of `version-control plan`.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// The draft
    #[arg(value_name = "KIND/NAME", default_value = DRAFT, conflicts_with = "file")]
    pub draft: String,
    /// One version-directive in place of a draft; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// Options of `version-control review`.
#[derive(Debug, Clone, Args)]
pub struct ReviewArgs {
    /// The plan's UUID
    pub id: String,
    /// It may be applied
    #[arg(long, required_unless_present = "deny", conflicts_with = "deny")]
    pub approve: bool,
    /// It may not: that ends it
    #[arg(long)]
    pub deny: bool,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}
