//! Archives: whatever the bytes are, what lands is what the returned entries say, below the root, harmless, and nothing
//! else changes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use protocol::{Digest, Edition};
use teleport_update::testing::Code;
use teleport_update::testing::manifest::FileEntry;
use teleport_update::testing::release::Limits;
use teleport_update::testing::release::unpack;
use testing::cluster::tarball::gzip;

use crate::entries::Entries;
use crate::sandbox::Sandbox;

/// Bytes of one file, of all that is inflated, and entries: small, so that a short input can pass them.
const MAX_ENTRY: u64 = 64 << 10;
const MAX_TOTAL: u64 = 512 << 10;
const MAX_ENTRIES: usize = 24;
/// Bits that may be set on what lands (SPEC §4).
const MODES: u32 = 0o755;
/// Bytes of a tar block.
const BLOCK: usize = 512;

thread_local! {
    static SANDBOX: Sandbox = Sandbox::new();
}

/// Any bytes as a `.tar.gz`.
pub fn archive(bytes: &[u8]) {
    SANDBOX.with(|sandbox| {
        check(sandbox, bytes, bytes.len());
    });
}

/// Any bytes as the tar in a sound `.gz`: what gets past gzip.
pub fn tar(bytes: &[u8]) {
    SANDBOX.with(|sandbox| check_tar(sandbox, bytes));
}

/// A list of entries with hostile names, kinds, sizes and extended headers, made of any bytes.
pub fn entries(bytes: &[u8]) {
    let Ok(entries) = Entries::arbitrary(&mut Unstructured::new(bytes)) else { return };
    SANDBOX.with(|sandbox| check_tar(sandbox, &entries.tar(&sandbox.outside())));
}

fn check_tar(sandbox: &Sandbox, tar: &[u8]) {
    let Some(files) = check(sandbox, &gzip(tar), tar.len()) else { return };
    for (file, content) in files {
        let is_there = content.is_empty()
            || tar.chunks(BLOCK).enumerate().any(|(block, _)| tar[block * BLOCK..].starts_with(&content));
        assert!(is_there, "{} has bytes that no entry of the tar has", file.path);
    }
}

/// Unpacks and checks; the files with their contents if the archive was accepted.
fn check(sandbox: &Sandbox, raw: &[u8], salt: usize) -> Option<Vec<(FileEntry, Vec<u8>)>> {
    let root = sandbox.root();
    // Where reads end must not matter: short ones end within every field.
    let mut source = Trickle { left: raw, step: [usize::MAX, 1, 13, 511][salt % 4].max(raw.len() >> 12) };
    let edition = if salt % 8 == 7 { Edition::Enterprise } else { Edition::Oss };
    let components = (salt % 16 == 15).then(|| vec!["tsh".to_owned()]);
    let limits = Limits {
        run: Duration::from_secs(60),
        max_entry: MAX_ENTRY,
        max_total: MAX_TOTAL,
        max_entries: MAX_ENTRIES,
        ..Limits::default()
    };
    let result = unpack(&mut source, &root, edition, components, limits);
    let landed = landed(&root, result.is_ok());
    let accepted = match result {
        Ok(files) => {
            assert!(source.left.is_empty(), "{} bytes of the archive were not read", source.left.len());
            Some(compare(files, landed))
        }
        Err(error) => {
            assert!(
                matches!(error.code, Code::ArchiveHostile | Code::ArchiveInvalid),
                "an archive's fault told as {:?}: {error}",
                error.code
            );
            None
        }
    };
    sandbox.check();
    accepted
}

/// Every file below the root with its mode, after a look at each node's kind and rights.
fn landed(root: &Path, is_finished: bool) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut bytes = 0;
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let mode = fs::symlink_metadata(&dir).unwrap().mode() & 0o7777;
        let expected = if dir == root && !is_finished { 0o700 } else { 0o755 };
        assert_eq!(mode, expected, "{dir:?} has mode {mode:o}");
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                open.push(path);
                continue;
            }
            assert!(meta.is_file(), "{path:?} is neither file nor directory");
            assert_eq!(meta.nlink(), 1, "{path:?} has another name");
            let mode = meta.mode() & 0o7777;
            assert_eq!(mode & !MODES, 0, "{path:?} has mode {mode:o}");
            assert!(meta.len() <= MAX_ENTRY, "{path:?} is larger than allowed");
            bytes += meta.len();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            // A mode without r is no hindrance for root, who runs this; others skip the content.
            found.insert(name, (mode, fs::read(&path).unwrap_or_default()));
        }
    }
    assert!(bytes <= MAX_TOTAL, "{bytes} bytes landed");
    assert!(found.len() <= MAX_ENTRIES, "{} files landed", found.len());
    found
}

fn compare(files: Vec<FileEntry>, mut landed: BTreeMap<String, (u32, Vec<u8>)>) -> Vec<(FileEntry, Vec<u8>)> {
    let agent = files.iter().find(|file| file.path == "bin/teleport").expect("no agent in what was accepted");
    assert_ne!(agent.mode & 0o111, 0, "the agent is not executable");
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let both = files.into_iter().map(|file| {
        let (mode, content) = landed.remove(&file.path).unwrap_or_else(|| panic!("{} did not land", file.path));
        let allowed = file.path.starts_with("bin/")
            || file.path.starts_with("share/")
            || file.path == "etc/systemd/teleport.service";
        assert!(allowed, "{} has no place in a version", file.path);
        assert_eq!(mode, file.mode, "{}", file.path);
        if is_root || mode & 0o400 != 0 {
            assert_eq!((content.len() as u64, Digest::of(&content)), (file.size, file.sha256), "{}", file.path);
        }
        (file, content)
    });
    let both = both.collect();
    assert!(landed.is_empty(), "no entry tells of {:?}", landed.keys());
    both
}

/// Bytes that come in pieces of at most `step`.
struct Trickle<'a> {
    left: &'a [u8],
    step: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Trickle<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(&self.left[..self.left.len().min(self.step)])
    }

    fn consume(&mut self, count: usize) {
        self.left = &self.left[count..];
    }
}
