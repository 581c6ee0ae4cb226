//! Every flow is killed before each call that changes something.

use std::os::unix::process::ExitStatusExt;

use super::{disturb, points};
use crate::crash::flow::{Flow, Found};
use crate::crash::injector::{Action, Call, Scope};
use crate::crash::suite::{Options, Row, explore};

/// Points on each side of the commit that every slice tries.
const AROUND_COMMIT: usize = 3;

/// Kills every flow everywhere.
pub fn run(options: &Options) -> Vec<Row> {
    options.all_flows().map(|flow| kill(options, &flow)).collect()
}

/// Kills one flow at the points that `options` takes, and around its commit.
pub fn kill(options: &Options, flow: &Flow) -> Row {
    let all = points(flow, &flow.host.root(), &flow.args, Scope::Changes);
    let commit = all.iter().find(|call| is_commit(call)).map(|call| call.number);
    let is_near = |number: usize| commit.is_some_and(|commit| number.abs_diff(commit) <= AROUND_COMMIT);
    let numbers: Vec<usize> = (1..=all.len()).filter(|number| options.takes(*number) || is_near(*number)).collect();
    explore(options, flow.name, &numbers, |number, boot| at(flow, *number, boot))
}

/// Whether `call` writes the journal's commit.
pub fn is_commit(call: &Call) -> bool {
    call.subject.ends_with("/.journal") && call.data.contains(r#""record":"commit""#)
}

/// Kills a flow before one call, and checks what comes of it.
///
/// # Errors
/// A violation.
pub fn at(flow: &Flow, number: usize, boot: bool) -> Result<Found, String> {
    let root = flow.copy();
    let run = disturb(flow, root.path(), &flow.args, Scope::Changes, |call| {
        if call.number == number { Action::Kill } else { Action::Pass }
    });
    if !run.what.is_empty() && run.traced.status.signal() != Some(libc::SIGKILL) {
        return Err(format!("{}: {}: it was not killed: {}", flow.name, run.what, run.traced.status));
    }
    flow.check(root.path(), &run.what, boot)
}
