//! `autoupdate`: the words of `tctl autoupdate`, and those of RFD 0169 (FLEET §6).

use clap::{ArgAction, Args, Subcommand};
use fleet_wire::rollout::STATES;

/// What `autoupdate` does.
#[derive(Debug, Clone, Subcommand)]
pub enum Autoupdate {
    /// Steer the rollout to agents
    #[command(subcommand)]
    Agents(AgentsVerb),
    /// Versions of tsh and tctl
    #[command(subcommand)]
    ClientTools(ClientTools),
    /// Change cluster_maintenance_config or the wanted version (RFD 0169)
    Update(Box<FlatUpdate>),
    /// Remove the update policy from cluster_maintenance_config; its maintenance window stays (RFD 0169)
    Reset {
        /// Only check, and say what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the rollout, or one of its groups (RFD 0169)
    Status {
        /// Only this group, with its counts of hosts
        #[arg(long, value_name = "GROUP")]
        group: Option<String>,
    },
    /// Start a group now, or again after it was halted (RFD 0169)
    Run {
        /// The group
        #[arg(long, value_name = "GROUP")]
        group: String,
    },
}

/// What `autoupdate agents` does.
#[derive(Debug, Clone, Subcommand)]
pub enum AgentsVerb {
    /// Show how far each group is, why it waits, and until when
    Status(StatusArgs),
    /// Show how many agents run which version, by group
    Report,
    /// Start groups now, whatever their window and the groups before them say
    StartUpdate {
        /// Names of groups
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
        /// Without canaries, and in spite of a freeze
        #[arg(long)]
        force: bool,
        /// In spite of a freeze, with canaries first
        #[arg(long, conflicts_with = "force")]
        ignore_blackout: bool,
        /// Only say what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Call groups done, so that those after them may start
    MarkDone {
        /// Names of groups
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
        /// Only say what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Send agents back to the start version
    Rollback {
        /// Names of groups; none: all that have started
        #[arg(value_name = "GROUP")]
        groups: Vec<String>,
        /// All at once instead of at the group's pace
        #[arg(long)]
        at_once: bool,
        /// Only say what would happen
        #[arg(long)]
        dry_run: bool,
    },
    /// Stop: from now on nobody in these groups is allowed to update, until `run`
    Halt(GroupsOrAllArgs),
    /// End a halt with another attempt, or start groups that have not begun
    Run(GroupsOrAllArgs),
}

/// Options of `status`.
#[derive(Debug, Clone, Args)]
pub struct StatusArgs {
    /// Go on: on a terminal in place, else below each other, whenever something changed
    #[arg(long)]
    pub watch: bool,
}

/// Options of `wait`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet wait --for done --timeout 6h    # every group is done\n  \
                  teleport-fleet wait --for prod=active          # it has begun; done is further, and does as well\n\n\
                  Exit status: 0 reached; 1 failed or refused, or another rollout began; 2 wrong usage;\n\
                  3 something else came first, such as a halt; 4 the time was over.")]
pub struct WaitArgs {
    /// done, halted, or GROUP=STATE: unstarted, canary, active, done, halted or rolledback
    #[arg(long = "for", value_name = "GOAL", value_parser = goal)]
    pub goal: WaitGoal,
    /// How long at most, as in 30m or 6h [default: for ever]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub timeout: Option<std::time::Duration>,
}

/// What `wait` waits for: a state of a group, or of the rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitGoal {
    /// As it was typed.
    pub text: String,
    /// The group; `None`: done are all, halted is any.
    pub group: Option<String>,
    /// The state.
    pub state: String,
}

fn goal(text: &str) -> Result<WaitGoal, String> {
    let (group, state) = text.rsplit_once('=').map_or((None, text), |(group, state)| (Some(group.to_owned()), state));
    let known: &[&str] = if group.is_some() { &STATES } else { &["done", "halted"] };
    if !known.contains(&state) {
        return Err(format!("expected done, halted or GROUP=STATE; a group is {}", STATES.join(", ")));
    }
    Ok(WaitGoal { text: text.to_owned(), group, state: state.to_owned() })
}

fn timeout(text: &str) -> Result<std::time::Duration, String> {
    let length: Option<jiff::SignedDuration> = text.parse().ok();
    let length = length.filter(jiff::SignedDuration::is_positive).and_then(|length| length.try_into().ok());
    length.ok_or_else(|| "expected a length of time, as in 30m or 6h".to_owned())
}

/// Groups, or all of them.
#[derive(Debug, Clone, Args)]
pub struct GroupsOrAllArgs {
    /// Names of groups
    #[arg(value_name = "GROUP")]
    pub groups: Vec<String>,
    /// Every group, also of rollouts to come
    #[arg(long, conflicts_with = "groups")]
    pub all: bool,
    /// Only say what would happen
    #[arg(long)]
    pub dry_run: bool,
}

/// What `autoupdate client-tools` does.
#[derive(Debug, Clone, Subcommand)]
pub enum ClientTools {
    /// Show mode and target version
    Status,
    /// Let tsh and tctl update themselves
    Enable,
    /// Let them stay as they are
    Disable,
    /// Set the version that they update to
    Target {
        /// The version
        #[arg(required_unless_present = "clear", conflicts_with = "clear")]
        version: Option<String>,
        /// Follow the cluster's version again
        #[arg(long)]
        clear: bool,
    },
}

/// Schedules that have groups.
const SCHEDULES: [&str; 2] = ["regular", "critical"];

/// Options of the flat `autoupdate update`.
#[derive(Debug, Clone, Default, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  \
                  teleport-fleet autoupdate update --set-agent-auto-update=off\n  \
                  teleport-fleet autoupdate update --schedule regular --group staging --set-start-hour=3\n  \
                  teleport-fleet autoupdate update --set-agent-version=15.1.1 --critical"
)]
pub struct FlatUpdate {
    /// Whether agents update: on or off
    #[arg(long, value_name = "ON|OFF", value_parser = on_or_off, action = ArgAction::Set)]
    pub set_agent_auto_update: Option<bool>,
    /// The version that agents shall run
    #[arg(long, value_name = "VERSION")]
    pub set_agent_version: Option<String>,
    /// That version is urgent: groups of the critical schedule
    #[arg(long, requires = "set_agent_version")]
    pub critical: bool,
    /// The schedule of --group [default: regular]
    #[arg(long, value_name = "SCHEDULE", value_parser = SCHEDULES, requires = "group")]
    pub schedule: Option<String>,
    /// The group that the following options change
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Days on which its hosts may update, comma-separated (Mon,Tue or *)
    #[arg(long, value_name = "DAYS", value_delimiter = ',', requires = "group")]
    pub set_days: Option<Vec<String>>,
    /// Hour in which it may start, 0 to 23
    #[arg(long, value_name = "HOUR", requires = "group", value_parser = clap::value_parser!(u32).range(0..=23))]
    pub set_start_hour: Option<u32>,
    /// Longest random wait of its hosts before they update, 0 to 60 s
    #[arg(long, value_name = "SECONDS", requires = "group", value_parser = clap::value_parser!(u32).range(0..=60))]
    pub set_jitter_seconds: Option<u32>,
    /// How many of its hosts update at the same time, in percent
    #[arg(long, value_name = "PERCENT", requires = "group", value_parser = percent)]
    pub set_max_in_flight: Option<u32>,
    /// After how long an update has timed out, 30 to 900 s
    #[arg(long, value_name = "SECONDS", requires = "group", value_parser = clap::value_parser!(u32).range(30..=900))]
    pub set_timeout_seconds: Option<u32>,
    /// After how long a host that stopped reporting has failed, 0 (never) to 900 s
    #[arg(long, value_name = "SECONDS", requires = "group", value_parser = clap::value_parser!(u32).range(0..=900))]
    pub set_failure_seconds: Option<u32>,
    /// How many of its hosts may fail before it halts, in percent
    #[arg(long, value_name = "PERCENT", requires = "group", value_parser = percent)]
    pub set_max_failed_before_halt: Option<u32>,
    /// How many of its hosts may time out before it halts, in percent
    #[arg(long, value_name = "PERCENT", requires = "group", value_parser = percent)]
    pub set_max_timeout_before_halt: Option<u32>,
    /// Only check, and say what would happen
    #[arg(long)]
    pub dry_run: bool,
}

/// The words of the RFD, and those of YAML.
fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" | "yes" => Ok(true),
        "off" | "false" | "no" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

/// `20` and `20%`.
fn percent(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|number| *number <= 100).ok_or_else(|| "expected a whole percentage, 0 to 100".to_owned())
}
