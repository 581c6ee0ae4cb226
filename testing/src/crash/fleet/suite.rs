//! Every point of every decision.

use std::path::PathBuf;

use super::decision::Ready;
use super::decisions::{NAMES, decision};
use super::point::{Fault, faults, kills, try_at};
use crate::crash::random::Random;
use crate::crash::suite::{Options, Row, Suite, explore};

/// Every suite.
pub const SUITES: [Suite<PathBuf>; 2] = [
    Suite { name: "kill", about: "killed before each changing or answering call", run: |options| run(options, kills) },
    Suite {
        name: "fault",
        about: "each of these calls fails, once or from then on, or does half",
        run: |options| run(options, faults),
    },
];

fn run(options: &Options<PathBuf>, points: fn(&Ready) -> Vec<Fault>) -> Vec<Row> {
    let of_one = |name| {
        let ready = Ready::new(decision(name), &options.program);
        let all = points(&ready).into_iter().enumerate();
        let taken: Vec<Fault> = all.filter(|(number, _)| options.takes(*number)).map(|it| it.1).collect();
        explore(options, name, &taken, |point, _| try_at(&ready, *point))
    };
    NAMES.into_iter().filter(|name| options.flow.as_deref().is_none_or(|only| only == *name)).map(of_one).collect()
}

/// A few points of `decision`, chosen by `seed`, of each suite.
pub fn some(program: PathBuf, name: &str, count: usize, seed: u64) -> Row {
    let ready = Ready::new(decision(name), &program);
    let mut random = Random::new(seed);
    let suites: [fn(&Ready) -> Vec<Fault>; 2] = [kills, faults];
    let points: Vec<Fault> = suites.iter().flat_map(|points| random.some(&points(&ready), count)).collect();
    let options = Options { program, flow: None, every: 1, seed, threads: 2 };
    explore(&options, name, &points, |point, _| try_at(&ready, *point))
}
