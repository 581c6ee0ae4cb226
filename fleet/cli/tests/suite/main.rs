//! The command line against a server that says what a test tells it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod asking;
mod fleet;
mod newer;
mod resources;
mod support;
mod transcripts;
mod words;
