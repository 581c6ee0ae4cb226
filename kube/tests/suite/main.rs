//! The updater on a real API server (KUBE §11).
#![allow(unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests")]

mod faults;
mod figures;
mod fleet;
mod hands;
mod hands_real;
mod hostile;
mod leaders;
mod model;
mod pod;
mod scene;
mod stage;
mod ways;
mod webhook;
mod writing;
