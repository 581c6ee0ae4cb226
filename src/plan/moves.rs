//! The plan that brings a host to a version: what is prepared, what is switched, what follows the commit.

use std::path::{Path, PathBuf};

use super::facts::{Facts, Installed, lacks};
use super::links::{enablement_placements, is_installable, placements, removal, unit_placement};
use super::restore_table::database_move;
use super::step::{Node, Part, Placement, Step};
use super::strangers::{refuse_strangers, stranger_notes};
use super::{Database, Direction, Over, Plan, ServiceAction, Target, retention};
use crate::report::Result;
use crate::store::VersionDir;
use crate::store::contents::AGENT_FILE;
use protocol::Revision;

/// The plan that brings the host to `target`.
///
/// # Errors
/// The target's snapshot is needed for a downgrade and cannot be used (`backup_*`).
pub(crate) fn move_to(facts: &Facts, target: &Target) -> Result<Plan> {
    let to = &target.revision;
    refuse_strangers(facts, to, target.over)?;
    let unmanaged = facts.stranger_in_place().is_some();
    // Nothing of ours is active where another agent has taken its place.
    let active = facts.active.clone().filter(|active| !(unmanaged && active == to));
    let direction = direction(active.as_ref(), to);
    let mut notes = stranger_notes(facts, to);
    let database = database_move(facts, direction, to, target.trust_snapshot, &mut notes)?;
    let this = Move::new(facts, target, direction, database);
    let places = this.places(&mut notes);
    let prepare = this.prepare();
    let switch = this.switch(&places, &mut notes);
    let after = this.after(places, &mut notes);
    Ok(Plan {
        from: active,
        ran: facts.ran().cloned(),
        unmanaged,
        to: Some(to.clone()),
        to_dir: Some(this.to_dir),
        direction,
        database,
        service: this.service,
        prepare,
        switch,
        after,
        notes,
    })
}

/// What a move is made of, before its steps are known.
struct Move<'a> {
    facts: &'a Facts,
    target: &'a Target,
    direction: Direction,
    database: Database,
    service: ServiceAction,
    /// The directory of the version to be reached.
    to_dir: VersionDir,
    /// That version, if it is on the disk as it should be.
    installed: Option<&'a Installed>,
    /// The agent's link.
    agent: Placement,
}

impl<'a> Move<'a> {
    fn new(facts: &'a Facts, target: &'a Target, direction: Direction, database: Database) -> Self {
        let to_dir = facts.dir_for(&target.revision);
        // A move to what is on disk asks nobody: what its selection left out is fetched once the host stays there.
        let is_short = |installed: &Installed| {
            direction == Direction::Same && lacks(installed.components.as_deref(), &facts.components)
        };
        let installed =
            facts.find(&target.revision).filter(|known| known.marker.is_some() && known.intact && !is_short(known));
        let agent = Placement {
            path: facts.link_dir.join("teleport"),
            was: facts.node("teleport"),
            now: Node::Link(facts.target(&to_dir, AGENT_FILE)),
            part: Part::Agent,
        };
        let changes = agent.was != agent.now || direction != Direction::Same;
        let service = if changes { service_action(facts, database) } else { ServiceAction::None };
        Self { facts, target, direction, database, service, to_dir, installed, agent }
    }

    /// Whether the agent's link changes.
    fn switches(&self) -> bool {
        self.agent.was != self.agent.now
    }

    fn restores(&self) -> bool {
        self.database == Database::Restore
    }

    fn prepare(&self) -> Vec<Step> {
        let dir = self.to_dir.clone();
        match self.installed {
            None => {
                // Its size is asked only for a plan that is shown.
                let url = self.target.url.clone();
                vec![Step::Fetch { revision: self.target.revision.clone(), dir, url, bytes: None }]
            }
            Some(_) if self.direction != Direction::Same => vec![Step::Verify { dir }],
            Some(_) => Vec::new(),
        }
    }

    /// All links and the unit but the agent's link, also those that stand right; of others' only what may be replaced.
    fn places(&self, notes: &mut Vec<String>) -> Vec<Placement> {
        let (facts, installed) = (self.facts, self.installed);
        let mut places = placements(facts, &self.to_dir, installed);
        places.extend(unit_placement(facts, &self.to_dir, installed));
        places.extend(enablement_placements(facts, &self.to_dir, installed));
        if self.target.over == Over::Told {
            places.retain(|place| {
                let is_taken = place.was != place.now && facts.is_foreign(&place.was);
                if is_taken {
                    notes.push(not_replaced(&place.path));
                }
                !is_taken
            });
        }
        places
    }

