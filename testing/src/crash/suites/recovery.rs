//! Recovery itself is killed: flows are killed at some points, and what recovers them at each of its own.

use super::{crashes, disturb, each_crash, kill_at, points};
use crate::crash::copy;
use crate::crash::flow::Flow;
use crate::crash::flows::OWNED;
use crate::crash::injector::Scope;
use crate::crash::suite::{Options, Row, explore};

/// The flows, and every how manieth point of them is killed.
const FLOWS: [(&str, usize); 5] =
    [("downgrade", 3), (OWNED, 9), ("enable-over-plain", 9), ("uninstall", 9), ("upgrade-restores", 9)];

/// Kills recoveries everywhere.
pub fn run(options: &Options) -> Vec<Row> {
    crashes(options, &FLOWS, |flow, every| kill(options, flow, every))
}

/// Kills one flow at every `every`th point, and each recovery of it at the points that `options` takes.
pub fn kill(options: &Options, flow: &Flow, every: usize) -> Row {
    each_crash(flow, every, |crashed, killed, recover| {
        let seconds = 1..=points(flow, crashed, recover, Scope::Changes).len();
        let seconds: Vec<usize> = seconds.filter(|number| options.takes(*number)).collect();
        explore(options, flow.name, &seconds, |second, boot| {
            let root = copy(crashed);
            let run = disturb(flow, root.path(), recover, Scope::Changes, kill_at(*second));
            flow.check(root.path(), &format!("{killed}, then {} of {}", run.what, recover.join(" ")), boot)
        })
    })
}
