//! Calls that only look fail: a sample, for there are thousands, most of them alike.

use super::{Look, check_after_error};
use crate::crash::flow::{Flow, Found};
use crate::crash::suite::{Options, Row, explore};

/// Most calls of one name on one path that are tried.
const ALIKE: usize = 3;
/// Outside of the image (certificates, `/proc`) one in so many is tried.
const ONE_IN: usize = 2000;

/// Fails looking calls of every flow.
pub fn run(options: &Options) -> Vec<Row> {
    options.all_flows().map(|flow| fail(options, &flow)).collect()
}

/// Fails those of one flow that `options` takes: in the image the first few of each kind on each path, outside of it a
/// few in all.
pub fn fail(options: &Options, flow: &Flow) -> Row {
    let (inside, outside): (Vec<Look>, Vec<Look>) =
        Look::all(flow, &flow.host.root(), &flow.args).into_iter().partition(Look::is_inside);
    let all = inside.into_iter().filter(|look| look.nth() <= ALIKE).chain(outside.into_iter().step_by(ONE_IN));
    let wanted: Vec<(Look, usize)> = all
        .flat_map(|look| look.each_way())
        .enumerate()
        .filter(|(index, _)| options.takes(*index))
        .map(|(_, point)| point)
        .collect();
    explore(options, flow.name, &wanted, |(look, way), boot| at(flow, look, *way, boot))
}

/// Lets one looking call fail, and checks what comes of it.
///
/// # Errors
/// A violation.
pub fn at(flow: &Flow, look: &Look, way: usize, boot: bool) -> Result<Found, String> {
    let root = flow.copy();
    let run = look.fail(flow, root.path(), &flow.args, way);
    check_after_error(flow, root.path(), &run, boot)
}
