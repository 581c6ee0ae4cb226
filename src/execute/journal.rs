//! The journal (SPEC §8): append-only, preallocated, one fsynced record per change of state.
//!
//! A record is a line: eight hex digits of the SHA-256 of the JSON, a space, the JSON. What follows the last whole
//! record is a torn tail and is ignored. A record of an unknown kind or format stops recovery without touching anything,
//! and so does damage before the last whole record: later steps have been done then.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use protocol::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::database::{SnapshotId, StatData};
use crate::host::{durable, path};
use crate::plan::Plan;
use crate::report::{Code, Error, IoContext, Result};

/// The journal's name in the versions directory.
pub const NAME: &str = ".journal";
/// The format that this program writes and finishes.
pub const FORMAT: u32 = 1;
/// Bytes set aside at the start, so that a full disk cannot stop an undo: a plan takes about 10 KiB, a record 100 bytes.
const PREALLOCATED: u64 = 256 * 1024;
/// Largest journal that is read, bytes: far above what any run writes.
const MAX_SIZE: u64 = 16 * 1024 * 1024;
/// Most records that are written together and not synced one by one, count: what was noted of three steps, the intents of
/// three, and two to spare. A power cut can lose the first sectors of such a write and keep its last.
const TOGETHER: usize = 8;

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
    fn resolve_paths(&mut self, root: &Path) -> Result<()> {
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

    /// How many recoveries have begun.
    pub fn recoveries(&self) -> usize {
        self.records.iter().filter(|record| **record == Record::Recover).count()
    }

    /// The reason recorded for undoing, with its code and whether the version is to blame.
    pub fn undo_reason(&self) -> Option<(&str, &str, bool)> {
        self.records.iter().find_map(|record| match record {
            Record::Undo { code, reason, blame } => Some((code.as_str(), reason.as_str(), *blame)),
            _ => None,
        })
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

/// Whether a journal that was begun has lost its first record. That is durable before the file gets its name, so it is
/// never torn: a file without it has been damaged since, unless nothing was ever written to it.
fn is_headless(records: &[Record], bytes: &[u8]) -> bool {
    records.is_empty() && bytes.iter().any(|&byte| byte != 0)
}

/// Whether whole records stand behind the first one of `rest` that is not: no torn tail, which is what follows the last.
///
/// Sectors of one write reach the disk in any order, so a power cut can leave its last records without its first. Then what
/// is missing are zeros, which no record has in it, and no more records follow than are written together: those were not
/// synced, and no step was begun on them.
fn is_damaged(rest: &[u8]) -> bool {
    let mut lines = rest.split(|&byte| byte == b'\n');
    let is_torn = lines.next().is_some_and(|line| line.contains(&0));
    let whole = lines.filter(|line| json_of(line).is_some()).count();
    whole > if is_torn { TOGETHER - 1 } else { 0 }
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

fn encode(record: &Record) -> Vec<u8> {
    // Serialising plain data of our own to JSON cannot fail: no maps with other keys than strings, no NaN.
    let json = serde_json::to_string(record).unwrap_or_default();
    format!("{} {json}\n", checksum(json.as_bytes())).into_bytes()
}

fn checksum(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(&Sha256::digest(bytes)[..4])
}

/// The JSON of a line whose checksum is right.
fn json_of(line: &[u8]) -> Option<&[u8]> {
    let (sum, rest) = line.split_at_checked(8)?;
    let json = rest.strip_prefix(b" ")?;
    (checksum(json).as_bytes() == sum).then_some(json)
}

/// The whole records at the start of `bytes`, and where they end.
///
/// # Errors
/// A record whose checksum is right but whose content is unknown.
pub fn parse(bytes: &[u8]) -> Result<(Vec<Record>, u64)> {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(length) = bytes[at..].iter().position(|&byte| byte == b'\n') {
        let Some(json) = json_of(&bytes[at..at + length]) else {
            break;
        };
        let unknown = |error: &dyn std::fmt::Display| {
            Error::new(
                Code::JournalUnknown,
                format!("this updater does not know record {}: {error}", records.len() + 1),
            )
            .advise("run `recover` with the updater that wrote this file, or with a newer one")
        };
        let record: Record = serde_json::from_slice(json).map_err(|error| unknown(&error))?;
        if let Record::Begin(opening) = &record
            && opening.format != FORMAT
        {
            return Err(unknown(&format!("format {}", opening.format)));
        }
        records.push(record);
        at += length + 1;
    }
    Ok((records, at as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::Direction;

    fn opening() -> Opening {
        Opening {
            format: FORMAT,
            writer: Writer { path: "/u".into(), sha256: Digest([0; 32]), version: "1.0.0".into() },
            command: "update".into(),
            time: Timestamp::UNIX_EPOCH,
            root: "/".into(),
            data_dir: "/var/lib/teleport".into(),
            plan: Plan::none(Direction::First),
        }
    }

    fn run() -> Vec<Record> {
        let note =
            Note { snapshot: Some(SnapshotId::Linked), file: StatData::of(Path::new("/")).unwrap(), ..Note::default() };
        vec![
            Record::Begin(Box::new(opening())),
            Record::Intent { step: 0 },
            Record::Done { step: 0, note: Note::default() },
            Record::Intent { step: 1 },
            Record::Done { step: 1, note },
            Record::Undo { code: "unhealthy".into(), reason: "line\nbreak".into(), blame: true },
            Record::Evidence,
            Record::DatabaseBack,
            Record::Undone { step: 1 },
            Record::Commit,
            Record::Recover,
            Record::Closed,
        ]
    }

    fn bytes(records: &[Record]) -> Vec<u8> {
        records.iter().flat_map(encode).collect()
    }

    #[test]
    fn what_is_written_is_read_and_the_preallocated_zeros_are_no_records() {
        let records = run();
        let mut bytes = bytes(&records);
        let end = bytes.len() as u64;
        bytes.resize(bytes.len() + 4096, 0);
        assert_eq!(parse(&bytes).unwrap(), (records, end));
    }

    #[test]
    fn a_noted_record_is_written_with_the_next_one_also_where_that_had_to_be_written_twice() {
        let dir = tempfile::tempdir().unwrap();
        let on_disk = || parse(&std::fs::read(dir.path().join(NAME)).unwrap()).unwrap().0.len();
        let mut journal = Journal::create(dir.path(), opening()).unwrap();
        journal.append_all(vec![Record::Intent { step: 0 }, Record::Intent { step: 1 }]).unwrap();
        let note = || Note { snapshot: Some(SnapshotId::Linked), ..Note::default() };
        journal.note(Record::Done { step: 0, note: note() });
        assert_eq!((on_disk(), journal.records().len(), journal.snapshot()), (3, 4, Some(SnapshotId::Linked)));
        // A file that cannot be written to.
        let good = std::mem::replace(&mut journal.file, File::open(dir.path().join(NAME)).unwrap());
        journal.append(Record::Evidence).unwrap_err();
        journal.file = good;
        journal.append(Record::DatabaseBack).unwrap();
        assert_eq!(on_disk(), 5);
        let reopened = Journal::open(dir.path(), Path::new("/")).unwrap().unwrap();
        assert_eq!(reopened.records(), journal.records());
        assert_eq!(reopened.records()[3..], [Record::Done { step: 0, note: note() }, Record::DatabaseBack]);
    }

    #[test]
    fn a_record_of_a_later_program_stops_recovery() {
        let json = br#"{"record":"teleported"}"#;
        let mut bytes = bytes(&run()[..2]);
        bytes.extend(format!("{} {}\n", checksum(json), String::from_utf8_lossy(json)).into_bytes());
        assert_eq!(parse(&bytes).unwrap_err().code, Code::JournalUnknown);
        let later = Opening { format: FORMAT + 1, ..opening() };
        let error = parse(&encode(&Record::Begin(Box::new(later)))).unwrap_err();
        assert_eq!(error.code, Code::JournalUnknown);
    }

    #[test]
    fn a_reopened_journal_goes_on_where_the_whole_records_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), opening()).unwrap();
        journal.append(Record::Intent { step: 0 }).unwrap();
        drop(journal);
        // A torn record behind them, as a power cut leaves it.
        let path = dir.path().join(NAME);
        let whole = parse(&std::fs::read(&path).unwrap()).unwrap().1;
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(whole)).unwrap();
        file.write_all(b"12345678 {\"record\":\"com").unwrap();
        let mut journal = Journal::open(dir.path(), Path::new("/")).unwrap().unwrap();
        assert_eq!(journal.records().len(), 2);
        journal.append(Record::Recover).unwrap();
        let journal = Journal::open(dir.path(), Path::new("/")).unwrap().unwrap();
        assert_eq!(journal.records().last(), Some(&Record::Recover));
        assert_eq!(journal.to_undo(), [0]);
        journal.close().unwrap();
        assert!(Journal::open(dir.path(), Path::new("/")).unwrap().is_none() && !is_open(dir.path()));
    }

    #[test]
    fn the_records_tell_what_is_to_be_undone_and_why() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), opening()).unwrap();
        let path = dir.path().join(NAME);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 256 * 1024);
        let done = |step, snapshot| {
            let note = Note { snapshot, ..Note::default() };
            Record::Done { step, note }
        };
        let answers = |journal: &Journal| (journal.to_undo(), journal.snapshot(), journal.is_committed());
        assert_eq!(answers(&journal), (vec![], None, false));
        for record in
            [Record::Intent { step: 0 }, done(0, None), Record::Intent { step: 2 }, done(2, Some(SnapshotId::Linked))]
        {
            journal.append(record).unwrap();
        }
        // A step that was begun again is still one step.
        for record in [Record::Intent { step: 2 }, Record::Intent { step: 3 }, done(3, None)] {
            journal.append(record).unwrap();
        }
        assert_eq!(answers(&journal), (vec![3, 2, 0], Some(SnapshotId::Linked), false));
        assert_eq!((journal.recoveries(), journal.undo_reason()), (0, None));
        journal.append(Record::Commit).unwrap();
        assert!(journal.is_committed() && journal.has(&Record::Commit) && !journal.has(&Record::Evidence));
        let undo = Record::Undo { code: "io".into(), reason: "sync".into(), blame: false };
        for record in [Record::Recover, undo, Record::Undone { step: 3 }, Record::Recover] {
            journal.append(record).unwrap();
        }
        assert_eq!(answers(&journal), (vec![2, 0], Some(SnapshotId::Linked), false));
        assert_eq!((journal.recoveries(), journal.undo_reason()), (2, Some(("io", "sync", false))));
        assert!(is_open(dir.path()) && !journal.is_closed());
        assert_eq!(journal.opening().unwrap(), &opening());
        journal.append(Record::Closed).unwrap();
        assert!(!is_open(dir.path()) && journal.is_closed());
        assert_eq!(parse(&std::fs::read(&path).unwrap()).unwrap().0, journal.records());
    }

    #[test]
    fn a_torn_tail_is_wiped_before_anything_is_written_behind_the_whole_records() {
        let dir = tempfile::tempdir().unwrap();
        drop(Journal::create(dir.path(), opening()).unwrap());
        let path = dir.path().join(NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        let whole = parse(&bytes).unwrap().1 as usize;
        bytes[whole + 200..whole + 240].fill(b'x');
        // And one that reaches to the end of the file.
        for end in [bytes.len(), whole + 3] {
            bytes.truncate(end);
            bytes[end - 3..].fill(b'x');
            durable::write(&path, &bytes, durable::FILE_MODE).unwrap();
            drop(Journal::open(dir.path(), Path::new("/")).unwrap().unwrap());
            assert!(std::fs::read(&path).unwrap()[whole..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn what_a_longer_write_that_failed_has_left_is_not_taken_for_records_that_follow() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let mut journal = Journal::create(dir.path(), opening()).unwrap();
        let long: Vec<Record> = (0..4).map(|step| Record::Intent { step }).collect();
        // Its bytes are in the file, its sync fails.
        let good = std::mem::replace(&mut journal.file, File::open(&path).unwrap());
        journal.append_all(long.clone()).unwrap_err();
        good.write_all_at(&bytes(&long), journal.end).unwrap();
        journal.file = good;
        journal.append(Record::Recover).unwrap();
        assert!(std::fs::read(&path).unwrap()[journal.end as usize..].iter().all(|&byte| byte == 0));
        let reopened = Journal::open(dir.path(), Path::new("/")).unwrap().unwrap();
        assert_eq!(reopened.records()[1..], [Record::Recover]);
    }

    #[test]
    fn a_write_of_which_a_power_cut_kept_only_the_end_is_a_torn_tail_and_more_than_one_write_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let start = bytes(&run()[..3]);
        for (follow, is_torn) in [(1, true), (TOGETHER - 1, true), (TOGETHER, false)] {
            let mut all = start.clone();
            all.extend(&encode(&Record::Intent { step: 1 })[..10]);
            all.resize(all.len() + 30, 0);
            all.extend(b"}\n");
            all.extend((0..follow).flat_map(|step| encode(&Record::Intent { step })));
            all.resize(all.len() + 512, 0);
            durable::write(&dir.path().join(NAME), &all, durable::FILE_MODE).unwrap();
            let opened = Journal::open(dir.path(), Path::new("/"));
            let read = opened.map(|journal| journal.unwrap().records().len()).map_err(|error| error.code);
            assert_eq!(read, if is_torn { Ok(3) } else { Err(Code::JournalUnknown) }, "{follow}");
        }
    }

    #[test]
    fn an_image_that_was_moved_is_recovered_where_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let mut begun = opening();
        let grant_traverse = |path: &str| crate::plan::Step::GrantTraverse { path: path.into() };
        begun.root = "/image".into();
        begun.data_dir = "/image/var/lib/teleport".into();
        begun.plan.after = vec![grant_traverse("/image/a")];
        drop(Journal::create(dir.path(), begun.clone()).unwrap());
        let read = |root: &str| {
            let journal = Journal::open(dir.path(), Path::new(root)).unwrap().unwrap();
            journal.opening().unwrap().clone()
        };
        assert_eq!(read("/image"), begun);
        let moved = read("/");
        assert_eq!((moved.root, moved.data_dir), ("/".into(), "/var/lib/teleport".into()));
        assert_eq!(moved.plan.after, [grant_traverse("/a")]);
        begun.plan.after.push(grant_traverse("/elsewhere"));
        drop(Journal::create(dir.path(), begun).unwrap());
        for root in ["/image", "/"] {
            let error = Journal::open(dir.path(), Path::new(root)).unwrap_err();
            assert_eq!(error.code, Code::JournalUnknown, "{error}");
        }
    }

    #[test]
    fn the_writer_of_a_journal_of_any_format_can_be_asked_to_finish_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!((writer_of(dir.path()).unwrap(), is_open(dir.path())), (None, false));
        let write = |bytes: &[u8]| durable::write(&dir.path().join(NAME), bytes, durable::FILE_MODE).unwrap();
        write(&[0; 64]);
        assert_eq!((writer_of(dir.path()).unwrap(), is_open(dir.path())), (None, false));
        let later = encode(&Record::Begin(Box::new(Opening { format: FORMAT + 1, ..opening() })));
        write(&[&later, &b"what only it knows\n"[..]].concat());
        assert_eq!((writer_of(dir.path()).unwrap(), is_open(dir.path())), (Some(opening().writer), true));
        let mut torn = later;
        torn[20] ^= 1;
        write(&torn);
        assert_eq!((writer_of(dir.path()).unwrap(), is_open(dir.path())), (None, true));
        assert_eq!(Journal::open(dir.path(), Path::new("/")).unwrap_err().code, Code::JournalUnknown);
        // What cannot be read may be a run that was interrupted.
        durable::remove_file(&dir.path().join(NAME)).unwrap();
        durable::create_dir_all(&dir.path().join(NAME)).unwrap();
        assert!(is_open(dir.path()) && writer_of(dir.path()).is_err());
    }

    proptest! {
        #[test]
        fn every_cut_leaves_a_prefix_of_the_records(cut in 0usize..4000) {
            let records = run();
            let bytes = bytes(&records);
            let cut = cut.min(bytes.len());
            let (read, end) = parse(&bytes[..cut]).unwrap();
            prop_assert_eq!(&read[..], &records[..read.len()]);
            prop_assert!(end as usize <= cut);
        }

        #[test]
        fn a_flipped_byte_never_makes_another_record(at in 0usize..4000, flip in 1u8..=255) {
            let records = run();
            let mut bytes = bytes(&records);
            let at = at % bytes.len();
            bytes[at] ^= flip;
            let (read, _) = parse(&bytes).unwrap();
            prop_assert!(read.len() < records.len());
            prop_assert_eq!(&read[..], &records[..read.len()]);
        }

        #[test]
        fn damage_before_the_last_record_is_no_torn_tail(at in 0usize..4000, flip in 1u8..=255) {
            let dir = tempfile::tempdir().unwrap();
            let (file, records) = (dir.path().join(NAME), run());
            let mut all = bytes(&records[..records.len() - 1]);
            let last = encode(&Record::Recover).len();
            let at = at % (all.len() - last - 1);
            all[at] = if all[at] == flip { b'x' } else { all[at] ^ flip };
            all.resize(all.len() + 64, 0);
            durable::write(&file, &all, durable::FILE_MODE).unwrap();
            prop_assert_eq!(Journal::open(dir.path(), Path::new("/")).unwrap_err().code, Code::JournalUnknown);
            prop_assert!(is_open(dir.path()));
            prop_assert_eq!(std::fs::read(&file).unwrap(), all, "nothing is wiped");
        }

        #[test]
        fn arbitrary_bytes_are_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = parse(&bytes);
        }
    }
}
