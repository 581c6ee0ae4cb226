//! The versions directory: the names in it, manifests and publishing.

pub(crate) mod contents;
pub(crate) mod manifest;
pub(crate) mod publish;
mod version_dir;

pub(crate) use version_dir::{UNMANAGED, VersionDir};
