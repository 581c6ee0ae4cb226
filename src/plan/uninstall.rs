//! The plan that removes Teleport from a host.

use std::path::{Path, PathBuf};

use super::facts::{Facts, part_of};
use super::links::{is_installable, removal};
use super::moves::record_agent;
use super::step::{Node, Part, Placement, Step};
use super::{Direction, OWN_MARK, Plan, UPGRADE_TIMERS};

/// The plan that removes links, units and versions; the agent's configuration and data stay. `set_back`: where what was
/// set aside goes, and where it is kept.
pub(crate) fn uninstall(facts: &Facts, set_back: &[(PathBuf, PathBuf)]) -> Plan {
    let mut switch = vec![record_agent(facts)];
    switch.extend(facts.agent.running.then_some(Step::Stop));
    switch.extend(facts.names.iter().filter(|name| name.ours).map(|name| {
        let path = facts.link_dir.join(&name.name);
        Step::Place(Placement { part: part_of(&name.name), ..gone(&path, &name.node) })
    }));
    switch.extend(facts.moved_links.iter().map(removal).map(Step::Place));
    switch.extend(units(facts, set_back));
    switch.extend(set_back.iter().map(|(path, kept)| {
        // Our own link, if one stood there, has been removed above.
        let now = Node::Kept(kept.clone());
        Step::Place(Placement { path: path.clone(), was: Node::Absent, now, part: Part::Unit })
    }));
    switch.extend(facts.unit.managed.then_some(Step::DaemonReload));
    // What enabled it is back: it also ticks again.
    let is_back = |timer: &&&str| set_back.iter().any(|(path, _)| path.ends_with(timer) && is_wanted(path));
    let timers = UPGRADE_TIMERS.iter().filter(is_back).map(|unit| Step::EnableTimer { unit: (*unit).to_owned() });
    let retired = facts.installed.iter().map(|installed| Step::Retire { dir: installed.dir.clone() });
    let after = timers.chain(retired).collect();
    Plan { from: facts.active.clone(), switch, after, ..Plan::none(Direction::Uninstall) }
}

/// The agent's unit, the links that enable it, and our own units.
fn units(facts: &Facts, set_back: &[(PathBuf, PathBuf)]) -> Vec<Step> {
    let unit_is_ours = match &facts.unit.node {
        node @ Node::Link(_) => facts.dir_of(node).is_some(),
        Node::Text(text) => !facts.unit.linked || text.starts_with(OWN_MARK),
        _ => false,
    };
    let mut places = Vec::new();
    places.extend(unit_is_ours.then(|| gone(&facts.unit.path, &facts.unit.node)));
    // Links that enabled the unit which comes back under the same name stay, and those that enable somebody else's.
    let is_others = !unit_is_ours && facts.unit.node != Node::Absent;
    let comes_back = is_others || set_back.iter().any(|(path, _)| *path == facts.unit.path);
    let is_kept = |was: &Node| comes_back && matches!(was, Node::Link(_)) && facts.dir_of(was).is_none();
    places.extend(facts.enablement.iter().filter(|(_, was)| !is_kept(was)).map(|(path, was)| gone(path, was)));
    let mut steps: Vec<Step> = places.into_iter().map(Step::Place).collect();
    // Before their files go: systemctl disables only what it finds.
    let own = || facts.own_units.iter().filter(|(_, _, was)| matches!(was, Node::Text(_)));
    steps.extend(
        own()
            .filter_map(|(path, _, _)| path.file_name().map(|name| name.to_string_lossy().into_owned()))
            .filter(|unit| is_installable(unit))
            .map(|unit| Step::DisableUnit { unit }),
    );
    steps.extend(own().map(|(path, _, was)| Step::Place(gone(path, was))));
    steps
}

/// Whether `path` is a link in a directory of what a unit wants.
fn is_wanted(path: &Path) -> bool {
    path.parent().is_some_and(|dir| dir.extension().is_some_and(|extension| extension == "wants"))
}

/// Nothing in the place of a unit.
fn gone(path: &Path, was: &Node) -> Placement {
    Placement { path: path.to_owned(), was: was.clone(), now: Node::Absent, part: Part::Unit }
}
