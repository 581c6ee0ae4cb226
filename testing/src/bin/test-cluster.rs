//! A cluster in a process of its own, for the demo and the benches; see the library's `control` for how to lead it.
#![allow(clippy::disallowed_methods, reason = "test support: no host to care for")]

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use testing::cluster::Cluster;
use testing::cluster::control::Programs;

const USAGE: &str = "usage: test-cluster serve --dir DIR --agent TOY_AGENT [--port PORT] [--updater PROGRAM]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("test-cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((_, flags)) = words.split_first().filter(|(command, _)| *command == "serve") else {
        return Err(USAGE.to_owned());
    };
    let (pairs, rest) = flags.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(USAGE.to_owned());
    }
    let flags: HashMap<&str, &str> = pairs.iter().map(|[name, value]| (name.as_str(), value.as_str())).collect();
    let read = |path: &str| std::fs::read(path).map_err(|error| format!("{path}: {error}"));
    let agent = read(flags.get("--agent").ok_or(USAGE)?)?;
    let updater = flags.get("--updater").map(|path| read(path)).transpose()?;
    let port = flags.get("--port").map_or(Ok(0), |port| port.parse()).map_err(|error| format!("--port: {error}"))?;

    let cluster = Cluster::start_as(Path::new(flags.get("--dir").ok_or(USAGE)?), port, &[]);
    cluster.enable_control(Programs {
        agent: testing::cluster::toy::slim(&agent).into(),
        updater: updater.map(Into::into),
    });
    println!("addr={}", cluster.addr());
    println!("ca={}", cluster.ca_file().display());
    println!("base_url={}", cluster.base_url());
    println!("plain_base_url={}", cluster.plain_base_url());
    // The reader of these lines waits for them at the other end of a pipe.
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    cluster.wait();
    Ok(())
}
