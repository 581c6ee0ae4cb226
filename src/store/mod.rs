//! The versions directory: manifests, publishing, retention (pure).

pub mod manifest;
pub mod publish;
pub mod retention;
