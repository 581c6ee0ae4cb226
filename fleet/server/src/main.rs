//! `teleport-fleet`: the rollout server's program. Today it questions and checks rollout policies: the server itself is not
//! built yet.

mod cli;

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Verb};

/// What a wrong resource ends with.
const REFUSED: u8 = 1;
/// Largest file that is read, bytes: a script with a line for each of 100,000 hosts.
const MAX_FILE: u64 = 64 << 20;

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Simulate { script, seed } => simulate(&script, seed),
        Verb::Lint { files } => lint(&files),
    };
    match done {
        Ok(status) => status,
        // Whoever reads us has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(script: &Path, seed: u64) -> io::Result<ExitCode> {
    let text = read(script)?;
    let mut out = BufWriter::new(io::stdout().lock());
    fleet_simulator::run(&text, seed, |line| writeln!(out, "{line}"))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn lint(files: &[std::path::PathBuf]) -> io::Result<ExitCode> {
    let mut is_good = true;
    for file in files {
        let name = file.display();
        match fleet_engine::resource::read(&read(file)?) {
            Ok(resources) => {
                for resource in resources {
                    println!("{name}: {} {} is legal", resource.kind(), resource.metadata().name);
                }
            }
            Err(faults) => {
                is_good = false;
                for fault in faults.to_string().lines() {
                    eprintln!("{name}: {fault}");
                }
            }
        }
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// The text of a file; `-` is standard input.
fn read(file: &Path) -> io::Result<String> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display()));
    let mut text = String::new();
    let source: Box<dyn Read> =
        if file.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(file).map_err(named)?) };
    let length = source.take(MAX_FILE + 1).read_to_string(&mut text).map_err(named)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > MAX_FILE {
        return Err(named(io::Error::other(format!("it is larger than {MAX_FILE} bytes"))));
    }
    Ok(text)
}
