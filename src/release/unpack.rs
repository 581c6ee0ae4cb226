//! Unpacks an archive by an allow-list: what no release would contain refuses the whole archive (SPEC §4).

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Read};
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use tar::EntryType;

use super::archive_path::ArchivePath;
use super::destination::{Destination, destination};
use super::gunzip::Gunzip;
use super::limits::Limits;
use super::writer::Writer;
use crate::host::tree::Tree;
use crate::report::{Code, Error, IoContext, Result};
use crate::store::contents::AGENT;
use crate::store::manifest::FileEntry;
use protocol::Edition;

/// Bytes moved at a time where nothing is kept.
const BUFFER: usize = 64 << 10;
/// Most bytes of headers between two files: long names and PAX records are read into memory.
const MAX_HEADER: u64 = 1 << 20;
/// Most bytes inflated for a packed one; releases of 2023 to 2026 have 2.6 to 4.3.
const MAX_RATIO: u64 = 10;
/// Bytes for which no ratio counts: a stretch of zeros packs a thousandfold.
const FREE_OF_RATIO: u64 = 64 << 20;
/// Most notes: a release has a handful.
const MAX_NOTES: usize = 100;
/// Set-id, sticky and the write bits of others never land (SPEC §4).
const MODE_MASK: u32 = 0o755;

/// What to unpack and how much of it at most.
pub(super) struct Rules {
    pub(super) edition: Edition,
    pub(super) components: Option<Vec<String>>,
    pub(super) limits: Limits,
}

/// What was unpacked; everything in it is synced.
#[derive(Debug)]
pub(super) struct Unpacked {
    pub(super) files: Vec<FileEntry>,
    /// What was left out and could be missed, for the debug log.
    pub(super) notes: Vec<String>,
}

