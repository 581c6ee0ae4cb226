//! Books, hosts, records and stores to test with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fleet_engine::fleet::{Fleet, HostChange as Last, HostReport};
use fleet_engine::host::Outcome;
use fleet_engine::policy::{Mode, Policy, RolloutTarget, Schedule};
use fleet_engine::record::HostRecord;
use fleet_engine::rollout::{Canary, Cursor, Rollout};
use fleet_engine::rollout_state::RolloutState;
use fleet_store::{Change, EnrolledKey, HostSink, Result, Store, StorePlace, StoreReader, StoreState};
use fleet_wire::api::AuditEntry;
use fleet_wire::api::Verified;
use jiff::Timestamp;
use serde_json::json;
use tempfile::TempDir;

/// A store in a new directory, which goes with it.
pub struct Bed {
    pub dir: TempDir,
    /// The address of a PostgreSQL database, where it is in one.
    url: Option<String>,
    /// How it is opened; `None`: as it is.
    pub opens: Option<Opens>,
}

/// Opens a store.
type Opens = Box<dyn Fn(&Bed) -> OpenStore>;

impl Bed {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), url: None, opens: None }
    }

    /// A store in this PostgreSQL database; the directory has what the host notes.
    pub fn at(url: String) -> Self {
        Self { url: Some(url), ..Self::new() }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn database(&self) -> PathBuf {
        self.data().join("fleet.db")
    }

    pub fn place(&self) -> StorePlace {
        StorePlace::new(&self.data(), self.url.as_deref()).unwrap()
    }

    pub fn open(&self) -> OpenStore {
        self.opens.as_ref().map_or_else(|| OpenStore::open(&self.place()).unwrap(), |opens| opens(self))
    }

    /// A backup as it was when it was made: without its mark, by which it would come up held.
    pub fn open_copy(&self, backup: &Path) -> OpenStore {
        std::fs::create_dir(self.data()).unwrap();
        std::fs::copy(backup, self.database()).unwrap();
        let raw = self.raw();
        assert_eq!(raw.execute("UPDATE store SET is_backup = 0 WHERE is_backup = 1", []).unwrap(), 1);
        raw.close().unwrap();
        self.open()
    }

    /// The database by SQLite alone, as somebody with a shell has it. Only while no store is open.
    pub fn raw(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.database()).unwrap()
    }
}

/// Everything that a store keeps.
#[derive(Debug, Default, PartialEq)]
pub struct Loaded {
    pub state: StoreState,
    pub expected: (usize, usize),
    pub keys: Vec<EnrolledKey>,
    pub hosts: Vec<HostRecord>,
    pub arrivals: u64,
}

impl HostSink for Loaded {
    fn expect(&mut self, keys: usize, hosts: usize) {
        self.expected = (keys, hosts);
    }

    fn take_key(&mut self, key: EnrolledKey) {
        self.keys.push(key);
    }

    fn take_host(&mut self, host: HostRecord, arrivals: u64) {
        self.hosts.push(host);
        self.arrivals = arrivals;
    }
}

/// Everything that `store` keeps.
pub fn load(store: &mut dyn Store) -> Result<Loaded> {
    let mut all = Loaded::default();
    all.state = store.load_with(&mut all)?;
    Ok(all)
}

/// An open store, and what reads beside it.
#[derive(Debug)]
pub struct OpenStore {
    pub store: Box<dyn Store>,
    pub place: StorePlace,
}

impl OpenStore {
    pub fn open(place: &StorePlace) -> Result<Self> {
        Ok(Self { store: place.open()?, place: place.clone() })
    }

    /// Of SQLite.
    pub fn at(dir: &Path) -> Result<Self> {
        Self::open(&StorePlace::from(dir))
    }

    pub fn load(&mut self) -> Result<StoreState> {
        load(&mut **self).map(|all| all.state)
    }

    pub fn reader(&self) -> Result<StoreReader> {
        StoreReader::open(&self.place)
    }

    pub fn audit(&self, after: u64, limit: u32) -> Result<Vec<AuditEntry>> {
        self.reader()?.audit(after, limit)
    }

    pub fn verify(&self, head: Option<&str>) -> Result<Verified> {
        self.reader()?.verify(head)
    }

    pub fn rollouts(&self, before: Option<u64>, limit: u32) -> Result<Vec<Rollout>> {
        self.reader()?.rollouts(before, limit)
    }

    pub fn backup(&self, to: &Path) -> Result<()> {
        fleet_store::backup(self.place.dir(), to)
    }
}

impl std::ops::Deref for OpenStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

impl std::ops::DerefMut for OpenStore {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.store
    }
}

