//! Up to which record of the audit log a receiver of notifications was told, in a file of its own beside the database: it must not
//! wait for the database, and a restore must leave it as it is (FLEET §6).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::{AtPath, Error, Result};
use crate::files::{self, DataDir};

/// Most bytes of the file: a note of some hundred bytes for each of a thousand groups, and room.
const MAX_FILE: u64 = 4 << 20;

/// How far a receiver was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceInLog {
    /// The number of the last record that it knows, or needs not know; 0: none.
    pub seq: u64,
    /// The hash of that record: another log has another one there.
    pub hash: String,
    /// When that record was written; of record 0, when the receiver came.
    pub at: Timestamp,
    /// What lasts, by its key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lasting: BTreeMap<String, Noted>,
}

/// Something that lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// Since when, as far as is known.
    pub since: Timestamp,
    /// The receiver was told.
    pub is_told: bool,
    /// The rollout that it belongs to: as long as that lasts, it is told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<u64>,
}

impl PlaceInLog {
    /// The place of the receiver called `receiver` (letters and `-`), in the data directory `dir`; `None`: it was never told
    /// anything. Errors: `Unavailable`; `Foreign` where the file is not what was written.
    pub fn read(dir: &Path, receiver: &str) -> Result<Option<Self>> {
        let path = path(dir, receiver);
        let Some(found) = files::metadata(&path)? else { return Ok(None) };
        let shown = path.display();
        if !found.is_file() || found.len() > MAX_FILE {
            return Err(Error::Foreign(format!("{shown} is not a file of teleport-fleet: move it away")));
        }
        let mut text = String::new();
        let read = std::fs::File::open(&path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
        read.at("cannot read", &path)?;
        let place = serde_json::from_str(&text);
        place.map(Some).map_err(|error| Error::Foreign(format!("{shown} is damaged ({error}): move it away")))
    }

    /// Keeps it: when this returns, it is durable. Errors: `Unavailable`; the place before is kept.
    pub fn write(&self, dir: &Path, receiver: &str) -> Result<()> {
        let (path, place) = (path(dir, receiver), DataDir::at(dir)?);
        let text = serde_json::to_vec(self).map_err(|error| Error::Unavailable(error.to_string()))?;
        files::replace(&path, &text, place.dir_owner())?;
        files::sync(dir)
    }
}

fn path(dir: &Path, receiver: &str) -> PathBuf {
    dir.join(format!("told-{receiver}.json"))
}
