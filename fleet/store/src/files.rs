//! The data directory and its files: names, owners, modes, and what must be synced.
#![allow(clippy::disallowed_methods, reason = "this file is to the server what host/durable.rs is to the agent")]

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, RenameFlags};

use crate::error::{AtPath, Error, Result};
use crate::schema::APPLICATION_ID;

/// The database, in the data directory.
pub(crate) const DATABASE: &str = "fleet.db";
/// What its one process locks.
pub(crate) const LOCK: &str = "fleet.lock";
/// The newest record that was seen here. What the package removes with the database has its name as well.
pub(crate) const WITNESS: &str = "fleet.db.witness";
/// That a stop waits for the store.
pub(crate) const STOP_WAITS: &str = "fleet.db.stop-waits";
/// A file without bytes that becomes that one: a full disk refuses no other name.
pub(crate) const SPARE: &str = "fleet.db.spare";
/// A database in the making: not yet, or not any more, of any worth.
pub(crate) const UNFINISHED: &str = "fleet.db.unfinished";
/// What SQLite keeps beside a database.
pub(crate) const SIDECARS: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Mode of the data directory: only its owner.
const DIR_MODE: u32 = 0o700;
/// Mode of each file: only its owner.
const FILE_MODE: u32 = 0o600;
/// Bytes of a database's header.
const HEADER: usize = 100;
/// Where the header has the application's id.
const APPLICATION_ID_AT: usize = 68;
/// Where the header says whether the file is written by a log (2) or without one (1).
const WRITTEN_BY_AT: usize = 18;
/// Where the header has SQLite's `user_version`: our generation.
const GENERATION_AT: usize = 60;
/// Bytes of a log without a record.
const EMPTY_LOG: u64 = 32;

/// Characters of a UUID.
const UUID: usize = 36;

/// A file, whatever its name: device and inode.
pub(crate) type StoreFileId = (u64, u64);
/// User and group.
pub(crate) type FileOwner = (u32, u32);

/// A data directory.
#[derive(Debug, Clone)]
pub(crate) struct DataDir {
    dir: PathBuf,
    owner: FileOwner,
}

impl DataDir {
    /// The directory as it is. Errors: `Unavailable` where there is none, `Foreign` where it is not a directory.
    pub(crate) fn at(dir: &Path) -> Result<Self> {
        // SQLite is told to follow no link at all, so links above the database are followed here, once.
        let dir = dir.canonicalize().at("cannot open", dir)?;
        let metadata = dir.metadata().at("cannot open", &dir)?;
        if !metadata.is_dir() {
            return Err(Error::Foreign(format!("{} is not a directory: name one with --data", dir.display())));
        }
        Ok(Self { owner: (metadata.uid(), metadata.gid()), dir })
    }

