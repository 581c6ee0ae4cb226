//! The newest record of the audit log that this place has seen, in a file of its own beside the database: an older database that is
//! put in its place does not have that record, and forgot what was stopped since (FLEET §3).
//!
//! It is written after the commit and before the answer, so it is never ahead of the database. A power cut may leave the one before.

use std::io::Read;

use fleet_wire::api::AuditHead;
use serde::{Deserialize, Serialize};

use crate::column::signed;
use crate::error::{AtPath, Error, Result};
use crate::files::{self, DataDir};
use crate::sql::{Sql, SqlExt, with};

/// Most bytes of the file: a number and a hash.
const MAX_FILE: u64 = 4096;

/// What was seen last.
#[derive(Serialize, Deserialize)]
pub(crate) struct Witness {
    #[serde(flatten)]
    pub(crate) head: AuditHead,
    /// The generations of which the database's file may be; empty: not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) generations: Vec<i32>,
}

/// What was seen last in `place`; `None`: nothing ever was. Errors: `Unavailable`; `Foreign` where the file is not what was
/// written.
pub(crate) fn read(place: &DataDir) -> Result<Option<Witness>> {
    let path = place.file(files::WITNESS);
    let Some(found) = files::metadata(&path)? else { return Ok(None) };
    let shown = path.display();
    let foreign = |what: &str| {
        let advice = "whether decisions were lost cannot be said: look at the holds, then remove it";
        Error::Foreign(format!("{shown} is {what}: {advice}"))
    };
    if !found.is_file() || found.len() > MAX_FILE {
        return Err(foreign("not a file of teleport-fleet"));
    }
    let mut text = String::new();
    let read = files::open_for_reading(&path)?.take(MAX_FILE).read_to_string(&mut text);
    read.at("cannot read", &path)?;
    serde_json::from_str(&text).map(Some).map_err(|error| foreign(&format!("damaged ({error})")))
}

/// Notes that `head` was seen. Errors: `Unavailable`; the one before is kept.
pub(crate) fn write(place: &DataDir, head: &AuditHead, generations: &[i32]) -> Result<()> {
    let witness = Witness { head: head.clone(), generations: generations.to_vec() };
    let mut text = serde_json::to_vec(&witness).map_err(|error| Error::Unavailable(error.to_string()))?;
    text.push(b'\n');
    files::replace(&place.file(files::WITNESS), &text, place.dir_owner())
}

/// Whether the database has the record that was `seen`.
pub(crate) fn has(db: &dyn Sql, seen: &AuditHead) -> Result<bool> {
    if seen.seq == 0 {
        return Ok(true);
    }
    let with = with![signed(&db.name(), seen.seq)?];
    let hash = db.first("SELECT hash FROM audit WHERE seq = $1", with, |row| row.string(0))?;
    Ok(hash.is_some_and(|hash| hash == seen.hash))
}

impl DataDir {
    /// Whether it is noted that a stop waits for the store.
    pub(crate) fn stop_waits_noted(&self) -> Result<bool> {
        Ok(files::metadata(&self.file(files::STOP_WAITS))?.is_some())
    }

    /// See [`crate::Store::note_stop`].
    pub(crate) fn note_stop(&self, waits: bool) -> Result<()> {
        let (spare, note) = (self.file(files::SPARE), self.file(files::STOP_WAITS));
        let (from, to) = if waits { (spare, note) } else { (note, spare) };
        if files::metadata(&from)?.is_none() {
            drop(files::open_or_make(&to, self.dir_owner())?);
        } else {
            files::rename(&from, &to)?;
        }
        files::sync(self.dir())
    }

    /// Where there is no room for the note, there may be when a stop has to wait: it is kept free.
    pub(crate) fn keep_room_for_note(&self) -> Result<()> {
        if !self.stop_waits_noted()? {
            let _ = files::open_or_make(&self.file(files::SPARE), self.dir_owner());
        }
        Ok(())
    }
}
