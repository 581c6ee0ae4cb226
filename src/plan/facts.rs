//! What a plan is made from. Gathered by `inspect`, and again under the lock.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::step::{Node, Part};
use crate::report::Error;
use crate::store::VersionDir;
use crate::store::contents::UPDATERS;
use protocol::Revision;

/// The whole picture of a host that a decision needs; no handle, no path is looked at after it is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The time of the survey.
    pub now: Timestamp,
    /// The versions directory, as programs on the host see it.
    pub versions: PathBuf,
    /// The link directory, real path.
    pub link_dir: PathBuf,
    /// What `updates.yaml` calls active.
    pub active: Option<Revision>,
    /// A script has installed it: it stands where a stranger would, and of the version before it there is a backup.
    pub by_script: bool,
    /// The last working version before it.
    pub previous: Option<Revision>,
    /// Versions on disk.
    pub installed: Vec<Installed>,
    /// What stands where links go: every name in the link directory that is ours, or that a version would need.
    pub names: Vec<Name>,
    /// The unit file.
    pub unit: UnitFact,
    /// Links to our unit that `systemctl enable` made in `/etc/systemd/system`. Where the unit is a link it copies that
    /// link's target, so they would stay with the version that was enabled.
    pub enablement: Vec<(PathBuf, Node)>,
    /// The database.
    pub database: bool,
    /// Where the agent has its data by its own word, if not where its configuration says.
    pub other_data_dir: Option<Error>,
    /// The agent.
    pub agent: Agent,
    /// Agents that are not the active version: where its link goes, or running.
    pub strangers: Vec<Stranger>,
    /// Refused versions.
    pub refused: Vec<Refusal>,
    /// Targets whose runs failed, by no fault of a version that ran.
    pub delayed: Vec<Refusal>,
    /// Versions that were left of late without an operator's word, oldest first, and when.
    pub left: Vec<(Revision, Timestamp)>,
    /// The executables to be unpacked and linked besides the agent and an updater; all if empty.
    pub components: Vec<String>,
    /// Kept beside the current and last working ones.
    pub keep: u32,
    /// Directories (names below the versions directory) that live processes of root, the agent's user, or whoever else could
    /// open its database, run from.
    pub in_use: Vec<VersionDir>,
    /// The same of all other users' processes.
    pub in_use_by_others: Vec<VersionDir>,
    /// Packages to be removed by `enable`.
    pub packages: Vec<String>,
    /// Files of the Go updater, and of RFD 0109's, to be set aside, with the place where they will be kept.
    pub set_aside: Vec<(PathBuf, PathBuf)>,
    /// What ours replaces of the Go updater's, with the place where it will be kept: links in the link directory, the
    /// agent's unit of a suffixed installation.
    pub foreign_links: Vec<(PathBuf, PathBuf)>,
    /// The timers of the updaters before this one that run: they must not fire in the middle of their own end.
    pub foreign_timers: Vec<String>,
    /// The package's own timer, which the Go updater's masks.
    pub masked_timer: Option<String>,
    /// A closed directory above the versions that should get o+x.
    pub grant_traverse: Option<PathBuf>,
    /// A closed directory above the versions that stays closed, because o+x would open more than ours.
    pub closed_path: Option<PathBuf>,
    /// Links of ours in a link directory used before this one; they go with the next plan, while the agent is stopped.
    pub moved_links: Vec<(PathBuf, Node)>,
    /// Our own timer files for a suffixed installation: path, wanted text, what stands there.
    pub own_units: Vec<(PathBuf, String, Node)>,
}

/// A version on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Installed {
    /// What it is.
    pub revision: Revision,
    /// Its directory's name.
    pub dir: VersionDir,
    /// The marker is there, and names the archive.
    pub marker: Option<String>,
    /// Sizes and modes fit the manifest.
    pub intact: bool,
    /// File names in `bin/`.
    pub binaries: Vec<String>,
    /// The selection of components that it was unpacked with; `None`: all.
    pub components: Option<Vec<String>>,
    /// The binary (relative to the version's directory) of an updater that speaks our protocol.
    pub updater: Option<String>,
    /// The unit that it brings, as text.
    pub unit: Option<String>,
    /// Unpacked size, bytes.
    pub size: u64,
    /// Its snapshot: what it would do for a move to this version.
    pub snapshot: Snapshot,
    /// When it was unpacked; older ones are retired first.
    pub install_time: Timestamp,
}

/// A version's snapshot, judged for a restore now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Snapshot {
    /// There is none, or it may not be used; the reason as code and text.
    Unusable(crate::report::Error),
    /// It can be restored.
    Valid,
    /// It records that the host had no database.
    NoDatabase,
}

/// A name in the link directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    /// File name.
    pub name: String,
    /// What stands there.
    pub node: Node,
    /// It is a link into our versions directory.
    pub ours: bool,
}

/// The unit file: where it is and how it is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnitFact {
    /// Real path.
    pub path: PathBuf,
    /// The same as a program on the host sees it.
    pub inside: PathBuf,
    /// What stands there.
    pub node: Node,
    /// True when it is a link to the version's file; false when it is generated with other paths in it.
    pub linked: bool,
    /// Replacements (from, to) for a generated unit, in order.
    pub edits: Vec<(String, String)>,
    /// Something on this host reads units.
    pub managed: bool,
}

