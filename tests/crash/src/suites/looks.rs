//! Calls that only look fail: a sample, for there are thousands, most of them alike.

use std::collections::BTreeMap;

use super::{check_after_error, disturb, points};
use crate::flow::{Flow, Found};
use crate::injector::{Action, Scope};
use crate::suite::{Options, Row, explore};

/// Most calls of one name on one path that are tried.
const ALIKE: usize = 3;

/// Fails looking calls of every flow.
pub fn run(options: &Options) -> Vec<Row> {
    options.all_flows().map(|flow| fail(options, &flow)).collect()
}

/// Fails those of one flow that `options` takes: in the image the first few of each kind on each path, outside of it
/// (certificates, `/proc`) one in twenty.
pub fn fail(options: &Options, flow: &Flow) -> Row {
    let mut seen: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
    let mut wanted = Vec::new();
    let mut outside = 0;
    for call in points(flow, &flow.host.root(), &flow.args, Scope::Looks) {
        let is_inside = ["/var/", "/etc/teleport", "/usr/local/"].iter().any(|top| call.subject.starts_with(top));
        let is_tried = if is_inside {
            let count = seen.entry((call.name, call.subject.clone())).or_default();
            *count += 1;
            *count <= ALIKE
        } else {
            outside += 1;
            outside % 20 == 0
        };
        if is_tried {
            wanted.extend((0..call.kind.errors().len()).map(|way| (call.number, way)));
        }
    }
    let wanted: Vec<_> =
        wanted.into_iter().enumerate().filter(|(index, _)| options.takes(*index)).map(|(_, point)| point).collect();
    explore(options, flow.name, &wanted, |(number, way), boot| at(flow, *number, *way, boot))
}

/// Lets one looking call fail, and checks what comes of it.
///
/// # Errors
/// A violation.
pub fn at(flow: &Flow, number: usize, way: usize, boot: bool) -> Result<Found, String> {
    let root = flow.copy();
    let run = disturb(flow, root.path(), &flow.args, Scope::Looks, |call| {
        let errors = call.kind.errors();
        if call.number == number { Action::Fail(errors[way % errors.len()]) } else { Action::Pass }
    });
    check_after_error(flow, root.path(), &run, boot)
}
