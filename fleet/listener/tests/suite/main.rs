//! Connections as clients make them: real sockets on loopback, good and bad.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "files of tests need not be durable")]

mod flood;
mod http;
mod limits;
mod local;
mod stop;
mod support;
mod tls;
