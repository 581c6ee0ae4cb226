//! A small real program that stands in for the Teleport agent in black-box tests.
//!
//! What it claims to be comes from a trailer at the end of its own file ([`identity`]); which program it is
//! (`teleport`, `tsh`, …) from the name it was called by. It knows nothing of the updater.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test support: the host is a scratch directory, and the real agent has no updater's rules"
)]

mod agent;
mod arguments;
mod database;
mod identity;
mod pid_file;
mod readyz;
mod reload;

use std::path::Path;
use std::process::ExitCode;

use arguments::Arguments;
use identity::{Behaviour, Identity};

fn main() -> ExitCode {
    let identity = Identity::of_this_program();
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    let role = Path::new(&program).file_name().and_then(|name| name.to_str()).unwrap_or("teleport").to_owned();
    match (role.as_str(), words.first().map(String::as_str)) {
        ("fdpass-teleport", _) => ExitCode::FAILURE,
        ("tsh" | "tbot" | "tctl", Some("version")) => {
            print_version(&capitalised(&role), &identity.version);
            ExitCode::SUCCESS
        }
        ("tsh" | "tbot" | "tctl", _) => ExitCode::FAILURE,
        (_, Some("version")) => version(&identity),
        (_, Some("start")) => match Arguments::parse(&words[1..]) {
            Ok(arguments) => agent::run(&program, &identity, &arguments),
            Err(error) => {
                eprintln!("ERROR: {error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: {role} version | start [--config PATH] [--pid-file PATH] [--data-dir DIR]");
            ExitCode::FAILURE
        }
    }
}

fn version(identity: &Identity) -> ExitCode {
    match identity.behaviour {
        Behaviour::HangsOnVersion => loop {
            std::thread::park();
        },
        Behaviour::WrongVersion => print_version("Teleport", "9.9.9"),
        // As the real editions say it.
        _ => match identity.edition.as_str() {
            "oss" => print_version("Teleport", &identity.version),
            "enterprise" => print_version("Teleport Enterprise", &identity.version),
            _ => {
                let version = &identity.version;
                println!("Teleport Enterprise v{version} git:v{version}-0-g0000000 go1.23 X:boringcrypto");
            }
        },
    }
    ExitCode::SUCCESS
}

fn print_version(name: &str, version: &str) {
    println!("{name} v{version} git:v{version}-0-g0000000 go1.23");
}

fn capitalised(word: &str) -> String {
    word[..1].to_uppercase() + &word[1..]
}
