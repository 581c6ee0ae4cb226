//! The way back from a version that fell in its watch to an agent that was none of ours (SPEC §5).

use super::moves::{record_agent, service_action};
use super::{Database, Direction, Facts, Node, Part, Placement, Plan, ServiceAction, Step};

/// The plan that undoes `done` after its commit: what it replaced comes back, with the database that was left. `None` where
/// `done` has replaced no agent, or kept no database.
///
/// Our unit stays where none stood: the one that started the agent went with its package.
pub(crate) fn back(facts: &Facts, done: &Plan) -> Option<Plan> {
    let (fallen, from) = (done.to_dir.clone()?, done.snapshot_dir()?.clone());
    let agent = done.switch.iter().find_map(|step| match step {
        Step::LinkAgent { place, .. } => Some(turned(place)),
        _ => None,
    })?;
    let is_back = |place: &&Placement| place.was != Node::Absent || place.part == Part::Helper;
    let places = done.switch.iter().filter_map(|step| if let Step::Place(place) = step { Some(place) } else { None });
    let service = service_action(facts, Database::Restore);
    let mut switch = vec![record_agent(facts), Step::PrepareRestore { dir: from.clone() }];
    switch.extend(places.filter(is_back).map(turned).map(Step::Place));
    switch.extend(facts.unit.managed.then_some(Step::DaemonReload));
    let binary = agent.path.clone();
    switch.extend([
        Step::PrepareSnapshot { dir: fallen.clone() },
        Step::Stop,
        Step::Snapshot { dir: fallen.clone(), stopped: true, failed: true },
        Step::Restore { dir: from.clone() },
        Step::LinkAgent { place: agent, evidence: from.clone() },
    ]);
    if service != ServiceAction::None {
        switch.extend([Step::Start, Step::Health { binary, served: facts.agent.served, failing: false }]);
    }
    switch.extend([Step::Describe { dir: fallen.clone(), failed: true }, Step::Install { dir: fallen }]);
    Some(Plan {
        from: done.to.clone(),
        to_dir: Some(from),
        database: Database::Restore,
        service,
        switch,
        ..Plan::none(Direction::Downgrade)
    })
}

fn turned(place: &Placement) -> Placement {
    Placement { was: place.now.clone(), now: place.was.clone(), ..place.clone() }
}
