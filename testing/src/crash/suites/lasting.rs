//! Trouble that lasts: from some call on to the end of the run the disk is full, read-only, or broken. The run that
//! comes next finds it put right.

use libc::{EIO, ENOSPC, EROFS};

use super::{check_after_error, disturb, points};
use crate::crash::flow::{Flow, Found};
use crate::crash::injector::{Action, Call, Scope};
use crate::crash::suite::{Options, Row, explore};
use crate::crash::syscalls::Kind;

/// What goes on to fail.
const TROUBLES: [i32; 3] = [ENOSPC, EROFS, EIO];

/// Every flow, from every call on.
pub fn run(options: &Options) -> Vec<Row> {
    options.all_flows().map(|flow| last(options, &flow)).collect()
}

/// One flow, from the calls that `options` takes.
pub fn last(options: &Options, flow: &Flow) -> Row {
    let count = points(flow, &flow.host.root(), &flow.args, Scope::Changes).len();
    let all = (1..=count).flat_map(|number| TROUBLES.map(|error| (number, error))).enumerate();
    let wanted: Vec<_> = all.filter(|(index, _)| options.takes(*index)).map(|(_, point)| point).collect();
    explore(options, flow.name, &wanted, |(number, error), boot| from(flow, *number, *error, boot))
}

/// Lets every call from one on fail where it can, and checks what comes of it.
///
/// # Errors
/// A violation.
pub fn from(flow: &Flow, number: usize, error: i32, boot: bool) -> Result<Found, String> {
    let root = flow.copy();
    let mut run = disturb(flow, root.path(), &flow.args, Scope::Changes, |call| {
        if call.number >= number && meets(call, error) { Action::Fail(error) } else { Action::Pass }
    });
    run.what = format!("from then on: {}", run.what);
    check_after_error(flow, root.path(), &run, boot)
}

/// Whether a call of this kind meets that trouble. A full disk still replaces, removes and empties.
fn meets(call: &Call, error: i32) -> bool {
    match error {
        ENOSPC => matches!(call.kind, Kind::Write | Kind::Create | Kind::Make | Kind::Resize),
        EROFS => !matches!(call.kind, Kind::Lock | Kind::Sync),
        _ => call.kind != Kind::Lock,
    }
}
