//! Recovery meets errors: flows are killed at some points, and each call of what recovers them fails once. It ends with
//! 0 or 1, and the recovery after it puts everything right.

use std::path::Path;

use super::{Look, crashes, disturb, each_crash, points};
use crate::crash::copy;
use crate::crash::flow::{Flow, Found};
use crate::crash::flows::OWNED;
use crate::crash::injector::{Action, Scope};
use crate::crash::suite::{Options, Row, explore};

/// The flows, and every how manieth point of them is killed.
const FLOWS: [(&str, usize); 5] =
    [("downgrade", 11), ("enable-over-plain", 31), ("uninstall", 23), ("downgrade-wal", 23), (OWNED, 23)];

/// Lets recoveries fail everywhere.
pub fn run(options: &Options) -> Vec<Row> {
    crashes(options, &FLOWS, |flow, every| fail(options, flow, every))
}

/// Kills one flow at every `every`th point, and lets the calls of each recovery fail that `options` takes: those that
/// change something, and those that look at something in the image.
pub fn fail(options: &Options, flow: &Flow, every: usize) -> Row {
    each_crash(flow, every, |crashed, killed, recover| {
        let changes = points(flow, crashed, recover, Scope::Changes).into_iter().flat_map(|call| {
            let number = call.number;
            (0..call.kind.errors().len()).map(move |way| Fault::Change(number, way))
        });
        let looks = Look::all(flow, crashed, recover).into_iter().filter(Look::is_inside);
        let looks = looks.flat_map(|look| look.each_way()).map(|(look, way)| Fault::Look(look, way));
        let all = changes.chain(looks).enumerate();
        let wanted: Vec<Fault> = all.filter(|(index, _)| options.takes(*index)).map(|(_, point)| point).collect();
        explore(options, flow.name, &wanted, |fault, boot| at(flow, crashed, killed, recover, fault, boot))
    })
}

/// What fails in a recovery.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The changing call of this number, in one of its ways.
    Change(usize, usize),
    /// A looking call, in one of its ways.
    Look(Look, usize),
}

/// Lets the recovery of the image below `crashed` fail once, and checks what comes of it. `killed` says how it crashed.
///
/// # Errors
/// A violation.
pub fn at(
    flow: &Flow,
    crashed: &Path,
    killed: &str,
    recover: &[String],
    fault: &Fault,
    boot: bool,
) -> Result<Found, String> {
    let root = copy(crashed);
    let run = match fault {
        Fault::Change(number, way) => disturb(flow, root.path(), recover, Scope::Changes, |call| {
            let errors = call.kind.errors();
            if call.number == *number { Action::Fail(errors[way % errors.len()]) } else { Action::Pass }
        }),
        Fault::Look(look, way) => look.fail(flow, root.path(), recover, *way),
    };
    let what = format!("{killed}, then {} of {}", run.what, recover.join(" "));
    match run.traced.status.code() {
        Some(0 | 1) if !run.traced.hung => flow.check_after_error(root.path(), &what, boot),
        _ => Err(format!("{}: {what}: {}: {}", flow.name, run.traced.status, run.traced.stderr)),
    }
}
