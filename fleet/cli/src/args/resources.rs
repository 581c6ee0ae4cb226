//! Verbs on resources (FLEET §2).

use std::path::PathBuf;

use clap::Args;

/// Options of `get`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet get autoupdate_config > config.yaml\n  \
                  teleport-fleet get fleet_channel/stable --format json\n\n\
                  Kinds: autoupdate_config, autoupdate_version, autoupdate_agent_rollout, autoupdate_agent_report,\n\
                  cluster_maintenance_config, fleet_channel, fleet_release.")]
pub struct Get {
    /// The kind, or one resource of it
    #[arg(value_name = "KIND[/NAME]")]
    pub what: String,
}

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

/// Options of `create`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet create -f policy.yaml --dry-run   # how many hosts would go?\n  \
                  teleport-fleet create -f policy.yaml -f version.yaml   # one change: both or neither\n  \
                  teleport-fleet create --force -f -               # from standard input, over what is there")]
pub struct Create {
    /// All files and documents together are one change
    #[command(flatten)]
    pub files: Files,
    /// Replace what is there already
    #[arg(long)]
    pub force: bool,
    /// Only check, and say what would happen
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `update`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "All files and documents together are one change.")]
pub struct UpdateFile {
    /// All files and documents together are one change
    #[command(flatten)]
    pub files: Files,
    /// Only check, and say what would happen
    #[arg(long)]
    pub dry_run: bool,
}

/// Options of `edit`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "The editor is $VISUAL, else $EDITOR, else vi. What the server refuses is kept in its file.")]
pub struct EditArgs {
    /// The resource; a kind of which there is but one needs no name
    #[arg(value_name = "KIND[/NAME]")]
    pub what: String,
}

/// Options of `rm`.
#[derive(Debug, Clone, Args)]
pub struct Rm {
    /// The resource; a kind of which there is but one needs no name
    #[arg(value_name = "KIND[/NAME]")]
    pub what: String,
    /// Only say what would happen
    #[arg(long)]
    pub dry_run: bool,
}
