//! `test-fleet-crash`: cuts the rollout server short at every system call of its decisions, and prints a table.

use std::process::ExitCode;
use std::time::Instant;

use testing::crash::fleet::NAMES;
use testing::crash::fleet::suite::{Options, SUITES, run};
use testing::crash::suite::table;

const USAGE: &str =
    "usage: test-fleet-crash [--suite NAME] [--decision NAME] [--every K] [--seed S] [--threads N] SERVER";

fn main() -> ExitCode {
    let (options, suite) = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("test-fleet-crash: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (mut points, mut violations) = (0, 0);
    for known in SUITES.iter().filter(|known| suite.as_deref().is_none_or(|only| only == known.0)) {
        println!("# {}: {}", known.0, known.1);
        let start = Instant::now();
        let rows = run(&options, known);
        print!("{}", table(known.0, &rows));
        let tried: usize = rows.iter().map(|row| row.tried).sum();
        let time = start.elapsed();
        println!("{:.0} s, {:.0} ms a point\n", time.as_secs_f64(), time.as_millis() as f64 / tried.max(1) as f64);
        points += tried;
        violations += rows.iter().map(|row| row.violations.len()).sum::<usize>();
    }
    println!("{points} points, {violations} violations");
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments() -> Result<(Options, Option<String>), String> {
    let mut words = std::env::args().skip(1);
    let (mut decision, mut suite, mut every, mut seed, mut threads, mut program) = (None, None, 1, 1, 2, None);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| {
            text.parse::<usize>().ok().filter(|number| *number > 0).ok_or(format!("{text} is no number above 0"))
        };
        match word.as_str() {
            "--decision" => decision = Some(value()?),
            "--suite" => suite = Some(value()?),
            "--every" => every = number(value()?)?,
            "--seed" => seed = number(value()?)?,
            "--threads" => threads = number(value()?)?,
            _ => program = Some(word.into()),
        }
    }
    let known = |name: &Option<String>, names: &[&str]| match name {
        Some(name) if !names.contains(&name.as_str()) => Err(format!("there is no {name}; there are {names:?}")),
        _ => Ok(()),
    };
    known(&decision, &NAMES)?;
    known(&suite, &SUITES.map(|suite| suite.0))?;
    Ok((Options { program: program.ok_or("which server?")?, decision, every, seed, threads }, suite))
}
