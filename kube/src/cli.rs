//! The arguments of each command (KUBE §1).

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::DEFAULT_FILE;

/// Updates the Teleport agents of a Kubernetes namespace, and puts the old image back when a new one does not come up.
#[derive(Debug, Parser)]
#[command(name = "teleport-kube-update", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct KubeArgs {
    /// What holds for all commands.
    #[command(flatten)]
    pub global: CommonArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: KubeCommand,
}

/// What holds for all commands.
#[derive(Debug, Clone, Args)]
pub struct CommonArgs {
    /// The configuration
    #[arg(long, global = true, env = "TELEPORT_KUBE_CONFIG", default_value = DEFAULT_FILE)]
    pub config: PathBuf,
    /// The name of the ConfigMap, Secret and Lease of this installation
    #[arg(long, global = true, env = "TELEPORT_KUBE_NAME", default_value = crate::hands::MANAGER)]
    pub name: String,
    /// The namespace; otherwise the pod's
    #[arg(long, global = true, env = "TELEPORT_KUBE_NAMESPACE")]
    pub namespace: Option<String>,
    /// A kubeconfig, to run outside of a pod
    #[arg(long, global = true, env = "KUBECONFIG")]
    pub kubeconfig: Option<String>,
    /// One agent, in place of a configuration: the name of its workload
    #[arg(long, global = true, env = "TELEPORT_KUBE_AGENT")]
    pub agent: Option<String>,
    /// With --agent: StatefulSet, Deployment or DaemonSet
    #[arg(long, global = true, env = "TELEPORT_KUBE_KIND")]
    pub kind: Option<String>,
    /// With --agent: the container
    #[arg(long, global = true, env = "TELEPORT_KUBE_CONTAINER")]
    pub container: Option<String>,
    /// With --agent: the update group
    #[arg(long, global = true, env = "TELEPORT_KUBE_GROUP")]
    pub group: Option<String>,
    /// With --agent: who names the version: https://HOST, channel+https://…, cincinnati+https://…, file:///…
    #[arg(long, global = true, env = "TELEPORT_KUBE_SOURCE")]
    pub source: Option<String>,
    /// With --agent: when it may be updated, such as "Mon..Thu *-*-* 02:00 UTC"
    #[arg(long, global = true, env = "TELEPORT_KUBE_WINDOW")]
    pub window: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum KubeCommand {
    /// Keep the agents at the version that their sources want, until it is stopped
    Run {
        /// Where to answer /healthz, /readyz and /metrics
        #[arg(long, env = "TELEPORT_KUBE_LISTEN", default_value = "0.0.0.0:8080")]
        listen: SocketAddr,
    },
    /// Show what each agent runs, what is wanted, and why it is as it is
    Status {
        /// How to write it
        #[arg(long, value_enum, default_value_t)]
        format: KubeFormat,
    },
    /// Show what would be done now, and why; changes nothing
    Plan {
        /// How to write it
        #[arg(long, value_enum, default_value_t)]
        format: KubeFormat,
    },
    /// Update an agent to the wanted version, and wait for the outcome
    Update {
        /// At once: whatever window and refusals say
        #[arg(long, required = true)]
        now: bool,
        /// Which agent.
        #[command(flatten)]
        which: WhichAgent,
    },
    /// Put back the image before the last update, and wait for the outcome
    Rollback(WhichAgent),
    /// Change an agent no more, until `release`
    Hold(WhichAgent),
    /// End a hold, refusals and a fight over the image
    Release(WhichAgent),
    /// Show the version of this program
    Version,
}

/// An agent of the configuration.
#[derive(Debug, Args)]
pub struct WhichAgent {
    /// Which agent, where there are several
    #[arg(value_name = "AGENT")]
    pub which: Option<String>,
}

/// How something is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum KubeFormat {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}
