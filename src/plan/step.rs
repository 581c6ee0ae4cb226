//! The vocabulary of a plan: every way in which this program changes a host, with its undo.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::{Code, Error};
use crate::store::VersionDir;
use protocol::Revision;
use protocol::installer::InstallerOrder;

/// What stands, or shall stand, under a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// Nothing.
    #[default]
    Absent,
    /// A symbolic link with this target.
    Link(PathBuf),
    /// A small text file of ours (a generated unit).
    Text(String),
    /// A file that is not ours; while it is replaced it is kept at this path in `.unmanaged`.
    Kept(PathBuf),
}

/// Which of the installation's names a placement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// `teleport`: the agent itself, always the last to move.
    Agent,
    /// Another binary of the version.
    Helper,
    /// This program's own link.
    Updater,
    /// A systemd unit.
    Unit,
}

/// One name and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The real path.
    pub path: PathBuf,
    /// What stands there now.
    pub was: Node,
    /// What shall stand there.
    pub now: Node,
    /// Its role.
    pub part: Part,
}

/// One step. The switch's steps are journalled; each has a do and an undo in `execute::steps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Download, verify, unpack and publish a version. Undone by removing what was staged.
    Fetch {
        /// What.
        revision: Revision,
        /// Its directory below the versions directory.
        dir: VersionDir,
        /// From where.
        url: String,
        /// Size of the archive where known, bytes.
        bytes: Option<u64>,
    },
    /// Hash an installed version against its manifest. Changes nothing.
    Verify {
        /// Its directory below the versions directory.
        dir: VersionDir,
    },
    /// Note how the agent was; undone by bringing it back to that.
    RecordAgent {
        /// It ran, or would have been started again after a failure, under a service that we can start.
        running: bool,
    },
    /// Put a link or unit in place. Undone by putting back what was there.
    Place(Placement),
    /// Link the live database to where its snapshot will be, beside the running agent. Undone by removing the link.
    PrepareSnapshot {
        /// The version's directory, or `.unmanaged`.
        dir: VersionDir,
    },
    /// Copy the database that is left into `<dir>/backup`.
    Snapshot {
        /// The version's directory, or `.unmanaged`.
        dir: VersionDir,
        /// With the agent stopped: a restore follows, and after the start `describe` and `install`. Else beside the
        /// running one, whole.
        stopped: bool,
        /// The version has failed: its snapshot is never restored by itself.
        #[serde(default)]
        failed: bool,
    },
    /// Check and describe what the stopped snapshot took.
    Describe {
        /// The version's directory, or `.unmanaged`.
        dir: VersionDir,
        /// The version has failed: its snapshot is never restored by itself.
        #[serde(default)]
        failed: bool,
    },
    /// Put the described snapshot in the place of the version's earlier one.
    Install {
        /// The version's directory, or `.unmanaged`.
        dir: VersionDir,
    },
    /// Copy the snapshot to be restored beside the live database. Undone by removing the copy.
    PrepareRestore {
        /// The version's directory.
        dir: VersionDir,
    },
    /// Stop the agent and prove it. Undone by `record_agent`.
    Stop,
    /// Put the prepared database in place. Undone by restoring this run's snapshot.
    Restore {
        /// The version's directory whose snapshot it is.
        dir: VersionDir,
    },
    /// Move the `teleport` link: from here on undo restores this run's snapshot with the agent stopped.
    LinkAgent {
        /// The link.
        place: Placement,
        /// Where the failed version's database is kept as evidence.
        evidence: VersionDir,
    },
    /// Have systemd read its units again.
    DaemonReload,
    /// SIGHUP: the agent starts the new version as its child and goes.
    Reload,
    /// Start the agent.
    Start,
    /// Run the host's own script, which installs the version, and wait until the agent runs it. Never undone: what is left of the script
    /// is ended.
    Script {
        /// Which, and with what.
        order: InstallerOrder,
    },
    /// Wait for the verdict on the new version.
    Health {
        /// The binary that the main process must be running.
        binary: PathBuf,
        /// The agent answered on its readiness socket before: it must answer again.
        served: bool,
        /// The agent was failing before: that cannot be blamed on the new version.
        failing: bool,
    },
    /// Keep a second name of a foreign link that will be replaced, for `uninstall` to put back.
    KeepLink {
        /// The link.
        path: PathBuf,
        /// Where it is kept.
        kept: PathBuf,
    },
    /// Stop a foreign timer until it is set aside. Undone by starting it.
    StopTimer {
        /// The unit's name.
        unit: String,
    },
    /// Set a foreign file aside for good (the Go updater's units), kept for `uninstall` to put back.
    SetAside {
        /// The file.
        path: PathBuf,
        /// Where it is kept.
        kept: PathBuf,
    },
    /// Remove and purge a distribution package; configuration and data stay.
    RemovePackage {
        /// Its name.
        name: String,
    },
    /// Put every link and unit right that something else has removed meanwhile, and the agent as it was.
    Reassert {
        /// It starts at boot.
        enabled: bool,
        /// It ran.
        running: bool,
        /// Every name, whether this run changed it or not.
        places: Vec<Placement>,
    },
    /// Let ordinary users pass through the agent's directory (o+x, never o+r).
    GrantTraverse {
        /// The directory.
        path: PathBuf,
    },
    /// Enable a unit of ours, and start it if it is a timer.
    EnableTimer {
        /// The unit's name.
        unit: String,
    },
    /// Stop and disable a unit of ours. Undone by enabling and starting it.
    DisableUnit {
        /// The unit's name.
        unit: String,
    },
    /// Remove a directory of the versions directory.
    Retire {
        /// Its name.
        dir: VersionDir,
    },
}

