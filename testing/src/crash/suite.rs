//! Suites: many points of many flows, tried on a few threads, counted in a table.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::crash::flow::{Flow, Found};
use crate::crash::flows::{NAMES, OWNED, flow};
use crate::crash::host::Updater;

/// What is run, and how much of it.
#[derive(Debug, Clone)]
pub struct Options<P = Updater> {
    /// What is under test.
    pub program: P,
    /// Only this flow.
    pub flow: Option<String>,
    /// Every how manieth point; 1 for all.
    pub every: usize,
    /// Which of them.
    pub seed: u64,
    /// Points tried at the same time.
    pub threads: usize,
}

/// A suite.
#[derive(Debug, Clone, Copy)]
pub struct Suite<P = Updater> {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, a line.
    pub about: &'static str,
    /// Runs it: a row a flow.
    pub run: fn(&Options<P>) -> Vec<Row>,
}

/// What became of a flow's points.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The flow.
    pub name: String,
    /// Points tried.
    pub tried: usize,
    /// Found as before the command.
    pub old: usize,
    /// Found as after it.
    pub new: usize,
    /// What was found elsewhere, with its point.
    pub violations: Vec<String>,
}

impl Row {
    /// Counts another row of the same flow in.
    pub fn add(&mut self, other: Self) {
        self.tried += other.tried;
        self.old += other.old;
        self.new += other.new;
        self.violations.extend(other.violations);
    }
}

impl Options {
    /// All points of all flows.
    pub fn all(program: Updater) -> Self {
        Self { program, flow: None, every: 1, seed: 1, threads: 2 }
    }

    /// Those of `names` that are wanted, and can be had here, made one after the other: each has a server.
    pub fn flows<'a>(&'a self, names: &'a [&'a str]) -> impl Iterator<Item = Flow> + 'a {
        let can = |name: &str| name != OWNED || rustix::process::geteuid().is_root();
        let wanted = move |name: &&&str| can(name) && self.flow.as_deref().is_none_or(|only| only == **name);
        names.iter().filter(wanted).map(|name| flow(name, &self.program))
    }

    /// All flows that are wanted.
    pub fn all_flows(&self) -> impl Iterator<Item = Flow> + '_ {
        self.flows(&NAMES)
    }
}

impl<P> Options<P> {
    /// Whether the point of this number is one of those tried.
    pub fn takes(&self, number: usize) -> bool {
        number % self.every == (self.seed % self.every as u64) as usize
    }
}

/// Tries every point: `attempt` gets it, and whether a boot comes after it or the next run. Each violation is a line at
/// once.
pub fn explore<O: Sync, P: Sync>(
    options: &Options<O>,
    name: &str,
    points: &[P],
    attempt: impl Fn(&P, bool) -> Result<Found, String> + Sync,
) -> Row {
    let next = AtomicUsize::new(0);
    let row = Mutex::new(Row { name: name.to_owned(), ..Row::default() });
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(index) else { break };
                    let boot = (index as u64 + options.seed).is_multiple_of(2);
                    let found = attempt(point, boot);
                    let mut row = row.lock().unwrap();
                    row.tried += 1;
                    match found {
                        Ok(Found::Old) => row.old += 1,
                        Ok(Found::New) => row.new += 1,
                        Err(violation) => {
                            let violation = violation.trim_end().replace('\n', " | ");
                            println!("violation: {violation}");
                            row.violations.push(violation);
                        }
                    }
                }
            });
        }
    });
    let row = row.into_inner().unwrap();
    eprintln!("{name}: {} points, {} violations", row.tried, row.violations.len());
    row
}

/// The table of a suite, with its totals.
pub fn table(suite: &str, rows: &[Row]) -> String {
    let mut text = format!("{suite:<18} {:>7} {:>7} {:>7} {:>10}\n", "points", "old", "new", "violations");
    let mut line = |name: &str, tried: usize, old: usize, new: usize, violations: usize| {
        let _ = writeln!(text, "{name:<18} {tried:>7} {old:>7} {new:>7} {violations:>10}");
    };
    for row in rows {
        line(&row.name, row.tried, row.old, row.new, row.violations.len());
    }
    let sum = |of: fn(&Row) -> usize| rows.iter().map(of).sum();
    line("total", sum(|row| row.tried), sum(|row| row.old), sum(|row| row.new), sum(|row| row.violations.len()));
    text
}

/// The program `name`: runs those of `suites` that its arguments name, each flow or the one they name, and prints tables.
pub fn main<P>(name: &str, suites: &[Suite<P>], flows: &[&str], open: fn(&Path) -> P) -> ExitCode {
    let (options, suite) = match arguments(suites, flows, open) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{name}: {error}");
            eprintln!("usage: {name} [--suite NAME] [--flow NAME] [--every K] [--seed S] [--threads N] PROGRAM");
            return ExitCode::from(2);
        }
    };
    let (mut points, mut violations) = (0, 0);
    for suite in suites.iter().filter(|known| suite.as_deref().is_none_or(|only| only == known.name)) {
        println!("# {}: {}", suite.name, suite.about);
        let start = Instant::now();
        let rows = (suite.run)(&options);
        print!("{}", table(suite.name, &rows));
        let tried: usize = rows.iter().map(|row| row.tried).sum();
        let time = start.elapsed();
        println!("{:.0} s, {:.0} ms a point\n", time.as_secs_f64(), time.as_millis() as f64 / tried.max(1) as f64);
        points += tried;
        violations += rows.iter().map(|row| row.violations.len()).sum::<usize>();
    }
    println!("{points} points, {violations} violations");
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments<P>(
    suites: &[Suite<P>],
    flows: &[&str],
    open: fn(&Path) -> P,
) -> Result<(Options<P>, Option<String>), String> {
    let mut words = std::env::args().skip(1);
    let (mut flow, mut suite, mut every, mut seed, mut threads, mut program) = (None, None, 1, 1, 2, None);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| {
            text.parse::<usize>().ok().filter(|number| *number > 0).ok_or(format!("{text} is no number above 0"))
        };
        match word.as_str() {
            "--flow" => flow = Some(value()?),
            "--suite" => suite = Some(value()?),
            "--every" => every = number(value()?)?,
            "--seed" => seed = number(value()?)?,
            "--threads" => threads = number(value()?)?,
            _ => program = Some(word),
        }
    }
    let known = |name: &Option<String>, names: &[&str]| match name {
        Some(name) if !names.contains(&name.as_str()) => Err(format!("there is no {name}; there are {names:?}")),
        _ => Ok(()),
    };
    known(&flow, flows)?;
    known(&suite, &suites.iter().map(|suite| suite.name).collect::<Vec<_>>())?;
    let program = open(Path::new(&program.ok_or("which program?")?));
    Ok((Options { program, flow, every, seed: seed as u64, threads }, suite))
}
