//! What a version directory consists of, and whether it still does (SPEC §1, §4).

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::host::durable::{self, FILE_MODE};
use crate::host::ownership;
use crate::report::{Code, Error, IfPresent, IoContext, Result};
use crate::store::VersionDir;
use protocol::{Arch, Digest, Edition, Revision, Version};

/// Its name in a version directory.
pub const MANIFEST: &str = "manifest.json";
/// The checksum marker's name: written last, makes the version an installed one.
pub(crate) const MARKER: &str = "sha256";
/// The format this program writes; a higher one is not understood.
const FORMAT: u32 = 1;
/// Most bytes of a manifest: ten thousand files at a few hundred bytes each.
const MAX_MANIFEST: u64 = 8 << 20;
/// Most bytes of a marker.
const MAX_MARKER: u64 = 4096;
/// Folders below one another that are looked into: an archive may have as many.
const MAX_FOLDERS: usize = 8;

/// One version's record: where it came from and each of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of this record.
    pub format: u32,
    /// The version.
    pub version: Version,
    /// The edition.
    pub edition: Edition,
    /// For which machines; absent in records of other writers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// The archive's digest, the same as in the marker.
    pub archive_sha256: Digest,
    /// Where the archive came from, without credentials.
    pub source_url: String,
    /// When it was unpacked.
    pub install_time: Timestamp,
    /// Who proved that the archive is the one that is meant; absent without TUF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuf: Option<TufProof>,
    /// The only executables that were unpacked besides the agent and an updater; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<Vec<String>>,
    /// The compatible updater in it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updater: Option<UpdaterInfo>,
    /// Every regular file, in the archive's order.
    pub files: Vec<FileEntry>,
}

/// By which metadata of a TUF repository an archive was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TufProof {
    /// The digest of the root that the settings trusted.
    pub trust: Digest,
    /// The version of the root by then.
    pub root: u64,
    /// The version of the targets.
    pub targets: u64,
}

/// An updater found to speak our protocol (SPEC §4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdaterInfo {
    /// Relative to the version directory.
    pub path: String,
    /// What it declared, such as `rfd0169/1`.
    pub protocol: String,
}

/// One regular file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Relative to the version directory.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Permission bits; octal text in JSON.
    #[serde(with = "octal")]
    pub mode: u32,
    /// Digest of the content.
    pub sha256: Digest,
}

impl FileEntry {
    /// Whether the file at `path` is this one, content included, and nobody else's. One that cannot be read is not.
    pub fn is_at(&self, path: &Path) -> bool {
        let is_like_it = |meta: std::fs::Metadata| {
            let is_same = meta.len() == self.size && meta.mode() & 0o7777 == self.mode;
            meta.is_file() && is_same && ownership::is_closed(path, &meta)
        };
        std::fs::symlink_metadata(path).is_ok_and(is_like_it)
            && Digest::of_file(path).is_ok_and(|(found, _)| found == self.sha256)
    }
}

impl Manifest {
    /// A record of today's format without an updater.
    pub fn new(
        version: Version,
        edition: Edition,
        arch: Arch,
        archive_sha256: Digest,
        source_url: String,
        install_time: Timestamp,
        files: Vec<FileEntry>,
    ) -> Self {
        Self {
            format: FORMAT,
            version,
            edition,
            arch: Some(arch),
            archive_sha256,
            source_url,
            install_time,
            tuf: None,
            components: None,
            updater: None,
            files,
        }
    }

