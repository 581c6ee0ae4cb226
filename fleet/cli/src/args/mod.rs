//! The clap tree; no logic.

mod autoupdate;
mod directives;
mod hosts;
mod resources;
mod serve;
mod tokens;
mod tuf;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub use autoupdate::{
    AgentsVerb, Autoupdate, ClientTools, FlatUpdate, GroupsOrAllArgs, StatusArgs, WaitArgs, WaitGoal,
};
pub use directives::VersionControlVerb;
pub use hosts::{AuditArgs, AuditVerb, Events, HostVerb, HostsArgs, HostsFilter, HostsVerb, InventoryVerb, OneHost};
pub use resources::{Apply, Files};
pub use serve::{Doctor, Lint, Migrate, Restore, Serve, SimulateArgs};
pub use tokens::{Join, TokensVerb};
pub use tuf::{TufOnline, TufVerb};

/// Where the server's admin socket is unless something else is said (FLEET §1).
pub const ADMIN_SOCKET: &str = "/run/teleport-fleet/admin.sock";
/// The server's configuration unless another is named (FLEET §1).
pub const CONFIG: &str = "/etc/teleport-fleet.yaml";

/// Tells every host of a fleet which version to run, and everybody why.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "teleport-fleet",
    version,
    about = "Tells every host of a fleet which version to run, and everybody why",
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
                  teleport-fleet status --watch                # how far each group is, and why it waits\n  \
                  teleport-fleet autoupdate agents halt --all  # stop: nobody is allowed to update until `run`\n  \
                  teleport-fleet explain --host UUID           # what this host is answered now, and why\n  \
                  teleport-fleet edit autoupdate_config        # change groups, windows and thresholds\n\n\
                  Exit status: 0 done; 1 failed or refused; 2 wrong usage; wait: 3 something else came first,\n\
                  4 the time was over; apply --dry-run: 5 something would change.\n\
                  Commands ask the server on this host through its admin socket (as root or as a member of the group\n\
                  teleport-fleet), or another one with --server and --token-file."
)]
pub struct FleetCli {
    /// What holds for every verb
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

impl FleetCli {
    /// Refuses a format that the verb does not have.
    ///
    /// # Errors
    /// It has not.
    pub fn checked(self) -> Result<Self, clap::Error> {
        let message = match (self.global.format, &self.verb) {
            (
                Some(_),
                Verb::Serve(_) | Verb::Restore(_) | Verb::Migrate(_) | Verb::Mirror(_) | Verb::Completion { .. },
            ) => "this command has no --format",
            (Some(PrintFormat::Csv), Verb::Hosts(hosts)) if hosts.verb.is_none() => return Ok(self),
            (Some(PrintFormat::Csv), Verb::Inventory(_)) => return Ok(self),
            (Some(PrintFormat::Csv), _) => "--format csv is for the list of hosts: teleport-fleet hosts --format csv",
            _ => return Ok(self),
        };
        Err(Self::command().error(ErrorKind::ArgumentConflict, message))
    }
}

/// Options of every verb, before or after it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// The server's admin socket [default: /run/teleport-fleet/admin.sock]
    #[arg(long, global = true, value_name = "PATH", env = "TELEPORT_FLEET_ADMIN_SOCKET", hide_env_values = true)]
    pub admin_socket: Option<PathBuf>,
    /// Ask the server at this address instead: https://HOST:PORT, or http:// on this host
    #[arg(long, global = true, value_name = "URL", env = "TELEPORT_FLEET_SERVER", hide_env_values = true)]
    pub server: Option<String>,
    /// The file with the token for --server
    #[arg(long, global = true, value_name = "FILE", env = "TELEPORT_FLEET_TOKEN_FILE", hide_env_values = true)]
    pub token_file: Option<PathBuf>,
    /// Additional CA certificates for --server (PEM file)
    #[arg(long, global = true, value_name = "FILE", env = "TELEPORT_FLEET_CA_FILE", hide_env_values = true)]
    pub ca_file: Option<PathBuf>,
    /// Output format [default: text; yaml for get]; csv is for hosts
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub format: Option<PrintFormat>,
}

/// Standard input can be read once.
///
/// # Errors
/// It is named twice.
pub fn read_once<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<(), &'static str> {
    let most = files.filter(|file| file.as_os_str() == "-").count();
    if most > 1 { Err("`-` is given twice: standard input can be read once") } else { Ok(()) }
}

/// Values that explain themselves: with a help of their own, `--help` would give every option a paragraph.
const NO_HELP: Option<&str> = None;

/// Formats of what goes to standard output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PrintFormat {
    /// For people
    #[value(help = NO_HELP)]
    #[default]
    Text,
    /// For programs
    #[value(help = NO_HELP)]
    Json,
    /// For programs and people
    #[value(help = NO_HELP)]
    Yaml,
    /// For spreadsheets: a list of hosts
    #[value(help = NO_HELP)]
    Csv,
}