    /// What is done under the journal, in this order.
    fn switch(&self, places: &[Placement], notes: &mut Vec<String>) -> Vec<Step> {
        let (facts, restores, switches) = (self.facts, self.restores(), self.switches());
        let mut switch = self.names(places, notes);
        let left = snapshot_place(facts, facts.active.as_ref().and_then(|active| facts.find(active)));
        let failed = self.target.trust_snapshot;
        if restores {
            // Nothing stands between stop and start that can be done before or after. Whether or not the link leads there by
            // now: what is restored replaces a database.
            switch.extend(facts.unit.managed.then_some(Step::DaemonReload));
            switch.extend([Step::PrepareSnapshot { dir: left.clone() }, Step::Stop]);
        }
        if restores || switches {
            switch.push(Step::Snapshot { dir: left.clone(), stopped: restores, failed });
        }
        if restores {
            switch.push(Step::Restore { dir: self.to_dir.clone() });
        }
        if switches {
            switch.push(Step::LinkAgent { place: self.agent.clone(), evidence: self.to_dir.clone() });
        }
        if !switch.is_empty() {
            switch.insert(0, record_agent(facts));
            switch.extend((facts.unit.managed && !restores).then_some(Step::DaemonReload));
            switch.extend(self.start());
            if restores {
                switch.extend([Step::Describe { dir: left.clone(), failed }, Step::Install { dir: left }]);
            }
        }
        if facts.agent.running && self.service == ServiceAction::None && switches {
            notes.push(
                "the agent does not run under a service that teleport-update controls: it keeps running the old version \
                 until you restart it"
                    .into(),
            );
        }
        switch
    }

    /// What changes names while the agent works: links, units, what others left; before it the copy of what is restored.
    fn names(&self, places: &[Placement], notes: &mut Vec<String>) -> Vec<Step> {
        let facts = self.facts;
        let mut steps = Vec::new();
        steps.extend(self.restores().then(|| Step::PrepareRestore { dir: self.to_dir.clone() }));
        steps.extend(facts.foreign_timers.iter().map(|unit| Step::StopTimer { unit: unit.clone() }));
        let pairs = |(path, kept): &(PathBuf, PathBuf)| (path.clone(), kept.clone());
        steps.extend(facts.foreign_links.iter().map(pairs).map(|(path, kept)| Step::KeepLink { path, kept }));
        steps.extend(facts.set_aside.iter().map(pairs).map(|(path, kept)| Step::SetAside { path, kept }));
        steps.extend(places.iter().filter(|place| place.was != place.now).cloned().map(Step::Place));
        for (path, text, was) in &facts.own_units {
            let (was, now) = (self.was_there(path, was), Node::Text(text.clone()));
            if self.target.over == Over::Told && facts.is_foreign(&was) {
                notes.push(not_replaced(path));
            } else if was != now {
                steps.push(Step::Place(Placement { path: path.clone(), was, now, part: Part::Unit }));
            }
        }
        steps
    }

    /// What stands at `path` once the Go updater's files are set aside.
    fn was_there(&self, path: &Path, was: &Node) -> Node {
        let is_set_aside = self.facts.set_aside.iter().any(|(aside, _)| aside == path);
        if is_set_aside { Node::Absent } else { was.clone() }
    }

    /// How the agent comes to run the version, and how that is judged.
    fn start(&self) -> Vec<Step> {
        let facts = self.facts;
        let start = match self.service {
            ServiceAction::Reload => Step::Reload,
            ServiceAction::Restart | ServiceAction::Start => Step::Start,
            ServiceAction::None => return Vec::new(),
        };
        let binary = facts.target(&self.to_dir, AGENT_FILE);
        vec![
            start,
            Step::Health { binary, served: facts.agent.served, failing: facts.agent.failed || facts.agent.is_due() },
        ]
    }

