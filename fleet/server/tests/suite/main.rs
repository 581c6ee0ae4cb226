//! The server as its users meet it: the program, its command line, and HTTP on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the tests are outside the server that they test")]

mod admin;
mod agree;
mod audit;
mod canaries;
mod crash;
mod dashboard;
mod deaf;
mod directives;
mod docs;
mod earlier;
mod errors;
mod faults;
mod hostile;
mod load;
mod memory;
mod monitoring;
mod nodes;
mod notify;
#[cfg(feature = "oidc")]
mod oidc;
mod outbound;
mod pipes;
mod reports;
mod routes;
mod start;
mod stop;
mod support;
mod transcripts;
mod tuf;
mod typed;
