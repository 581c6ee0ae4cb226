//! Verbs that the server program carries out itself. What `serve` is not told stands in its configuration, else is the default
//! that the help names: so every option is optional here.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

/// Options of `serve`. Each is also a key of the configuration and a variable `TELEPORT_FLEET_…` (FLEET §1).
#[derive(Debug, Clone, Default, Args)]
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
    /// PostgreSQL database in place of a file in the data directory: postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "URL", env = "TELEPORT_FLEET_STORE", hide_env_values = true)]
    pub store: Option<String>,
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
    /// HOST or HOST:PORT that scripts and links name
    #[arg(long, value_name = "ADDR", env = "TELEPORT_FLEET_PUBLIC_ADDR", hide_env_values = true)]
    pub public_addr: Option<String>,
    /// Directory of the updater's packages, for the install script
    #[arg(long, value_name = "URL", env = "TELEPORT_FLEET_PACKAGES", hide_env_values = true)]
    pub packages: Option<String>,
    /// Write the bound addresses to this file once the server answers
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_READY_FILE", hide_env_values = true)]
    pub ready_file: Option<PathBuf>,
    /// Version of your Teleport servers: answers name it, and channels no higher major [default: none]
    #[arg(long, value_name = "VERSION", env = "TELEPORT_FLEET_SERVER_VERSION", hide_env_values = true)]
    pub server_version: Option<String>,
    /// Cluster name that answers of the nested dialect carry
    #[arg(long, value_name = "NAME", env = "TELEPORT_FLEET_CLUSTER_NAME", hide_env_values = true)]
    pub cluster_name: Option<String>,
    /// Edition that hosts install: oss, enterprise or enterprise-fips [default: none is named]
    #[arg(long, value_name = "EDITION", env = "TELEPORT_FLEET_EDITION", hide_env_values = true)]
    pub edition: Option<String>,
    /// How new hosts enrol: open (whoever reports first as a host is that host), token (with a join token) or approve (an
    /// admin accepts each) [default: open]
    #[arg(long, value_name = "HOW", env = "TELEPORT_FLEET_ENROLMENT", hide_env_values = true)]
    pub enrolment: Option<String>,
    /// How often a host reports that has nothing new to say; 0: hosts are not asked for reports [default: 900]
    #[arg(long, value_name = "SECONDS", env = "TELEPORT_FLEET_REPORT_INTERVAL_SECONDS", hide_env_values = true)]
    pub report_interval_seconds: Option<u32>,
    /// Where notifications are posted: https, or http on this host
    #[arg(long, value_name = "URL", env = "TELEPORT_FLEET_WEBHOOK_URL", hide_env_values = true)]
    pub webhook_url: Option<String>,
    /// The secret that signs them, mode 0600; it is read again for each
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_WEBHOOK_SECRET_FILE", hide_env_values = true)]
    pub webhook_secret_file: Option<PathBuf>,
    /// Directory of a TUF repository: it is served at /tuf/metadata/, and watched
    #[arg(long, value_name = "DIR", env = "TELEPORT_FLEET_TUF_REPOSITORY", hide_env_values = true)]
    pub tuf_repository: Option<PathBuf>,
    /// Key of its snapshot and timestamp, which are then refreshed here: a PEM file, mode 0600, or exec:COMMAND
    #[arg(long, value_name = "KEY", env = "TELEPORT_FLEET_TUF_ONLINE_KEY", hide_env_values = true)]
    pub tuf_online_key: Option<String>,
    /// OpenID Connect provider by which people log in to the dashboard, as it names itself
    #[arg(long, value_name = "URL", env = "TELEPORT_FLEET_OIDC_ISSUER", hide_env_values = true)]
    pub oidc_issuer: Option<String>,
    /// What this server is called there
    #[arg(long, value_name = "ID", env = "TELEPORT_FLEET_OIDC_CLIENT_ID", hide_env_values = true)]
    pub oidc_client_id: Option<String>,
    /// The secret that the provider gave it, mode 0600; it is read again at each login
    #[arg(long, value_name = "FILE", env = "TELEPORT_FLEET_OIDC_CLIENT_SECRET_FILE", hide_env_values = true)]
    pub oidc_client_secret_file: Option<PathBuf>,
    /// What the provider is asked for [default: openid email]
    #[arg(long, value_name = "SCOPES", env = "TELEPORT_FLEET_OIDC_SCOPES", hide_env_values = true)]
    pub oidc_scopes: Option<String>,
    /// The claim that says what somebody may do [default: groups]
    #[arg(long, value_name = "CLAIM", env = "TELEPORT_FLEET_OIDC_CLAIM", hide_env_values = true)]
    pub oidc_claim: Option<String>,
    /// Values of the claim, and the role of who has one: viewer, operator or admin
    #[arg(
        long,
        value_name = "VALUE=ROLE,..",
        env = "TELEPORT_FLEET_OIDC_ROLES",
        hide_env_values = true,
        value_delimiter = ','
    )]
    pub oidc_roles: Option<Vec<String>>,
    /// The admin socket, where the configuration names it; its flag is every verb's.
    #[arg(skip)]
    pub admin_socket: Option<PathBuf>,
}