    /// The directory, made where there is none.
    pub(crate) fn make(dir: &Path) -> Result<Self> {
        match DirBuilder::new().mode(DIR_MODE).create(dir) {
            Ok(()) => {
                // Whatever the umask left.
                set_mode(dir, DIR_MODE)?;
                if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                    sync(parent)?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("cannot make", dir, &error)),
        }
        Self::at(dir)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn dir_owner(&self) -> FileOwner {
        self.owner
    }

    /// The file of this name in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The log, where it is another database's: SQLite would read it into this one. That is so beside a file that no log was ever
    /// written for, as a backup is, and beside one of a generation that was not the newest here; `generations`: none is known.
    pub(crate) fn foreign_log(&self, header: &DatabaseHeader, generations: &[i32]) -> Result<Option<PathBuf>> {
        let log = beside(&self.file(DATABASE), "-wal");
        let is_own = generations.is_empty() || generations.contains(&header.generation);
        let has_records = metadata(&log)?.is_some_and(|found| found.len() > EMPTY_LOG);
        Ok((has_records && !(header.has_log && is_own)).then_some(log))
    }

    /// Where a replaced database is kept: a name that is free.
    pub(crate) fn replaced(&self, now: jiff::Timestamp) -> PathBuf {
        let stem = format!("{DATABASE}.replaced-{}", now.strftime("%Y%m%dT%H%M%SZ"));
        let free = |name: &String| {
            let path = self.dir.join(name);
            metadata(&path).is_ok_and(|found| found.is_none())
        };
        // More than one within a second only where somebody tries.
        let numbered = (2..100).map(|number| format!("{stem}-{number}"));
        let name = std::iter::once(stem.clone()).chain(numbered).find(free).unwrap_or(stem);
        self.dir.join(name)
    }

    /// The database's metadata; `None`: there is none. Refuses what we may not follow or trust.
    pub(crate) fn find(&self) -> Result<Option<Metadata>> {
        let path = self.file(DATABASE);
        let Some(found) = metadata(&path)? else {
            return Ok(None);
        };
        let shown = path.display();
        if found.is_symlink() {
            return Err(Error::Foreign(format!(
                "{shown} is a symbolic link: move the file here, or link the directory instead"
            )));
        }
        if !found.is_file() {
            return Err(Error::Foreign(format!("{shown} is not a file: move it away")));
        }
        let user = rustix::process::geteuid().as_raw();
        // Root may work on the data of the service's user.
        if ![user, 0].contains(&found.uid()) && (user != 0 || found.uid() != self.owner.0) {
            return Err(Error::Foreign(format!(
                "{shown} belongs to user {}: run as that user, or give it to user {user}",
                found.uid()
            )));
        }
        Ok(Some(found))
    }

    /// Removes what an interrupted creation, restore or download left: an unfinished database, a second name of the present one,
    /// and copies that nobody reads any more.
    pub(crate) fn clean(&self, database: Option<&Metadata>) -> Result<()> {
        remove_database(&self.file(UNFINISHED))?;
        remove(&unfinished(&self.file(WITNESS)))?;
        let own = database.filter(|found| found.nlink() > 1).map(id);
        let list = self.dir.read_dir().at("cannot list", &self.dir)?;
        for file in list.flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            let is_replaced = own.is_some() && name.starts_with("fleet.db.replaced-");
            if is_copy(&name) || (is_replaced && metadata(&file.path())?.as_ref().map(id) == own) {
                remove(&file.path())?;
            }
        }
        Ok(())
    }
}

/// Whether the server calls a copy so that is downloaded, or one in the making: `.backup-UUID`, `..backup-UUID.partial-PID`.
fn is_copy(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('.') else { return false };
    let rest = rest.strip_prefix('.').unwrap_or(rest);
    let Some((uuid, end)) = rest.strip_prefix("backup-").and_then(|rest| rest.split_at_checked(UUID)) else {
        return false;
    };
    let is_uuid = uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uuid && (end.is_empty() || end.starts_with(".partial-") || SIDECARS.contains(&end))
}

/// A path with something appended to its last name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// What a file is called until it is whole.
fn unfinished(path: &Path) -> PathBuf {
    beside(path, ".unfinished")
}

/// What the file is, links not followed; `None`: there is none.
pub(crate) fn metadata(path: &Path) -> Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("cannot look at", path, &error)),
    }
}

pub(crate) fn id(metadata: &Metadata) -> StoreFileId {
    (metadata.dev(), metadata.ino())
}

/// Opens a file for reading and writing, made where there is none; a link is not followed.
pub(crate) fn open_or_make(path: &Path, owner: FileOwner) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.at("cannot open", path),
    }
    match make(path, owner) {
        // Another process was first.
        Err(_) if path.exists() => options.open(path).at("cannot open", path),
        made => made,
    }
}

/// Makes a file that only its owner may read. Where root makes it, it belongs to `owner`: the service must read it.
pub(crate) fn make(path: &Path, owner: FileOwner) -> Result<File> {
    let cannot = |error: io::Error| Error::io("cannot make", path, &error);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path).map_err(cannot)?;
    let made = file.set_permissions(std::fs::Permissions::from_mode(FILE_MODE)).and_then(|()| {
        let is_root = rustix::process::geteuid().is_root();
        if is_root { std::os::unix::fs::fchown(&file, Some(owner.0), Some(owner.1)) } else { Ok(()) }
    });
    if let Err(error) = made {
        remove(path)?;
        return Err(cannot(error));
    }
    Ok(file)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).at("cannot set the mode of", path)
}

