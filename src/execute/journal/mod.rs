//! The journal (SPEC §8): append-only, preallocated, records that are synced before the change that they announce.
//!
//! A record is a line: eight hex digits of the SHA-256 of the JSON, a space, the JSON. What follows the last whole
//! record is a torn tail and is ignored. A record of an unknown kind or format stops recovery without touching anything,
//! and so does damage before the last whole record: later steps have been done then.

mod line;
mod record;
#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::database::{SnapshotId, StatData};
use crate::host::durable;
use crate::plan::Step;
use crate::report::{Code, Error, IoContext, Result};
pub use line::parse;
use line::{encode, is_damaged, is_headless, json_of};
pub use record::{FORMAT, Opening, Record};
pub(crate) use record::{Note, Writer};

/// The journal's name in the versions directory.
pub const NAME: &str = ".journal";
/// Bytes set aside at the start, so that a full disk cannot stop an undo: a plan takes about 10 KiB, a record 100 bytes.
const PREALLOCATED: u64 = 256 * 1024;
/// Largest journal that is read, bytes: far above what any run writes.
const MAX_SIZE: u64 = 16 * 1024 * 1024;

/// An open journal, at its end.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    records: Vec<Record>,
    /// Where the last whole record ends.
    end: u64,
    /// Where what was ever written ends: behind `end`, where a write has failed.
    touched: u64,
    /// Records that are written with the next one.
    unwritten: Vec<u8>,
}

impl Journal {
    /// Creates the journal of a new run with its first record, durable before it is seen under its name.
    pub fn create(versions: &Path, opening: Opening) -> Result<Self> {
        let path = versions.join(NAME);
        let temp = durable::temp_beside(&path);
        durable::remove_file(&temp)?;
        let file = durable::create_new(&temp, durable::FILE_MODE).at("cannot write", &temp)?;
        let begun = preallocate(&file).at("cannot set space aside for", &temp).and_then(|()| {
            let (records, unwritten) = (Vec::new(), Vec::new());
            let mut journal = Self { file, path: temp.clone(), records, end: 0, touched: 0, unwritten };
            journal.append(Record::Begin(Box::new(opening)))?;
            durable::rename(&temp, &path)?;
            journal.path = path.clone();
            Ok(journal)
        });
        // Nothing has been done yet: a journal that could not be begun must not look like an interrupted run.
        begun.inspect_err(|_| {
            let _ = durable::remove_file(&temp);
            let _ = durable::remove_file(&path);
        })
    }

    /// Opens the journal of an interrupted run on the system below `root`; `None` if there is none, or none that had
    /// begun.
    ///
    /// # Errors
    /// A record or format that this program does not know, one that is damaged while later ones are whole, a first record that
    /// is damaged, or a name that it would not have written: nothing may be touched ([`Code::JournalUnknown`]).
    pub fn open(versions: &Path, root: &Path) -> Result<Option<Self>> {
        let path = versions.join(NAME);
        let Some(bytes) = durable::read_limited(&path, MAX_SIZE)? else {
            return Ok(None);
        };
        let (mut records, end) = parse(&bytes).map_err(|error| error.during(path.display()))?;
        let damaged = |which: &str| {
            let shown = path.display();
            let what = format!(
                "{shown} is damaged: {which} cannot be read, so it is unknown what the interrupted run has changed"
            );
            Error::new(Code::JournalUnknown, what).advise(format!(
                "run `teleport-update verify`, repair by hand what it reports, then remove {shown} and run \
                 `teleport-update enable`"
            ))
        };
        if is_headless(&records, &bytes) {
            return Err(damaged("its first record"));
        }
        if is_damaged(&bytes[end as usize..]) {
            return Err(damaged(&format!("record {} (not the last one)", records.len() + 1)));
        }
        match records.first_mut() {
            None => return Ok(None),
            Some(Record::Begin(opening)) => {
                opening.resolve_paths(root).map_err(|error| error.during(path.display()))?
            }
            Some(_) => {}
        }
        let file = File::options().read(true).write(true).open(&path).at("cannot open", &path)?;
        // What stands behind the last whole record is torn; zeros keep it from being taken for a later record's tail.
        let tail = (bytes.len() as u64).saturating_sub(end);
        if bytes[end as usize..].iter().any(|&byte| byte != 0) {
            file.write_all_at(&vec![0; tail as usize], end)
                .and_then(|()| file.sync_data())
                .at("cannot write", &path)?;
        }
        Ok(Some(Self { file, path, records, end, touched: end, unwritten: Vec::new() }))
    }

    /// Appends a record and makes it durable, with those that were only noted before it. One that failed is written over
    /// by the next: half of it in the middle would hide all that follows.
    pub fn append(&mut self, record: Record) -> Result<()> {
        self.append_all(vec![record])
    }

    /// Appends records and makes them durable together; torn, the first ones may be there without the others.
    pub fn append_all(&mut self, records: Vec<Record>) -> Result<()> {
        let mut lines = self.unwritten.clone();
        lines.extend(records.iter().flat_map(encode));
        let end = self.end + lines.len() as u64;
        // What an earlier, longer write that failed has left behind the end must not look like records that follow.
        lines.resize((self.touched.max(end) - self.end) as usize, 0);
        self.touched = self.touched.max(end);
        self.file.write_all_at(&lines, self.end).and_then(|()| self.file.sync_data()).at("cannot write", &self.path)?;
        self.end = end;
        self.unwritten.clear();
        self.records.extend(records);
        Ok(())
    }

