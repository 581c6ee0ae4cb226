//! The bed does what a cluster does: else what is tested in it means nothing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod kubelet;
mod manifests;
mod own;
mod proxy;
mod rights;
mod workloads;

use std::time::Duration;

/// More than any of these takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const FIRST: &str = "registry.example/teleport/agent:1.0.0";
const SECOND: &str = "registry.example/teleport/agent:1.0.1";
