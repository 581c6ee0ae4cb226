//! What every host is told, as of the last decision that the store has: questions are answered from it without a lock and
//! without the store (FLEET.md §4).
//!
//! The core publishes; whoever asks reads. A host has one word: the generation of a table, and the answer in it. Whoever meets a
//! word of another generation than its table's takes the table before.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use arc_swap::{ArcSwap, ArcSwapOption};
use fleet_answers::find::{self, Cluster, Tools};
use fleet_answers::graph::Catalogue;
use fleet_engine::answer::{Answer, Question};
use fleet_engine::book::Book;
use fleet_engine::host::HostId;
use fleet_engine::shelf::Shelf;
use jiff::Timestamp;

/// How long an answer is good after the store last confirmed it, seconds (FLEET.md §4).
const GOOD_FOR: i64 = 30;
/// Between two times that the core is told of the same host's questions, seconds. Silence begins after three report intervals of
/// 15 minutes; a question comes every ten.
const TELL_EVERY: u32 = 60;

/// A question that the core should know of.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    /// Who asked.
    pub(crate) question: Question,
    /// When.
    pub(crate) at: Timestamp,
    /// It was told to update.
    pub(crate) was_told: bool,
}

/// What the answers rest on that are not a host's own.
pub(crate) struct Public {
    /// What is wanted, and the rollout.
    pub(crate) book: Book,
    /// The resources.
    pub(crate) shelf: Shelf,
    /// What is said of the cluster.
    pub(crate) cluster: Cluster,
    /// The releases.
    pub(crate) catalogue: Catalogue,
}

/// What every host is told.
pub(crate) struct Board {
    /// What is said of the cluster, as the configuration has it.
    cluster: Cluster,
    public: ArcSwap<Public>,
    table: ArcSwapOption<Table>,
    hosts: ArcSwap<Hosts>,
    confirmed: AtomicI64,
    heard: SyncSender<Heard>,
    lost: AtomicU64,
}

/// The answers of one decision.
pub(crate) struct Table {
    /// Counted by decisions.
    pub(crate) generation: u32,
    /// The answers that hosts' words point to.
    pub(crate) answers: Vec<Answer>,
    /// For hosts that are not known, by the group that they declare.
    pub(crate) unknown: HashMap<String, usize>,
    /// For those that declare none of these groups.
    pub(crate) elsewhere: usize,
    /// The table of the decision before.
    pub(crate) before: Option<Arc<Table>>,
}

/// The hosts that are known.
#[derive(Default, Clone)]
pub(crate) struct Hosts {
    /// By UUID.
    pub(crate) by_id: HashMap<HostId, Arc<Slot>>,
    /// By the id of the updater.
    pub(crate) by_update_id: HashMap<u128, Arc<Slot>>,
}

/// A host's word, and when the core was last told of it.
#[derive(Default)]
pub(crate) struct Slot {
    word: AtomicU64,
    heard: AtomicU32,
    asked: AtomicU64,
}

impl Public {
    fn of(book: Book, shelf: Shelf, cluster: &Cluster) -> Self {
        let cluster = Cluster { tools: Tools::of(&shelf), ..cluster.clone() };
        Self { cluster, catalogue: Catalogue::of(&shelf), book, shelf }
    }
}

impl Slot {
    pub(crate) fn set(&self, generation: u32, answer: usize) {
        let answer = u64::try_from(answer).unwrap_or(u64::from(u32::MAX)) & u64::from(u32::MAX);
        self.word.store(u64::from(generation) << 32 | answer, Ordering::Release);
    }
}

/// An answer to a question.
pub(crate) struct Told {
    table: Arc<Table>,
    index: usize,
    /// The store has not confirmed it of late.
    is_stale: bool,
}

impl Told {
    /// The answer as decided.
    fn decided(&self) -> Option<&Answer> {
        self.table.answers.get(self.index)
    }

    /// The answer. One that the store has not confirmed since `confirmed` lets nobody go.
    pub(crate) fn answer(&self, confirmed: Timestamp) -> Option<Cow<'_, Answer>> {
        let decided = self.decided()?;
        Some(if self.is_stale { Cow::Owned(find::stale(decided.clone(), confirmed)) } else { Cow::Borrowed(decided) })
    }
}

impl Board {
    /// A board that says nothing yet. What the core should know goes to `heard`.
    pub(crate) fn new(heard: SyncSender<Heard>, cluster: Cluster) -> Self {
        Self {
            public: ArcSwap::from_pointee(Public::of(Book::default(), Shelf::default(), &cluster)),
            cluster,
            table: ArcSwapOption::empty(),
            hosts: ArcSwap::default(),
            confirmed: AtomicI64::new(i64::MIN),
            heard,
            lost: AtomicU64::new(0),
        }
    }

