//! Unpacks an archive by an allow-list: each entry lands as it is meant, is left out by name, or refuses the whole archive (SPEC §4).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use tar::EntryType;

use super::archive_path::ArchivePath;
use super::destination::{Destination, destination};
use super::extended::{Extended, complaint_of_global};
use super::gunzip::{Gunzip, only_zeros};
use super::limits::Limits;
use super::writer::Writer;
use crate::host::tree::Tree;
use crate::report::{Code, Error, IoContext, Result};
use crate::store::contents::AGENT_FILE;
use crate::store::manifest::FileEntry;
use protocol::Edition;

/// Most bytes inflated for a packed one; releases of 2023 to 2026 have 2.6 to 4.3.
const MAX_RATIO: u64 = 10;
/// Bytes for which no ratio counts: a stretch of zeros packs a thousandfold.
const FREE_OF_RATIO: u64 = 64 << 20;
/// Most links from one name to its file: a release has none.
const MAX_LINKS: usize = 8;
/// How a program for this system begins.
const ELF: &[u8] = b"\x7fELF";
/// Set-id, sticky and the write bits of others never land (SPEC §4).
const MODE_MASK: u32 = 0o755;

/// What to unpack and how much of it at most.
pub(super) struct Rules {
    pub(super) edition: Edition,
    pub(super) components: Option<Vec<String>>,
    pub(super) limits: Limits,
}

/// Unpacks `raw` into `tree` and reads it to its very end.
///
/// Errors: [`Code::ArchiveHostile`], [`Code::ArchiveInvalid`], those of writing, and an [`Error`] that `raw` itself
/// carries in an `io::Error`.
pub(super) fn unpack(raw: impl BufRead, tree: Tree, rules: &Rules) -> Result<Vec<FileEntry>> {
    let consumed = Rc::new(Cell::new(0));
    let raw = Counted { inner: raw, consumed: consumed.clone() };
    let (inner, most) = (Gunzip::new(raw), rules.limits.max_total);
    let inflated = Guard { inner, consumed, inflated: 0, most };
    let mut run = Run { rules, tree, entries: 0, seen: BTreeMap::new(), places: BTreeMap::new(), landed: Vec::new() };
    let mut files = run.write(|run, writer| run.entries(inflated, writer))?;
    let links = run.links(&files)?;
    if !links.is_empty() {
        files.extend(run.write(|run, writer| run.copies(links, writer))?);
    }
    if !files.iter().any(|file| file.path == AGENT_FILE) {
        return Err(Error::new(Code::ArchiveInvalid, "the archive contains no executable teleport"));
    }
    run.tree.finish()?;
    Ok(files)
}

/// What a name stands for, in the archive and in the version.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Folder,
    /// The place in the version; `None`: left out.
    File(Option<String>),
    /// Where it leads, in the archive.
    Link(String),
}

/// A file that was handed to the writer, whose digest follows.
struct Landed {
    path: String,
    size: u64,
    mode: u32,
}

struct Run<'a> {
    rules: &'a Rules,
    tree: Tree,
    entries: usize,
    /// The archive's names.
    seen: BTreeMap<String, Node>,
    /// The version's.
    places: BTreeMap<String, Node>,
    landed: Vec<Landed>,
}