/// The verbs. `serve`, `lint`, `simulate`, `restore`, `migrate`, `tuf`, `mirror` and `doctor` are the server program's own; [`crate::run()`] does the others.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Run the server
    Serve(Box<Serve>),
    /// Show and steer the rollout, as `tctl autoupdate` does
    #[command(subcommand)]
    Autoupdate(Box<Autoupdate>),
    /// Show how far each group is: `autoupdate agents status`
    Status(StatusArgs),
    /// Wait until the rollout is done, halted, or a group as far as that
    Wait(WaitArgs),
    /// Show resources
    #[command(after_help = "Examples:\n  \
                      teleport-fleet get autoupdate_config > config.yaml\n  \
                      teleport-fleet get fleet_channel/stable --format json\n\n\
                      Kinds: autoupdate_config, autoupdate_version, autoupdate_agent_rollout, autoupdate_agent_report,\n\
                      cluster_maintenance_config, fleet_channel, fleet_release.")]
    Get {
        /// The kind, or one resource of it
        #[arg(value_name = "KIND[/NAME]")]
        what: String,
    },
    /// Write resources that are not there yet
    #[command(after_help = "Examples:\n  \
                      teleport-fleet create -f policy.yaml --dry-run   # how many hosts would go?\n  \
                      teleport-fleet create -f policy.yaml -f version.yaml   # one change: both or neither\n  \
                      teleport-fleet create --force -f -               # from standard input, over what is there")]
    Create {
        /// All files and documents together are one change
        #[command(flatten)]
        files: Files,
        /// Replace what is there already
        #[arg(long)]
        force: bool,
        /// Only check, and say what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Write resources that are there already
    #[command(after_help = "All files and documents together are one change.")]
    Update {
        /// All files and documents together are one change
        #[command(flatten)]
        files: Files,
        /// Only check, and say what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Write all resources of a directory; with --prune it is all that there is
    Apply(Apply),
    /// Change a resource in an editor
    #[command(
        after_help = "The editor is $VISUAL, else $EDITOR, else vi. What the server refuses is kept in its file."
    )]
    Edit {
        /// The resource; a kind of which there is but one needs no name
        #[arg(value_name = "KIND[/NAME]")]
        what: String,
    },
    /// Remove a resource
    Rm {
        /// The resource; a kind of which there is but one needs no name
        #[arg(value_name = "KIND[/NAME]")]
        what: String,
        /// Only say what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Write the draft of a version directive
    CreateDraft {
        /// One version-directive in YAML or JSON; `-` is standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Its name
        #[arg(long, value_name = "KIND/NAME", default_value = directives::DRAFT)]
        name: String,
    },
    /// List the drafts of version directives
    Drafts,
    /// Plan, review and apply version directives
    #[command(subcommand)]
    VersionControl(Box<VersionControlVerb>),
    /// Check resources without a server: unknown keys, values out of range, groups that can never start
    Lint(Lint),
    /// Show what a host is answered now, why, and when that changes
    Explain {
        /// The host's name, its UUID, or at least 4 hex digits with which that begins
        #[arg(long, value_name = "HOST")]
        host: String,
    },
    /// Show what a release would do to this fleet; with --script question the engine line by line
    Simulate(Box<SimulateArgs>),
    /// List hosts, or decide on many
    Hosts(Box<HostsArgs>),
    /// Show what each host runs, and what is due there
    #[command(subcommand)]
    Inventory(Box<InventoryVerb>),
    /// Show one host, or decide on it
    Host(OneHost),
    /// Show what people and the engine decided, as it happens
    Events(Events),
    /// Show the audit log, or check its chain of hashes
    Audit(AuditArgs),
    /// Show the present rollout and past ones
    Rollouts {
        /// Only those before this number
        #[arg(long, value_name = "NUMBER")]
        before: Option<u64>,
        /// How many of the newest
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        last: u32,
    },
    /// Approve a group that waits for it
    Approve {
        /// The group
        group: String,
        /// The digest of what was looked at (`approval_digest`): refused if the group was changed since
        #[arg(long, value_name = "DIGEST")]
        digest: Option<String>,
    },
    /// List, make and remove tokens for --token-file
    #[command(after_help = "Examples:\n  \
                      teleport-fleet tokens                                          # who may do what\n  \
                      teleport-fleet tokens create ci --role operator --expires-in 90d > token\n  \
                      teleport-fleet tokens rm ci\n  \
                      teleport-fleet tokens join create rack-7 --uses 40 --group prod > join-token   # 40 hosts enrol with it")]
    Tokens {
        /// What to do instead of listing them
        #[command(subcommand)]
        verb: Option<TokensVerb>,
    },
    /// Copy the server's data to a file, while it runs
    Backup {
        /// The file, here; it must not be there yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Put a backup in place, while the server is stopped; it then holds every host until `run --all`
    Restore(Restore),
    /// Move a fleet from a file to PostgreSQL, or back; its servers are stopped, and everything is held
    Migrate(Migrate),
    /// Make a TUF repository, sign it, publish it, look at it
    #[command(subcommand)]
    Tuf(Box<TufVerb>),
    /// Fill a mirror with archives, each verified
    Mirror(fleet_tuf::MirrorOrder),
    /// Check this installation of the server
    Doctor(Doctor),
    /// Print a shell completion script
    Completion {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print what a word may be, for a shell's completion
    #[command(hide = true)]
    Complete {
        /// What was typed behind the program's name, up to the cursor
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man,
}
