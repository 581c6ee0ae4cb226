//! `status` of `updates.yaml`: what happened on this host, for `status`, refusals and the watch (SPEC §2, §6, §9).

use crate::database::SnapshotId;
use protocol::installer::Installer;
use protocol::{Digest, Revision, serde_as_text};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use yaml::Node;
use yaml::view::View;

use crate::config::record::{Field, record, scalars};
use crate::plan::facts::Refusal;
use crate::report::Result;

/// What happened on this host. Times have whole seconds in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// How the last run ended.
    pub last_result: Option<LastResult>,
    /// When the installed version last changed.
    pub last_update_time: Option<Timestamp>,
    /// The script that has installed the active version; `None`: the updater has.
    pub installed_by: Option<Installer>,
    /// The last working version: committed and healthy, not the current one.
    pub previous: Option<Revision>,
    /// The watch over a committed version, while it lasts.
    pub watch: Option<Watch>,
    /// Versions that were rolled back.
    pub refused: Vec<Refusal>,
    /// Targets whose runs failed, by no fault of a version that ran.
    pub delayed: Vec<Refusal>,
    /// Versions that were left of late without an operator's word, oldest first.
    pub left: Vec<Left>,
    /// Snapshots that hold rows written by a failed version.
    pub kept_databases: Vec<KeptDatabase>,
    /// How often each target was begun: the loop guard (SPEC §8).
    pub attempts: Vec<Attempt>,
    /// The data directory whose database the agent was last seen to have open (SPEC §6, another data directory).
    pub agent_data_dir: Option<PathBuf>,
    /// Runs that failed because the database was in use.
    pub database_busy: Option<Busy>,
    /// Updaters that broke when a command was handed to them (SPEC §5).
    pub failed_updaters: Vec<FailedUpdater>,
}

/// How the last run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LastResult {
    /// When it ended.
    pub time: Timestamp,
    /// How.
    pub outcome: Outcome,
    /// The stable code of its error.
    pub error_code: Option<String>,
    /// The error for people.
    pub message: Option<String>,
    /// What was active before.
    #[serde(serialize_with = "version_of")]
    pub from: Option<Revision>,
    /// What it went for.
    #[serde(serialize_with = "version_of")]
    pub to: Option<Revision>,
    /// When its journal was begun, to the nanosecond: an undo that is cut short and done again is one failure.
    #[serde(skip)]
    pub run: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The target is active.
    Updated,
    /// The target failed and the version before is active again.
    RolledBack,
    /// It failed before anything changed, or was refused.
    Failed,
    /// There was nothing to do.
    Nothing,
    /// What another updater's version wrote.
    Other(String),
}

/// The watch over a committed version (SPEC §6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// What is watched.
    pub revision: Revision,
    /// When the watch ends.
    pub until: Timestamp,
    /// The snapshot that a failure goes back to.
    pub snapshot: Option<SnapshotId>,
    /// What a failure goes back to.
    pub previous: Option<Revision>,
    /// Which commit it belongs to.
    pub run: Option<String>,
    /// The boot in which it began.
    pub boot: Option<String>,
    /// Why the version failed, while the way back is not done.
    pub failure: Option<String>,
}

/// A version that was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The version.
    pub revision: Revision,
    /// When.
    pub time: Timestamp,
}

/// A snapshot with rows that a failed version wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeptDatabase {
    /// The version.
    #[serde(rename = "version", serialize_with = "version_of")]
    pub revision: Revision,
    /// The snapshot's directory.
    pub path: String,
}

/// How often a target was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The target.
    pub revision: Revision,
    /// How often.
    pub count: u32,
}

/// Runs in a row that failed because the database was in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// When the first one did.
    pub since: Timestamp,
    /// How many did.
    pub count: u32,
}

/// An updater that broke, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedUpdater {
    /// The digest of its file.
    pub sha256: Digest,
    /// How often.
    pub count: u32,
}

impl FromStr for Outcome {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let mut known = [Self::Updated, Self::RolledBack, Self::Failed, Self::Nothing].into_iter();
        Ok(known.find(|known| known.to_string() == text).unwrap_or_else(|| Self::Other(text.to_owned())))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Updated => "updated",
            Self::RolledBack => "rolled_back",
            Self::Failed => "failed",
            Self::Nothing => "nothing",
            Self::Other(text) => text,
        })
    }
}

record!(Status;
    last_result, last_update_time, installed_by, previous, watch, refused, delayed, left as "recently_left", kept_databases, attempts,
    agent_data_dir, database_busy, failed_updaters,
);
record!(LastResult; time, outcome, error_code, message, from, to, run);
record!(Watch, of revision; until, snapshot, previous, run, boot, failure);
record!(Refusal, of revision;
    reason = String::new(), error_code = String::new(), time, count = 1, retry_at, digest,
);
record!(Left, of revision; time);
record!(KeptDatabase, of revision; path);
record!(Attempt, of revision; count = 1);
record!(Busy; since, count = 1);

serde_as_text!(Outcome);

fn version_of<'a, S: Serializer>(revision: impl Into<Option<&'a Revision>>, to: S) -> Result<S::Ok, S::Error> {
    revision.into().map(|revision| &revision.version).serialize(to)
}

