//! Verbs on hosts, and on what was decided.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use fleet_wire::api::{HostsQuery, host_states};

/// Characters of a wrong version that are shown.
const LONGEST_VERSION: usize = 64;
/// Hex digits of a hash of the audit log.
const HASH: usize = 64;

/// Options of `hosts`.
#[derive(Debug, Clone, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet hosts --group prod --failed   # who failed, and with which error\n  \
                  teleport-fleet hosts --search web            # names, values of labels, beginnings of ids\n  \
                  teleport-fleet hosts accept --group prod --dry-run")]
pub struct HostsArgs {
    /// Which are shown
    #[command(flatten)]
    pub filter: HostsFilter,
    /// What to decide of many
    #[command(subcommand)]
    pub verb: Option<HostsVerb>,
}

/// What is decided of many hosts: one record.
#[derive(Debug, Clone, Subcommand)]
pub enum HostsVerb {
    /// Accept the keys that wait: what these hosts report with them counts from now on. A host that has a key already is left out
    Accept(ManyHosts),
    /// Put these hosts in a group, whatever they declare
    Assign {
        /// The group
        #[arg(id = "to", value_name = "GROUP")]
        group: String,
        /// Which hosts
        #[command(flatten)]
        many: ManyHosts,
    },
    /// Let these hosts belong to the groups that they declare again
    Unassign(ManyHosts),
}

/// On which hosts, and how.
#[derive(Debug, Clone, Args)]
pub struct ManyHosts {
    /// Which
    #[command(flatten)]
    pub filter: HostsFilter,
    /// All hosts, where nothing else says which
    #[arg(long)]
    pub all: bool,
    /// Only if these are the hosts, with the keys, that a dry run showed
    #[arg(long, value_name = "SHOWN", conflicts_with = "dry_run")]
    pub shown: Option<String>,
    /// Count them, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// What `inventory` does.
#[derive(Debug, Clone, Subcommand)]
pub enum InventoryVerb {
    /// List hosts with their services and how far their installation is
    Ls(HostsFilter),
}

/// Which hosts.
#[derive(Debug, Clone, Default, Args)]
pub struct HostsFilter {
    /// Only hosts with this in their name or in the value of a label, with this label (KEY=VALUE), or whose UUID begins so
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Only hosts with this label
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Option<String>,
    /// Only hosts of this group; an empty word: of no group
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Only hosts in this state
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(host_states()))]
    pub state: Option<String>,
    /// Only hosts on which the present target failed
    #[arg(long)]
    pub failed: bool,
    /// Only hosts on which the present target failed with this error code; an empty word: with none
    #[arg(long, value_name = "CODE")]
    pub code: Option<String>,
    /// Only hosts of which a key waits for an admin: `host HOST` shows it
    #[arg(long)]
    pub waiting: bool,
    /// Only hosts that run this version
    #[arg(long, value_name = "VERSION", value_parser = version)]
    pub version: Option<String>,
}

impl HostsFilter {
    /// As the server is asked.
    pub(crate) fn query(&self) -> HostsQuery {
        let Self { search, label, group, state, failed, code, waiting, version } = self.clone();
        HostsQuery { search, label, group, state, failed, code, waiting, version, ..HostsQuery::default() }
    }
}

/// A version, as hosts report theirs.
fn version(text: &str) -> Result<String, String> {
    let cut: String = text.chars().take(LONGEST_VERSION).collect();
    let read = text.parse::<protocol::Version>();
    read.map(|version| version.to_string()).map_err(|_| format!("{cut:?} is not a version: write it as 1.2.3"))
}

/// Options of `host`.
#[derive(Debug, Clone, Args)]
pub struct OneHost {
    /// The host's name, its UUID, or at least 4 hex digits with which that begins
    #[arg(value_name = "HOST")]
    pub host: String,
    /// What to decide of it
    #[command(subcommand)]
    pub decision: Option<HostVerb>,
}

/// What is decided of a host.
#[derive(Debug, Clone, Subcommand)]
pub enum HostVerb {
    /// Do not update it until it is released
    Hold,
    /// Update it again
    Release,
    /// Put it in a group, whatever it declares
    Assign {
        /// The group
        group: String,
    },
    /// Let it belong to the group that it declares again
    Unassign,
    /// Accept the key that waits: what the host reports with it counts from now on
    Accept {
        /// Only if the key that waits begins so, in hex
        #[arg(long, value_name = "HEX")]
        key: Option<String>,
    },
    /// Strike it off, its key with it: it is gone for good, or its enrolment shall not count. If it comes back it is new. Not while it
    /// is held, or was allowed to update and has come to no end
    Forget,
}

/// Options of `events`.
#[derive(Debug, Clone, Args)]
pub struct Events {
    /// Go on, and show each as it happens
    #[arg(long)]
    pub follow: bool,
    /// Only those behind this number
    #[arg(long, value_name = "SEQ")]
    pub after: Option<u64>,
    /// How many of the newest to begin with
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "after")]
    pub last: u32,
}

/// Options of `audit`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    /// Only those behind this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub after: u64,
    /// What to do instead of showing it
    #[command(subcommand)]
    pub verb: Option<AuditVerb>,
}

/// What `audit` does besides showing.
#[derive(Debug, Clone, Subcommand)]
pub enum AuditVerb {
    /// Check the chain of hashes
    Verify {
        /// A hash that was stored elsewhere: it must be in the chain, else the end was cut off
        #[arg(long, value_name = "HASH", value_parser = hash)]
        head: Option<String>,
    },
}

/// A SHA-256 in hex, as the audit log writes it.
fn hash(text: &str) -> Result<String, &'static str> {
    if text.len() == HASH && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err("expected the 64 hex digits of a record's hash, as `audit verify` prints them")
}