impl Run<'_> {
    /// Has `work` write files: with their digests, and synced.
    fn write(&mut self, work: impl FnOnce(&mut Self, &Writer<'_>) -> Result<()>) -> Result<Vec<FileEntry>> {
        std::thread::scope(|scope| {
            let writer = Writer::start(scope, self.rules.limits.reserve)?;
            let outcome = work(self, &writer);
            // A failure to write is why nothing more could be unpacked.
            let digests = writer.finish()?;
            outcome?;
            let files = std::mem::take(&mut self.landed).into_iter().zip(digests);
            Ok(files.map(|(Landed { path, size, mode }, sha256)| FileEntry { path, size, mode, sha256 }).collect())
        })
    }

    fn entries<R: Read>(&mut self, mut inflated: Guard<R>, writer: &Writer<'_>) -> Result<()> {
        {
            let mut archive = tar::Archive::new(&mut inflated);
            // Each header as it stands: what one says of another is followed here.
            let entries = archive.entries().map_err(damaged)?.raw(true);
            let mut extended = Extended::default();
            for entry in entries {
                self.entries += 1;
                if self.entries > self.rules.limits.max_entries {
                    let what = format!("the archive has more than {} entries", self.rules.limits.max_entries);
                    return Err(Error::new(Code::ArchiveHostile, what));
                }
                self.entry(&mut entry.map_err(damaged)?, &mut extended, writer)?;
            }
            if extended != Extended::default() {
                return Err(Error::new(Code::ArchiveInvalid, "the archive ends before an entry that it has announced"));
            }
        }
        // tar stops at its end marker; the CRC and whatever hides behind it come after.
        only_zeros(&mut BufReader::new(inflated), "data after its end marker").map_err(damaged)
    }

    fn entry<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
        extended: &mut Extended,
        writer: &Writer<'_>,
    ) -> Result<()> {
        let kind = entry.header().entry_type();
        if extended.take(kind, entry).map_err(damaged)? {
            return Ok(());
        }
        if kind == EntryType::XGlobalHeader {
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let complaint = complaint_of_global(entry).map_err(damaged)?;
            return complaint.map_or(Ok(()), |why| Err(hostile(&name, &why)));
        }
        let [name, target] = extended.names();
        let name = name.unwrap_or_else(|| entry.path_bytes().into_owned());
        let target = target.unwrap_or_else(|| entry.link_name_bytes().unwrap_or_default().into_owned());
        let path = ArchivePath::parse(&name)?;
        if let Some(why) = std::mem::take(extended).complaint(entry.size()) {
            return Err(hostile(path.as_str(), &why));
        }
        let Some(inside) = below(path.as_str(), self.prefix(), kind == EntryType::Directory) else {
            let (path, edition, top) = (path.as_str(), self.rules.edition, self.prefix());
            let what = format!(
                "the archive contains {path:?}, but in an archive of edition {edition} everything is below {top}/"
            );
            return Err(Error::new(Code::ArchiveInvalid, what)
                .advise("check that the mirror serves the right edition under this name"));
        };
        let node = match kind {
            EntryType::Regular | EntryType::Continuous if name.ends_with(b"/") => {
                return Err(hostile(path.as_str(), "a regular file whose name ends with a slash"));
            }
            EntryType::Regular | EntryType::Continuous => Node::File(None),
            EntryType::Directory | EntryType::Symlink | EntryType::Link if entry.size() > 0 => {
                return Err(hostile(path.as_str(), "a folder or link with contents"));
            }
            EntryType::Directory => Node::Folder,
            EntryType::Symlink | EntryType::Link => {
                let target = path.link_target(&target, kind == EntryType::Link, self.prefix());
                let outside = || hostile(path.as_str(), "a link to a target outside of the archive");
                Node::Link(target.ok_or_else(outside)?)
            }
            other => {
                let what = format!("type {:?}, which is not supported", char::from(other.as_byte()));
                return Err(hostile(path.as_str(), &what));
            }
        };
        let is_file = matches!(node, Node::File(_));
        claim(&mut self.seen, &path, node)?;
        if is_file {
            let place = self.file(entry, &path, inside, writer)?;
            self.seen.insert(path.as_str().to_owned(), Node::File(place));
        }
        Ok(())
    }

    fn prefix(&self) -> &'static str {
        self.rules.edition.archive_prefix()
    }

    /// The file's place in the version; `None`: left out.
    fn file<R: Read>(
        &mut self,
        entry: &mut tar::Entry<'_, R>,
        path: &ArchivePath,
        inside: &str,
        writer: &Writer<'_>,
    ) -> Result<Option<String>> {
        let size = entry.size();
        if size > self.rules.limits.max_entry {
            let what = format!("{size} bytes, more than {}", self.rules.limits.max_entry);
            return Err(hostile(path.as_str(), &what));
        }
        let mode = entry.header().mode().map_err(damaged)? & MODE_MASK;
        let Some(to) = self.place(path, inside, mode)? else {
            let read = io::copy(entry, &mut io::sink()).map_err(damaged)?;
            return whole(read, size).map(|()| None);
        };
        let mut head = Vec::new();
        entry.by_ref().take(ELF.len() as u64).read_to_end(&mut head).map_err(damaged)?;
        if mode & 0o111 == 0 && head == ELF && !inside.contains('/') {
            let what = format!("the program {:?} of the archive is not executable", path.as_str());
            return Err(Error::new(Code::ArchiveInvalid, what));
        }
        let read = self.land(&to, mode, head.as_slice().chain(entry), writer)?;
        whole(read, size)?;
        Ok(Some(to))
    }

    /// Where the file or link `path` goes. Nothing else may go there.
    fn place(&mut self, path: &ArchivePath, inside: &str, mode: u32) -> Result<Option<String>> {
        match destination(inside, mode, self.rules.components.as_deref()) {
            Destination::Left => Ok(None),
            Destination::Unknown(why) => Err(hostile(path.as_str(), why)),
            Destination::At(to) => {
                let at = ArchivePath::parse(to.as_bytes())?;
                let taken = |_| hostile(path.as_str(), &format!("another entry is unpacked to the same place, {to}"));
                claim(&mut self.places, &at, Node::File(None)).map_err(taken)?;
                Ok(Some(to))
            }
        }
    }

    fn land(&mut self, to: &str, mode: u32, mut from: impl Read, writer: &Writer<'_>) -> Result<u64> {
        let full = self.tree.full(to);
        let file = self.tree.create_file(to, mode).at("cannot write", &full)?;
        let size = writer.copy(&mut from, file, &full).map_err(damaged)?;
        self.landed.push(Landed { path: to.to_owned(), size, mode });
        Ok(size)
    }

    /// Each link that has a place in the version, and the file that it leads to.
    fn links<'f>(&mut self, files: &'f [FileEntry]) -> Result<Vec<(String, &'f FileEntry)>> {
        let mut by_place = BTreeMap::new();
        by_place.extend(files.iter().map(|file| (file.path.as_str(), file)));
        let mut total: u64 = files.iter().map(|file| file.size).sum();
        let links = self.seen.iter().filter(|(_, node)| matches!(node, Node::Link(_)));
        let ends =
            links.map(|(name, node)| (name.clone(), self.end_of(node).and_then(|place| by_place.get(place).copied())));
        let mut found = Vec::new();
        for (name, file) in ends.collect::<Vec<_>>() {
            let inside = below(&name, self.prefix(), false).unwrap_or_default();
            let path = ArchivePath::parse(name.as_bytes())?;
            let Some(to) = self.place(&path, inside, file.map_or(MODE_MASK, |file| file.mode))? else { continue };
            let file =
                file.ok_or_else(|| hostile(&name, "a link to what is not a file of the archive that is installed"))?;
            total = total.saturating_add(file.size);
            if total > self.rules.limits.max_total {
                return Err(hostile(&name, "a link with which there is more unpacked data than allowed"));
            }
            found.push((to, file));
        }
        Ok(found)
    }

    /// The place of the file at the end of a chain of links.
    fn end_of<'n>(&'n self, mut node: &'n Node) -> Option<&'n str> {
        for _ in 0..=MAX_LINKS {
            match node {
                Node::Link(target) => node = self.seen.get(target)?,
                Node::File(place) => return place.as_deref(),
                Node::Folder => return None,
            }
        }
        None
    }

    /// Links become files of their own, which a repair or a removal of the other one does not touch.
    fn copies(&mut self, links: Vec<(String, &FileEntry)>, writer: &Writer<'_>) -> Result<()> {
        for (to, file) in links {
            let from = self.tree.full(&file.path);
            let bytes = File::open(&from).at("cannot read", &from)?;
            self.land(&to, file.mode, bytes, writer)?;
        }
        Ok(())
    }
}

