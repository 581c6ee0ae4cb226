//! The answers of a decision, and for each host the word that leads to its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use fleet_engine::answer::{HostAnswer, Question};
use fleet_engine::host::HostId;
use protocol::report::Key;

/// The answers of one decision.
#[derive(Clone)]
pub(crate) struct AnswerTable {
    /// Counted by decisions.
    pub(crate) generation: u32,
    /// The answers that hosts' words point to.
    pub(crate) answers: Vec<HostAnswer>,
    /// For hosts that are not known, by the group that they declare.
    pub(crate) unknown: HashMap<String, usize>,
    /// For those that declare none of these groups.
    pub(crate) elsewhere: usize,
    /// The table of the decision before.
    pub(crate) before: Option<Arc<AnswerTable>>,
}

/// The hosts that are known.
#[derive(Default, Clone)]
pub(crate) struct HostTable {
    /// By UUID.
    pub(crate) by_id: HashMap<HostId, Arc<Slot>>,
    /// By the id of the updater.
    pub(crate) by_update_id: HashMap<u128, Arc<Slot>>,
}

/// A host's word, and when the core was last told of it.
#[derive(Default)]
pub(crate) struct Slot {
    pub(super) word: AtomicU64,
    pub(super) heard: AtomicU32,
    pub(super) asked: AtomicU64,
    /// [`name_of`] the group that it is known to declare.
    pub(super) declared: AtomicU64,
    /// It reports, an operator assigned it, or it was told to update: what a question says of its group does not count.
    is_bound: AtomicBool,
    /// The first bytes of its key; 0: it has none.
    pub(super) key: AtomicU64,
}

impl Slot {
    /// What is known of the host.
    pub(crate) fn know(&self, declared: u64, is_bound: bool) {
        self.declared.store(declared, Ordering::Relaxed);
        self.is_bound.store(is_bound, Ordering::Relaxed);
    }

    /// The key that the host's reports and questions are signed with.
    pub(crate) fn set_key(&self, key: Key) {
        self.key.store(first(key), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, generation: u32, answer: usize) {
        let answer = u64::try_from(answer).unwrap_or(u64::from(u32::MAX)) & u64::from(u32::MAX);
        self.word.store(u64::from(generation) << 32 | answer, Ordering::Release);
    }
}

/// What a word leads to.
pub(super) enum Lookup {
    /// An answer.
    Answer(Arc<AnswerTable>, usize),
    /// Nothing was decided for the host yet.
    Nothing,
    /// It is of a later table than this one.
    Newer,
}

/// The answer of a word, from the table of its generation.
pub(super) fn find(table: &Arc<AnswerTable>, word: u64) -> Lookup {
    let generation = u32::try_from(word >> 32).unwrap_or(0);
    let index = usize::try_from(word & u64::from(u32::MAX)).unwrap_or(usize::MAX);
    // Generations wrap after four billion decisions.
    let ahead = generation.wrapping_sub(table.generation);
    let is_newer = ahead > 0 && ahead < u32::MAX / 2;
    let of = if ahead == 0 { Some(table) } else { table.before.as_ref() };
    match of.filter(|of| of.generation == generation) {
        _ if generation == 0 => Lookup::Nothing,
        Some(of) if index < of.answers.len() => Lookup::Answer(Arc::clone(of), index),
        // Tables grow by the answers of newcomers.
        Some(_) if ahead == 0 => Lookup::Newer,
        None if is_newer => Lookup::Newer,
        // A word that no later decision set: the host is known no more.
        Some(_) | None => Lookup::Nothing,
    }
}

impl Slot {
    /// The answer at `index` of `table`; for a host that has no part in the rollout yet and declares another group than it is known
    /// by, the one of both that does not let it go. Anybody may ask in its name.
    pub(super) fn narrowed(
        &self,
        question: &Question,
        table: Arc<AnswerTable>,
        index: usize,
        of_group: impl Fn(&AnswerTable) -> usize,
    ) -> (Arc<AnswerTable>, usize) {
        let is_known_so = self.declared.load(Ordering::Relaxed) == name_of(&question.group);
        if question.group.is_empty() || is_known_so || self.is_bound.load(Ordering::Relaxed) {
            return (table, index);
        }
        let other = of_group(&table);
        let lets_go = |index: usize| table.answers.get(index).is_some_and(|answer| answer.update);
        let index = if lets_go(other) { index } else { other };
        (table, index)
    }
}

/// What slots know of a key; never 0.
pub(super) fn first(key: Key) -> u64 {
    u64::from_be_bytes(key.0.first_chunk().copied().unwrap_or_default()).max(1)
}

/// A group's name as slots compare it.
pub(crate) fn name_of(group: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    group.hash(&mut hash);
    hash.finish()
}
