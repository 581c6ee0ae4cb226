//! Verbs that the server program carries out itself. What `serve` is not told stands in its configuration, else is the default
//! that the help names: so every option is optional here.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};

/// Options of `serve`. Each is also a key of the configuration and a variable `TELEPORT_FLEET_…` (FLEET.md §1).
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet serve --tls-cert fullchain.pem --tls-key key.pem --public-addr fleet.example.com\n  \
                  teleport-fleet serve --plain --listen 127.0.0.1:8080 --data /tmp/fleet\n\n\
                  The bound addresses are the first line of output, the one of --metrics second: port 0 works.")]
pub struct Serve {
    /// Configuration
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_CONFIG", hide_env_values = true, default_value = super::CONFIG)]
    pub config: PathBuf,
    /// Data directory [default: /var/lib/teleport-fleet]
    #[arg(long, value_name = "DIR", env = "TELEPORT_FLEET_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
    /// Address for hosts, pages and the admin API [default: 0.0.0.0:443]
    #[arg(long, value_name = "ADDR", env = "TELEPORT_FLEET_LISTEN", hide_env_values = true)]
    pub listen: Option<SocketAddr>,
    /// Address of /metrics [default: 127.0.0.1:9443]
    #[arg(long, value_name = "ADDR", env = "TELEPORT_FLEET_METRICS", hide_env_values = true)]
    pub metrics: Option<SocketAddr>,
    /// Certificate chain (PEM); it is read again when it changes
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_TLS_CERT", hide_env_values = true)]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_TLS_KEY", hide_env_values = true)]
    pub tls_key: Option<PathBuf>,
    /// Serve HTTP without TLS: on loopback, or with --behind-proxy
    #[arg(long, env = "TELEPORT_FLEET_PLAIN", hide_env_values = true, action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    pub plain: bool,
    /// A reverse proxy ends TLS before this server and names the client
    #[arg(long, env = "TELEPORT_FLEET_BEHIND_PROXY", hide_env_values = true, action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    pub behind_proxy: bool,
    /// HOST[:PORT] that scripts and links name
    #[arg(long, value_name = "ADDR", env = "TELEPORT_FLEET_PUBLIC_ADDR", hide_env_values = true)]
    pub public_addr: Option<String>,
    /// Directory of the updater's packages, for the install script
    #[arg(long, value_name = "URL", env = "TELEPORT_FLEET_PACKAGES", hide_env_values = true)]
    pub packages: Option<String>,
    /// Write the bound addresses to this file once the server answers
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_READY_FILE", hide_env_values = true)]
    pub ready_file: Option<PathBuf>,
    /// Server version that answers of the nested dialect name [default: the target's]
    #[arg(long, value_name = "VERSION", env = "TELEPORT_FLEET_SERVER_VERSION", hide_env_values = true)]
    pub server_version: Option<String>,
    /// Cluster name that answers of the nested dialect carry
    #[arg(long, value_name = "NAME", env = "TELEPORT_FLEET_CLUSTER_NAME", hide_env_values = true)]
    pub cluster_name: Option<String>,
    /// Edition that hosts are told: oss, enterprise or enterprise-fips [default: none is named]
    #[arg(long, value_name = "EDITION", env = "TELEPORT_FLEET_EDITION", hide_env_values = true)]
    pub edition: Option<String>,
    /// Whose reports are believed [default: open]
    #[arg(long, value_enum, value_name = "HOW", env = "TELEPORT_FLEET_ENROLMENT", hide_env_values = true)]
    pub enrolment: Option<Enrolment>,
}

/// Whose reports are believed (FLEET.md §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Enrolment {
    /// Whoever comes first with a host's id
    #[value(help = super::NO_HELP)]
    Open,
    /// Hosts with a join token
    #[value(help = super::NO_HELP)]
    Token,
    /// Hosts that an operator approved
    #[value(help = super::NO_HELP)]
    Approve,
}

/// Options of `lint`.
#[derive(Debug, Clone, Args)]
pub struct Lint {
    /// Files of resources, YAML or JSON; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Options of `simulate`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  \
                  teleport-fleet simulate --script policy-test.jsonl\n\n\
                  {\"at\":\"2026-01-05T00:00:00Z\",\"put\":{\"kind\":\"autoupdate_version\",\"spec\":{…}}}\n  \
                  {\"at\":\"2026-01-05T02:00:00Z\",\"status\":{}}")]
pub struct Simulate {
    /// The script; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub script: PathBuf,
    /// From which the order of hosts and their fates come
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// Options of `restore`.
#[derive(Debug, Clone, Args)]
pub struct Restore {
    /// The backup
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Data directory [default: the configuration's, else /var/lib/teleport-fleet]
    #[arg(long, value_name = "DIR", env = "TELEPORT_FLEET_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
    /// Configuration
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_CONFIG", hide_env_values = true, default_value = super::CONFIG)]
    pub config: PathBuf,
    /// Also over a newer rollout than the backup's
    #[arg(long)]
    pub force: bool,
}

/// Options of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct Doctor {
    /// Configuration
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_CONFIG", hide_env_values = true, default_value = super::CONFIG)]
    pub config: PathBuf,
    /// Data directory [default: the configuration's, else /var/lib/teleport-fleet]
    #[arg(long, value_name = "DIR", env = "TELEPORT_FLEET_DATA", hide_env_values = true)]
    pub data: Option<PathBuf>,
}