pub fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A book in the middle of a rollout, with the largest numbers that it may hold.
pub fn book(number: u64) -> RolloutState {
    let mut book =
        RolloutState { policy: Some(Policy::absent()), seed: u64::MAX, number: number - 1, ..RolloutState::default() };
    book.target = Some(RolloutTarget {
        start: "1.2.3".parse().unwrap(),
        target: "1.2.4".parse().unwrap(),
        schedule: Schedule::Regular,
        mode: Mode::Enabled,
    });
    book.step(&mut Fleet::default(), second(1_700_000_000));
    let rollout = book.rollout.as_mut().unwrap();
    rollout.id = u128::MAX;
    let group = &mut rollout.groups[0];
    group.canaries = vec![Canary { updater_id: u128::MAX, host_id: u128::MAX - 1, success: true, let_go: true }];
    group.cursor = Some(Cursor { key: u64::MAX, id: u128::MAX });
    book
}

/// A host with everything that a host can have; `id` is also its updater's.
pub fn host(id: u128, version: &str) -> HostRecord {
    let mut fleet = Fleet::default();
    let label = |number: u32| (format!("label-{number}"), format!("value-{number}"));
    let report = HostReport {
        host: id,
        update_id: id,
        group: Some("prod".to_owned()),
        version: Some(version.to_owned()),
        labels: Some((0..8).map(label).collect::<BTreeMap<_, _>>()),
        pinned: Some(true),
        disabled: Some(false),
        last: Some(Last { outcome: Outcome::RolledBack, to: "1.3.0".to_owned(), code: "unhealthy".to_owned() }),
        ..HostReport::default()
    };
    fleet.report(&report, None, second(1_700_000_000));
    fleet.record(id).unwrap()
}

pub fn record(subject: &str) -> AuditEntry {
    AuditEntry {
        at: "2026-11-23T07:00:00.5Z".parse().unwrap(),
        who: "uid 0 (root)".to_owned(),
        from: "admin socket".to_owned(),
        action: "halt".to_owned(),
        subject: subject.to_owned(),
        done: true,
        detail: json!({ "reason": "it is \"bad\"", "count": 3 }),
        before: "a".to_owned(),
        after: "b".to_owned(),
        ..AuditEntry::default()
    }
}

/// Commits a change that has only these records.
pub fn write_records(store: &mut OpenStore, subjects: &[&str]) -> Vec<fleet_wire::api::AuditEntry> {
    let expected = store.revision().unwrap();
    let records = subjects.iter().map(|subject| record(subject)).collect();
    store.commit(&Change { expected, records, ..Change::default() }).unwrap().entries
}

/// Commits this book.
pub fn write_book(store: &mut OpenStore, book: &RolloutState) -> u64 {
    let expected = store.revision().unwrap();
    store.commit(&Change { expected, book: Some(book), ..Change::default() }).unwrap().revision
}

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        dir.read_dir().unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// All files of a directory with their bytes.
pub fn bytes(dir: &Path) -> Vec<(String, Vec<u8>)> {
    names(dir).into_iter().map(|name| (name.clone(), std::fs::read(dir.join(name)).unwrap())).collect()
}

/// Bits of a seed, one after the other (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % bound
    }
}

/// The directory that a helper works on: a test that is ignored, and runs in a process of its own.
const HELPER_DIR: &str = "FLEET_STORE_TEST_DIR";

/// What a helper got as its directory; `None`: somebody runs it as a test.
pub fn helper_dir() -> Option<PathBuf> {
    std::env::var_os(HELPER_DIR).map(PathBuf::from)
}

/// This program, so that it runs the helper called `name` alone. What the helper writes to standard error comes through.
pub fn helper(before: &[&str], name: &str, dir: &Path) -> std::process::Command {
    let own = std::env::current_exe().unwrap();
    let words = before.iter().map(std::ffi::OsStr::new).chain([own.as_os_str()]);
    let words: Vec<&std::ffi::OsStr> = words.collect();
    let mut command = std::process::Command::new(words[0]);
    command.args(&words[1..]).args(["--ignored", "--exact", name, "--nocapture", "--test-threads=1"]);
    command.env(HELPER_DIR, dir).stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    command
}

/// Whether strace can stop programs here.
pub fn has_strace() -> bool {
    let run = std::process::Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    let has = run.is_ok_and(|status| status.success());
    if !has {
        eprintln!("skipped: strace does not work here");
    }
    has
}

/// A file system of its own, which ends with the value.
pub struct Tmpfs {
    pub dir: TempDir,
}

impl Tmpfs {
    /// Of so many KiB; `None`, and said: it cannot be mounted here.
    pub fn new(kib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = format!("size={kib}k");
        if Self::run(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs"], dir.path()) {
            return Some(Self { dir });
        }
        eprintln!("skipped: no file system can be mounted here");
        None
    }

    pub fn remount(&self, options: &str) {
        assert!(Self::run(&["mount", "-o", &format!("remount,{options}")], self.dir.path()));
    }

    fn run(words: &[&str], dir: &Path) -> bool {
        let run = std::process::Command::new(words[0]).args(&words[1..]).arg(dir).output();
        run.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        Self::run(&["umount", "-l"], self.dir.path());
    }
}
