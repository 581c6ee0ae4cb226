//! Tar entries byte by byte, also those that a decent library refuses to write.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

/// Bytes of a tar block.
pub const BLOCK: usize = 512;

/// A tar archive under construction.
#[derive(Debug, Clone, Default)]
pub struct Tarball {
    bytes: Vec<u8>,
}

impl Tarball {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// A regular file.
    pub fn file(self, path: impl AsRef<[u8]>, mode: u32, contents: &[u8]) -> Self {
        let header = header(path.as_ref(), EntryType::Regular, mode, contents.len() as u64);
        self.entry(&header, contents)
    }

    /// A directory.
    pub fn directory(self, path: impl AsRef<[u8]>) -> Self {
        self.entry(&header(path.as_ref(), EntryType::Directory, 0o755, 0), &[])
    }

    /// A symbolic link.
    pub fn symlink(self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.link(EntryType::Symlink, path.as_ref(), target.as_ref())
    }

    /// A hard link.
    pub fn hardlink(self, path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        self.link(EntryType::Link, path.as_ref(), target.as_ref())
    }

    /// An entry of any type without contents: devices, FIFOs.
    pub fn special(self, path: impl AsRef<[u8]>, kind: EntryType) -> Self {
        let mut header = header(path.as_ref(), kind, 0o666, 0);
        header.set_device_major(1).unwrap();
        header.set_device_minor(3).unwrap();
        header.set_cksum();
        self.entry(&header, &[])
    }

    /// A PAX header for the next entry.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let contents: Vec<u8> = records.iter().flat_map(|(key, value)| pax_record(key, value)).collect();
        self.entry(&header(b"PaxHeaders/x", EntryType::XHeader, 0o644, contents.len() as u64), &contents)
    }

    /// GNU's long name for the next entry.
    pub fn long_name(self, path: &[u8]) -> Self {
        let contents = [path, b"\0"].concat();
        self.entry(&header(b"././@LongLink", EntryType::GNULongName, 0o644, contents.len() as u64), &contents)
    }

    /// A header and the blocks that hold `contents`, whatever size the header speaks of.
    pub fn entry(mut self, header: &Header, contents: &[u8]) -> Self {
        self.bytes.extend(header.as_bytes());
        self.bytes.extend(contents);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
        self
    }

    /// Every entry of another tarball.
    pub fn join(mut self, other: &Self) -> Self {
        self.bytes.extend(&other.bytes);
        self
    }

    /// The tar with its two closing blocks.
    pub fn tar(&self) -> Vec<u8> {
        [self.bytes.as_slice(), &[0; 2 * BLOCK]].concat()
    }

    /// The tar without closing blocks.
    pub fn unclosed(&self) -> &[u8] {
        &self.bytes
    }

    /// The closed tar in one gzip member.
    pub fn gzip(&self) -> Vec<u8> {
        gzip(&self.tar())
    }

    fn link(self, kind: EntryType, path: &[u8], target: &[u8]) -> Self {
        let mut header = header(path, kind, 0o777, 0);
        header.set_link_name_literal(target).unwrap();
        header.set_cksum();
        self.entry(&header, &[])
    }
}

/// One gzip member.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// A GNU header with the path as it is: nothing is normalised, nothing refused; at most 100 bytes.
pub fn header(path: &[u8], kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..path.len()].copy_from_slice(path);
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(1_700_000_000);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    header
}

/// `<length> <key>=<value>\n`, where the length counts itself.
fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}
