//! Random lives of a store, against a simple account of what it was given: decisions, crashes, new starts, backups, restores,
//! and a disk that goes back to what it had before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fleet_engine::record::HostRecord;
use fleet_engine::resource::Kind;
use fleet_engine::rollout::Rollout;
use fleet_engine::rollout_state::{HaltCause, RolloutState};
use fleet_store::{Change, EnrolmentChanges, Error, StoredResource, StoredToken, restore};
use fleet_wire::api::Role;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tempfile::TempDir;

use crate::support::{Bed, Loaded, OpenStore, book, host, load, record, second};

/// Lives in `make test`; `PROPTEST_CASES` for more.
const LIVES: u32 = 24;
/// Events of a life.
const EVENTS: usize = 24;
/// Names of resources and tokens, ids of requests, hosts: few, so that they meet.
const NAMES: [&str; 3] = ["a", "b", "c"];
const REQUESTS: [&str; 6] = ["r1", "r2", "r3", "r4", "r5", "r6"];
const HOSTS: u128 = 4;

/// What a change holds beside the revision.
#[derive(Debug, Clone)]
struct Decision {
    /// It was computed from an older, or a newer, revision.
    off_by: i64,
    /// A new rollout, a step of the present one, or no book.
    book: Step,
    resources: Vec<(&'static str, Option<u8>)>,
    tokens: Vec<(&'static str, Option<u8>)>,
    hosts: Vec<(u128, u8, bool)>,
    forgotten: Vec<u128>,
    arrivals: u64,
    records: Vec<bool>,
    request: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    None,
    New,
    Same(u64),
    Removed,
    Held,
    Released,
}

#[derive(Debug, Clone)]
enum Event {
    Decide(Decision),
    /// The process is killed; what the kernel has is there.
    Crash,
    /// It ends, and is started.
    Restart,
    /// After a fault.
    Reopen,
    Backup,
    Restore(Index, bool),
    /// Under the running store the disk has an older state.
    Lose(Index),
}

/// What a store was given.
#[derive(Debug, Clone, Default)]
struct Account {
    book: Option<RolloutState>,
    revision: u64,
    resources: BTreeMap<&'static str, (String, String)>,
    tokens: BTreeMap<&'static str, StoredToken>,
    hosts: Vec<HostRecord>,
    arrivals: u64,
    /// Action and subject of each record.
    records: Vec<(String, String)>,
    /// The number of the last record of a person.
    decided: u64,
    requests: BTreeMap<&'static str, String>,
    past: BTreeMap<u64, Rollout>,
    is_restored_held: bool,
}

impl Account {
    /// The book after a step.
    fn stepped(&self, step: Step) -> Option<RolloutState> {
        let mut present = self.book.clone().unwrap_or_default();
        match step {
            Step::None => return None,
            Step::New => {
                let holds = present.holds.clone();
                present = RolloutState { holds, ..book(present.number + 1) };
            }
            Step::Same(count) => {
                if let Some(rollout) = &mut present.rollout {
                    rollout.groups[0].let_go_count = count;
                }
            }
            Step::Removed => present.rollout = None,
            Step::Held => present.holds.hold("prod"),
            Step::Released => (present.holds.all, present.holds.groups) = (false, std::collections::BTreeSet::new()),
        }
        Some(present)
    }

    /// Whether the store must take it.
    fn takes(&self, decision: &Decision) -> bool {
        decision.off_by == 0 && decision.request.is_none_or(|id| !self.requests.contains_key(id))
    }

    fn take(&mut self, change: &Change<'_>, decision: &Decision) {
        if let Some(book) = change.book {
            let old = self.book.as_ref().and_then(|book| book.rollout.clone());
            let number = book.rollout.as_ref().map(|rollout| rollout.number);
            if let Some(old) = old.filter(|old| Some(old.number) != number) {
                self.past.insert(old.number, old);
            }
            self.is_restored_held &= book.holds.all;
            self.book = Some(book.clone());
        }
        self.revision += u64::from(change.book.is_some() || !change.resources.is_empty());
        for ((name, _), (_, _, document)) in decision.resources.iter().zip(&change.resources) {
            match document {
                Some(document) => drop(self.resources.insert(name, document.clone())),
                None => drop(self.resources.remove(name)),
            }
        }
        for ((name, _), (_, token)) in decision.tokens.iter().zip(&change.tokens) {
            match token {
                Some(token) => drop(self.tokens.insert(name, token.clone())),
                None => drop(self.tokens.remove(name)),
            }
        }
        self.hosts.retain(|host| !change.forgotten.contains(&host.id));
        self.put_hosts(&change.hosts);
        self.arrivals = self.arrivals.max(change.arrivals);
        for record in &change.records {
            self.records.push((record.action.clone(), record.subject.clone()));
            if record.who != "engine" {
                self.decided = self.records.len() as u64;
            }
        }
        if let (Some(id), Some((_, outcome))) = (decision.request, &change.request) {
            self.requests.insert(id, outcome.clone());
        }
    }

    fn put_hosts(&mut self, hosts: &[HostRecord]) {
        for host in hosts {
            match self.hosts.iter_mut().find(|known| known.id == host.id) {
                Some(known) => *known = host.clone(),
                None => self.hosts.push(host.clone()),
            }
        }
    }

    /// Whether a restore of `backup` over this needs `--force`.
    fn is_newer_than(&self, backup: &Self) -> bool {
        let number = |account: &Self| account.book.as_ref().map_or(0, |book| book.number);
        number(self) > number(backup) || self.decided > backup.decided
    }

    /// What `backup` is in the place of this.
    fn replaced_by(&self, backup: &Self) -> Self {
        let mut new = backup.clone();
        let mut book = backup.book.clone().unwrap_or_default();
        book.holds.all = true;
        book.holds.cause = HaltCause::Restore;
        book.lose_numbers(self.book.as_ref().map(RolloutState::given).or(Some(0)));
        book.holds.released.clear();
        book.holds.groups.extend(self.book.iter().flat_map(|book| book.holds.groups.clone()));
        new.book = Some(book);
        new.revision = self.revision.max(backup.revision) + 1;
        new.tokens.clear();
        let held: Vec<HostRecord> = self.hosts.iter().filter(|host| host.flags.held).cloned().collect();
        new.put_hosts(&held);
        new.arrivals = self.arrivals.max(backup.arrivals);
        new.records.push(("restore".to_owned(), "store".to_owned()));
        new.decided = new.records.len() as u64;
        new.is_restored_held = true;
        new
    }

    /// A store has all of this, and nothing else.
    fn assert_is(&self, store: &mut OpenStore) {
        let Loaded { state, hosts, .. } = load(&mut **store).unwrap();
        assert_eq!(state.book, self.book);
        assert_eq!((state.revision, store.revision().unwrap()), (self.revision, self.revision));
        let resource = |(name, (revision, yaml)): (&&str, &(String, String))| StoredResource {
            kind: Kind::Channel,
            name: (*name).to_owned(),
            revision: revision.clone(),
            yaml: yaml.clone(),
        };
        assert_eq!(state.resources, self.resources.iter().map(resource).collect::<Vec<_>>());
        assert_eq!(state.tokens, self.tokens.values().cloned().collect::<Vec<_>>());
        assert_eq!(hosts, self.hosts);
        assert_eq!((state.arrivals, state.is_restored_held), (self.arrivals, self.is_restored_held));
        let entries = store.audit(0, 10_000).unwrap();
        let records: Vec<_> = entries.iter().map(|entry| (entry.action.clone(), entry.subject.clone())).collect();
        assert_eq!(records, self.records);
        let verified = store.verify(None).unwrap();
        assert_eq!((verified.fault, verified.records), (None, self.records.len() as u64));
        assert_eq!(Some(verified.head.seq), entries.last().map(|entry| entry.seq).or(Some(0)));
        for id in REQUESTS {
            assert_eq!(store.outcome(id).unwrap().as_ref(), self.requests.get(id), "{id}");
        }
        let past: Vec<_> = self.past.values().rev().cloned().collect();
        assert_eq!(store.rollouts(None, 1000).unwrap(), past);
    }
}

/// A store, its account, and what was kept of earlier times.
struct Life {
    bed: Bed,
    store: Option<OpenStore>,
    account: Account,
    /// Backups, with what they hold.
    backups: Vec<(PathBuf, Account)>,
    /// States of the disk, with what they hold.
    earlier: Vec<(TempDir, Account)>,
    /// How many changes were tried: each is told from every other one.
    tried: u64,
}

impl Life {
    fn new() -> Self {
        let bed = Bed::new();
        let store = Some(bed.open());
        let account = Account::default();
        Self { bed, store, account, backups: Vec::new(), earlier: Vec::new(), tried: 0 }
    }

    fn store(&mut self) -> &mut OpenStore {
        self.store.as_mut().unwrap()
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Decide(decision) => self.decide(&decision),
            Event::Crash => {
                let dir = self.of_kernel();
                self.store = None;
                std::fs::remove_dir_all(self.bed.data()).unwrap();
                copy(dir.path(), &self.bed.data());
                self.store = Some(self.bed.open());
            }
            Event::Restart => {
                self.store = None;
                self.store = Some(self.bed.open());
            }
            Event::Reopen => self.store().reopen().unwrap(),
            Event::Backup => {
                let to = self.bed.dir.path().join(format!("backup-{}", self.backups.len()));
                self.store().backup(&to).unwrap();
                self.backups.push((to, self.account.clone()));
                self.earlier.push((self.of_kernel(), self.account.clone()));
            }
            Event::Restore(index, force) => self.restore(&index, force),
            Event::Lose(index) => self.lose(&index),
        }
        let Self { store, account, .. } = self;
        account.assert_is(store.as_mut().unwrap());
    }

    fn decide(&mut self, decision: &Decision) {
        self.tried += 1;
        let (tried, account) = (self.tried, &self.account);
        let book = account.stepped(decision.book);
        let resource = |(name, value): &(&str, Option<u8>)| {
            let document = value.map(|value| (format!("{tried}-{value}"), format!("yaml of {tried}-{value}")));
            (Kind::Channel, (*name).to_owned(), document)
        };
        let token = |(name, value): &(&str, Option<u8>)| {
            let token = value.map(|value| StoredToken {
                name: (*name).to_owned(),
                digest: format!("{tried}-{name}"),
                role: Role::ALL[usize::from(value) % 3],
                created: second(i64::from(value)),
                expires: (value % 2 == 0).then(|| second(1_800_000_000)),
            });
            ((*name).to_owned(), token)
        };
        let made = |(id, version, is_held): &(u128, u8, bool)| {
            let mut made = host(*id, &format!("{version}.0.0"));
            made.flags.held = *is_held;
            made
        };
        let written = |is_engine: &bool| {
            let mut written = record(&tried.to_string());
            if *is_engine {
                written.who = "engine".to_owned();
            }
            written
        };
        let change = Change {
            enrolments: EnrolmentChanges::default(),
            expected: account.revision.saturating_add_signed(decision.off_by),
            book: book.as_ref(),
            resources: decision.resources.iter().map(resource).collect(),
            tokens: decision.tokens.iter().map(token).collect(),
            hosts: decision.hosts.iter().map(made).collect(),
            forgotten: decision.forgotten.clone(),
            arrivals: decision.arrivals,
            records: decision.records.iter().map(written).collect(),
            request: decision.request.map(|id| (id.to_owned(), format!("outcome of {tried}"))),
        };
        // From revision 0 nothing is older.
        let is_off = change.expected != account.revision;
        let decision = &Decision { off_by: i64::from(is_off), ..decision.clone() };
        let committed = self.store.as_mut().unwrap().commit(&change);
        if self.account.takes(decision) {
            let before = self.account.records.len() as u64;
            self.account.take(&change, decision);
            let committed = committed.unwrap();
            assert_eq!(committed.revision, self.account.revision);
            let numbers: Vec<u64> = committed.entries.iter().map(|entry| entry.seq).collect();
            assert_eq!(numbers, (before + 1..=self.account.records.len() as u64).collect::<Vec<_>>());
        } else {
            assert!(matches!(committed, Err(Error::Mismatch(_))), "{committed:?}");
        }
    }

    fn restore(&mut self, index: &Index, force: bool) {
        if self.backups.is_empty() {
            return;
        }
        let (from, backup) = index.get(&self.backups).clone();
        let data = self.bed.data();
        assert!(matches!(restore(&from, &data, force), Err(Error::Locked(_))), "under the running server");
        let epoch = self.store().load().unwrap().epoch;
        self.store = None;
        let restored = restore(&from, &data, force);
        if force || !self.account.is_newer_than(&backup) {
            self.account = self.account.replaced_by(&backup);
            let restored = restored.unwrap();
            assert_eq!(restored.revision, self.account.revision);
            assert_eq!(restored.hosts, self.account.hosts.len() as u64);
            self.store = Some(self.bed.open());
            assert_ne!(self.store().load().unwrap().epoch, epoch);
        } else {
            assert!(matches!(restored, Err(Error::Refused(_))), "{restored:?}");
            self.store = Some(self.bed.open());
        }
    }

    /// The server goes on and knows more than the disk: nothing is written before it has looked.
    fn lose(&mut self, index: &Index) {
        if self.earlier.is_empty() {
            return;
        }
        let known = self.account.revision;
        let (_, account) = index.get(&self.earlier);
        let account = account.clone();
        self.store = None;
        std::fs::remove_dir_all(self.bed.data()).unwrap();
        copy(index.get(&self.earlier).0.path(), &self.bed.data());
        self.store = Some(self.bed.open());
        self.account = account;
        if self.account.revision < known {
            assert!(self.store().revision().unwrap() < known, "a lower revision than one that was seen is noticed");
            let change = Change {
                enrolments: EnrolmentChanges::default(),
                expected: known,
                records: vec![record("lost")],
                ..Change::default()
            };
            assert!(matches!(self.store().commit(&change), Err(Error::Mismatch(_))));
        }
    }

    /// What a killed process leaves.
    fn of_kernel(&self) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        copy(&self.bed.data(), dir.path());
        dir
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in from.read_dir().unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn decision() -> impl Strategy<Value = Decision> {
    let step = prop_oneof![
        3 => Just(Step::None),
        2 => Just(Step::New),
        2 => (0_u64..9).prop_map(Step::Same),
        1 => Just(Step::Removed),
        1 => Just(Step::Held),
        1 => Just(Step::Released),
    ];
    let named = || proptest::collection::btree_map(select(&NAMES[..]), proptest::option::of(any::<u8>()), 0..3);
    let hosts = proptest::collection::btree_map(1..=HOSTS, (any::<u8>(), any::<bool>()), 0..3);
    let forgotten = proptest::collection::vec(1..=HOSTS, 0..2);
    (
        prop_oneof![8 => Just(0), 1 => Just(-1), 1 => Just(1)],
        step,
        (named(), named()),
        (hosts, forgotten, 0_u64..50),
        proptest::collection::vec(any::<bool>(), 0..3),
        proptest::option::of(select(&REQUESTS[..])),
    )
        .prop_map(|(off_by, book, (resources, tokens), (hosts, forgotten, arrivals), records, request)| Decision {
            off_by,
            book,
            resources: resources.into_iter().collect(),
            tokens: tokens.into_iter().collect(),
            hosts: hosts.into_iter().map(|(id, (version, is_held))| (id, version, is_held)).collect(),
            forgotten,
            arrivals,
            records,
            request,
        })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => decision().prop_map(Event::Decide),
        2 => Just(Event::Crash),
        1 => Just(Event::Restart),
        1 => Just(Event::Reopen),
        2 => Just(Event::Backup),
        2 => (any::<Index>(), any::<bool>()).prop_map(|(index, force)| Event::Restore(index, force)),
        1 => any::<Index>().prop_map(Event::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn a_store_has_what_it_was_given_whatever_happens_to_it(events in proptest::collection::vec(event(), 1..EVENTS)) {
        let mut life = Life::new();
        for event in events {
            life.happen(event);
        }
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(LIVES)
}
