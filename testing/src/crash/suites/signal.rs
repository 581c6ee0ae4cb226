//! SIGTERM and SIGINT at every call: the run ends at a safe point, undone before the commit and finished after it.

use super::{disturb, ended_well, points};
use crate::crash::flow::{Flow, Found};
use crate::crash::injector::{Action, Scope};
use crate::crash::suite::{Options, Row, explore};

/// Interrupts every flow everywhere, by each signal in turn.
pub fn run(options: &Options) -> Vec<Row> {
    options.all_flows().map(|flow| interrupt(options, &flow)).collect()
}

/// Interrupts one flow at the points that `options` takes.
pub fn interrupt(options: &Options, flow: &Flow) -> Row {
    let count = points(flow, &flow.host.root(), &flow.args, Scope::Changes).len();
    let numbers: Vec<usize> = (1..=count).filter(|number| options.takes(*number)).collect();
    explore(options, flow.name, &numbers, |number, _| at(flow, *number))
}

/// Interrupts a flow at one call, and checks what comes of it.
///
/// # Errors
/// A violation.
pub fn at(flow: &Flow, number: usize) -> Result<Found, String> {
    let root = flow.copy();
    let signal = [libc::SIGTERM, libc::SIGINT][number % 2];
    let run = disturb(flow, root.path(), &flow.args, Scope::Changes, |call| {
        if call.number == number { Action::Signal(signal) } else { Action::Pass }
    });
    let check = || {
        let found = match ended_well(flow, root.path(), &run.traced)? {
            Some(found) => found,
            None if ["interrupted", "stopped by a signal"].iter().any(|text| run.traced.stderr.contains(text)) => {
                Found::Old
            }
            None => return Err(format!("it failed, but not as interrupted: {}", run.traced.stderr)),
        };
        // No recovery in between: a signal is not a crash.
        flow.check_whole(root.path(), found)?;
        Ok(found)
    };
    check().map_err(|reason| format!("{}: {}: {reason}", flow.name, run.what))
}
