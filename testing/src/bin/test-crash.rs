//! `test-crash`: runs crash suites and prints a table for each.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use testing::crash::suite::{Options, Suite, table};
use testing::crash::{NAMES, Updater, live, power, suites};

const USAGE: &str = "usage: test-crash [--suite NAME] [--flow NAME] [--every K] [--seed S] [--threads N] UPDATER";

/// Every suite; a new one is a line here.
const SUITES: &[Suite] = &[
    Suite { name: "kill", about: "killed before each changing call", run: suites::kill::run },
    Suite { name: "recovery", about: "recovery killed before each changing call", run: suites::recovery::run },
    Suite {
        name: "written",
        about: "killed after the switch; the new version's agent writes",
        run: suites::written::run,
    },
    Suite { name: "fault", about: "each changing call fails once, in each way", run: suites::fault::run },
    Suite { name: "lasting", about: "from each changing call on, nothing can be written", run: suites::lasting::run },
    Suite { name: "recovery-fault", about: "each call of a recovery fails once", run: suites::recovery_fault::run },
    Suite { name: "looks", about: "looking calls fail, a sample", run: suites::looks::run },
    Suite { name: "signal", about: "SIGTERM or SIGINT at each changing call", run: suites::signal::run },
    Suite { name: "power-ext4", about: "power cuts at and between flushes, on ext4", run: power::ext4 },
    Suite { name: "power-busy", about: "the same, while somebody else syncs there all the time", run: power::busy },
    Suite { name: "power-writeback", about: "the same, ext4 with data=writeback", run: power::ext4_writeback },
    Suite { name: "power-xfs", about: "the same, xfs", run: power::xfs },
    Suite { name: "power-recovery", about: "power cuts in the recovery from a power cut", run: power::recovery },
    Suite { name: "live", about: "killed before each changing call while the agent lives", run: live::suite::kill },
    Suite { name: "live-recovery", about: "the same, and its recovery killed as well", run: live::suite::recovery },
    Suite { name: "live-signal", about: "SIGTERM or SIGINT at each step, the agent lives", run: live::suite::signal },
    Suite { name: "live-fault", about: "each call fails, or the disk is full; hosts report", run: live::suite::fault },
    Suite { name: "writers", about: "undisturbed, the agent writes hard", run: live::suite::writers },
];

fn main() -> ExitCode {
    // For scripts: whether there is such a suite, and it can run here.
    if let [flag, suite] = std::env::args().skip(1).collect::<Vec<_>>().as_slice()
        && flag == "--can"
    {
        let is_live = suite.starts_with("live") || suite == "writers";
        let can = SUITES.iter().any(|known| known.name == suite)
            && power::cannot_run(suite).is_none()
            && (!is_live || live::suite::can());
        return ExitCode::from(u8::from(!can));
    }
    let (options, suite) = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("test-crash: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (mut points, mut violations) = (0, 0);
    for suite in SUITES.iter().filter(|known| suite.as_deref().is_none_or(|only| only == known.name)) {
        println!("# {}: {}", suite.name, suite.about);
        let start = Instant::now();
        let rows = (suite.run)(&options);
        print!("{}", table(suite.name, &rows));
        let tried: usize = rows.iter().map(|row| row.tried).sum();
        let time = start.elapsed();
        let each = time.as_millis() as f64 / tried.max(1) as f64;
        println!("{:.0} s, {each:.0} ms a point\n", time.as_secs_f64());
        points += tried;
        violations += rows.iter().map(|row| row.violations.len()).sum::<usize>();
    }
    println!("{points} points, {violations} violations");
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments() -> Result<(Options, Option<String>), String> {
    let mut words = std::env::args().skip(1);
    let (mut flow, mut suite, mut every, mut seed, mut threads, mut updater) = (None, None, 1, 1, 2, None);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| text.parse::<usize>().ok().filter(|number| *number > 0);
        let number = |text: String| number(text.clone()).ok_or_else(|| format!("{text} is no number above 0"));
        match word.as_str() {
            "--flow" => flow = Some(value()?),
            "--suite" => suite = Some(value()?),
            "--every" => every = number(value()?)?,
            "--seed" => seed = number(value()?)?,
            "--threads" => threads = number(value()?)?,
            _ => updater = Some(word),
        }
    }
    let known = |name: &Option<String>, names: &[&str]| match name {
        Some(name) if !names.contains(&name.as_str()) => Err(format!("there is no {name}; there are {names:?}")),
        _ => Ok(()),
    };
    let flows = NAMES.iter().chain(&live::flows::NAMES).copied();
    known(&flow, &flows.chain(live::flows::WRITERS.map(|(name, _)| name)).collect::<Vec<_>>())?;
    known(&suite, &SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>())?;
    let updater = Updater::new(Path::new(&updater.ok_or("which updater?")?));
    Ok((Options { updater, flow, every, seed: seed as u64, threads }, suite))
}
