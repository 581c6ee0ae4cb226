//! Facts and a wish in, a plan out. Nothing here touches the host: the same value is shown by `plan` and run by
//! `execute`.

mod back;
pub(crate) mod decide;
pub(crate) mod facts;
pub(crate) mod retention;
pub(crate) mod step;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use back::back;
pub(crate) use facts::{Facts, Snapshot, Stranger};
pub use step::Step;
pub(crate) use step::{Named, Node, Part, Placement};

use crate::report::{Code, Error, Result};
use facts::{Installed, Name, is_linked, is_updater_name, lacks, part_of};
use protocol::Revision;

/// Where the first snapshot and the plain binaries of an unmanaged agent are kept until the commit (SPEC §5).
pub(crate) const UNMANAGED: &str = ".unmanaged";
/// Where what the Go updater left is kept until `uninstall` (SPEC §5).
pub(crate) const TAKEN_OVER: &str = ".taken-over";
/// Names assumed for a version that is not unpacked yet.
const USUAL_BINARIES: [&str; 4] = ["teleport", "tsh", "tctl", "tbot"];

/// The Go updater's timer, which has the same name as the package's.
pub(crate) const FOREIGN_TIMER: &str = "teleport-update.timer";

/// What each file begins with that we write into the directories of units, and by which it is known to be ours.
pub(crate) const OWN_MARK: &str = "# Written by `teleport-update enable`";

/// The unit's place in a version.
pub(crate) const UNIT: &str = "etc/systemd/teleport.service";

/// The direction of a move (SPEC §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Nothing was managed before.
    First,
    /// Already there; at most something is put right.
    Same,
    /// To a newer version.
    Upgrade,
    /// To an older version.
    Downgrade,
    /// The same version in another edition, or with other build metadata.
    EditionSwitch,
    /// Away from every version.
    Uninstall,
}

/// What happens to the agent's database (SPEC §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Database {
    /// The present one is kept; a newer version migrates it.
    Keep,
    /// The target's snapshot is restored.
    Restore,
}

/// What happens to the agent's process (SPEC §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceAction {
    /// Only files change.
    None,
    /// SIGHUP.
    Reload,
    /// Stopped before and started after.
    Restart,
    /// Started, because it is enabled and has failed.
    Start,
}

/// What of others a run may put ours in the place of (SPEC §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Over {
    /// Nothing but an agent that says it is no newer than what takes its place: the timer's run.
    Told,
    /// What stands where links go: an operator's command.
    Foreign,
    /// Also an agent that is newer, whose database there is no snapshot for (`--overwrite`).
    Newer,
}

/// What shall be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The revision.
    pub revision: Revision,
    /// URL of its archive.
    pub url: String,
    /// Size of its archive where known, bytes.
    pub bytes: Option<u64>,
    /// An earlier run is undone because its version failed: its snapshot is asked for its digest alone, and what the
    /// failed version leaves is never restored by itself.
    pub trust_snapshot: bool,
    /// What of others may be replaced.
    pub over: Over,
}

/// A plan: ordered steps in three phases. Before the commit everything is undone in reverse, after it finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The version that is left.
    pub from: Option<Revision>,
    /// The agent whose database is left, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Revision>,
    /// The agent that is left is none of our versions: it is kept in `.unmanaged`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmanaged: bool,
    /// The version to be reached; none for `uninstall`.
    pub to: Option<Revision>,
    /// Its directory's name.
    pub to_dir: Option<String>,
    /// The direction.
    pub direction: Direction,
    /// What happens to the database.
    pub database: Database,
    /// What happens to the agent's process.
    pub service: ServiceAction,
    /// Leaves nothing that is used; not journalled.
    pub prepare: Vec<Step>,
    /// Journalled and undone.
    pub switch: Vec<Step>,
    /// After the commit; finished, never undone.
    pub after: Vec<Step>,
    /// What an operator should know.
    pub notes: Vec<String>,
}

