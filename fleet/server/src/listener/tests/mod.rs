//! Connections as clients make them: real sockets on loopback, good and bad.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests: their files need not be durable"
)]

mod descriptors;
mod flood;
mod http;
mod limits;
mod local;
mod stop;
mod support;
mod tls;
