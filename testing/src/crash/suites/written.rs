//! The agent restarts by itself between the crash and the recovery: where the new version's binary is linked but the
//! run is not committed, that version migrates the database and writes, and dies with its rows in the log. Recovery puts
//! the database back as the old version left it.

use super::{disturb, points};
use crate::crash::database::{self, migrate_and_crash, migrate_damage_and_crash};
use crate::crash::flow::{Flow, Found};
use crate::crash::flows::OWNED;
use crate::crash::injector::{Action, Scope};
use crate::crash::suite::{Options, Row, explore};

/// Flows in which an agent can start between the switch and the commit.
const FLOWS: [&str; 9] =
    ["update", "update-names", "downgrade", "downgrade-wal", OWNED, "upgrade-restores", "rollback", "pin", "retention"];
/// The schema of a version that is newer than all.
const SCHEMA: u32 = 9;
/// Rows that it writes: some pages of log.
const ROWS: u32 = 100;

/// Lets the agent write in every flow.
pub fn run(options: &Options) -> Vec<Row> {
    options.flows(&FLOWS).map(|flow| write(options, &flow)).collect()
}

/// Lets it write at the points of one flow that `options` takes.
pub fn write(options: &Options, flow: &Flow) -> Row {
    let all = points(flow, &flow.host.root(), &flow.args, Scope::Changes);
    let switch = |call: &crate::crash::injector::Call| call.subject.ends_with(" -> /usr/local/bin/teleport");
    let start = all.iter().position(switch).map_or(all.len(), |index| index + 1);
    let all = (start + 1..=all.len()).flat_map(|number| [(number, false), (number, true)]).enumerate();
    let wanted: Vec<_> = all.filter(|(index, _)| options.takes(*index)).map(|(_, point)| point).collect();
    explore(options, flow.name, &wanted, |(number, damages), boot| at(flow, *number, *damages, boot))
}

/// Kills a flow before one call, lets the agent write (and damage its file) if it would be the new version's, and checks
/// what comes of it.
///
/// # Errors
/// A violation.
pub fn at(flow: &Flow, number: usize, damages: bool, boot: bool) -> Result<Found, String> {
    let root = flow.copy();
    let run = disturb(flow, root.path(), &flow.args, Scope::Changes, |call| {
        if call.number == number { Action::Kill } else { Action::Pass }
    });
    let link = |root: &std::path::Path| std::fs::read_link(root.join("usr/local/bin/teleport")).ok();
    let is_switched = link(root.path()) != link(&flow.host.root());
    let is_open = root.path().join(crate::crash::state::VERSIONS).join(".journal").exists();
    if is_switched && is_open && !flow.is_committed(root.path()) {
        let write = if damages { migrate_damage_and_crash } else { migrate_and_crash };
        write(&database::of_image(root.path()), SCHEMA, ROWS);
    }
    let writes = if damages { "writes and damages its file" } else { "writes" };
    flow.check(root.path(), &format!("{}, then the agent {writes}", run.what), boot)
}
