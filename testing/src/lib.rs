//! What tests, the demo and the benches put around the two programs. It uses the code of neither.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test support: a broken fixture is a failed test, and its files need no durability"
)]

pub mod beds;
pub mod bench;
pub mod cluster;
pub mod crash;
pub mod faults;
pub mod loopback;
pub mod postgres;
pub mod proxy;
pub mod registry;
