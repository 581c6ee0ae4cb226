//! `test-bench`: measures, and writes `performance.md`.
#![allow(clippy::disallowed_methods, reason = "test support")]

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use testing::bench::lab::{Lab, Programs};
use testing::bench::page::Results;
use testing::bench::{downtime, idle, machine, page, storm, updates};

const USAGE: &str = "usage: test-bench [--quick] [--only updates|downtime|idle|storm] --work DIR --out DIR \
                     UPDATER AGENT CLUSTER LIMIT";

/// Chapters that can be measured alone.
const CHAPTERS: [&str; 4] = ["updates", "downtime", "idle", "storm"];

/// How much is measured.
struct Extent {
    /// MB of an archive, and rounds.
    archives: &'static [(u64, usize)],
    /// MB of a database.
    databases: &'static [u64],
    /// Rounds with each database.
    rounds: usize,
    /// Pairs of runs without an update.
    pairs: usize,
}

const WHOLE: Extent = Extent { archives: &[(20, 7), (180, 7), (600, 3)], databases: &[1, 1000], rounds: 5, pairs: 60 };
const QUICK: Extent = Extent { archives: &[(20, 3)], databases: &[1], rounds: 1, pairs: 20 };

fn main() -> ExitCode {
    match arguments() {
        Err(error) => {
            eprintln!("test-bench: {error}\n{USAGE}");
            ExitCode::from(2)
        }
        Ok(arguments) => match run(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("test-bench: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

#[derive(Default)]
struct Arguments {
    quick: bool,
    only: Option<String>,
    work: PathBuf,
    out: PathBuf,
    programs: Vec<PathBuf>,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--quick" => found.quick = true,
            "--only" => found.only = Some(value()?),
            "--work" => found.work = value()?.into(),
            "--out" => found.out = value()?.into(),
            _ => found.programs.push(std::path::absolute(&word).map_err(|error| error.to_string())?),
        }
    }
    match &found.only {
        Some(only) if !CHAPTERS.contains(&only.as_str()) => Err(format!("there is no {only}")),
        _ if found.work.as_os_str().is_empty() || found.out.as_os_str().is_empty() => Err("where?".to_owned()),
        _ => Ok(found),
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    let wants = |chapter: &str| arguments.only.as_deref().is_none_or(|only| only == chapter);
    let extent = if arguments.quick { QUICK } else { WHOLE };
    let mut results = Results { quick: arguments.quick, begun: Some(Instant::now()), ..Results::default() };
    if wants("storm") {
        results.storm = Some(storm::table(storm::FLEET));
    }
    if arguments.only.as_deref() != Some("storm") {
        if !rustix::process::geteuid().is_root() {
            return Err(io::Error::other("needs root: for name spaces, file systems and a bed of its own"));
        }
        let [updater, agent, cluster, limit] =
            <[PathBuf; 4]>::try_from(arguments.programs.clone()).map_err(|_| io::Error::other(USAGE))?;
        results.binary = std::fs::metadata(&updater)?.len();
        let work = std::path::absolute(&arguments.work)?;
        let lab = Lab::open(Programs { updater, agent, cluster, limit }, &work)?;
        results.machine = machine::describe(&work);
        results.sysupdate = lab.sysupdate.as_ref().map(|found| found.version.clone()).map_err(Clone::clone);
        if let Err(why) = &lab.sysupdate {
            eprintln!("systemd-sysupdate is left out: {why}");
        }
        if wants("idle") {
            results.idle = idle::measure(&lab, extent.pairs)?;
        }
        if wants("updates") {
            results.updates = updates::measure(&lab, extent.archives)?;
        }
        if wants("downtime") {
            results.downtime = downtime::measure(&lab, extent.databases, extent.rounds)?;
            if results.downtime.is_none() {
                eprintln!("downtime and verdicts are left out: no bed here");
            }
        }
    }
    page::write(&results, &arguments.out, arguments.only.is_some())
}