    /// Answers `question`; `None` where no rollout ever named a version.
    pub(crate) fn ask(&self, question: &Question, now: Timestamp) -> Option<Told> {
        let table = self.table.load_full()?;
        let hosts = self.hosts.load();
        let known = question.host.and_then(|id| hosts.by_id.get(&id));
        let known = known.or_else(|| hosts.by_update_id.get(&question.update_id).filter(|_| question.update_id != 0));
        let found = known.and_then(|slot| find(&table, slot.word.load(Ordering::Acquire)));
        let (table, index) = found.unwrap_or_else(|| {
            let index = table.unknown.get(question.group.as_str()).copied().unwrap_or(table.elsewhere);
            (table, index)
        });
        let is_stale = !self.is_good(now);
        let told = Told { table, index, is_stale };
        let is_update = !is_stale && told.decided().is_some_and(|answer| answer.update);
        self.tell(known, question, is_update, now);
        Some(told)
    }

    /// Whether the store has confirmed what is answered within the last half minute.
    pub(crate) fn is_good(&self, now: Timestamp) -> bool {
        now.as_second().saturating_sub(self.confirmed.load(Ordering::Relaxed)) <= GOOD_FOR
    }

    /// The store has what is answered, at `now`.
    pub(crate) fn confirm(&self, now: Timestamp) {
        self.confirmed.store(now.as_second(), Ordering::Relaxed);
    }

    /// Questions that the core could not be told of, because it was busy. They only make a wait longer.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// What is answered from now on; `None`: that there is no rollout.
    pub(crate) fn publish(&self, table: Option<Table>) {
        self.table.store(table.map(Arc::new));
    }

    /// What answers rest on that are not a host's own.
    pub(crate) fn public(&self) -> Arc<Public> {
        self.public.load_full()
    }

    /// Other resources, or another rollout, are answered from from now on.
    pub(crate) fn set_public(&self, book: Book, shelf: Shelf) {
        self.public.store(Arc::new(Public::of(book, shelf, &self.cluster)));
    }

    /// When the store last confirmed what is answered.
    pub(crate) fn confirmed(&self) -> Timestamp {
        Timestamp::from_second(self.confirmed.load(Ordering::Relaxed)).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// The table that is answered from.
    pub(crate) fn table(&self) -> Option<Arc<Table>> {
        self.table.load_full()
    }

    /// The hosts that are known.
    pub(crate) fn hosts(&self) -> Arc<Hosts> {
        self.hosts.load_full()
    }

    /// Other hosts are known from now on.
    pub(crate) fn set_hosts(&self, hosts: Hosts) {
        self.hosts.store(Arc::new(hosts));
    }

    /// Tells the core who asked: each host once a minute, and whenever it is another question or another answer than the last.
    fn tell(&self, slot: Option<&Arc<Slot>>, question: &Question, was_told: bool, now: Timestamp) {
        if question.host.is_none() && question.update_id == 0 {
            return;
        }
        if let Some(slot) = slot {
            let second = u32::try_from(now.as_second()).unwrap_or(0);
            let asked = fingerprint(question, was_told);
            let is_same = slot.asked.swap(asked, Ordering::Relaxed) == asked;
            let is_recent = second.saturating_sub(slot.heard.load(Ordering::Relaxed)) < TELL_EVERY;
            if is_same && is_recent {
                return;
            }
            slot.heard.store(second, Ordering::Relaxed);
        }
        if self.heard.try_send(Heard { question: question.clone(), at: now, was_told }).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            if let Some(slot) = slot {
                // Its next question tells.
                slot.heard.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// The answer of a word, from the table of its generation.
fn find(table: &Arc<Table>, word: u64) -> Option<(Arc<Table>, usize)> {
    let generation = u32::try_from(word >> 32).ok()?;
    let index = usize::try_from(word & u64::from(u32::MAX)).ok()?;
    let table = if table.generation == generation { Some(table) } else { table.before.as_ref() };
    let table = table.filter(|table| table.generation == generation && index < table.answers.len())?;
    Some((Arc::clone(table), index))
}

/// Tells two questions of a host apart, and whether it was told to update.
fn fingerprint(question: &Question, was_told: bool) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    (question.host, &question.group, question.update_id, was_told).hash(&mut hash);
    hash.finish().max(1)
}
