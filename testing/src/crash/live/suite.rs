//! The suites with an agent that lives: some cells at a time, as they wait for verdicts more than they work.

use super::flow::{After, Cut, End, Fault, Flow, Point, STRACE};
use super::flows::{NAMES, REPORTS, flow};
use crate::crash::suite::{Options, Row, explore};

/// Cells at a time.
pub(super) const CELLS: usize = 6;
/// First cuts of a flow whose recoveries are cut short as well.
const FIRST_CUTS: usize = 6;
/// Flows whose recoveries are cut short: one that keeps the database, two that restore one, two that lead back to an agent
/// that is not ours, one without a version, and one whose script brings it.
const TWICE: [&str; 8] = [
    "live-up",
    "live-down",
    "live-damages",
    "live-way-back",
    "live-stranger",
    "live-uninstall",
    "live-script",
    "report-down",
];
/// Flows that are asked to end.
const ASKED: [&str; 10] = [
    "live-up",
    "live-down",
    "live-exits",
    "live-fall",
    "live-rollback",
    "live-uninstall",
    "live-script",
    "report-up",
    "report-down",
    "report-exits",
];
/// What makes records of the journal durable: once for each step that begins, or for a few that begin together.
const RECORD: &str = "fdatasync";

/// Every flow killed before each call that changes something or starts a program; boot and next run by turns.
pub fn kill(options: &Options) -> Vec<Row> {
    rows(options, &NAMES, |flow, options| {
        let points = taken(flow.points()?, options);
        Ok(explore(options, flow.name, &points, |point, boot| flow.check(point, after(boot))))
    })
}

/// Recoveries killed before each such call, after some first kills in the later half of the run, where the host is
/// between two versions.
pub fn recovery(options: &Options) -> Vec<Row> {
    rows(options, &TWICE, |flow, options| {
        let points = flow.points()?;
        let half = points.len() / 2;
        let mut row = Row { name: flow.name.to_owned(), ..Row::default() };
        for number in 0..FIRST_CUTS {
            let first = &points[half + number * half / FIRST_CUTS];
            let after = after(number.is_multiple_of(2));
            let seconds = taken(flow.points_of_recovery(first, after)?, options);
            let found = explore(options, flow.name, &seconds, |second, _| flow.check_twice(first, second, after));
            row.tried += found.tried;
            row.old += found.old;
            row.new += found.new;
            row.violations.extend(found.violations);
        }
        Ok(row)
    })
}

/// Flows asked to end (SIGTERM, SIGINT) at each record of their journals.
pub fn signal(options: &Options) -> Vec<Row> {
    rows(options, &ASKED, |flow, options| {
        let mut points = flow.points()?;
        points.retain(|point| point.call == RECORD);
        let asked =
            taken(points, options).into_iter().flat_map(|point| [(point.clone(), Cut::Term), (point, Cut::Int)]);
        let asked: Vec<(Point, Cut)> = asked.collect();
        Ok(explore(options, flow.name, &asked, |(point, cut), _| flow.check_asked(point, *cut)))
    })
}

/// Flows with reports, and one with a script, in which each call that changes something fails, and the disk is full from each on.
pub fn fault(options: &Options) -> Vec<Row> {
    rows(options, &[&REPORTS[..], &["live-script"]].concat(), |flow, options| {
        let points = flow.faults()?;
        let each = |index: usize| [Fault::Io, Fault::NoSpace, Fault::Full].map(|fault| (index, fault));
        let faults: Vec<(usize, Fault)> = (0..points.len()).flat_map(each).collect();
        let faults = taken(faults, options);
        Ok(explore(options, flow.name, &faults, |(index, fault), _| flow.check_fault(&points, *index, *fault)))
    })
}

/// Flows whose agent writes as hard as it can, or in long transactions, run to their ends: no row may be lost.
pub fn writers(options: &Options) -> Vec<Row> {
    if !can() {
        println!("skipped: cells need root");
        return Vec::new();
    }
    let names: Vec<String> = super::flows::WRITERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let wanted = names.iter().filter(|name| options.flow.as_ref().is_none_or(|only| only == *name));
    wanted
        .map(|name| {
            let flows = [End::New, End::Old, End::Either].map(|end| super::flows::writer(name, end, &options.program));
            explore(options, name, &flows, |flow, _| flow.as_ref().map_err(Clone::clone)?.check_undisturbed())
        })
        .collect()
}

/// Whether cells can be made here, and runs be cut short in them.
pub fn can() -> bool {
    rustix::process::geteuid().is_root() && std::path::Path::new(STRACE).exists()
}

fn after(boot: bool) -> After {
    if boot { After::Boot } else { After::NextRun }
}

fn taken<P>(points: Vec<P>, options: &Options) -> Vec<P> {
    points.into_iter().enumerate().filter(|(number, _)| options.takes(*number)).map(|(_, point)| point).collect()
}

/// A row for each of `names` that is wanted; a flow that cannot be made is a violation.
fn rows(options: &Options, names: &[&str], run: impl Fn(&Flow, &Options) -> Result<Row, String>) -> Vec<Row> {
    if !can() {
        println!("skipped: cells need root and strace");
        return Vec::new();
    }
    let options = Options { threads: CELLS, ..options.clone() };
    let wanted = names.iter().filter(|name| options.flow.as_deref().is_none_or(|only| only == **name));
    wanted
        .map(|name| {
            flow(name, &options.program).and_then(|flow| run(&flow, &options)).unwrap_or_else(|error| {
                println!("violation: {name}: {error}");
                Row { name: (*name).to_owned(), violations: vec![error], ..Row::default() }
            })
        })
        .collect()
}
