//! Facts and a request in, a plan out. Nothing here touches the host: the same value is shown by `plan` and run by
//! `execute`.

mod back;
pub(crate) mod decide;
pub(crate) mod facts;
mod links;
mod moves;
mod restore_table;
pub(crate) mod retention;
mod said;
mod script;
pub(crate) mod step;
mod strangers;
#[cfg(test)]
mod tests;
mod uninstall;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub(crate) use back::back;
pub(crate) use facts::{Facts, Snapshot, Stranger};
pub(crate) use links::masking_links;
pub(crate) use moves::move_to;
pub(crate) use said::{Seen, seconds};
pub(crate) use script::by_script;
pub use step::Step;
pub(crate) use step::{Named, Node, Part, Placement};
pub(crate) use uninstall::uninstall;

use crate::store::VersionDir;
use protocol::Revision;
use protocol::installer::InstallerOrder;

/// Where what the Go updater left is kept until `uninstall` (SPEC §5).
pub(crate) const TAKEN_OVER: &str = ".taken-over";
/// The Go updater's timer, which has the same name as the package's.
pub(crate) const TIMER_UNIT: &str = "teleport-update.timer";
/// Those of RFD 0109's updater: the one that updates, and the one that looks for what is critical.
pub(crate) const UPGRADE_TIMERS: [&str; 2] = ["teleport-upgrade.timer", "teleport-upgrade-check.timer"];

/// What each file begins with that we write into the directories of units, and by which it is known to be ours.
pub(crate) const OWN_MARK: &str = "# Written by `teleport-update enable`";

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
    pub to_dir: Option<VersionDir>,
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

    /// True if the host is already as requested.
    pub fn is_empty(&self) -> bool {
        self.prepare.is_empty() && self.switch.is_empty() && self.after.is_empty()
    }

    /// The order of the host's own script, where that installs.
    pub fn script(&self) -> Option<&InstallerOrder> {
        self.switch.iter().find_map(|step| if let Step::Script { order } = step { Some(order) } else { None })
    }

    /// Everything that the steps name.
    pub fn named(&mut self) -> impl Iterator<Item = Named<'_>> {
        self.prepare.iter_mut().chain(&mut self.switch).chain(&mut self.after).map(Step::named)
    }

    /// True if what this run replaces of others is kept in `.unmanaged`.
    pub fn keeps_unmanaged(&self) -> bool {
        let is_kept = |step: &Step| match step {
            Step::Place(place) | Step::LinkAgent { place, .. } => matches!(place.was, Node::Kept(_)),
            _ => false,
        };
        self.unmanaged || self.snapshot_dir().is_some_and(VersionDir::is_unmanaged) || self.switch.iter().any(is_kept)
    }

    /// The directory of the version that is left, where this leads back to an agent that is none of ours.
    pub fn left_by_way_back(&self) -> Option<&VersionDir> {
        self.snapshot_dir().filter(|_| self.to_dir.as_ref().is_some_and(VersionDir::is_unmanaged))
    }

    /// True if it saves or restores the agent's database.
    pub fn needs_database(&self) -> bool {
        self.switch.iter().any(|step| matches!(step, Step::Snapshot { .. } | Step::Restore { .. }))
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
    pub fn download(&self) -> Option<(&Revision, &VersionDir)> {
        self.prepare.iter().find_map(|step| match step {
            Step::Fetch { revision, dir, .. } => Some((revision, dir)),
            _ => None,
        })
    }

    /// True if something has to be downloaded first.
    pub fn fetches(&self) -> bool {
        self.download().is_some()
    }

    /// True if the target's own snapshot must outlive a failure: it is restored by this run, or (the links are put
    /// right without a move) was taken by it.
    pub fn needs_snapshot_of_target(&self) -> bool {
        self.database == Database::Restore || self.snapshots().any(|(dir, _)| self.to_dir.as_ref() == Some(dir))
    }

    /// Where the database that is left is saved.
    pub fn snapshot_dir(&self) -> Option<&VersionDir> {
        self.snapshots().next().map(|(dir, _)| dir)
    }

    /// Where databases are saved, and whether each is that of a version that failed.
    pub fn snapshots(&self) -> impl Iterator<Item = (&VersionDir, bool)> {
        self.switch.iter().filter_map(|step| match step {
            Step::Snapshot { dir, failed, .. } => Some((dir, *failed)),
            _ => None,
        })
    }

    /// The switch steps during which the agent stands still: from its stop to its start, if the plan has both.
    pub fn downtime(&self) -> Range<usize> {
        let place = |wanted: &Step| self.switch.iter().position(|step| step == wanted);
        match (place(&Step::Stop), place(&Step::Start)) {
            (Some(stop), Some(start)) if stop < start => stop..start,
            _ => 0..0,
        }
    }

    /// Bytes to be downloaded, where known.
    pub fn download_bytes(&self) -> Option<u64> {
        self.prepare.iter().find_map(|step| if let Step::Fetch { bytes, .. } = step { *bytes } else { None })
    }
}