    /// Adds a record that is durable with the next one that is appended, and that recovery can do without until then.
    pub fn note(&mut self, record: Record) {
        self.unwritten.extend(encode(&record));
        self.records.push(record);
    }

    /// Every record so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The first record.
    pub fn opening(&self) -> Result<&Opening> {
        match self.records.first() {
            Some(Record::Begin(opening)) => Ok(opening),
            _ => Err(Error::new(Code::JournalUnknown, format!("{} has no \"begin\" record", self.path.display()))),
        }
    }

    /// Ends the run: the journal goes.
    pub fn close(mut self) -> Result<()> {
        self.append(Record::Closed)?;
        durable::remove_file(&self.path)
    }

    /// The switch steps whose intent is recorded and whose undo is not, the last first.
    pub fn to_undo(&self) -> Vec<usize> {
        let mut steps: Vec<usize> = Vec::new();
        for record in &self.records {
            match record {
                Record::Intent { step } if !steps.contains(step) => steps.push(*step),
                Record::Undone { step } => steps.retain(|known| known != step),
                _ => {}
            }
        }
        steps.reverse();
        steps
    }

    /// A script of the host's was begun.
    pub fn has_run_script(&self) -> bool {
        let plan = self.opening().ok().map(|opening| &opening.plan);
        let is_script = |step: usize| {
            plan.and_then(|plan| plan.switch.get(step)).is_some_and(|step| matches!(step, Step::Script { .. }))
        };
        self.records.iter().any(|record| matches!(record, Record::Intent { step } if is_script(*step)))
    }

    /// The run passed its commit. A commit whose write was reported as failed may be on disk all the same: that the run
    /// is being undone counts more.
    pub fn is_committed(&self) -> bool {
        self.records.contains(&Record::Commit) && self.undo_reason().is_none()
    }

    /// The run is over and only its file was left.
    pub fn is_closed(&self) -> bool {
        self.records.contains(&Record::Closed)
    }

    /// A mark that is set once.
    pub fn has(&self, mark: &Record) -> bool {
        self.records.contains(mark)
    }

    /// The reason recorded for undoing, with its code and whether the version is to blame.
    pub fn undo_reason(&self) -> Option<(&str, &str, bool)> {
        self.records.iter().find_map(|record| match record {
            Record::Undo { code, reason, blame } => Some((code.as_str(), reason.as_str(), *blame)),
            _ => None,
        })
    }

    /// Whether the undo stops an agent that was started since the run.
    pub fn has_started(&self) -> bool {
        self.records.iter().any(|record| matches!(record, Record::Done { note: Note { started: true, .. }, .. }))
    }

    /// What the last undo was about to put in the place of the live database, and that one.
    pub fn swap(&self) -> Option<(StatData, Option<StatData>)> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Done { note: Note { returns: Some(returns), goes, .. }, .. } => Some((*returns, *goes)),
            _ => None,
        })
    }

    /// The snapshot that this run took, as last noted.
    pub fn snapshot(&self) -> Option<SnapshotId> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Done { note: Note { snapshot: Some(id), .. }, .. } => Some(*id),
            _ => None,
        })
    }
}

/// Who wrote the journal, if there is one that begins a run.
pub fn writer_of(versions: &Path) -> Result<Option<Writer>> {
    let Some(bytes) = durable::read_limited(&versions.join(NAME), MAX_SIZE)? else {
        return Ok(None);
    };
    // Later records, and all else in the first, may be of a format that only the writer knows.
    let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let opening = json_of(first).and_then(|json| serde_json::from_slice::<serde_json::Value>(json).ok());
    Ok(opening.and_then(|opening| serde_json::from_value(opening.get("writer")?.clone()).ok()))
}

/// Whether a run was interrupted; needs no right but to read.
pub fn is_open(versions: &Path) -> bool {
    match durable::read_limited(&versions.join(NAME), MAX_SIZE) {
        Ok(None) => false,
        Ok(Some(bytes)) => match parse(&bytes) {
            Ok((records, _)) if records.is_empty() => is_headless(&records, &bytes),
            Ok((records, end)) => !records.contains(&Record::Closed) || is_damaged(&bytes[end as usize..]),
            Err(_) => true,
        },
        // What cannot be read may be a run that was interrupted; who may not even look there recovers nothing.
        Err(error) => error.code != Code::Permission || std::fs::symlink_metadata(versions.join(NAME)).is_ok(),
    }
}

fn preallocate(file: &File) -> std::io::Result<()> {
    use rustix::fs::FallocateFlags;
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, PREALLOCATED) {
        // A file system without fallocate: written zeros hold the space as well.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let mut file = file;
            file.write_all(&vec![0; PREALLOCATED as usize])?;
            file.seek(SeekFrom::Start(0)).map(|_| ())
        }
        other => Ok(other?),
    }
}