    /// Reads the manifest of a version directory; unknown keys are ignored.
    ///
    /// Errors: [`Code::Damaged`] when it is absent, malformed, of a later format, names files outside, is another's, or
    /// another version's than the directory.
    pub fn read(version_dir: &Path) -> Result<Self> {
        let path = version_dir.join(MANIFEST);
        let damaged = |why: &str| {
            Error::new(Code::Damaged, format!("{} {why}", path.display()))
                .advise("run `teleport-update verify --repair`")
        };
        let bytes = read_record(&path, MAX_MANIFEST)?.ok_or_else(|| damaged("is missing"))?;
        let manifest: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(&format!("cannot be read: {error}")))?;
        if manifest.format != FORMAT {
            return Err(damaged(&format!("has format {}, which this updater does not know", manifest.format)));
        }
        if !manifest.is_in_place(version_dir) {
            let what = Revision { version: manifest.version, edition: manifest.edition };
            return Err(damaged(&format!("is that of {what}: this directory is a copy of another version's")));
        }
        // A NUL would make every look at the file an error of its own.
        let is_plain =
            |path: &str| !path.contains('\0') && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
        let own_paths = manifest.files.iter().map(|file| &file.path);
        let updater = manifest.updater.iter().map(|updater| &updater.path);
        match own_paths.chain(updater).find(|path| !is_plain(path)) {
            Some(path) => Err(damaged(&format!("names a file outside of the version directory: {path:?}"))),
            None => Ok(manifest),
        }
    }

    /// Whether `dir`, if it is called like a version, is called like this one.
    fn is_in_place(&self, dir: &Path) -> bool {
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        VersionDir::named(name).parse().is_none_or(|(version, edition)| {
            version == self.version && edition.is_none_or(|edition| edition == self.edition)
        })
    }

    /// Writes it into a version directory, durably.
    pub fn write(&self, version_dir: &Path) -> Result<()> {
        let path = version_dir.join(MANIFEST);
        let mut bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| Error::new(Code::Io, format!("cannot write {}: {error}", path.display())))?;
        bytes.push(b'\n');
        durable::write(&path, &bytes, FILE_MODE)
    }

    /// Compares every file with its entry, content included, and looks for files that do not belong there.
    pub fn verify(&self, version_dir: &Path) -> Result<Vec<Difference>> {
        let mut found = self.differences(version_dir, true)?;
        found.extend(self.unexpected(version_dir)?);
        Ok(found)
    }

    /// Files that do not belong there.
    pub fn unexpected(&self, version_dir: &Path) -> Result<Vec<Difference>> {
        let mut known = BTreeSet::new();
        known.extend(self.files.iter().map(|file| file.path.as_str()));
        let mut found = Vec::new();
        unexpected(version_dir, "", &known, &mut found)?;
        Ok(found)
    }

    /// Compares type, owner, size and mode only: milliseconds in place of seconds.
    pub fn quick_check(&self, version_dir: &Path) -> Result<Vec<Difference>> {
        self.differences(version_dir, false)
    }

    fn differences(&self, version_dir: &Path, with_content: bool) -> Result<Vec<Difference>> {
        let mut found = self.open_folders(version_dir)?;
        for file in &self.files {
            let path = version_dir.join(&file.path);
            let mut differs = |kind| found.push(Difference { path: file.path.clone(), kind });
            let Some(meta) = std::fs::symlink_metadata(&path).if_present().at("cannot read", &path)? else {
                differs(DifferenceKind::Missing);
                continue;
            };
            if !meta.is_file() {
                differs(DifferenceKind::NotRegular);
                continue;
            }
            let mode = meta.mode() & 0o7777;
            if !ownership::is_closed(&path, &meta) {
                differs(DifferenceKind::Open { owner: meta.uid(), mode });
                continue;
            }
            if mode != file.mode {
                differs(DifferenceKind::Mode { expected: file.mode, found: mode });
            }
            if meta.len() != file.size {
                differs(DifferenceKind::Size { expected: file.size, found: meta.len() });
            } else if with_content && Digest::of_file(&path).at("cannot read", &path)?.0 != file.sha256 {
                differs(DifferenceKind::Content);
            }
        }
        Ok(found)
    }

    /// The directories of the version from its own on, as relative paths; each after those above it.
    pub fn folders(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        found.insert("");
        for file in &self.files {
            let mut path = file.path.as_str();
            while let Some((folder, _)) = path.rsplit_once('/') {
                found.insert(folder);
                path = folder;
            }
        }
        found
    }

    /// Directories that others own or may write to, or that a link stands for.
    fn open_folders(&self, version_dir: &Path) -> Result<Vec<Difference>> {
        let mut found = Vec::new();
        for folder in self.folders() {
            // Without a slash at the end, which would follow a link.
            let path = if folder.is_empty() { version_dir.to_owned() } else { version_dir.join(folder) };
            let kind = match std::fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_symlink() => DifferenceKind::Link,
                Ok(meta) if !ownership::is_closed(&path, &meta) => {
                    DifferenceKind::Open { owner: meta.uid(), mode: meta.mode() & 0o7777 }
                }
                // Each of its files tells of what cannot be seen.
                _ => continue,
            };
            let path = if folder.is_empty() { "." } else { folder }.to_owned();
            found.push(Difference { path, kind });
        }
        Ok(found)
    }
}

/// Whether others than root (or whoever runs this) own or may write to any part of a version: what ran from there need not
/// be what was installed. Snapshots do not count. What cannot be seen is not known to be so.
pub(crate) fn is_open(version_dir: &Path) -> bool {
    let is_others = |path: &Path| {
        std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_symlink() && !ownership::is_closed(path, &meta))
    };
    let mut way = vec![version_dir.to_owned()];
    while let Some(path) = way.pop() {
        if is_others(&path) {
            return true;
        }
        let is_top = path == version_dir;
        if !is_top && !std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            continue;
        }
        let entries = durable::entries(&path).unwrap_or_default().into_iter();
        way.extend(entries.map(|entry| entry.path()).filter(|path| !is_top || !is_snapshot(path)));
    }
    false
}

