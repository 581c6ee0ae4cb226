//! The suite `live`: every flow at every point, some cells at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::flow::{After, Flow, Found, Point};
use super::flows::flow;
use crate::host::Updater;
use crate::random::Random;

/// Cells at a time: they wait for verdicts more than they work.
pub const JOBS: usize = 6;
/// First cuts whose recoveries are cut short as well.
const FIRST_CUTS: usize = 6;

/// Which points are tried.
#[derive(Debug, Clone, Copy)]
pub enum Choice {
    /// Every one.
    All,
    /// So many of each flow, chosen by a seed.
    Some {
        /// How many.
        count: usize,
        /// The seed.
        seed: u64,
    },
}

/// A line of the table.
#[derive(Debug, Default)]
pub struct Line {
    /// The flow.
    pub name: String,
    /// Points tried.
    pub points: usize,
    /// Found on the old version after recovery.
    pub old: usize,
    /// Found on the new one.
    pub new: usize,
    /// What must not be.
    pub violations: Vec<String>,
}

/// One cut, or two.
type Case = (Point, Option<Point>, After);

/// The flow `name` at the points of `choice`; with `twice` its recoveries are cut short.
pub fn run(name: &str, updater: &Updater, choice: Choice, twice: bool) -> Line {
    let mut line = Line { name: if twice { format!("{name} twice") } else { name.to_owned() }, ..Line::default() };
    let made = flow(name, updater).and_then(|flow| {
        let points = flow.points()?;
        let cases = if twice { cases_twice(&flow, &points)? } else { cases(&points) };
        Ok((flow, chosen(cases, choice)))
    });
    match made {
        Ok((flow, cases)) => at_all(&flow, &cases, &mut line),
        Err(error) => line.violations.push(format!("{name}: {error}")),
    }
    line
}

/// Every point; boot and next run by turns.
fn cases(points: &[Point]) -> Vec<Case> {
    let by_turns = |number: usize| if number.is_multiple_of(2) { After::Boot } else { After::NextRun };
    points.iter().enumerate().map(|(number, point)| (point.clone(), None, by_turns(number))).collect()
}

/// Some first cuts, the later half of the run more than the first: there the host is between versions.
fn cases_twice(flow: &Flow, points: &[Point]) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for number in 0..FIRST_CUTS {
        let at = points.len() / 2 + number * (points.len() / 2) / FIRST_CUTS;
        let after = if number.is_multiple_of(2) { After::Boot } else { After::NextRun };
        for second in flow.points_of_recovery(&points[at], after)? {
            cases.push((points[at].clone(), Some(second), after));
        }
    }
    Ok(cases)
}

fn chosen(cases: Vec<Case>, choice: Choice) -> Vec<Case> {
    match choice {
        Choice::All => cases,
        Choice::Some { count, seed } => Random::new(seed).some(&cases, count),
    }
}

fn at_all(flow: &Flow, cases: &[Case], line: &mut Line) {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some((point, second, after)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = match second {
                        None => flow.check(point, *after),
                        Some(second) => flow.check_twice(point, second, *after),
                    };
                    found.lock().unwrap().push(result);
                }
            });
        }
    });
    for result in found.into_inner().unwrap() {
        line.points += 1;
        match result {
            Ok(Found::Old) => line.old += 1,
            Ok(Found::New) => line.new += 1,
            Err(violation) => line.violations.push(violation),
        }
    }
}