/// Unpacks `raw` into `tree` and reads it to its very end. `written` counts the bytes of files as they land.
///
/// Errors: [`Code::ArchiveHostile`], [`Code::ArchiveInvalid`], those of writing, and an [`Error`] that `raw` itself
/// carries in an `io::Error`.
pub(super) fn unpack(raw: impl BufRead, tree: Tree, rules: &Rules, written: &AtomicU64) -> Result<Unpacked> {
    let budget = Rc::new(Cell::new(MAX_HEADER));
    let consumed = Rc::new(Cell::new(0));
    let raw = Counted { inner: raw, consumed: consumed.clone() };
    let (inner, most) = (Gunzip::new(raw), rules.limits.max_total);
    let inflated = Guard { inner, budget: budget.clone(), consumed, inflated: 0, most };
    std::thread::scope(|scope| {
        let writer = Writer::start(scope, written, rules.limits.reserve)?;
        let (seen, places) = (BTreeMap::new(), BTreeSet::new());
        let (landed, notes) = (Vec::new(), Vec::new());
        let mut run = Run { rules, budget, writer, tree, entries: 0, seen, landed, places, notes };
        let outcome = run.entries(inflated);
        let Run { writer, tree, landed, notes, .. } = run;
        // A failure to write is why nothing more could be unpacked.
        let digests = writer.finish()?;
        outcome?;
        tree.finish()?;
        let files = landed.into_iter().zip(digests);
        let files = files.map(|(Landed { path, size, mode }, sha256)| FileEntry { path, size, mode, sha256 }).collect();
        Ok(Unpacked { files, notes })
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    File,
    Link,
}

/// A file that was handed to the writer, whose digest follows.
struct Landed {
    path: String,
    size: u64,
    mode: u32,
}

struct Run<'a, 'scope> {
    rules: &'a Rules,
    budget: Rc<Cell<u64>>,
    writer: Writer<'scope>,
    tree: Tree,
    entries: usize,
    seen: BTreeMap<String, Kind>,
    landed: Vec<Landed>,
    /// The same by name.
    places: BTreeSet<String>,
    notes: Vec<String>,
}

impl Run<'_, '_> {
    fn entries<R: Read>(&mut self, mut inflated: Guard<R>) -> Result<()> {
        {
            let mut archive = tar::Archive::new(&mut inflated);
            let mut entries = archive.entries().map_err(damaged)?;
            loop {
                self.budget.set(MAX_HEADER);
                let Some(entry) = entries.next() else { break };
                self.entry(&mut entry.map_err(damaged)?)?;
            }
        }
        self.budget.set(u64::MAX);
        // tar stops at its end marker; the CRC and whatever hides behind it come after.
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = inflated.read(&mut buffer).map_err(damaged)?;
            if count == 0 {
                break;
            }
            if buffer.iter().take(count).any(|byte| *byte != 0) {
                return Err(Error::new(Code::ArchiveInvalid, "the archive has data after its end marker"));
            }
        }
        if self.landed.iter().any(|file| file.path.strip_prefix("bin/") == Some(AGENT)) {
            Ok(())
        } else {
            Err(Error::new(Code::ArchiveInvalid, "the archive contains no executable teleport"))
        }
    }

    fn entry<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> Result<()> {
        self.entries += 1;
        if self.entries > self.rules.limits.max_entries {
            return Err(Error::new(
                Code::ArchiveHostile,
                format!("the archive has more than {} entries", self.rules.limits.max_entries),
            ));
        }
        let path = ArchivePath::parse(&entry.path_bytes())?;
        let hostile = |why: &str| {
            Error::new(Code::ArchiveHostile, format!("the archive has an entry {:?}: {why}", path.as_str()))
        };
        let kind = match entry.header().entry_type() {
            // git and others put a comment there; its bytes are read past.
            EntryType::XGlobalHeader => return Ok(()),
            EntryType::Directory => Kind::Folder,
            EntryType::Regular | EntryType::Continuous if entry.path_bytes().ends_with(b"/") => {
                return Err(hostile("a regular file whose name ends with a slash"));
            }
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Symlink | EntryType::Link => Kind::Link,
            other => return Err(hostile(&format!("type {other:?}"))),
        };
        for above in path.ancestors() {
            // A folder that only a path speaks of counts too: no file may take its name later.
            match self.seen.get(above) {
                Some(Kind::Folder) => {}
                Some(_) => return Err(hostile("its path goes through a link or a regular file")),
                None => drop(self.seen.insert(above.to_owned(), Kind::Folder)),
            }
        }
        match self.seen.insert(path.as_str().to_owned(), kind) {
            None => {}
            Some(Kind::Folder) if kind == Kind::Folder => {}
            Some(_) => return Err(hostile("its name appears twice")),
        }
        let prefix = self.rules.edition.archive_prefix();
        let Some(inside) = below(path.as_str(), prefix, kind) else {
            return Err(Error::new(
                Code::ArchiveInvalid,
                format!(
                    "the archive contains {:?}, but in an archive of edition {} everything is below {prefix}/",
                    path.as_str(),
                    self.rules.edition
                ),
            )
            .advise("check that the mirror serves the right edition under this name"));
        };
        match kind {
            Kind::Folder => Ok(()),
            Kind::Link => {
                let target = entry.link_name_bytes().unwrap_or_default();
                let is_hard = entry.header().entry_type() == EntryType::Link;
                let target = path
                    .link_target(&target, is_hard, prefix)
                    .ok_or_else(|| hostile("a link to a target outside of the archive"))?;
                self.note(format!("left out the link {} -> {target}", path.as_str()));
                Ok(())
            }
            Kind::File => self.file(entry, inside, &hostile),
        }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    fn file<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
        inside: &str,
        hostile: &dyn Fn(&str) -> Error,
    ) -> Result<()> {
        let size = entry.size();
        if size > self.rules.limits.max_entry {
            return Err(hostile(&format!("{size} bytes, more than {}", self.rules.limits.max_entry)));
        }
        self.budget.set(u64::MAX);
        let mode = entry.header().mode().map_err(damaged)? & MODE_MASK;
        let wanted = destination(inside, mode, self.rules.components.as_deref());
        let Destination::At(to) = wanted else {
            if wanted == Destination::Unexpected {
                self.note(format!("left out {inside}"));
            }
            let read = io::copy(entry, &mut io::sink()).map_err(damaged)?;
            return whole(read, size);
        };
        if !self.places.insert(to.clone()) {
            return Err(hostile(&format!("another entry is unpacked to the same place, {to}")));
        }
        let full = self.tree.full(&to);
        let file = self.tree.create_file(&to, mode).at("cannot write", &full)?;
        let read = self.writer.copy(entry, file, &full).map_err(damaged)?;
        whole(read, size)?;
        self.landed.push(Landed { path: to, size, mode });
        Ok(())
    }
}

/// The path below the prefix; the prefix itself and what lies above it may only be folders.
fn below<'p>(path: &'p str, prefix: &str, kind: Kind) -> Option<&'p str> {
    if kind == Kind::Folder && (path.is_empty() || path == prefix) {
        return Some("");
    }
    path.strip_prefix(prefix)?.strip_prefix('/')
}

fn whole(read: u64, size: u64) -> Result<()> {
    if read == size {
        Ok(())
    } else {
        Err(Error::new(Code::ArchiveInvalid, "the archive ends in the middle of a file"))
    }
}

/// An error of reading: our own one that came through `io::Error`, or a damaged archive.
fn damaged(error: io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(own) => own.clone(),
        None => Error::new(Code::ArchiveInvalid, format!("the archive is damaged: {error}")),
    }
}

/// Counts what is read.
struct Counted<R> {
    inner: R,
    consumed: Rc<Cell<u64>>,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.consumed.set(self.consumed.get().saturating_add(amount as u64));
        self.inner.consume(amount);
    }
}

/// Bounds what is inflated in total, also by what was packed, and what headers may take.
struct Guard<R> {
    inner: R,
    budget: Rc<Cell<u64>>,
    /// Raw bytes that went in.
    consumed: Rc<Cell<u64>>,
    inflated: u64,
    most: u64,
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let bytes = count as u64;
        let too_much =
            |what: &str| io::Error::other(Error::new(Code::ArchiveHostile, format!("the archive has {what}")));
        self.inflated = self.inflated.saturating_add(bytes);
        if self.inflated > self.most {
            return Err(too_much("more unpacked data than allowed"));
        }
        if self.inflated > MAX_RATIO.saturating_mul(self.consumed.get()).saturating_add(FREE_OF_RATIO) {
            return Err(too_much("a suspiciously high compression ratio"));
        }
        let budget = self.budget.get();
        if budget != u64::MAX {
            self.budget.set(budget.checked_sub(bytes).ok_or_else(|| too_much("oversized headers"))?);
        }
        Ok(count)
    }
}