scalars! {
    Outcome: |view: &View<'_>| view.parsed("a text"), |outcome: &Self| Node::text(outcome.to_string());
    // One that no updater wrote fits no backup: it must not keep a host from its updates.
    SnapshotId: |view: &View<'_>| Ok(view.text()?.and_then(|text| text.parse().ok())), |id: &Self| Node::text(id.to_string());
}

impl Field for FailedUpdater {
    /// `None` for what no updater wrote: it is the digest of no file.
    fn read(view: &View<'_>) -> Result<Option<Self>> {
        let sha256 = view.at("sha256")?.text()?.and_then(|text| text.parse().ok());
        let count = view.at("count")?.integer()?.unwrap_or(1);
        Ok(sha256.map(|sha256| Self { sha256, count }))
    }

    fn node(&self) -> Option<Node> {
        let sha256 = Node::text(self.sha256.to_string());
        Some(Node::mapping([("sha256", Some(sha256)), ("count", self.count.node())]))
    }
}

#[cfg(test)]
mod tests {
    use protocol::Edition;

    use super::super::Updates;
    use super::*;

    fn revision(text: &str) -> Revision {
        Revision { version: text.parse().unwrap(), edition: Edition::Enterprise }
    }

    fn full() -> Status {
        let time: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        Status {
            last_result: Some(LastResult {
                time,
                outcome: Outcome::RolledBack,
                error_code: Some("unhealthy".to_owned()),
                message: Some("it: \"fell\"\nover".to_owned()),
                from: Some(revision("1.0.0")),
                to: Some(revision("2.0.0")),
                run: Some("2026-01-02T03:04:04.5Z".to_owned()),
            }),
            last_update_time: Some(time),
            installed_by: Some(Installer::LocalScript("apt".to_owned())),
            previous: Some(revision("1.0.0")),
            watch: Some(Watch {
                revision: revision("2.0.0"),
                until: time,
                snapshot: Some(SnapshotId::Linked),
                previous: Some(revision("1.0.0")),
                run: Some("a".to_owned()),
                boot: Some("b".to_owned()),
                failure: Some("why".to_owned()),
            }),
            refused: vec![Refusal {
                revision: revision("2.0.0"),
                reason: "why".to_owned(),
                error_code: "unhealthy".to_owned(),
                time,
                count: 2,
                retry_at: time,
                digest: None,
            }],
            delayed: vec![Refusal {
                revision: revision("3.0.0"),
                reason: "other bytes".to_owned(),
                error_code: "checksum_mismatch".to_owned(),
                time,
                count: 1,
                retry_at: time,
                digest: Some("ab".repeat(32)),
            }],
            left: vec![Left { revision: revision("1.0.0"), time }],
            kept_databases: vec![KeptDatabase { revision: revision("2.0.0"), path: "/v/2.0.0/backup".to_owned() }],
            attempts: vec![Attempt { revision: revision("2.0.0"), count: 3 }],
            agent_data_dir: Some("/srv/data".into()),
            database_busy: Some(Busy { since: time, count: 2 }),
            failed_updaters: vec![FailedUpdater { sha256: Digest([0xab; 32]), count: 2 }],
        }
    }

    #[test]
    fn every_field_survives_writing_and_reading() {
        let dir = tempfile::tempdir().unwrap();
        let mut updates = Updates::read(&dir.path().join("u")).unwrap();
        updates.set_status(&full());
        updates.write().unwrap();
        let mut updates = Updates::read(updates.file()).unwrap();
        assert_eq!(updates.status(), &full());
        updates.set_status(&Status::default());
        assert!(!updates.render().unwrap().contains("status"));
    }

    #[test]
    fn a_digest_that_is_none_keeps_no_host_from_its_updates() {
        let dir = tempfile::tempdir().unwrap();
        let mut updates = Updates::read(&dir.path().join("u")).unwrap();
        updates.set_status(&full());
        let text = updates
            .render()
            .unwrap()
            .replace("snapshot: linked", "snapshot: of old")
            .replace(&format!("sha256: {}", "ab".repeat(32)), "sha256: ab");
        assert!(text.contains("of old") && text.contains("sha256: ab\n"), "{text}");
        crate::host::durable::write(updates.file(), text.as_bytes(), 0o644).unwrap();
        let updates = Updates::read(updates.file()).unwrap();
        let mut expected = full();
        expected.failed_updaters.clear();
        expected.watch.as_mut().unwrap().snapshot = None;
        assert_eq!(updates.status(), &expected);
    }

    #[test]
    fn keys_of_others_survive_inside_records_of_lists() {
        let dir = tempfile::tempdir().unwrap();
        let mut updates = Updates::read(&dir.path().join("u")).unwrap();
        updates.set_status(&full());
        let text = updates.render().unwrap().replace("      count: 2\n", "      count: 2\n      theirs: 0123\n")
            + "  also_theirs: 1.10\n";
        crate::host::durable::write(updates.file(), text.as_bytes(), 0o644).unwrap();
        let mut updates = Updates::read(updates.file()).unwrap();
        let mut status = updates.status().clone();
        status.refused[0].count = 3;
        status.refused.insert(0, Refusal { revision: revision("3.0.0"), ..status.refused[0].clone() });
        status.watch = None;
        updates.set_status(&status);
        let text = updates.render().unwrap();
        assert!(text.contains("count: 3\n      theirs: 0123"), "{text}");
        assert!(text.contains("also_theirs: 1.10") && !text.contains("watch"), "{text}");
    }
}