impl Plan {
    /// A plan of that direction in which nothing is done.
    pub fn none(direction: Direction) -> Self {
        Self {
            from: None,
            ran: None,
            unmanaged: false,
            to: None,
            to_dir: None,
            direction,
            database: Database::Keep,
            service: ServiceAction::None,
            prepare: Vec::new(),
            switch: Vec::new(),
            after: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// True if the host is already as wished.
    pub fn is_empty(&self) -> bool {
        self.prepare.is_empty() && self.switch.is_empty() && self.after.is_empty()
    }

    /// Everything that the steps name.
    pub fn named(&mut self) -> impl Iterator<Item = Named<'_>> {
        self.prepare.iter_mut().chain(&mut self.switch).chain(&mut self.after).map(Step::named)
    }

    /// True if what this run replaces of others is kept in `.unmanaged`.
    pub fn keeps_unmanaged(&self) -> bool {
        let is_kept = |step: &Step| match step {
            Step::Place(place) | Step::Switch { place, .. } => matches!(place.was, Node::Kept(_)),
            _ => false,
        };
        self.unmanaged || self.snapshot_dir() == Some(UNMANAGED) || self.switch.iter().any(is_kept)
    }

    /// The directory of the version that is left, where this leads back to an agent that is none of ours.
    pub fn left_by_way_back(&self) -> Option<&str> {
        self.snapshot_dir().filter(|_| self.to_dir.as_deref() == Some(UNMANAGED))
    }

    /// What the database that is left belongs to, as its snapshot says.
    pub fn owner(&self) -> Option<&Revision> {
        self.ran.as_ref().or(self.from.as_ref()).or(self.to.as_ref())
    }

    /// True if a failure after the commit is looked for, and undone.
    pub fn is_watched(&self) -> bool {
        let is_judged = |step: &Step| matches!(step, Step::Health { failing: false, .. });
        self.direction != Direction::Same && self.switch.iter().any(is_judged)
    }

    /// What has to be downloaded first, and the directory's name.
    pub fn download(&self) -> Option<(&Revision, &str)> {
        self.prepare.iter().find_map(|step| match step {
            Step::Fetch { revision, dir, .. } => Some((revision, dir.as_str())),
            _ => None,
        })
    }

    /// True if something has to be downloaded first.
    pub fn fetches(&self) -> bool {
        self.prepare.iter().any(|step| matches!(step, Step::Fetch { .. }))
    }

    /// True if the target's own snapshot must outlive a failure: it is restored by this run, or (the links are put
    /// right without a move) was taken by it.
    pub fn needs_snapshot_of_target(&self) -> bool {
        self.database == Database::Restore
            || self.switch.iter().any(|step| match step {
                Step::Snapshot { dir, .. } => self.to_dir.as_ref() == Some(dir),
                _ => false,
            })
    }

    /// Where the database that is left is saved.
    pub fn snapshot_dir(&self) -> Option<&str> {
        self.switch.iter().find_map(|step| match step {
            Step::Snapshot { dir, .. } => Some(dir.as_str()),
            _ => None,
        })
    }

    /// The switch steps during which the agent stands still: from its stop to its start, if the plan has both.
    pub fn standstill(&self) -> Range<usize> {
        let place = |wanted: &Step| self.switch.iter().position(|step| step == wanted);
        match (place(&Step::Stop), place(&Step::Start)) {
            (Some(stop), Some(start)) if stop < start => stop..start,
            _ => 0..0,
        }
    }

    /// Bytes to be downloaded, where known.
    pub fn download_bytes(&self) -> Option<u64> {
        self.prepare.iter().find_map(|step| match step {
            Step::Fetch { bytes, .. } => *bytes,
            _ => None,
        })
    }
}

/// The plan that brings the host to `target`.
///
/// # Errors
/// The target's snapshot is needed for a downgrade and cannot be used (`backup_*`).
pub(crate) fn move_to(facts: &Facts, target: &Target) -> Result<Plan> {
    let to = &target.revision;
    let to_dir = facts.dir_for(to);
    refuse_strangers(facts, to, target.over)?;
    let from = facts.active.as_ref().and_then(|active| facts.find(active));
    let unmanaged = facts.stranger_in_place().is_some();
    // Nothing of ours is active where another agent has taken its place.
    let active = facts.active.clone().filter(|active| !(unmanaged && active == to));
    let direction = direction(active.as_ref(), to);
    // A move to what is on disk asks nobody: what its selection left out is fetched once the host stays there.
    let is_short = |installed: &Installed| {
        direction == Direction::Same && lacks(installed.components.as_deref(), &facts.components)
    };
    let installed = facts.find(to).filter(|known| known.marker.is_some() && known.intact && !is_short(known));
    let mut notes = stranger_notes(facts, to);
    let database = database_move(facts, direction, to, target.trust_snapshot, &mut notes)?;

    let mut prepare = Vec::new();
    match installed {
        None => prepare.push(Step::Fetch {
            revision: to.clone(),
            dir: to_dir.clone(),
            url: target.url.clone(),
            bytes: target.bytes,
        }),
        Some(_) if direction != Direction::Same => prepare.push(Step::Verify { dir: to_dir.clone() }),
        Some(_) => {}
    }

    let mut places = placements(facts, &to_dir, installed);
    places.extend(unit_placement(facts, &to_dir, installed));
    places.extend(enablement_placements(facts, &to_dir, installed));
    if target.over == Over::Told {
        places.retain(|place| {
            let is_taken = place.was != place.now && facts.is_foreign(&place.was);
            if is_taken {
                notes.push(not_replaced(&place.path));
            }
            !is_taken
        });
    }
    let linked: Vec<Node> = places.iter().map(|place| place.now.clone()).collect();
    let agent = Placement {
        path: facts.link_dir.join("teleport"),
        was: facts.node("teleport"),
        now: Node::Link(facts.target(&to_dir, "bin/teleport")),
        part: Part::Agent,
    };
    let switches = agent.was != agent.now;
    let service =
        if switches || direction != Direction::Same { service_action(facts, database) } else { ServiceAction::None };

    let mut switch: Vec<Step> = Vec::new();
    let restore = database == Database::Restore;
    if restore {
        switch.push(Step::PrepareRestore { dir: to_dir.clone() });
    }
    switch.extend(facts.foreign_timer.iter().map(|unit| Step::Quiet { unit: unit.clone() }));
    for (path, kept) in &facts.foreign_links {
        switch.push(Step::Remember { path: path.clone(), kept: kept.clone() });
    }
    for (path, kept) in &facts.set_aside {
        switch.push(Step::SetAside { path: path.clone(), kept: kept.clone() });
    }
    switch.extend(places.iter().filter(|place| place.was != place.now).cloned().map(Step::Place));
    // Where the Go updater's stood nothing stands by then.
    let is_set_aside = |path: &PathBuf| facts.set_aside.iter().any(|(aside, _)| aside == path);
    let was_there = |path, was: &Node| if is_set_aside(path) { Node::Absent } else { was.clone() };
    for (path, text, was) in &facts.own_units {
        let (was, now) = (was_there(path, was), Node::Text(text.clone()));
        if target.over == Over::Told && facts.is_foreign(&was) {
            notes.push(not_replaced(path));
        } else if was != now {
            switch.push(Step::Place(Placement { path: path.clone(), was, now, part: Part::Unit }));
        }
    }
    let left = snapshot_place(facts, from);
    let failed = target.trust_snapshot;
    if restore {
        // Nothing stands between stop and start that can be done before or after. Whether or not the link leads there by
        // now: what is restored replaces a database.
        switch.extend(facts.unit.managed.then_some(Step::DaemonReload));
        switch.extend([Step::PrepareSnapshot { dir: left.clone() }, Step::Stop]);
    }
    if restore || switches {
        switch.push(Step::Snapshot { dir: left.clone(), stopped: restore, failed });
    }
    if restore {
        switch.push(Step::Restore { dir: to_dir.clone() });
    }
    if switches {
        switch.push(Step::Switch { place: agent.clone(), evidence: to_dir.clone() });
    }
    if !switch.is_empty() {
        switch.insert(0, hold(facts));
        if facts.unit.managed && !restore {
            switch.push(Step::DaemonReload);
        }
        match service {
            ServiceAction::Reload => switch.push(Step::Reload),
            ServiceAction::Restart | ServiceAction::Start => switch.push(Step::Start),
            ServiceAction::None => {}
        }
        if service != ServiceAction::None {
            switch.push(Step::Health {
                binary: facts.target(&to_dir, "bin/teleport"),
                served: facts.agent.served,
                failing: facts.agent.failed,
            });
        }
        if restore {
            switch.extend([Step::Describe { dir: left.clone(), failed }, Step::Install { dir: left }]);
        }
    }
    if facts.agent.running && service == ServiceAction::None && switches {
        notes.push(
            "the agent does not run under a service that teleport-update controls: it keeps running the old version \
             until you restart it"
                .into(),
        );
    }

    let mut after: Vec<Step> = Vec::new();
    after.extend(facts.packages.iter().map(|name| Step::RemovePackage { name: name.clone() }));
    if !facts.packages.is_empty() {
        // Also those that stood right before: the package can take them with it.
        places.push(agent);
        after.push(Step::Confirm { enabled: facts.agent.enabled, running: facts.agent.running, places });
    }
    after.extend(facts.open_path.iter().map(|path| Step::OpenPath { path: path.clone() }));
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
        (is_installable(&unit) && !matches!(was_there(path, was), Node::Text(_))).then_some(Step::EnableTimer { unit })
    }));
    // What the Go updater's timer masked takes its place.
    after.extend(facts.masked_timer.iter().map(|unit| Step::EnableTimer { unit: unit.clone() }));
    if direction != Direction::Same || switches {
        let retired = retention::retire(facts, to, &to_dir, service != ServiceAction::None);
        // Our own link may move to an older version's updater in this very run.
        let is_linked = |dir: &String| {
            linked.iter().any(|node| match node {
                Node::Link(target) => facts.dir_of_link(target).as_ref() == Some(dir),
                _ => false,
            })
        };
        after.extend(retired.into_iter().filter(|dir| !is_linked(dir)).map(|dir| Step::Retire { dir }));
        if facts.keep == 1 && direction != Direction::First {
            notes
                .push("keep is 1: the old version is removed after the watch, so no downgrade will be possible".into());
        }
    }
    Ok(Plan {
        from: active,
        ran: facts.ran().cloned(),
        unmanaged,
        to: Some(to.clone()),
        to_dir: Some(to_dir),
        direction,
        database,
        service,
        prepare,
        switch,
        after,
        notes,
    })
}

