//! Verbs on resources (FLEET §2).

use std::path::PathBuf;

use clap::Args;

/// The files of a verb, in either spelling.
#[derive(Debug, Clone, Args)]
pub struct Files {
    /// Resources in YAML or JSON; `-` is standard input; may be given several times
    #[arg(short, long = "file", value_name = "FILE", required_unless_present = "named")]
    pub files: Vec<PathBuf>,
    /// The same without -f
    #[arg(value_name = "FILE")]
    pub named: Vec<PathBuf>,
}

impl Files {
    /// All of them, those with `-f` first.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.named)
    }
}

/// Options of `apply`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet apply -f policy/ --prune --dry-run   # in a pull request\n  \
                  teleport-fleet apply -f policy/ --prune             # once it is merged\n\n\
                  Files that end in .yaml, .yml or .json, in all directories below; not those whose name begins with a dot.\n\
                  All of them are one change: it is made whole, or nothing of it. --prune removes autoupdate_config,\n\
                  autoupdate_version, cluster_maintenance_config, fleet_channel and fleet_release, and nothing else.\n\n\
                  Exit status: 0 done, or nothing would change; 1 failed or refused; 2 wrong usage;\n\
                  5 with --dry-run: something would change.")]
pub struct Apply {
    /// The directory with the resources, or one file
    #[arg(short, long = "file", value_name = "DIR")]
    pub file: PathBuf,
    /// Remove what the directory lacks; of these kinds alone, comma-separated
    #[arg(long, value_name = "KINDS", num_args = 0..=1, require_equals = true, value_delimiter = ',',
          default_missing_values = PRUNED, value_parser = clap::builder::PossibleValuesParser::new(PRUNED), hide_possible_values = true)]
    pub prune: Vec<String>,
    /// With --prune also where the directory has no resource at all
    #[arg(long, requires = "prune")]
    pub force: bool,
    /// Only check, and show what would change
    #[arg(long)]
    pub dry_run: bool,
}

/// What a directory of policy may own: not tokens and hosts, which are no resources, nor what servers report.
const PRUNED: [&str; 5] =
    ["autoupdate_config", "autoupdate_version", "cluster_maintenance_config", "fleet_channel", "fleet_release"];