/// Snapshots are told apart from the version: they have their own record.
fn is_snapshot(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_start_matches('.').starts_with("backup")
}

/// One way in which a version directory is not what its manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Relative to the version directory.
    pub path: String,
    /// What differs.
    pub kind: DifferenceKind,
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The file is not there.
    Missing,
    /// Not a regular file.
    NotRegular,
    /// Bytes.
    Size {
        /// As recorded.
        expected: u64,
        /// As found.
        found: u64,
    },
    /// Permission bits.
    Mode {
        /// As recorded.
        expected: u32,
        /// As found.
        found: u32,
    },
    /// Others than root own it or may write to it: it may change at any time.
    Open {
        /// Its owner's number.
        owner: u32,
        /// Permission bits.
        mode: u32,
    },
    /// A link in the place of a directory.
    Link,
    /// Same size, other bytes.
    Content,
    /// A file that no record names.
    Unexpected,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match self.kind {
            DifferenceKind::Missing => write!(f, "{path} is missing"),
            DifferenceKind::NotRegular => write!(f, "{path} is not a regular file"),
            DifferenceKind::Size { expected, found } => write!(f, "{path} has {found} bytes, expected {expected}"),
            DifferenceKind::Mode { expected, found } => {
                write!(f, "{path} has mode {found:04o}, expected {expected:04o}")
            }
            DifferenceKind::Open { owner, mode } => {
                write!(f, "{path} can be changed by users other than root (owner {owner}, mode {mode:04o})")
            }
            DifferenceKind::Link => write!(f, "{path} is a link"),
            DifferenceKind::Content => write!(f, "{path} has different content"),
            DifferenceKind::Unexpected => write!(f, "{path} is not part of this version"),
        }
    }
}

/// As [`durable::read_limited`]; what is no file of ours, or not ours alone, is [`Code::Damaged`].
fn read_record(path: &Path, limit: u64) -> Result<Option<Vec<u8>>> {
    if let Ok(meta) = std::fs::symlink_metadata(path).as_ref()
        && !ownership::is_closed(path, meta)
    {
        let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
        let shown = path.display();
        let what = format!("{shown} can be changed by users other than root (owner {owner}, mode {mode:04o})");
        return Err(Error::new(Code::Damaged, what).advise("run `teleport-update verify --repair`"));
    }
    durable::read_limited(path, limit).map_err(|error| match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() || meta.len() > limit => Error { code: Code::Damaged, ..error },
        _ => error,
    })
}

/// The digest in a version directory's marker; `None` without one.
///
/// Errors: [`Code::Damaged`] when it is not 64 hex digits and a line end.
pub(crate) fn read_marker(version_dir: &Path) -> Result<Option<Digest>> {
    let path = version_dir.join(MARKER);
    let Some(bytes) = read_record(&path, MAX_MARKER)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    text.strip_suffix('\n').unwrap_or(text).parse().map(Some).map_err(|_| {
        Error::new(Code::Damaged, format!("{} does not contain a SHA-256 digest", path.display()))
            .advise("run `teleport-update verify --repair`")
    })
}

/// Writes the marker, durably. Only after everything else in the directory, and the directory itself, is durable.
pub(crate) fn write_marker(version_dir: &Path, archive: Digest) -> Result<()> {
    durable::write(&version_dir.join(MARKER), format!("{archive}\n").as_bytes(), FILE_MODE)
}

fn unexpected(top: &Path, folder: &str, known: &BTreeSet<&str>, found: &mut Vec<Difference>) -> Result<()> {
    let dir = top.join(folder);
    for entry in std::fs::read_dir(&dir).at("cannot read", &dir)? {
        let entry = entry.at("cannot read", &dir)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if folder.is_empty() && (name == MANIFEST || name == MARKER || is_snapshot(&entry.path())) {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let is_folder = entry.file_type().at("cannot read", entry.path())?.is_dir();
        // No release is as deep; below there nothing is looked at.
        // One of others that has nothing of the version in it; the others are looked at with the version.
        let is_idle = |path: &str| {
            let inside = format!("{path}/");
            !known.range(inside.as_str()..).next().is_some_and(|file| file.starts_with(&inside))
        };
        let is_open = || entry.metadata().is_ok_and(|meta| !ownership::is_closed(&entry.path(), &meta));
        if is_folder && is_idle(&path) && is_open() {
            found.push(Difference { path, kind: DifferenceKind::Unexpected });
        } else if is_folder && path.bytes().filter(|byte| *byte == b'/').count() < MAX_FOLDERS {
            unexpected(top, &path, known, found)?;
        } else if !known.contains(path.as_str()) {
            found.push(Difference { path, kind: DifferenceKind::Unexpected });
        }
    }
    Ok(())
}

mod octal {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{mode:04o}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let text = String::deserialize(deserializer)?;
        u32::from_str_radix(&text, 8).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
