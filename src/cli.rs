//! The clap tree; no logic. The build script (`build/`) reads it too: nothing of this crate is used here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Installs, updates, downgrades and rolls back the Teleport agent, and itself.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "teleport-update",
    version,
    about,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Exit status: 0 done or nothing to do; 1 failed, refused or rolled back; 2 usage;\n\
                  3 update due (status --err-if-should-update-now); 70 the updater itself broke;\n\
                  75 another run holds the lock.\n\
                  Files: /var/lib/teleport/versions/updates.yaml, /etc/teleport.yaml.\n\
                  Manual: man teleport-update."
)]
pub struct Cli {
    /// What holds for every command
    #[command(flatten)]
    pub global: Global,
    /// The command
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Work on the image below DIR; no running service is touched
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub root: Option<PathBuf>,
    /// Work on the second installation NAME (letters, digits, hyphens)
    #[arg(short = 'i', long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub install_suffix: Option<String>,
    /// Say more
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub debug: bool,
    /// How log lines on standard error look
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t, help_heading = "Global options")]
    pub log_format: LogFormat,
    /// Do not verify TLS certificates and allow http:// (warns every time)
    #[arg(long, global = true, help_heading = "Global options")]
    pub insecure: bool,
}

/// Values that explain themselves: with a help of their own, `--help` would give every option a paragraph.
const NO_HELP: Option<&str> = None;

/// Log formats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people and for the journal
    #[value(help = NO_HELP)]
    #[default]
    Text,
    /// One JSON object a line
    #[value(help = NO_HELP)]
    Json,
}

/// Formats of what goes to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// For people
    #[value(help = NO_HELP)]
    Text,
    /// For programs
    #[value(help = NO_HELP)]
    Json,
    /// For programs and people
    #[value(help = NO_HELP)]
    Yaml,
}

/// Shells with a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU's
    #[value(help = NO_HELP)]
    Bash,
    /// Elvish
    #[value(help = NO_HELP)]
    Elvish,
    /// Fish
    #[value(help = NO_HELP)]
    Fish,
    /// PowerShell
    #[value(help = NO_HELP)]
    Powershell,
    /// Z shell
    #[value(help = NO_HELP)]
    Zsh,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Install the version that the cluster names, and keep it up to date from now on
    Enable(Install),
    /// Stop updating; the agent runs on
    Disable,
    /// Do what the timer does: follow the cluster, if enabled and its window is open
    Update(Update),
    /// Install one version now and stay on it
    Pin(Install),
    /// Follow the cluster again
    Unpin,
    /// Show versions, settings and the last result
    Status(Status),
    /// Show what `update` would do now, step by step; change nothing
    Plan(Plan),
    /// Check every installed file, link and unit
    Verify(Verify),
    /// Go back to the last working version
    Rollback,
    /// Finish or undo an interrupted run
    Recover(Recover),
    /// Remove links, units and versions; keep the agent's configuration and data
    Uninstall(Uninstall),
    /// Print a shell completion script
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print this program's version
    Version(Version),
    /// Print the manual page
    #[command(hide = true)]
    Man,
}

/// Options of `enable` and `pin`.
#[derive(Debug, Clone, Default, Args)]
pub struct Install {
    /// Address of the cluster; else the one in updates.yaml, else the one in teleport.yaml
    #[arg(short, long, value_name = "ADDR", env = "TELEPORT_PROXY", hide_env_values = true)]
    pub proxy: Option<String>,
    /// This host's update group; "default" forgets it
    #[arg(short, long, env = "TELEPORT_UPDATE_GROUP", hide_env_values = true)]
    pub group: Option<String>,
    /// Where archives are: https://HOST/DIR or file:///DIR; "default" forgets it
    #[arg(short, long, value_name = "URL", env = "TELEPORT_CDN_BASE_URL", hide_env_values = true)]
    pub base_url: Option<String>,
    /// Also replace an agent that is newer: a downgrade without a snapshot of the database
    #[arg(short, long)]
    pub overwrite: bool,
    /// Install this version instead of the cluster's
    #[arg(short, long, value_name = "VERSION", env = "TELEPORT_UPDATE_VERSION", hide_env_values = true)]
    pub force_version: Option<String>,
    /// Edition if the cluster names none; the way into and out of FIPS
    #[arg(long, value_name = "EDITION")]
    pub edition: Option<String>,
    /// Accept a proxy address that differs from teleport.yaml
    #[arg(long)]
    pub allow_proxy_conflict: bool,
    /// Directory for the links to the binaries [default: /usr/local/bin]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// The agent's data directory, if what starts it names another than teleport.yaml; "default" forgets it
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Further certificate authorities, PEM
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Public key (P-256, PEM) that must have signed every archive
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
    /// Versions kept on disk; 1 saves space and makes downgrades impossible
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub keep: Option<u32>,
    /// Binaries to install besides teleport, comma-separated; "all" for every one
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub components: Option<Vec<String>>,
    /// Never go below this version, whatever the cluster names
    #[arg(long, value_name = "VERSION")]
    pub min_version: Option<String>,
}

/// Options of `update`.
#[derive(Debug, Clone, Args)]
pub struct Update {
    /// Ignore the cluster's window, the jitter, and an earlier refusal
    #[arg(short, long)]
    pub now: bool,
}

/// Options of `status`.
#[derive(Debug, Clone, Args)]
pub struct Status {
    /// Format [default: text on a terminal, else json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// Exit with 3 if `update` would change something now
    #[arg(long)]
    pub err_if_should_update_now: bool,
}

/// Options of `plan`.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// As `update --now` would do it
    #[arg(short, long)]
    pub now: bool,
    /// Format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub format: OutputFormat,
}

/// Options of `verify`.
#[derive(Debug, Clone, Args)]
pub struct Verify {
    /// Put right what differs
    #[arg(long)]
    pub repair: bool,
}

/// Options of `recover`.
#[derive(Debug, Clone, Args)]
pub struct Recover {
    /// Before the agent starts: files and daemon-reload only, no network, no service calls
    #[arg(long)]
    pub boot: bool,
}

/// Options of `uninstall`.
#[derive(Debug, Clone, Args)]
pub struct Uninstall {
    /// Even while the agent runs: it is stopped
    #[arg(short, long)]
    pub force: bool,
}

/// Options of `version`.
#[derive(Debug, Clone, Args)]
pub struct Version {
    /// Format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub format: OutputFormat,
}
