//! Tar archives as an attacker would write them, made of random bytes: nearly all bytes make one, so that a fuzzer
//! spends its time behind the checksums and not before them.

use std::path::Path;

use arbitrary::Arbitrary;
use tar::EntryType;
use testing::cluster::tarball::{BLOCK, Tarball, header};

/// Most entries of an archive: beyond the limit that the oracle sets.
const MAX_ENTRIES: usize = 28;

#[derive(Debug, Arbitrary)]
pub(crate) struct Entries {
    /// Begins with the agent, so that the rest is reached.
    is_release: bool,
    entries: Vec<Entry>,
    ending: Ending,
}

#[derive(Debug, Arbitrary)]
enum Ending {
    Closed,
    Unclosed,
    Padded(u8),
    Hidden(Entry),
    Cut(u8),
}

#[derive(Debug, Arbitrary)]
struct Entry {
    name: Name,
    kind: Kind,
    mode: u16,
    content: Content,
    size: Size,
    before: Before,
    /// Breaks the header's checksum.
    is_broken: Option<bool>,
}

#[derive(Debug, Arbitrary)]
struct Name {
    top: Top,
    parts: Vec<Part>,
    has_slash: bool,
}

#[derive(Debug, Arbitrary)]
enum Top {
    Teleport,
    DotTeleport,
    Ent,
    Nothing,
    Slash,
    Outside,
}

#[derive(Debug, Arbitrary)]
enum Part {
    Agent,
    Tsh,
    Updater,
    Bin,
    Share,
    Examples,
    Etc,
    Systemd,
    Unit,
    Readme,
    Install,
    Dot,
    DotDot,
    Empty,
    Out,
    Short(u8),
    Long(u8),
    Text(String),
    Raw([u8; 3]),
}

#[derive(Debug, Arbitrary)]
enum Kind {
    File,
    OldFile,
    Continuous,
    Folder,
    Symlink(Name),
    Hardlink(Name),
    Char,
    Block,
    Fifo,
    Sparse,
    Global,
    LongName,
    LongLink,
    Extended,
    Other(u8),
}

#[derive(Debug, Arbitrary)]
enum Content {
    Empty,
    Program,
    Bytes(Vec<u8>),
    Filled(u8, u16),
    Many(u8, u32),
    Entry(Box<Entry>),
}

/// What the header says of the content's size.
#[derive(Debug, Arbitrary)]
enum Size {
    Right,
    Less(u16),
    More(u16),
    Exactly(u64),
}

/// What stands before the entry.
#[derive(Debug, Arbitrary)]
enum Before {
    Nothing,
    LongName(Name),
    LongLink(Name),
    Path(Name),
    LinkPath(Name),
    Size(u64),
    Records(Vec<(Key, Vec<u8>)>),
    Raw(Vec<u8>),
    Global(Name),
}

#[derive(Debug, Arbitrary)]
enum Key {
    Path,
    LinkPath,
    Size,
    Uid,
    Mtime,
    SparseMajor,
    SparseName,
    Other(String),
}

impl Entries {
    /// The tar. `outside`: an absolute path that nothing may be written to.
    pub(crate) fn tar(&self, outside: &Path) -> Vec<u8> {
        let outside = outside.as_os_str().as_encoded_bytes();
        let mut tar = Tarball::new();
        if self.is_release {
            tar = tar.file("teleport/teleport", 0o755, b"\x7fELF");
        }
        for entry in self.entries.iter().take(MAX_ENTRIES) {
            tar = entry.put(tar, outside, 0);
        }
        match &self.ending {
            Ending::Closed => tar.tar(),
            Ending::Unclosed => tar.unclosed().to_vec(),
            Ending::Padded(blocks) => [tar.tar(), vec![0; usize::from(*blocks) * BLOCK]].concat(),
            Ending::Hidden(entry) => [tar.tar(), entry.put(Tarball::new(), outside, 0).tar()].concat(),
            Ending::Cut(from_end) => {
                let bytes = tar.tar();
                bytes[..bytes.len().saturating_sub(usize::from(*from_end) * 8)].to_vec()
            }
        }
    }
}

impl Entry {
    fn put(&self, tar: Tarball, outside: &[u8], depth: usize) -> Tarball {
        let tar = self.before.put(tar, outside);
        let content = self.content.bytes(outside, depth);
        let length = content.len() as u64;
        let size = match self.size {
            Size::Right => length,
            Size::Less(by) => length.saturating_sub(u64::from(by)),
            Size::More(by) => length + u64::from(by),
            Size::Exactly(size) => size,
        };
        let (kind, target) = self.kind.parts(outside);
        let name = self.name.bytes(outside);
        let short = &name[..name.len().min(100)];
        let tar = if name.len() > 100 { tar.long_name(&name) } else { tar };
        let mut header = header(short, kind, u32::from(self.mode), size);
        if let Some(target) = target {
            header.as_old_mut().linkname[..target.len().min(100)].copy_from_slice(&target[..target.len().min(100)]);
            header.set_cksum();
        }
        if self.is_broken == Some(true) {
            header.as_mut_bytes()[150] ^= 1;
        }
        tar.entry(&header, &content)
    }
}

