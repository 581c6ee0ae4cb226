//! What tests stand on is tested itself: the agent's stand-in, the cluster, its archives, and the disks that lose power.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod agent;
mod archive;
mod power;
mod server;
