//! An abstract host: what is on its disk, what runs, and a fuse that kills the updater.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::Digest;

use super::world::{Database, Nature, PROXIES, Rev};
use crate::config::Updates;
use crate::database::{Backup, Content};
use crate::plan::Node;
use crate::report::{Code, Error};
use crate::store::contents::UNIT;
use crate::store::{UNMANAGED, VersionDir};

/// The versions directory, as the host sees it.
pub(super) const VERSIONS_DIR: &str = "/v";
/// The link directory.
pub(super) const LINK_DIR: &str = "/bin";
/// The unit file.
pub(super) const UNIT_FILE: &str = "/units/teleport.service";
/// The link that enables it.
pub(super) const WANTS: &str = "/etc/systemd/system/multi-user.target.wants/teleport.service";

/// Why an act ended.
#[derive(Debug, Clone)]
pub(super) enum Stop {
    /// kill -9, or the power went.
    Killed,
    /// An error.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What an act gives.
pub(super) type Act<T = ()> = Result<T, Stop>;

/// A failure.
pub(super) fn fails<T>(code: Code, what: &str) -> Act<T> {
    Err(Stop::Failed(Error::new(code, what)))
}

/// A snapshot on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// Its description.
    pub backup: Backup,
    /// The bytes.
    pub database: Option<Database>,
    /// The bytes are what the description says.
    pub good: bool,
    /// The description can be read.
    pub described: bool,
}

/// A version on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    /// What it is.
    pub rev: Rev,
    /// How its agent behaves.
    pub nature: Nature,
    /// The marker is there.
    pub marker: bool,
    /// Sizes fit the manifest.
    pub sizes: bool,
    /// Bytes fit the manifest.
    pub bytes: bool,
    /// When it was unpacked.
    pub install_time: Timestamp,
    /// `backup/`.
    pub backup: Option<Kept>,
    /// `backup-failed/`.
    pub evidence: Option<Kept>,
}

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A link.
    Link(PathBuf),
    /// A file of somebody else, by number.
    Foreign(u32),
}

/// The host.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Its clock.
    pub now: Timestamp,
    /// Versions by directory.
    pub versions: BTreeMap<VersionDir, Version>,
    /// Links, units, what is kept in `.unmanaged`.
    pub files: BTreeMap<PathBuf, Entry>,
    /// The unit as systemd last read it.
    pub loaded: Option<Entry>,
    /// The live database.
    pub database: Option<Database>,
    /// What lies ready beside it.
    pub prepared: Option<Database>,
    /// The first snapshot, in `.unmanaged`.
    pub unmanaged: Option<Kept>,
    /// The directory that the agent's process runs from; `None`: no process.
    pub process: Option<VersionDir>,
    /// It ended by itself.
    pub failed: bool,
    /// There is a systemd; else the host is an image.
    pub systemd: bool,
    /// `updates.yaml`.
    pub updates: Updates,
    /// What the commit will put in its place.
    pub next: Option<Updates>,
    /// Where the real journal lies.
    pub journal_dir: PathBuf,
    /// Archives that can be downloaded.
    pub published: BTreeMap<Rev, Nature>,
    /// What the cluster names.
    pub wanted: Rev,
    /// Its window.
    pub window: bool,
    /// Mutations until the kill.
    pub fuse: Option<u32>,
    /// Mutations of this command.
    pub ticks: u32,
    /// The host as this command's recovery left it, before its own work.
    pub recovered: Option<Box<Host>>,
}

