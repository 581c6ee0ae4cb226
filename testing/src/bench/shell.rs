//! Scripts and other files of the checkout that the bench is of.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A script of `tests/beds`.
pub fn script(name: &str) -> Command {
    let mut command = Command::new(checkout(&format!("tests/beds/{name}")));
    // Should this process be killed, the next bed sweeps up its own.
    command.env("BED_OWNER", std::process::id().to_string()).stdin(Stdio::null());
    command
}

/// A file of the checkout that the bench is of.
pub fn checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
