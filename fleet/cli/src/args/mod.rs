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
    AgentsVerb, Autoupdate, ClientTools, FlatGroup, FlatStatus, FlatUpdate, GroupsArgs, GroupsOrAllArgs, RollbackArgs,
    StartUpdate, StatusArgs, WaitArgs, WaitGoal,
};
pub use directives::{CreateDraft, PlanArgs, ReviewArgs, VersionControlVerb};
pub use hosts::{
    ApproveArgs, AuditArgs, AuditVerb, Events, ExplainArgs, HostVerb, HostsArgs, HostsFilter, HostsVerb, InventoryVerb,
    OneHost, RolloutsArgs,
};
pub use resources::{Apply, Create, EditArgs, Files, Get, Rm, UpdateFile};
pub use serve::{Doctor, Lint, Migrate, Restore, Serve, SimulateArgs};
pub use tokens::{Join, TokensArgs, TokensVerb};
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
    Get(Get),
    /// Write resources that are not there yet
    Create(Create),
    /// Write resources that are there already
    Update(UpdateFile),
    /// Write all resources of a directory; with --prune it is all that there is
    Apply(Apply),
    /// Change a resource in an editor
    Edit(EditArgs),
    /// Remove a resource
    Rm(Rm),
    /// Write the draft of a version directive
    CreateDraft(CreateDraft),
    /// List the drafts of version directives
    Drafts,
    /// Plan, review and apply version directives
    #[command(subcommand)]
    VersionControl(Box<VersionControlVerb>),
    /// Check resources without a server: unknown keys, values out of range, groups that can never start
    Lint(Lint),
    /// Show what a host is answered now, why, and when that changes
    Explain(ExplainArgs),
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
    Rollouts(RolloutsArgs),
    /// Approve a group that waits for it
    Approve(ApproveArgs),
    /// List, make and remove tokens for --token-file
    Tokens(TokensArgs),
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
