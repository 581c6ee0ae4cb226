//! Every point of every decision, on a few threads, counted in a table.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::decision::Ready;
use super::decisions::{NAMES, decision};
use super::point::{Fault, faults, kills, try_at};
use crate::crash::flow::Found;
use crate::crash::random::Random;
use crate::crash::suite::Row;

/// What is run, and how much of it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server under test.
    pub program: PathBuf,
    /// Only this decision.
    pub decision: Option<String>,
    /// Every how manieth point; 1 for all.
    pub every: usize,
    /// Which of them.
    pub seed: usize,
    /// Points tried at the same time.
    pub threads: usize,
}

/// A suite: its name, what it does, and its points.
pub type Suite = (&'static str, &'static str, fn(&Ready) -> Vec<Fault>);

/// Every suite.
pub const SUITES: [Suite; 2] = [
    ("kill", "killed before each changing or answering call", kills),
    ("fault", "each of these calls fails, once or from then on, or does half", faults),
];

/// Runs a suite: a row a decision.
pub fn run(options: &Options, suite: &Suite) -> Vec<Row> {
    let wanted = |name: &&str| options.decision.as_deref().is_none_or(|only| only == *name);
    NAMES.into_iter().filter(wanted).map(|name| of_one(options, suite, name)).collect()
}

fn of_one(options: &Options, (_, _, points): &Suite, name: &str) -> Row {
    let ready = Ready::new(decision(name), &options.program);
    let every = options.every;
    let all = points(&ready).into_iter().enumerate();
    let taken: Vec<Fault> = all.filter(|(number, _)| number % every == options.seed % every).map(|it| it.1).collect();
    try_all(&ready, &taken, options.threads)
}

/// A few points of `decision`, chosen by `seed`, of each suite.
pub fn some(program: PathBuf, name: &str, count: usize, seed: u64) -> Row {
    let ready = Ready::new(decision(name), &program);
    let mut random = Random::new(seed);
    let points: Vec<Fault> = SUITES.iter().flat_map(|(_, _, points)| random.some(&points(&ready), count)).collect();
    try_all(&ready, &points, 2)
}

fn try_all(ready: &Ready, points: &[Fault], threads: usize) -> Row {
    let next = AtomicUsize::new(0);
    let row = Mutex::new(Row { name: ready.decision.name.to_owned(), ..Row::default() });
    let work = || {
        while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = try_at(ready, *point);
            let mut row = row.lock().unwrap();
            row.tried += 1;
            match found {
                Ok(Found::Old) => row.old += 1,
                Ok(Found::New) => row.new += 1,
                Err(violation) => {
                    println!("violation: {}", violation.trim_end().replace('\n', " | "));
                    row.violations.push(violation);
                }
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    row.into_inner().unwrap()
}
