//! The versions directory: manifests and publishing.

pub(crate) mod manifest;
pub(crate) mod publish;
