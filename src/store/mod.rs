//! The versions directory: manifests and publishing.

pub mod manifest;
pub mod publish;