    /// What follows the commit.
    fn after(&self, mut places: Vec<Placement>, notes: &mut Vec<String>) -> Vec<Step> {
        let facts = self.facts;
        let retired = self.retired(&places);
        let mut after: Vec<Step> = Vec::new();
        after.extend(facts.packages.iter().map(|name| Step::RemovePackage { name: name.clone() }));
        if !facts.packages.is_empty() {
            // Also those that stood right before: the package can take them with it.
            places.push(self.agent.clone());
            after.push(Step::Reassert { enabled: facts.agent.enabled, running: facts.agent.running, places });
        }
        after.extend(facts.grant_traverse.iter().map(|path| Step::GrantTraverse { path: path.clone() }));
        if let Some(path) = &facts.closed_path {
            notes.push(format!(
                "other users cannot enter {} (no o+x), and adding o+x would also expose other files in it: only root can \
                 run tsh and the other linked programs",
                path.display()
            ));
        }
        after.extend(facts.moved_links.iter().map(removal).map(Step::Place));
        after.extend(facts.own_units.iter().filter_map(|(path, _, was)| {
            let unit = path.file_name()?.to_string_lossy().into_owned();
            let is_there = matches!(self.was_there(path, was), Node::Text(_));
            (is_installable(&unit) && !is_there).then_some(Step::EnableTimer { unit })
        }));
        // What the Go updater's timer masked takes its place.
        after.extend(facts.masked_timer.iter().map(|unit| Step::EnableTimer { unit: unit.clone() }));
        if let Some(retired) = retired {
            after.extend(retired.into_iter().map(|dir| Step::Retire { dir }));
            if facts.keep == 1 && self.direction != Direction::First {
                notes.push(
                    "keep is 1: the old version is removed after the watch, so no downgrade will be possible".into(),
                );
            }
        }
        after
    }

    /// The versions that go; `None` where nothing has moved.
    fn retired(&self, places: &[Placement]) -> Option<Vec<VersionDir>> {
        let facts = self.facts;
        if self.direction == Direction::Same && !self.switches() {
            return None;
        }
        let retired =
            retention::retire(facts, &self.target.revision, &self.to_dir, self.service != ServiceAction::None);
        // Our own link may move to an older version's updater in this very run.
        let is_linked = |dir: &VersionDir| places.iter().any(|place| facts.dir_of(&place.now).as_ref() == Some(dir));
        Some(retired.into_iter().filter(|dir| !is_linked(dir)).collect())
    }
}

/// That what others put at `path` stays there.
pub(super) fn not_replaced(path: &Path) -> String {
    let path = path.display();
    format!("{path} was not installed by teleport-update and is not changed; `teleport-update enable` would replace it")
}

/// Where the database that is left is saved. Not over a version's own snapshot if a newer agent may have written to it.
pub(super) fn snapshot_place(facts: &Facts, from: Option<&Installed>) -> VersionDir {
    let in_place = facts.stranger_in_place();
    match facts.ran() {
        Some(ran) if in_place.is_none() => facts.find(ran).map_or_else(VersionDir::unmanaged, |ran| ran.dir.clone()),
        Some(_) => VersionDir::unmanaged(),
        None if in_place.is_some_and(|stranger| stranger.revision.is_none()) => VersionDir::unmanaged(),
        None => from.map_or_else(VersionDir::unmanaged, |from| from.dir.clone()),
    }
}

/// An agent that nobody here started cannot be brought back, and is never stopped either.
pub(super) fn record_agent(facts: &Facts) -> Step {
    let agent = facts.agent;
    Step::RecordAgent { running: agent.controllable && (agent.running || agent.is_due()) }
}

pub(super) fn direction(active: Option<&Revision>, to: &Revision) -> Direction {
    match active {
        None => Direction::First,
        Some(active) if active == to => Direction::Same,
        Some(active) if active.version.precedes(&to.version) => Direction::Upgrade,
        Some(active) if to.version.precedes(&active.version) => Direction::Downgrade,
        // The same version built another way: as another edition, or with other build metadata.
        Some(_) => Direction::EditionSwitch,
    }
}

pub(super) fn service_action(facts: &Facts, database: Database) -> ServiceAction {
    let agent = facts.agent;
    if !agent.controllable {
        ServiceAction::None
    } else if agent.running {
        match database {
            Database::Keep => ServiceAction::Reload,
            Database::Restore => ServiceAction::Restart,
        }
    } else if agent.is_due() {
        ServiceAction::Start
    } else {
        ServiceAction::None
    }
}