/// Takes a name. A folder that only a path speaks of counts too: no file may take its name later.
fn claim(names: &mut BTreeMap<String, Node>, path: &ArchivePath, node: Node) -> Result<()> {
    for above in path.ancestors() {
        if *names.entry(above.to_owned()).or_insert(Node::Folder) != Node::Folder {
            return Err(hostile(path.as_str(), "its path goes through a link or a regular file"));
        }
    }
    let is_folder = node == Node::Folder;
    match names.insert(path.as_str().to_owned(), node) {
        None => Ok(()),
        Some(Node::Folder) if is_folder => Ok(()),
        Some(_) => Err(hostile(path.as_str(), "its name appears twice")),
    }
}

fn hostile(path: &str, why: &str) -> Error {
    Error::new(Code::ArchiveHostile, format!("the archive has an entry {path:?}: {why}"))
}

/// The path below the prefix; the prefix itself and what lies above it may only be folders.
fn below<'p>(path: &'p str, prefix: &str, is_folder: bool) -> Option<&'p str> {
    if is_folder && (path.is_empty() || path == prefix) {
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
    let own = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).cloned();
    own.unwrap_or_else(|| Error::new(Code::ArchiveInvalid, format!("the archive is damaged: {error}")))
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

/// Bounds what is inflated in total, also by what was packed.
struct Guard<R> {
    inner: R,
    /// Raw bytes that went in.
    consumed: Rc<Cell<u64>>,
    inflated: u64,
    most: u64,
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let too_much =
            |what: &str| io::Error::other(Error::new(Code::ArchiveHostile, format!("the archive has {what}")));
        self.inflated = self.inflated.saturating_add(count as u64);
        if self.inflated > self.most {
            return Err(too_much("more unpacked data than allowed"));
        }
        if self.inflated > MAX_RATIO.saturating_mul(self.consumed.get()).saturating_add(FREE_OF_RATIO) {
            return Err(too_much("a suspiciously high compression ratio"));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
