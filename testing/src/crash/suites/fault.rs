//! Each call that changes something fails once, with each error that it can meet, or does half of its work.

use super::{check_after_error, disturb, points};
use crate::crash::flow::{Flow, Found};
use crate::crash::injector::{Action, Call, Scope};
use crate::crash::suite::{Options, Row, explore};

/// Fails every call of every flow.
pub fn run(options: &Options) -> Vec<Row> {
    options.all_flows().map(|flow| fail(options, &flow)).collect()
}

/// Fails the calls of one flow, of which `options` takes some.
pub fn fail(options: &Options, flow: &Flow) -> Row {
    let all = points(flow, &flow.host.root(), &flow.args, Scope::Changes);
    let each = |call: &Call| {
        let ways = call.kind.errors().len() + usize::from(call.kind.may_be_short());
        let number = call.number;
        (0..ways).map(move |way| (number, way))
    };
    let all = all.iter().flat_map(each).enumerate();
    let wanted: Vec<_> = all.filter(|(index, _)| options.takes(*index)).map(|(_, point)| point).collect();
    explore(options, flow.name, &wanted, |(number, way), boot| at(flow, *number, *way, boot))
}

/// Lets one call fail in one of its ways, and checks what comes of it.
///
/// # Errors
/// A violation.
pub fn at(flow: &Flow, number: usize, way: usize, boot: bool) -> Result<Found, String> {
    let root = flow.copy();
    let run = disturb(flow, root.path(), &flow.args, Scope::Changes, |call| {
        if call.number == number { fault(call, way) } else { Action::Pass }
    });
    check_after_error(flow, root.path(), &run, boot)
}

/// Threads take turns, so the call of a number need not be the one that was counted on.
fn fault(call: &Call, way: usize) -> Action {
    let errors = call.kind.errors();
    match errors.get(way) {
        Some(error) => Action::Fail(*error),
        None if call.kind.may_be_short() => Action::Short,
        None => Action::Fail(errors[way % errors.len()]),
    }
}
