//! The versions directory: manifests and publishing.

pub(crate) mod contents;
pub(crate) mod manifest;
pub(crate) mod publish;
