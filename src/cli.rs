//! The clap tree; no logic. The build script (`build/`) reads it too: nothing of this crate is used here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Installs, updates, downgrades and rolls back the Teleport agent, and updates itself.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "teleport-update",
    version,
    about,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Exit status: 0 done or nothing to do; 1 failed, refused or rolled back; 2 wrong usage;\n\
                  3 update due (status --err-if-should-update-now); 70 or a signal: internal error;\n\
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
    /// Work on the system image in DIR; running services are not touched
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub root: Option<PathBuf>,
    /// Work on the additional installation NAME (letters, digits, hyphens)
    #[arg(short = 'i', long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub install_suffix: Option<String>,
    /// Verbose output
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub debug: bool,
    /// Format of log lines on standard error
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t, help_heading = "Global options")]
    pub log_format: LogFormat,
    /// Do not verify TLS certificates, and allow http:// (a warning is printed)
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
    /// Install the cluster's version now, and keep it up to date
    Enable(Install),
    /// Stop automatic updates; the agent keeps running
    Disable,
    /// Update now if updates are enabled and the cluster's update window is open (what the timer runs)
    Update(Update),
    /// Install one version now (default: the installed one) and stay on it
    Pin(Install),
    /// Follow the cluster again
    Unpin,
    /// Show versions, settings and the last result
    Status(Status),
    /// Show the steps that `update` would do now, without changing anything
    Plan(Plan),
    /// Check every installed file, link and unit
    Verify(Verify),
    /// Ask the TUF repository whose root `enable --tuf-root` gave
    #[command(subcommand)]
    Tuf(Tuf),
    /// Go back to the last working version
    Rollback,
    /// Finish or undo an interrupted run
    Recover(Recover),
    /// Remove links, units and installed versions; the agent's configuration and data are kept
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
    /// Cluster address (default: from updates.yaml, else from teleport.yaml)
    #[arg(short, long, value_name = "ADDR", env = "TELEPORT_PROXY", hide_env_values = true)]
    pub proxy: Option<String>,
    /// What names the version in place of the cluster: https://HOST, channel+https://URL, cincinnati+https://URL or
    /// file:///FILE; "default" resets it
    #[arg(long, value_name = "URL")]
    pub source: Option<String>,
    /// This host's update group; "default" resets it
    #[arg(short, long, env = "TELEPORT_UPDATE_GROUP", hide_env_values = true)]
    pub group: Option<String>,
    /// Download archives from https://HOST/DIR or file:///DIR; "default" resets it
    #[arg(short, long, value_name = "URL", env = "TELEPORT_CDN_BASE_URL", hide_env_values = true)]
    pub base_url: Option<String>,
    /// Also replace a newer agent that this updater did not install (a downgrade without a database backup)
    #[arg(short, long)]
    pub overwrite: bool,
    /// Install this version instead of the cluster's
    #[arg(short, long, value_name = "VERSION", env = "TELEPORT_UPDATE_VERSION", hide_env_values = true)]
    pub force_version: Option<String>,
    /// Edition, if the cluster names none: oss, enterprise or enterprise-fips; also switches a host to or from FIPS
    #[arg(long, value_name = "EDITION")]
    pub edition: Option<String>,
    /// Tell updates by `status` and in the log, and install nothing
    #[arg(long)]
    pub notify_only: bool,
    /// Accept a proxy address that differs from teleport.yaml
    #[arg(long)]
    pub allow_proxy_conflict: bool,
    /// Directory for the links to the binaries [default: /usr/local/bin]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// The agent's data directory, if its unit or start command does not use that of teleport.yaml; "default" resets it
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Additional CA certificates (PEM file)
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Join token for the rollout server's first report of this host (file; copied, removed when it has served)
    #[arg(long, value_name = "FILE")]
    pub join_token_file: Option<PathBuf>,
    /// Require that every archive is signed with this public key (P-256, PEM file)
    #[arg(long, value_name = "FILE")]
    pub public_key: Option<PathBuf>,
    /// Require that the signers of this TUF repository mean every archive (its root.json); "" ends that
    #[arg(long, value_name = "FILE")]
    pub tuf_root: Option<String>,
    /// Where the TUF repository's metadata is [default: BASE_URL/tuf/metadata]; "default" resets it
    #[arg(long, value_name = "URL")]
    pub tuf_url: Option<String>,
    /// What may install here, comma-separated: update, tuf, local-script/NAME [default: update, with --tuf-root also tuf]; ""
    /// resets it
    #[arg(long, value_name = "NAMES")]
    pub installers: Option<String>,
    /// Number of versions kept on disk; 1 saves space but makes downgrades impossible
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub keep: Option<u32>,
    /// Binaries to install besides teleport, comma-separated; "all" for every one
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub components: Option<Vec<String>>,
    /// Never install a version older than this, even if the cluster asks for it
    #[arg(long, value_name = "VERSION")]
    pub min_version: Option<String>,
}

/// Options of `update`.
#[derive(Debug, Clone, Args)]
pub struct Update {
    /// Ignore the cluster's update window, the jitter, and waits after earlier failures
    #[arg(short, long)]
    pub now: bool,
}

/// Options of `status`.
#[derive(Debug, Clone, Args)]
pub struct Status {
    /// Output format [default: text on a terminal, otherwise json]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// Exit with 3 if `update` would change something now
    #[arg(long)]
    pub err_if_should_update_now: bool,
}

/// Options of `plan`.
#[derive(Debug, Clone, Args)]
pub struct Plan {
    /// Show the plan of `update --now`
    #[arg(short, long)]
    pub now: bool,
    /// Format
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub format: OutputFormat,
}

/// Options of `verify`.
#[derive(Debug, Clone, Args)]
pub struct Verify {
    /// Repair what differs
    #[arg(long)]
    pub repair: bool,
}

/// Subcommands of `tuf`.
#[derive(Debug, Clone, Subcommand)]
pub enum Tuf {
    /// Verify the repository's metadata now, and show when each role ends
    Check,
    /// Whether FILE is what the signers mean by NAME (an archive's name)
    Verify {
        /// The name, such as teleport-v17.0.1-linux-amd64-bin.tar.gz
        name: String,
        /// The file
        file: PathBuf,
    },
}

/// Options of `recover`.
#[derive(Debug, Clone, Args)]
pub struct Recover {
    /// For the boot unit, before the agent starts: only files and daemon-reload, no network, no service start or stop
    #[arg(long)]
    pub boot: bool,
}

/// Options of `uninstall`.
#[derive(Debug, Clone, Args)]
pub struct Uninstall {
    /// Also if the agent is running (it is stopped first)
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