impl Step {
    /// What this step does, for people.
    pub fn describe(&self) -> String {
        match self {
            Step::Fetch { revision, url, .. } => format!("download and unpack {revision} from {url}"),
            Step::Verify { dir } => format!("check every file of {dir} against its manifest"),
            Step::RecordAgent { running: true } => "record that the agent must be running again at the end".into(),
            Step::RecordAgent { running: false } => "record that the agent's service is not touched".into(),
            Step::Place(place) => describe_place(place),
            Step::Snapshot { dir, stopped: true, .. } => {
                format!("back up the stopped agent's database for {dir}/backup")
            }
            Step::Snapshot { dir, stopped: false, .. } => format!("back up the database to {dir}/backup"),
            Step::PrepareSnapshot { dir } => format!("prepare the database backup for {dir}/backup"),
            Step::Describe { dir, .. } => format!("check the new backup for {dir}/backup and write its backup.yaml"),
            Step::Install { dir } => format!("move the new database backup to {dir}/backup"),
            Step::PrepareRestore { dir } => format!("copy the database backup of {dir} next to the live database"),
            Step::Stop => "stop the agent".into(),
            Step::Restore { dir } => format!("restore the database from {dir}/backup"),
            Step::LinkAgent { place, .. } => describe_place(place),
            Step::DaemonReload => "run `systemctl daemon-reload`".into(),
            Step::Reload => "reload the agent (SIGHUP)".into(),
            Step::Start => "start the agent".into(),
            Step::Script { order } => format!("run local-script/{} of this host", order.name),
            Step::Health { .. } => "wait until the new version is healthy".into(),
            Step::KeepLink { path, .. } => format!("keep a copy of {} for `uninstall`", path.display()),
            Step::StopTimer { unit } => format!("stop {unit}"),
            Step::SetAside { path, .. } => format!("move {} away and keep it for `uninstall`", path.display()),
            Step::RemovePackage { name } => format!("remove and purge the package {name}"),
            Step::Reassert { .. } => "check links, unit and agent after the package removal, and repair them".into(),
            Step::GrantTraverse { path } => format!("allow other users to enter {} (chmod o+x)", path.display()),
            Step::EnableTimer { unit } => format!("enable {unit}"),
            Step::DisableUnit { unit } => format!("disable {unit}"),
            Step::Retire { dir } => format!("remove {dir}"),
        }
    }

