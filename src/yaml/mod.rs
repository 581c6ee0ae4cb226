//! A small YAML tree that keeps what it does not understand, and typed views of it.
//!
//! [`document`] holds a file as written: order, spelling, comments above keys and the keys of others survive a rewrite
//! (SPEC §2). [`view`] turns parts of it into typed values and names file and line where it cannot.

pub(crate) mod document;
mod emit;
mod parse;
pub(crate) mod scalar;
pub(crate) mod view;

pub use document::{Node, Value};