impl Host {
    /// A host without anything of ours.
    pub(super) fn new(journal_dir: &Path, systemd: bool, plain: bool) -> Self {
        let mut host = Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            versions: BTreeMap::new(),
            files: BTreeMap::new(),
            loaded: None,
            database: None,
            prepared: None,
            unmanaged: None,
            process: None,
            failed: false,
            systemd,
            updates: Updates::empty(&journal_dir.join("updates.yaml")),
            next: None,
            journal_dir: journal_dir.to_owned(),
            published: BTreeMap::new(),
            wanted: Rev { at: 0, enterprise: false },
            window: true,
            fuse: None,
            ticks: 0,
            recovered: None,
        };
        let mut spec = host.updates.spec().clone();
        spec.proxy = Some(PROXIES[0].to_owned());
        host.updates.set_spec(&spec);
        if plain {
            host.files.insert(Path::new(LINK_DIR).join("teleport"), Entry::Foreign(1));
            host.files.insert(Path::new(LINK_DIR).join("tbot"), Entry::Foreign(2));
            host.files.insert(UNIT_FILE.into(), Entry::Foreign(3));
            host.loaded = Some(Entry::Foreign(3));
            host.database = Some(Database { schema: 1, rows: [0].into() });
        }
        host
    }

    /// Begins a command that is killed after so many mutations.
    pub(super) fn arm(&mut self, kill: Option<u32>) {
        (self.fuse, self.ticks, self.recovered) = (kill, 0, None);
    }

    /// One mutation: the fuse may end here.
    pub(super) fn tick(&mut self) -> Act {
        self.ticks += 1;
        match &mut self.fuse {
            Some(0) => Err(Stop::Killed),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The directory that a link leads to.
    pub(super) fn dir_of(target: &Path) -> Option<VersionDir> {
        VersionDir::of_path(target, Path::new(VERSIONS_DIR))
    }

    /// The directory that the name at `path` leads to.
    pub(super) fn link_dir_of(&self, path: &Path) -> Option<VersionDir> {
        match self.files.get(path)? {
            Entry::Link(target) => Self::dir_of(target),
            Entry::Foreign(_) => None,
        }
    }

    /// The directory that the agent's link leads to.
    pub(super) fn linked(&self) -> Option<VersionDir> {
        self.link_dir_of(&Path::new(LINK_DIR).join("teleport"))
    }

    /// The revision that the agent's link leads to.
    pub(super) fn active(&self) -> Option<Rev> {
        Some(self.versions.get(&self.linked()?)?.rev)
    }

    /// The agent starts at boot.
    pub(super) fn enabled(&self) -> bool {
        self.files.contains_key(Path::new(WANTS))
    }

    /// The directory that holds `rev`.
    pub(super) fn dir(&self, rev: Rev) -> Option<&VersionDir> {
        self.versions.iter().find(|(_, version)| version.rev == rev).map(|(dir, _)| dir)
    }

    /// Starts the agent as its link says.
    pub(super) fn start(&mut self) {
        let Some(dir) = self.linked() else { return };
        self.process = None;
        self.failed = !self.lives(&dir);
        if !self.failed {
            self.process = Some(dir);
        }
    }

    /// SIGHUP: the new version starts as a child; if it dies the parent lives on.
    pub(super) fn reload(&mut self) {
        let Some(dir) = self.linked() else { return };
        if self.lives(&dir) {
            self.process = Some(dir);
        }
    }

    /// The power came back: the agent starts if it is to.
    pub(super) fn power_on(&mut self) {
        self.process = None;
        self.failed = false;
        self.loaded = self.files.get(Path::new(UNIT_FILE)).cloned();
        if self.systemd && self.enabled() {
            self.start();
        }
    }

    /// Whether the version in `dir` comes up; it migrates the database on its way.
    fn lives(&mut self, dir: &VersionDir) -> bool {
        let Some(version) = self.versions.get(dir) else { return false };
        if version.nature == Nature::Dies {
            return false;
        }
        let schema = version.rev.schema();
        match &mut self.database {
            Some(database) if database.schema > schema => return false,
            Some(database) => database.schema = schema,
            None => self.database = Some(Database { schema, rows: Default::default() }),
        }
        version.nature != Nature::MigratesAndDies
    }

    /// A copy of the live database as `rev` leaves it.
    pub(super) fn copy(&self, rev: Rev, proxy: &str, failed: bool) -> Kept {
        let revision = rev.revision();
        let content = match &self.database {
            Some(database) => Content::Database { size: Some(1), sha256: Some(identity(database)) },
            None => Content::Absent,
        };
        let backup = Backup {
            proxy: proxy.to_owned(),
            version: revision.version,
            edition: Some(revision.edition),
            creation_time: self.now,
            content,
            host: None,
            failed,
        };
        Kept { backup, database: self.database.clone(), good: true, described: true }
    }
}

/// The unit's link target in a version.
pub(super) fn unit_of(dir: &VersionDir) -> PathBuf {
    Path::new(VERSIONS_DIR).join(dir).join(UNIT)
}

/// As a plan names what stands there.
pub(super) fn node_of(entry: Option<&Entry>, name: &str) -> Node {
    match entry {
        None => Node::Absent,
        Some(Entry::Link(target)) => Node::Link(target.clone()),
        Some(Entry::Foreign(_)) => Node::Kept(Path::new(VERSIONS_DIR).join(UNMANAGED).join(name)),
    }
}

/// A digest of what a database holds.
fn identity(database: &Database) -> Digest {
    Digest::of(format!("{database:?}").as_bytes())
}