/// Options of `lint`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet lint policy.yaml                            # faults, and advice\n  \
                  teleport-fleet lint --hosts 5000 --strict *.yaml            # in CI: advice fails as well\n\n\
                  Exit status: 0 legal; 1 faults, or with --strict advice; 2 wrong usage.")]
pub struct Lint {
    /// What is checked
    #[command(flatten)]
    pub files: super::Files,
    /// How many hosts the fleet has: thresholds are judged by it
    #[arg(long, value_name = "N")]
    pub hosts: Option<u64>,
    /// Exit with status 1 for advice as well
    #[arg(long)]
    pub strict: bool,
}

/// Options of `simulate`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
                  teleport-fleet simulate --bad 2%                    # this server's configuration and hosts\n  \
                  teleport-fleet simulate -f policy.yaml --hosts 10000 --bad 5% --svg rollout.svg\n  \
                  teleport-fleet simulate -f policy.yaml --hosts canary=20 --hosts prod=5000 --bad-label os=rhel\n  \
                  teleport-fleet simulate --bad 1% --bad-after 3h --server-down 12h..13h --format json\n  \
                  teleport-fleet simulate --script policy-test.jsonl\n\n\
                  Every host begins on the version before. Made-up hosts have the labels os (debian, ubuntu, rhel,\n\
                  amazon-linux: a quarter each) and arch (amd64, one of five arm64). Approvals and external checks are\n\
                  given at once. The same options give the same output.\n\n\
                  A script: {\"at\":\"2026-01-05T02:00:00Z\",\"put\":{\"kind\":\"autoupdate_version\",\"spec\":{…}}}\n\
                            {\"at\":\"2026-01-05T03:00:00Z\",\"status\":{}}")]
pub struct SimulateArgs {
    /// Questions the engine with this script instead, JSON Lines in and out; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "files", "named", "to", "hosts", "inventory", "bad", "bad_label", "bad_after", "vanish", "network_cut", "server_down",
        "update_in", "every", "size", "at", "length", "svg",
    ])]
    pub script: Option<PathBuf>,
    /// Number from which chance is drawn: another one is another run
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Resources to simulate, YAML or JSON [default: those of the server]; `-` is standard input
    #[arg(short, long = "file", alias = "config-file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The same without -f
    #[arg(value_name = "FILE")]
    pub named: Vec<PathBuf>,
    /// The release [default: the target of the resources, else one that is made up]
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// Make up hosts: so many in equal parts for all groups, or GROUP=N for each group
    /// [default: the server's hosts; with --file 1000]
    #[arg(long, value_name = "[GROUP=]N")]
    pub hosts: Vec<String>,
    /// Hosts from a file, as `teleport-fleet hosts --format json` writes it
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    pub inventory: Option<PathBuf>,
    /// Share of hosts on which the release breaks [default: 0%; with --bad-label 100%]
    #[arg(long, value_name = "SHARE")]
    pub bad: Option<String>,
    /// It breaks only on hosts with this label
    #[arg(long, value_name = "KEY=VALUE")]
    pub bad_label: Option<String>,
    /// It breaks so long after the update [default: at once]
    #[arg(long, value_name = "DURATION")]
    pub bad_after: Option<String>,
    /// Share of hosts that never come back from the update
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub vanish: String,
    /// A share of hosts does not reach the server for a time after the beginning: 30%:12h..13h
    #[arg(long, value_name = "SHARE:FROM..TO")]
    pub network_cut: Vec<String>,
    /// The server is down for a time after the beginning: 12h..13h30m
    #[arg(long, value_name = "FROM..TO")]
    pub server_down: Vec<String>,
    /// How long an update takes
    #[arg(long, value_name = "DURATION", default_value = "90s")]
    pub update_in: String,
    /// How often a host asks, 1m to 15m
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub every: String,
    /// What a host downloads, in megabytes
    #[arg(long, value_name = "MB", default_value_t = 180)]
    pub size: u32,
    /// When the rollout begins: RFC 3339, or `now`; the default is a Monday
    #[arg(long, value_name = "TIME", default_value = "2026-01-05T00:00:00Z")]
    pub at: String,
    /// How long at most
    #[arg(long = "for", value_name = "DURATION", default_value = "30d")]
    pub length: String,
    /// Also write a picture to this file; `-` writes it to standard output instead of the text
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
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

/// Options of `migrate`.
#[derive(Debug, Clone, Args)]
pub struct Migrate {
    /// The store that has the fleet: a data directory, or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "STORE")]
    pub from: String,
    /// The empty one that it goes to
    #[arg(long, value_name = "STORE")]
    pub to: String,
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
    /// PostgreSQL database in place of a file in the data directory: postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "URL", env = "TELEPORT_FLEET_STORE", hide_env_values = true)]
    pub store: Option<String>,
    /// Only ask the server whether it is ready (`/readyz`), as a container's health check does
    #[arg(long)]
    pub ready: bool,
}
