//! Renders what is the same on every host, from the command line's own definition: completion scripts and the manual page.
//! The program holds them deflated (8 % of its size otherwise goes into what renders them), and only inflates.
#![allow(clippy::disallowed_methods, reason = "a build script has no host to care for")]

#[allow(dead_code, reason = "only the definition is used, not its values")]
#[path = "../src/cli.rs"]
#[allow(unreachable_pub, reason = "it is the program's face")]
mod cli;
mod man;

use std::io::{Result, Write};
use std::path::PathBuf;

use clap::{CommandFactory, ValueEnum};
use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=src/cli.rs");
    println!("cargo::rerun-if-changed=build");
    let mut page = Vec::new();
    man::render(&cli::Cli::command(), &mut page)?;
    keep("man", &page)?;
    for shell in clap_complete::Shell::value_variants() {
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut cli::Cli::command(), "teleport-update", &mut script);
        // clap_complete 4.6 writes the name of a program with a hyphen in two ways for bash, and completes no option then.
        let script = String::from_utf8_lossy(&script).replace("teleport__subcmd__update", "teleport__update");
        keep(&shell.to_string(), script.as_bytes())?;
    }
    Ok(())
}

/// Writes `text`, deflated, to the file `name` that the program includes.
fn keep(name: &str, text: &[u8]) -> Result<()> {
    let directory = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(text)?;
    std::fs::write(directory.join(name), deflated.finish()?)
}