/// That what others put at `path` stays there.
fn not_replaced(path: &Path) -> String {
    let path = path.display();
    format!("{path} was not installed by teleport-update and is not changed; `teleport-update enable` would replace it")
}

/// A newer agent has migrated the database, and of the time before that there is no snapshot: to put an older one in its
/// place is a downgrade in disguise (SPEC §5).
fn refuse_strangers(facts: &Facts, to: &Revision, over: Over) -> Result<()> {
    for stranger in &facts.strangers {
        let path = stranger.path.display();
        match &stranger.revision {
            Some(revision) if to.version.precedes(&revision.version) && over < Over::Newer => {
                return Err(Error::new(
                    Code::NewerAgent,
                    format!(
                        "{path} is Teleport {revision}: installing {to} would be a downgrade without a database backup"
                    ),
                )
                .advise("install a version that is not older, or downgrade anyway with `enable --overwrite`"));
            }
            None if stranger.in_place && over == Over::Told => {
                return Err(Error::new(
                    Code::PathTaken,
                    format!("{path} was not installed by teleport-update, and its version cannot be found out"),
                )
                .advise("run `teleport-update enable` to replace it"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What an operator should know of agents that are not ours.
fn stranger_notes(facts: &Facts, to: &Revision) -> Vec<String> {
    let note = |stranger: &Stranger| {
        let path = stranger.path.display();
        match &stranger.revision {
            Some(revision) if to.version.precedes(&revision.version) => Some(format!(
                "{path} is Teleport {revision}, and {to} will use that database: there is no backup to go back to"
            )),
            Some(revision) if stranger.in_place && facts.active.is_some() => Some(format!(
                "{path} was replaced by Teleport {revision}, which teleport-update did not install; {to} replaces it"
            )),
            None if stranger.in_place => Some(format!(
                "the Teleport version of {path} cannot be found out: if it is newer than {to}, this is a downgrade \
                 without a database backup"
            )),
            _ => None,
        }
    };
    facts.strangers.iter().filter_map(note).collect()
}

/// Where the database that is left is saved. Not over a version's own snapshot if a newer agent may have written to it.
fn snapshot_place(facts: &Facts, from: Option<&Installed>) -> String {
    let outside = || UNMANAGED.to_owned();
    let in_place = facts.stranger_in_place();
    match facts.ran() {
        Some(ran) if in_place.is_none() => facts.find(ran).map_or_else(outside, |ran| ran.dir.clone()),
        Some(_) => outside(),
        None if in_place.is_some_and(|stranger| stranger.revision.is_none()) => outside(),
        None => from.map_or_else(outside, |from| from.dir.clone()),
    }
}

/// A link of ours in another link directory goes.
fn removal((path, was): &(PathBuf, Node)) -> Placement {
    let part = path.file_name().map_or(Part::Helper, |name| part_of(&name.to_string_lossy()));
    Placement { path: path.clone(), was: was.clone(), now: Node::Absent, part }
}

/// A unit of ours that is enabled: the service is started by its timer alone.
fn is_installable(unit: &str) -> bool {
    unit.ends_with(".timer") || unit.starts_with("teleport-update-recover")
}

/// The plan that removes links, units and versions; the agent's configuration and data stay. `set_back`: where what was
/// set aside goes, and where it is kept.
pub(crate) fn uninstall(facts: &Facts, set_back: &[(PathBuf, PathBuf)]) -> Plan {
    let mut switch = vec![hold(facts)];
    if facts.agent.running {
        switch.push(Step::Stop);
    }
    for name in facts.names.iter().filter(|name| name.ours) {
        let place = Placement {
            path: facts.link_dir.join(&name.name),
            was: name.node.clone(),
            now: Node::Absent,
            part: part_of(&name.name),
        };
        switch.push(Step::Place(place));
    }
    switch.extend(facts.moved_links.iter().map(removal).map(Step::Place));
    let unit_is_ours = match &facts.unit.node {
        Node::Link(target) => facts.dir_of_link(target).is_some(),
        Node::Text(_) => !facts.unit.linked,
        _ => false,
    };
    if unit_is_ours {
        switch.push(Step::Place(Placement {
            path: facts.unit.path.clone(),
            was: facts.unit.node.clone(),
            now: Node::Absent,
            part: Part::Unit,
        }));
    }
    // Links that enabled the unit which comes back under the same name stay, and those that enable somebody else's.
    let is_others = !unit_is_ours && facts.unit.node != Node::Absent;
    let comes_back = is_others || set_back.iter().any(|(path, _)| *path == facts.unit.path);
    let is_kept = |was: &Node| comes_back && matches!(was, Node::Link(target) if facts.dir_of_link(target).is_none());
    for (path, was) in facts.enablement.iter().filter(|(_, was)| !is_kept(was)) {
        switch.push(Step::Place(Placement {
            path: path.clone(),
            was: was.clone(),
            now: Node::Absent,
            part: Part::Unit,
        }));
    }
    // Before their files go: systemctl disables only what it finds.
    let is_ours = |was: &Node| matches!(was, Node::Text(_));
    let own = facts.own_units.iter().filter(|(_, _, was)| is_ours(was));
    switch.extend(
        own.filter_map(|(path, _, _)| path.file_name().map(|name| name.to_string_lossy().into_owned()))
            .filter(|unit| is_installable(unit))
            .map(|unit| Step::DisableUnit { unit }),
    );
    for (path, _, was) in facts.own_units.iter().filter(|(_, _, was)| is_ours(was)) {
        switch.push(Step::Place(Placement {
            path: path.clone(),
            was: was.clone(),
            now: Node::Absent,
            part: Part::Unit,
        }));
    }
    switch.extend(set_back.iter().map(|(path, kept)| {
        // Our own link, if one stood there, has been removed above.
        let now = Node::Kept(kept.clone());
        Step::Place(Placement { path: path.clone(), was: Node::Absent, now, part: Part::Unit })
    }));
    if facts.unit.managed {
        switch.push(Step::DaemonReload);
    }
    let after = facts.installed.iter().map(|installed| Step::Retire { dir: installed.dir.clone() }).collect();
    Plan { from: facts.active.clone(), switch, after, ..Plan::none(Direction::Uninstall) }
}

/// An agent that nobody here started cannot be brought back, and is never stopped either.
fn hold(facts: &Facts) -> Step {
    let agent = facts.agent;
    Step::Hold { running: agent.controllable && (agent.running || (agent.enabled && agent.failed)) }
}

fn direction(active: Option<&Revision>, to: &Revision) -> Direction {
    match active {
        None => Direction::First,
        Some(active) if active == to => Direction::Same,
        Some(active) if active.version.precedes(&to.version) => Direction::Upgrade,
        Some(active) if to.version.precedes(&active.version) => Direction::Downgrade,
        // The same version built another way: as another edition, or with other build metadata.
        Some(_) => Direction::EditionSwitch,
    }
}

/// The table of SPEC §6.
fn database_move(
    facts: &Facts,
    direction: Direction,
    to: &Revision,
    trusted: bool,
    notes: &mut Vec<String>,
) -> Result<Database> {
    // The target's own snapshot is older than what a newer agent than the active one has written since.
    if direction == Direction::Upgrade && facts.ran().is_some_and(|ran| !to.version.precedes(&ran.version)) {
        return Ok(Database::Keep);
    }
    let none = Snapshot::Unusable(Error::new(Code::BackupMissing, format!("there is no database backup for {to}")));
    let snapshot = facts.find(to).map_or(&none, |installed| &installed.snapshot);
    match (direction, snapshot) {
        (Direction::Downgrade, Snapshot::Valid) => Ok(Database::Restore),
        (Direction::Downgrade, Snapshot::NoDatabase) if !facts.database => Ok(Database::Keep),
        // What the failed version made goes; it is kept as its snapshot.
        (Direction::Downgrade, Snapshot::NoDatabase) if trusted => Ok(Database::Restore),
        (Direction::Downgrade, Snapshot::NoDatabase) => Err(Error::new(
            Code::BackupMissing,
            format!(
                "refusing to downgrade to {to}: when this host last ran it there was no database, and now there is one"
            ),
        )
        .advise("update to a newer version instead")),
        (Direction::Downgrade, Snapshot::Unusable(why)) => {
            Err(Error::new(why.code, format!("refusing to downgrade to {to}: {}", why.what))
                .advise(why.advice.clone().unwrap_or_else(|| "update to a newer version instead".into())))
        }
        (Direction::Upgrade, Snapshot::Valid) => Ok(Database::Restore),
        (Direction::EditionSwitch, Snapshot::Valid) if trusted => Ok(Database::Restore),
        // Not read is not invalid: a disk's passing fault must not decide which rows the agent gets.
        (Direction::Upgrade, Snapshot::Unusable(why)) if !why.code.as_str().starts_with("backup_") => {
            Err(Error::new(why.code, format!("cannot check the database backup of {to}: {}", why.what)).advise(
                format!(
                    "run the command again; to continue without this backup, move {} away",
                    facts.versions.join(facts.dir_for(to)).join("backup").display()
                ),
            ))
        }
        (Direction::Upgrade, Snapshot::Unusable(why)) if why.code != Code::BackupMissing => {
            notes.push(format!("the database backup of {to} is not restored: {}", why.what));
            Ok(Database::Keep)
        }
        _ => Ok(Database::Keep),
    }
}

fn service_action(facts: &Facts, database: Database) -> ServiceAction {
    let agent = facts.agent;
    if !agent.controllable {
        ServiceAction::None
    } else if agent.running {
        match database {
            Database::Keep => ServiceAction::Reload,
            Database::Restore => ServiceAction::Restart,
        }
    } else if agent.enabled && agent.failed {
        ServiceAction::Start
    } else {
        ServiceAction::None
    }
}

/// Every link but the agent's, updaters included, also those that already are as they shall be.
fn placements(facts: &Facts, to_dir: &str, installed: Option<&Installed>) -> Vec<Placement> {
    // Before the download the damaged copy's names, or the active version's, are the best guess.
    let guess = facts.installed.iter().find(|known| known.dir == to_dir && !known.binaries.is_empty());
    let guess = guess.or_else(|| facts.find(facts.active.as_ref()?)).map(|known| known.binaries.clone());
    let binaries = match installed {
        Some(installed) => installed.binaries.clone(),
        None => guess.unwrap_or_else(|| USUAL_BINARIES.map(str::to_owned).to_vec()),
    };
    let mut wanted: Vec<(String, Node)> = binaries
        .iter()
        .filter(|name| name.as_str() != "teleport" && !is_updater_name(name) && is_linked(&facts.components, name))
        .map(|name| (name.clone(), Node::Link(facts.target(to_dir, &format!("bin/{name}")))))
        .collect();
    if installed.is_some() {
        wanted.extend(updater_links(facts, installed));
    }
    let mut placements: Vec<Placement> = Vec::new();
    for (name, now) in &wanted {
        let path = facts.link_dir.join(name);
        placements.push(Placement { path, was: facts.node(name), now: now.clone(), part: part_of(name) });
    }
    let is_foreign = |name: &Name| facts.foreign_links.iter().any(|(path, _)| path.ends_with(&name.name));
    let is_left = |name: &&Name| {
        (name.ours || is_foreign(name))
            && name.name != "teleport"
            && !wanted.iter().any(|(wanted, _)| *wanted == name.name)
    };
    if installed.is_some() {
        for name in facts.names.iter().filter(is_left) {
            placements.push(Placement {
                path: facts.link_dir.join(&name.name),
                was: name.node.clone(),
                now: Node::Absent,
                part: part_of(&name.name),
            });
        }
    }
    placements
}

/// Our own links: to the new version's updater if it speaks our protocol, else they stay on the newest that does. One that
/// was only unpacked, or failed, has not proven itself.
fn updater_links(facts: &Facts, to: Option<&Installed>) -> Vec<(String, Node)> {
    let in_use = |installed: &Installed| {
        let linked = matches!(facts.node("teleport-update"), Node::Link(target) if facts.dir_of_link(&target).as_ref() == Some(&installed.dir));
        let working = [&facts.active, &facts.previous].into_iter().flatten();
        linked || working.into_iter().any(|revision| *revision == installed.revision)
    };
    let newest = || {
        facts
            .installed
            .iter()
            .filter(|installed| installed.updater.is_some() && installed.marker.is_some() && in_use(installed))
            .max_by(|a, b| a.revision.version.cmp(&b.revision.version).then(a.install_time.cmp(&b.install_time)))
    };
    let Some(source) = to.filter(|installed| installed.updater.is_some()).or_else(newest) else {
        return Vec::new();
    };
    let Some(file) = &source.updater else {
        return Vec::new();
    };
    let target = Node::Link(facts.target(&source.dir, file));
    let mut names = vec!["teleport-update".to_owned()];
    if file.ends_with("teleport-updater") {
        names.push("teleport-updater".to_owned());
    }
    names.into_iter().map(|name| (name, target.clone())).collect()
}

/// Links that enable the unit follow the version, as the unit itself does. Where the unit is a file with other paths in
/// it they lead to that file, and one in a directory of units goes: it would have systemd load the version's own unit.
fn enablement_placements<'a>(
    facts: &'a Facts,
    to_dir: &str,
    installed: Option<&Installed>,
) -> impl Iterator<Item = Placement> + 'a {
    let target = if facts.unit.linked { facts.target(to_dir, UNIT) } else { facts.unit.inside.clone() };
    let now_of = move |path: &PathBuf| {
        if facts.unit.linked || !is_unit_itself(path) { Node::Link(target.clone()) } else { Node::Absent }
    };
    let has_unit = installed.is_none_or(|installed| installed.unit.is_some());
    // One that leads to the unit's own place stays right.
    let leads_to_version = |node: &Node| matches!(node, Node::Link(target) if facts.dir_of_link(target).is_some());
    let moves = facts.enablement.iter().filter(move |(_, was)| has_unit && leads_to_version(was));
    moves.map(move |(path, was)| Placement {
        path: path.clone(),
        was: was.clone(),
        now: now_of(path),
        part: Part::Unit,
    })
}

/// Whether systemd loads the unit by `path`; a link in `*.wants` only names it.
fn is_unit_itself(path: &Path) -> bool {
    let extension = path.parent().and_then(Path::extension);
    !extension.is_some_and(|extension| extension == "wants" || extension == "requires")
}

/// Links to a version's own unit that systemd would load in place of the file with the paths of this installation.
pub(crate) fn masking_links(facts: &Facts) -> impl Iterator<Item = &PathBuf> {
    let leads_to_version = |node: &Node| matches!(node, Node::Link(target) if facts.dir_of_link(target).is_some());
    facts
        .enablement
        .iter()
        .filter(move |(path, was)| !facts.unit.linked && is_unit_itself(path) && leads_to_version(was))
        .map(|(path, _)| path)
}

fn unit_placement(facts: &Facts, to_dir: &str, installed: Option<&Installed>) -> Option<Placement> {
    let unit = &facts.unit;
    let now = match installed {
        Some(Installed { unit: None, .. }) => return None,
        _ if unit.linked => Node::Link(facts.target(to_dir, UNIT)),
        Some(Installed { unit: Some(text), .. }) => {
            let text = unit.edits.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
            Node::Text(format!("{OWN_MARK}; change it with `systemctl edit`.\n{text}"))
        }
        None => return None,
    };
    Some(Placement { path: unit.path.clone(), was: unit.node.clone(), now, part: Part::Unit })
}
