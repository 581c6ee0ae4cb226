//! The plan of a version that the host's own script installs: no file of ours changes (DIRECTIVES §4). Pure.

use protocol::Revision;
use protocol::installer::InstallerOrder;

use super::facts::Facts;
use super::moves::{direction, snapshot_place};
use super::{Plan, Step, retention};
use crate::store::VersionDir;

/// The plan in which a script, as `order` says, brings the host to `to`; empty where that is active already.
pub(crate) fn by_script(facts: &Facts, to: &Revision, order: InstallerOrder) -> Plan {
    let from = facts.active.clone();
    let mut plan = Plan::none(direction(from.as_ref(), to));
    if from.as_ref() != Some(to) {
        let script = Step::Script { order };
        plan.switch = vec![Step::Snapshot { dir: kept_in(facts), stopped: false, failed: false }, script];
        let retired = retention::retire(facts, to, &facts.dir_for(to), true);
        plan.after = retired.into_iter().map(|dir| Step::Retire { dir }).collect();
    }
    Plan { from, ran: facts.ran().cloned(), to: Some(to.clone()), ..plan }
}

/// Where the database that is left is saved: with a version that a script has installed, too, and so has no files here. There it
/// outlives the next run.
fn kept_in(facts: &Facts) -> VersionDir {
    let place = snapshot_place(facts, facts.active.as_ref().and_then(|active| facts.find(active)));
    match facts.ran().or(facts.active.as_ref()) {
        Some(left) if place.is_unmanaged() => facts.dir_for(left),
        _ => place,
    }
}
