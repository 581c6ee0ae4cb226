//! The store by its API: what is kept, what is refused, and what a crash, a full disk or a stranger can do to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

mod audit;
mod backup;
mod contract;
mod crash;
mod doctor;
mod faulty;
mod golden;
mod model;
mod place_in_log;
mod restore;
mod support;
mod trouble;
mod witness;
