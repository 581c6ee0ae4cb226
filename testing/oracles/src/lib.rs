//! What must hold for any bytes that come from outside. Each function panics when it does not: the fuzz targets call
//! them with what libFuzzer finds, and `tests/replay.rs` with what is kept in `fuzz/corpus`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a broken promise is a panic, and its files need no durability"
)]

use std::path::{Path, PathBuf};

mod archive;
mod backup;
mod config;
mod entries;
mod find;
mod fleet;
mod journal;
mod manifest;
mod metadata;
mod names;
mod registries;
mod sandbox;
mod signature;
mod sources;
mod strings;
mod tree;

pub use archive::{archive, entries, tar};
pub use backup::backup_yaml;
pub use config::{go_updater_yaml, teleport_yaml, updates_yaml};
pub use find::find;
pub use fleet::{
    fleet_admin, fleet_counts, fleet_graph, fleet_labels, fleet_query, fleet_request, fleet_resources, fleet_script,
};
pub use journal::{journal, journal_records};
pub use manifest::manifest;
pub use metadata::tuf_metadata;
pub use names::archive_path;
pub use registries::{
    cosign_signature, docker_config, image_manifest, image_reference, registry_answers, registry_challenge,
};
pub use signature::{digest, public_key, signature};
pub use sources::{calendar, release_yaml, source, update_graph};
pub use strings::strings;
pub use tree::yaml;

/// Where inputs are kept, a folder a target.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// A fuzz target: its name, as in `fuzz/fuzz_targets`, and its oracle.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("archive", archive),
    ("archive_path", archive_path),
    ("backup_yaml", backup_yaml),
    ("calendar", calendar),
    ("cosign_signature", cosign_signature),
    ("digest", digest),
    ("docker_config", docker_config),
    ("entries", entries),
    ("find", find),
    ("fleet_admin", fleet_admin),
    ("fleet_counts", fleet_counts),
    ("fleet_graph", fleet_graph),
    ("fleet_labels", fleet_labels),
    ("fleet_query", fleet_query),
    ("fleet_request", fleet_request),
    ("fleet_resources", fleet_resources),
    ("fleet_script", fleet_script),
    ("go_updater_yaml", go_updater_yaml),
    ("image_manifest", image_manifest),
    ("image_reference", image_reference),
    ("journal", journal),
    ("journal_records", journal_records),
    ("manifest", manifest),
    ("public_key", public_key),
    ("registry_answers", registry_answers),
    ("registry_challenge", registry_challenge),
    ("release_yaml", release_yaml),
    ("signature", signature),
    ("source", source),
    ("strings", strings),
    ("tar", tar),
    ("teleport_yaml", teleport_yaml),
    ("tuf_metadata", tuf_metadata),
    ("update_graph", update_graph),
    ("updates_yaml", updates_yaml),
    ("yaml", yaml),
];
