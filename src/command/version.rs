//! `version`: who we are, and the protocol that another updater asks for before it hands over (SPEC §4).

use std::io::Write;

use protocol::handover::PROTOCOL;
use serde_json::json;

use crate::cli::{OutputFormat, Version};
use crate::report::{IoContext, Result};

/// Prints the version.
pub(crate) fn run(args: &Version) -> Result<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let text = match args.format {
        OutputFormat::Json => {
            format!("{}\n", json!({ "version": version, "protocol": PROTOCOL }))
        }
        OutputFormat::Yaml => format!("version: {version}\nprotocol: {PROTOCOL}\n"),
        OutputFormat::Text => format!("teleport-update {version} (protocol {PROTOCOL})\n"),
    };
    print(text.as_bytes())
}

/// Writes to standard output; that nobody reads it is no failure.
pub(crate) fn print(bytes: &[u8]) -> Result<u8> {
    match std::io::stdout().write_all(bytes).and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(0),
        other => other.map(|()| 0).at("cannot write to", "standard output"),
    }
}