/// The agent as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Agent {
    /// A process is there.
    pub running: bool,
    /// It starts at boot.
    pub enabled: bool,
    /// It has failed or is in a restart loop.
    pub failed: bool,
    /// It ran when the version was committed, and nobody has stopped it since: it has fallen where it does not run.
    pub fell: bool,
    /// It answers on its readiness socket.
    pub served: bool,
    /// We have a way to start, stop and reload it.
    pub controllable: bool,
}

impl Agent {
    /// It does not run, and is to.
    pub(crate) fn is_due(&self) -> bool {
        !self.running && (self.fell || (self.enabled && self.failed))
    }
}

/// A `teleport` that is not the active version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stranger {
    /// Where it is, for people.
    pub path: PathBuf,
    /// What it says that it is; `None` where it tells nothing.
    pub revision: Option<Revision>,
    /// It stands where the agent's link goes, and is none of our versions.
    pub in_place: bool,
}

/// A version that is not tried again before `retry_at`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Which.
    #[serde(flatten)]
    pub revision: Revision,
    /// Why, for people.
    pub reason: String,
    /// The stable code of the error.
    pub error_code: String,
    /// When it last failed.
    pub time: Timestamp,
    /// How often.
    pub count: u32,
    /// Next try.
    pub retry_at: Timestamp,
    /// The digest that was announced for its archive then.
    #[serde(skip)]
    pub digest: Option<String>,
}

/// The executables of an archive that are linked unasked: in `/usr/local/bin` another name could shadow a tool of the
/// system, or take an operator's.
const LINKED: [&str; 5] = ["teleport", "tsh", "tctl", "tbot", "fdpass-teleport"];

/// Whether the executable `name` of an archive is to be linked, under the selection `components` (the known ones if empty);
/// an updater's link has rules of its own (SPEC §5).
pub(crate) fn is_linked(components: &[String], name: &str) -> bool {
    if components.is_empty() { LINKED.contains(&name) } else { components.iter().any(|component| component == name) }
}

/// Whether a version that was unpacked with the selection `has` (`None`: all) lacks something of `wanted` (all if empty).
pub(crate) fn lacks(has: Option<&[String]>, wanted: &[String]) -> bool {
    has.is_some_and(|has| wanted.is_empty() || wanted.iter().any(|name| !has.contains(name)))
}

impl Facts {
    /// The newest agent that is newer than the active version: the database is its.
    pub(crate) fn ran(&self) -> Option<&Revision> {
        let told = self.strangers.iter().filter_map(|stranger| stranger.revision.as_ref());
        let newest = told.max_by(|a, b| a.version.cmp(&b.version))?;
        self.active.as_ref().is_none_or(|active| active.version.precedes(&newest.version)).then_some(newest)
    }

    /// The agent that stands where the agent's link goes and is none of our versions.
    pub(crate) fn stranger_in_place(&self) -> Option<&Stranger> {
        self.strangers.iter().find(|stranger| stranger.in_place)
    }

    /// Whether `node` is something that we neither made nor may make anew.
    pub(crate) fn is_foreign(&self, node: &Node) -> bool {
        match node {
            Node::Absent | Node::Text(_) => false,
            Node::Link(_) => self.dir_of(node).is_none(),
            Node::Kept(_) => true,
        }
    }

    /// The installed version that is `revision`.
    pub(crate) fn find(&self, revision: &Revision) -> Option<&Installed> {
        self.installed.iter().find(|installed| &installed.revision == revision)
    }

    /// The directory for `revision`: its present one, else `<VERSION>`, else `<VERSION>_<edition>` where another
    /// edition has that name (SPEC §1).
    pub(crate) fn dir_for(&self, revision: &Revision) -> VersionDir {
        if let Some(installed) = self.find(revision) {
            return installed.dir.clone();
        }
        let [by_version, by_edition] = VersionDir::candidates(revision);
        let is_taken = self.installed.iter().any(|installed| installed.dir == by_version);
        if is_taken { by_edition } else { by_version }
    }

    /// What stands under `name` in the link directory.
    pub(crate) fn node(&self, name: &str) -> Node {
        self.names.iter().find(|known| known.name == name).map_or(Node::Absent, |known| known.node.clone())
    }

    /// The link target of `file` (`bin/…`) in the version directory `dir`.
    pub(crate) fn target(&self, dir: &VersionDir, file: &str) -> PathBuf {
        self.versions.join(dir).join(file)
    }

    /// Every link of ours, whatever it leads to.
    pub(crate) fn links(&self) -> impl Iterator<Item = &Node> {
        let names = self.names.iter().map(|name| &name.node);
        names.chain([&self.unit.node]).chain(self.enablement.iter().map(|(_, node)| node))
    }

    /// The directory name that a link of ours leads to.
    pub(crate) fn dir_of(&self, node: &Node) -> Option<VersionDir> {
        if let Node::Link(target) = node { VersionDir::of_path(target, &self.versions) } else { None }
    }

    /// The directory that the `teleport` link leads to.
    pub(crate) fn linked_dir(&self) -> Option<VersionDir> {
        self.dir_of(&self.node("teleport"))
    }
}

/// Whether a name is this program's.
pub(crate) fn is_updater_name(name: &str) -> bool {
    UPDATERS.contains(&name)
}

/// The part that a binary's name plays.
pub(crate) fn part_of(name: &str) -> Part {
    match name {
        "teleport" => Part::Agent,
        _ if is_updater_name(name) => Part::Updater,
        _ => Part::Helper,
    }
}
