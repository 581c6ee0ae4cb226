//! `test-fleet-crash`: cuts the rollout server short at every system call of its decisions, and prints a table.

use std::process::ExitCode;

use testing::crash::fleet::{NAMES, suite::SUITES};
use testing::crash::suite;

fn main() -> ExitCode {
    suite::main("test-fleet-crash", &SUITES, &NAMES, |path| path.to_owned())
}
