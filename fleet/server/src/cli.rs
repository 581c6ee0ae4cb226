//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Tells every host of a fleet which version to run, and everybody why.
#[derive(Debug, Parser)]
#[command(name = "teleport-fleet", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Question the rollout engine with a virtual clock: JSON Lines in, one JSON line out for each line that asks or fails
    Simulate {
        /// The script; `-` is standard input
        #[arg(long, value_name = "FILE")]
        script: PathBuf,
        /// From which the order of hosts and their fates come
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Check resources: unknown keys, values out of range, groups that can never start
    Lint {
        /// Files of resources, YAML or JSON; `-` is standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}