/// What the first bytes of a database say.
pub(crate) struct DatabaseHeader {
    has_log: bool,
    generation: i32,
}

/// Refuses what does not begin as a database of ours, without changing it. Not while this process has it open: closing the
/// file would end SQLite's locks on it.
pub(crate) fn check_header(path: &Path) -> Result<DatabaseHeader> {
    let file = open_for_reading(path)?;
    let mut header = [0; HEADER];
    let is_long_enough = match file.read_exact_at(&mut header, 0) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
        Err(error) => return Err(Error::io("cannot read", path, &error)),
    };
    let number = |at: usize| header.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, i32::from_be_bytes);
    if is_long_enough && header.starts_with(b"SQLite format 3\0") && number(APPLICATION_ID_AT) == APPLICATION_ID {
        let has_log = header.get(WRITTEN_BY_AT) == Some(&2);
        return Ok(DatabaseHeader { has_log, generation: number(GENERATION_AT) });
    }
    Err(Error::Foreign(format!(
        "{} is not a database of teleport-fleet, or its beginning is damaged; it was left as it is: move it away, or restore \
         a backup with `teleport-fleet restore --force`",
        path.display()
    )))
}

/// Puts a small file in the place of the one that has its name, if there is one: at any time one of both is there, whole. A power cut
/// may bring back the one before, unless [`sync`] follows.
pub(crate) fn replace(path: &Path, bytes: &[u8], owner: FileOwner) -> Result<()> {
    let unfinished = unfinished(path);
    remove(&unfinished)?;
    let mut file = make(&unfinished, owner)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.at("cannot write", &unfinished)?;
    rename(&unfinished, path)
}

/// Opens a file for reading; a link is not followed.
pub(crate) fn open_for_reading(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options.open(path).at("cannot open", path)
}

/// Copies a file that nobody writes into a new one, and syncs it.
pub(crate) fn copy(from: &Path, to: &Path, owner: FileOwner) -> Result<()> {
    let mut source = File::open(from).at("cannot read", from)?;
    let mut target = make(to, owner)?;
    let copied = io::copy(&mut source, &mut target).and_then(|_| target.sync_all());
    copied.at("cannot write", to)
}

/// Syncs a file that SQLite has closed, or the names in a directory.
pub(crate) fn sync(path: &Path) -> Result<()> {
    let cannot = |error: io::Error| Error::io("cannot sync", path, &error);
    File::open(path).and_then(|file| file.sync_all()).map_err(cannot)
}

/// Gives a file another name in its directory, over what has it.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    std::fs::rename(from, to).at("cannot rename to", to)
}

/// Gives a file another name; one that has that name stays, and is the error.
pub(crate) fn rename_to_free(from: &Path, to: &Path) -> Result<()> {
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // A file system that cannot do it at once: NFS, some of FUSE.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if metadata(to)?.is_none() => rename(from, to),
        Err(error) => Err(Error::io("cannot rename to", to, &io::Error::from(error))),
    }
}

/// Gives a file a second name.
pub(crate) fn link(from: &Path, to: &Path) -> Result<()> {
    std::fs::hard_link(from, to).at("cannot link", to)
}

/// Removes a name, if it is there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("cannot remove", path, &error)),
        _ => Ok(()),
    }
}

/// Removes a directory that nothing is in; one that has something in it stays.
pub(crate) fn remove_empty_dir(path: &Path) {
    let _ = std::fs::remove_dir(path);
}

/// Removes a database and what SQLite keeps beside it.
pub(crate) fn remove_database(path: &Path) -> Result<()> {
    for sidecar in SIDECARS {
        remove(&beside(path, sidecar))?;
    }
    remove(path)
}
