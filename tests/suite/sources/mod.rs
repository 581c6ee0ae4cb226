//! Sources of versions that are no cluster (docs/sources.md): the real binary, and real servers.

mod channel;
mod file;
mod graph;
mod host;
mod loop_of_rfd_0109;
mod switching;
mod takeover;
mod told;
