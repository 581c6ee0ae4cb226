//! What is recorded: the opening of a run, then each change of its state.

use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use protocol::Digest;
use serde::{Deserialize, Serialize};

use crate::database::{SnapshotId, StatData};
use crate::host::path;
use crate::plan::Plan;
use crate::report::{Code, Error, Result};

/// The format that this program writes and finishes.
pub const FORMAT: u32 = 1;

/// The program that opened a journal: it alone is sure to understand it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// Its file.
    pub path: PathBuf,
    /// SHA-256 of that file, hex.
    pub sha256: Digest,
    /// Its version.
    pub version: String,
}

/// The first record: everything that recovery needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Format of all records that follow.
    pub format: u32,
    /// Who wrote it.
    pub writer: Writer,
    /// The command that runs.
    pub command: String,
    /// When it began.
    pub time: Timestamp,
    /// The root of the paths in the plan: an image may be elsewhere, or be the host itself, when it is recovered.
    pub root: PathBuf,
    /// The agent's data directory, real path: `teleport.yaml` may be changed or broken when it is asked again.
    pub data_dir: PathBuf,
    /// The plan, whole.
    pub plan: Plan,
}

impl Opening {
    /// The same run on a system that is now below `root`. In an image every path is found anew, link by link: whoever made the
    /// image may have written the journal as well.
    ///
    /// Errors: [`Code::JournalUnknown`] for what this program would not have written.
    pub(super) fn resolve_paths(&mut self, root: &Path) -> Result<()> {
        let from = std::mem::replace(&mut self.root, root.to_owned());
        let stands = from == root && root == Path::new("/");
        let place = |path: &mut PathBuf, find: &dyn Fn(&Path) -> PathBuf| match path.strip_prefix(&from) {
            _ if stands => Ok(()),
            Ok(inside) => {
                *path = find(&Path::new("/").join(inside));
                Ok(())
            }
            Err(_) => Err(foreign(&path.display().to_string())),
        };
        for named in self.plan.named() {
            if let Some(word) = named.words.into_iter().find(|word| !is_plain(word)) {
                return Err(foreign(word));
            }
            named.paths.into_iter().try_for_each(|path| place(path, &|inside| path::name(root, inside)))?;
        }
        place(&mut self.data_dir, &|inside| path::followed(root, inside))
    }
}

/// A name that leads nowhere else, and that no program takes for an option.
fn is_plain(word: &str) -> bool {
    !word.starts_with('-') && Path::new(word).components().eq([Component::Normal(word.as_ref())])
}

fn foreign(what: &str) -> Error {
    Error::new(Code::JournalUnknown, format!("it contains the name {what:?}, which teleport-update never writes"))
        .advise("if you do not know where this file came from, remove it and run `teleport-update enable`")
}

/// What a step leaves behind for its undo.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The snapshot that the step made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotId>,
    /// The file that was prepared for a restore, or the live database when it was taken: what is still the same file, as
    /// it was, nobody has written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<StatData>,
    /// What an undo is about to put in the place of the live database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<StatData>,
    /// The live database then, of which the evidence was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goes: Option<StatData>,
    /// The agent was started since the run, and its undo is about to stop it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub started: bool,
}

/// One record. Steps are named by their place in the plan's switch (or after) list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The run begins.
    Begin(Box<Opening>),
    /// A switch step is about to change something.
    Intent {
        /// Its index.
        step: usize,
    },
    /// It has.
    Done {
        /// Its index.
        step: usize,
        /// For its undo.
        #[serde(default)]
        note: Note,
    },
    /// The run is being undone, for this reason.
    Undo {
        /// Stable error code.
        code: String,
        /// What failed.
        reason: String,
        /// The new version itself is to blame: it will be refused.
        blame: bool,
    },
    /// The failed version's database is kept as evidence; must not be done twice, the live one is ours again.
    Evidence,
    /// The database that was left is back in place.
    DatabaseBack,
    /// A step is undone.
    Undone {
        /// Its index.
        step: usize,
    },
    /// The new state is the state: from here on steps are finished, not undone.
    Commit,
    /// A recovery begins.
    Recover,
    /// The run is over.
    Closed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_name_and_no_option() {
        for word in ["15.1.1", "15.1.1_ent", ".unmanaged", "teleport-ent", "a-b"] {
            assert!(is_plain(word), "{word:?}");
        }
        for word in ["", ".", "..", "/", "/x", "a/b", "a/", "./a", "../a", "-rf", "--root=/x"] {
            assert!(!is_plain(word), "{word:?}");
        }
    }
}
