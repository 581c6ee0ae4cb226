//! The registry crate beside registries that are good, strange or hostile.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests: what is not there fails them, and their files need no durability"
)]

mod access;
mod binding;
mod forgeries;
mod images;
mod lies;
mod loopback;
mod support;
mod vectors;
