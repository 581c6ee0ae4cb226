//! `test-fleet-faults [--turns] (--seeds N [--from SEED] | --hours H [--file]) PROGRAM`: rollout servers, their database and hosts with faults.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use testing::faults::{many, soak};

const USAGE: &str = "test-fleet-faults [--turns] (--seeds N [--from SEED] | --hours H [--file]) PROGRAM";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let value = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1)?.parse::<f64>().ok();
    let Some(program) = words.last().map(Path::new).filter(|program| program.is_file()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let (told, wrong) = if let Some(hours) = value("--hours") {
        let nodes = if has("--file") { 1 } else { 3 };
        let Some(found) = soak(program, nodes, Duration::from_secs_f64(hours * 3600.0)) else {
            return ExitCode::SUCCESS;
        };
        found
    } else if let Some(seeds) = value("--seeds") {
        let from = value("--from").unwrap_or(1.0) as u64;
        let Some(figures) = many(program, from..from + seeds as u64, has("--turns")) else { return ExitCode::SUCCESS };
        (figures.table(), figures.violations().cloned().collect())
    } else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    print!("{told}");
    wrong.iter().for_each(|what| println!("VIOLATION: {what}"));
    ExitCode::from(u8::from(!wrong.is_empty()))
}
