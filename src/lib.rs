//! The Teleport agent updater of RFD 0169: installs, updates, downgrades and rolls back the agent on Linux servers.
//!
//! Rooms, from the top down: [`command`] (one file a command), [`config`], [`cluster`], [`release`], [`store`],
//! [`database`], [`plan`] (pure), [`execute`] (journal, do/undo, recovery), [`service`], [`yaml`], [`host`] (the only place
//! with system calls), [`report`]. Dependencies point downward in this order.
//!
//! `SPEC §n` in comments is section n of `docs/specification.md`.

pub mod cli;
pub mod cluster;
pub mod command;
pub mod config;
pub mod database;
pub mod execute;
pub mod host;
pub mod plan;
pub mod release;
pub mod report;
pub mod service;
pub mod store;
pub mod yaml;
