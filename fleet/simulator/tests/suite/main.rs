//! The engine as `simulate --script` shows it: each case of the tables of Managed Updates v2 and RFD 0169, and what holds for all configurations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod absence;
mod lines;
mod properties;
mod scenarios;
