//! Recovery itself is killed: flows are killed at some points, and what recovers them at each of its own.

use super::{disturb, points};
use crate::copy;
use crate::flow::Flow;
use crate::host::words;
use crate::injector::{Action, Scope};
use crate::suite::{Options, Row, explore};

/// The flows, and every how manieth point of them is killed.
const FLOWS: [(&str, usize); 4] =
    [("downgrade", 3), ("enable-over-plain", 9), ("uninstall", 9), ("upgrade-restores", 9)];

/// Kills recoveries everywhere.
pub fn run(options: &Options) -> Vec<Row> {
    let names: Vec<&str> = FLOWS.iter().map(|(name, _)| *name).collect();
    let every = |name: &str| FLOWS.iter().find(|(known, _)| *known == name).map_or(1, |(_, every)| *every);
    options.flows(&names).map(|flow| kill(options, &flow, every(flow.name))).collect()
}

/// Kills one flow at every `every`th point, and each recovery of it at the points that `options` takes.
pub fn kill(options: &Options, flow: &Flow, every: usize) -> Row {
    let count = points(flow, &flow.host.root(), &flow.args, Scope::Changes).len();
    let mut row = Row { name: flow.name.to_owned(), ..Row::default() };
    for first in (1..=count).rev().step_by(every) {
        let crashed = flow.copy();
        let kill_at = |number: usize| {
            move |call: &crate::injector::Call| if call.number == number { Action::Kill } else { Action::Pass }
        };
        let killed = disturb(flow, crashed.path(), &flow.args, Scope::Changes, kill_at(first));
        let recover = words(if (first / every).is_multiple_of(2) { "recover --boot" } else { "recover" });
        let seconds = 1..=points(flow, crashed.path(), &recover, Scope::Changes).len();
        let seconds: Vec<usize> = seconds.filter(|number| options.takes(*number)).collect();
        let found = explore(options, flow.name, &seconds, |second, boot| {
            let root = copy(crashed.path());
            let run = disturb(flow, root.path(), &recover, Scope::Changes, kill_at(*second));
            flow.check(root.path(), &format!("{}, then {} of {}", killed.what, run.what, recover.join(" ")), boot)
        });
        row.tried += found.tried;
        row.old += found.old;
        row.new += found.new;
        row.violations.extend(found.violations);
    }
    row
}