impl Before {
    fn put(&self, tar: Tarball, outside: &[u8]) -> Tarball {
        match self {
            Before::Nothing => tar,
            Before::LongName(name) => tar.long_name(&name.bytes(outside)),
            Before::LongLink(name) => special(tar, EntryType::GNULongLink, &name.bytes(outside)),
            Before::Path(name) => tar.pax(&[("path", &name.bytes(outside))]),
            Before::LinkPath(name) => tar.pax(&[("linkpath", &name.bytes(outside))]),
            Before::Size(size) => tar.pax(&[("size", size.to_string().as_bytes())]),
            Before::Records(records) => {
                let records: Vec<_> =
                    records.iter().map(|(key, value)| (key.as_str().to_owned(), value.as_slice())).collect();
                let records: Vec<_> = records.iter().map(|(key, value)| (key.as_str(), *value)).collect();
                tar.pax(&records)
            }
            Before::Raw(bytes) => special(tar, EntryType::XHeader, bytes),
            Before::Global(name) => {
                let record = [b"path=".as_slice(), &name.bytes(outside), b"\n"].concat();
                let text = [(record.len() + 3).to_string().as_bytes(), b" ", &record].concat();
                special(tar, EntryType::XGlobalHeader, &text)
            }
        }
    }
}

fn special(tar: Tarball, kind: EntryType, content: &[u8]) -> Tarball {
    tar.entry(&header(b"././@LongLink", kind, 0o644, content.len() as u64), content)
}

impl Key {
    fn as_str(&self) -> &str {
        match self {
            Key::Path => "path",
            Key::LinkPath => "linkpath",
            Key::Size => "size",
            Key::Uid => "uid",
            Key::Mtime => "mtime",
            Key::SparseMajor => "GNU.sparse.major",
            Key::SparseName => "GNU.sparse.name",
            Key::Other(key) => key,
        }
    }
}

impl Name {
    fn bytes(&self, outside: &[u8]) -> Vec<u8> {
        let mut name = match self.top {
            Top::Teleport => b"teleport".to_vec(),
            Top::DotTeleport => b"./teleport".to_vec(),
            Top::Ent => b"teleport-ent".to_vec(),
            Top::Nothing => Vec::new(),
            Top::Slash => b"/".to_vec(),
            Top::Outside => outside.to_vec(),
        };
        for part in &self.parts {
            if !name.is_empty() && name != b"/" {
                name.push(b'/');
            }
            part.put(&mut name);
        }
        if self.has_slash {
            name.push(b'/');
        }
        name
    }
}

impl Part {
    fn put(&self, name: &mut Vec<u8>) {
        let text: &[u8] = match self {
            Part::Agent => b"teleport",
            Part::Tsh => b"tsh",
            Part::Updater => b"teleport-update",
            Part::Bin => b"bin",
            Part::Share => b"share",
            Part::Examples => b"examples",
            Part::Etc => b"etc",
            Part::Systemd => b"systemd",
            Part::Unit => b"teleport.service",
            Part::Readme => b"README.md",
            Part::Install => b"install",
            Part::Dot => b".",
            Part::DotDot => b"..",
            Part::Empty => b"",
            Part::Out => b"out",
            Part::Short(letter) => {
                name.push(b'a' + letter % 26);
                return;
            }
            Part::Long(length) => {
                name.resize(name.len() + usize::from(*length) + 10, b'l');
                return;
            }
            Part::Text(text) => text.as_bytes(),
            Part::Raw(bytes) => bytes,
        };
        name.extend(text);
    }
}

impl Kind {
    fn parts(&self, outside: &[u8]) -> (EntryType, Option<Vec<u8>>) {
        let kind = match self {
            Kind::File => EntryType::Regular,
            Kind::OldFile => EntryType::new(0),
            Kind::Continuous => EntryType::Continuous,
            Kind::Folder => EntryType::Directory,
            Kind::Symlink(target) => return (EntryType::Symlink, Some(target.bytes(outside))),
            Kind::Hardlink(target) => return (EntryType::Link, Some(target.bytes(outside))),
            Kind::Char => EntryType::Char,
            Kind::Block => EntryType::Block,
            Kind::Fifo => EntryType::Fifo,
            Kind::Sparse => EntryType::GNUSparse,
            Kind::Global => EntryType::XGlobalHeader,
            Kind::LongName => EntryType::GNULongName,
            Kind::LongLink => EntryType::GNULongLink,
            Kind::Extended => EntryType::XHeader,
            Kind::Other(byte) => EntryType::new(*byte),
        };
        (kind, None)
    }
}

impl Content {
    fn bytes(&self, outside: &[u8], depth: usize) -> Vec<u8> {
        match self {
            Content::Empty => Vec::new(),
            Content::Program => b"\x7fELF\x02\x01\x01 not a program".to_vec(),
            Content::Bytes(bytes) => bytes.clone(),
            Content::Filled(byte, length) => vec![*byte; usize::from(*length)],
            // Beyond the limits of one file and of all.
            Content::Many(byte, length) => vec![*byte; (*length as usize) % (160 << 10)],
            Content::Entry(entry) if depth < 3 => entry.put(Tarball::new(), outside, depth + 1).tar(),
            Content::Entry(_) => Vec::new(),
        }
    }
}