    /// That it failed with `error`, for people.
    pub fn describe_failure(&self, error: &Error) -> String {
        match self {
            Step::Health { .. } if error.code == Code::Unhealthy => "the new version is not healthy".into(),
            Step::Health { .. } => "could not find out whether the new version is healthy".into(),
            _ => format!("could not {}", self.describe()),
        }
    }

    /// What undoing it does, for people.
    pub fn describe_undo(&self) -> &'static str {
        match self {
            Step::Fetch { .. } => "remove what was unpacked",
            Step::RecordAgent { running: true } => "start the agent again",
            Step::Place(_) => "restore what was there before",
            Step::PrepareRestore { .. } => "remove the prepared copy",
            Step::PrepareSnapshot { .. } => "remove the link",
            Step::Stop => "start the agent",
            Step::Restore { .. } => "restore the old version's database",
            Step::LinkAgent { .. } => "stop the agent, restore the old version's database, restore the link",
            Step::SetAside { .. } => "restore the file",
            Step::KeepLink { .. } => "remove the kept copy",
            Step::StopTimer { .. } => "start the unit again",
            Step::DisableUnit { .. } => "enable and start the unit again",
            Step::Script { .. } => "end what is left of the script",
            // Which these are is told where steps are undone.
            _ => "nothing to undo",
        }
    }

    /// The names that this step brings to a state.
    pub fn placements(&self) -> &[Placement] {
        match self {
            Step::Place(place) | Step::LinkAgent { place, .. } => std::slice::from_ref(place),
            Step::Reassert { places, .. } => places,
            _ => &[],
        }
    }

    /// Everything that this step names. Without an arm for all others: a step that is added cannot be forgotten here.
    pub fn named(&mut self) -> Named<'_> {
        let mut named = Named::default();
        match self {
            Step::Fetch { dir, .. }
            | Step::Verify { dir }
            | Step::PrepareSnapshot { dir }
            | Step::Snapshot { dir, .. }
            | Step::Describe { dir, .. }
            | Step::Install { dir }
            | Step::PrepareRestore { dir }
            | Step::Restore { dir }
            | Step::Retire { dir } => named.words.push(dir.as_str()),
            Step::Place(place) => named.add(place),
            Step::LinkAgent { place, evidence } => {
                named.add(place);
                named.words.push(evidence.as_str());
            }
            Step::Reassert { places, enabled: _, running: _ } => places.iter_mut().for_each(|place| named.add(place)),
            Step::KeepLink { path, kept } | Step::SetAside { path, kept } => named.paths.extend([path, kept]),
            Step::GrantTraverse { path } => named.paths.push(path),
            Step::StopTimer { unit: word }
            | Step::EnableTimer { unit: word }
            | Step::DisableUnit { unit: word }
            | Step::RemovePackage { name: word } => named.words.push(word),
            Step::Script { order } => named.words.push(&order.name),
            // Its binary is a path as seen from inside.
            Step::Health { binary: _, served: _, failing: _ }
            | Step::RecordAgent { running: _ }
            | Step::Stop
            | Step::DaemonReload
            | Step::Reload
            | Step::Start => {}
        }
        named
    }
}

/// What a step names.
#[derive(Debug, Default)]
pub struct Named<'a> {
    /// Paths that are used as they are, not as seen from inside an image: targets of links are not among them.
    pub paths: Vec<&'a mut PathBuf>,
    /// Names without a directory: of version directories, units, packages.
    pub words: Vec<&'a str>,
}

impl<'a> Named<'a> {
    fn add(&mut self, place: &'a mut Placement) {
        self.paths.push(&mut place.path);
        for node in [&mut place.was, &mut place.now] {
            match node {
                Node::Kept(kept) => self.paths.push(kept),
                Node::Absent | Node::Link(_) | Node::Text(_) => {}
            }
        }
    }
}

fn describe_place(place: &Placement) -> String {
    let path = place.path.display();
    match &place.now {
        Node::Absent => format!("remove {path}"),
        Node::Link(target) => format!("link {path} -> {}", target.display()),
        Node::Text(_) => format!("write {path}"),
        Node::Kept(_) => format!("restore {path}"),
    }
}
