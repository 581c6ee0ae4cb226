//! A small YAML tree that keeps what it does not understand: order, spelling, comments above keys, at the end of lines
//! and behind the last key, and the keys of others survive a rewrite. Reading has budgets; an error names its line. No
//! I/O but in [`view`], which turns parts of the tree into typed values, and no file's keys.
//!
//! `SPEC §n` in comments is section n of `docs/specification.md`.

mod document;
mod emit;
mod json;
mod merge;
mod parse;
pub mod scalar;
mod tail;
pub mod view;

pub use document::{Fault, Node, Value};
pub use parse::MAX_BYTES;
