//! Typed reading of the YAML tree of `crates/yaml`: an error names file, line and key.
//!
//! The tree holds a file as written: order, spelling, comments and the keys of others survive a rewrite
//! (SPEC §2). [`view`] turns parts of it into typed values, [`record`] whole
//! mappings, and back.

pub(crate) mod record;
pub(crate) mod view;

pub(crate) use ::yaml::{Fault, scalar};
pub use ::yaml::{Node, Value};
