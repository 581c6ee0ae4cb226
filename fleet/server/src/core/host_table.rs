//! The hosts that are known, as answers find them: what the core writes of each, others read without a lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fleet_engine::host::HostId;
use fleet_engine::index::Index;
use protocol::report::Key;

/// The hosts that are known. A clone shares their slots, so that one with newcomers is made soon.
#[derive(Default, Clone)]
pub(crate) struct HostTable {
    chunks: Vec<Arc<[Slot; CHUNK]>>,
    count: usize,
    by_id: Index,
    by_update_id: Index,
    /// Update ids that hosts had before the one that they have, and the places of these hosts.
    former: HashMap<u128, usize>,
}

/// Slots that are made at once.
const CHUNK: usize = 256;
/// Most update ids that lead to a host that has another one now, beyond as many as there are hosts.
const MOST_FORMER: usize = 1024;

impl HostTable {
    /// The host with this UUID.
    pub(crate) fn get(&self, id: HostId) -> Option<&Slot> {
        slot(&self.chunks, self.by_id.find(id, |place| slot(&self.chunks, place).map(|slot| slot.id.get()))?)
    }

    /// The host whose updater has this id, or had it.
    pub(crate) fn by_update_id(&self, id: u128) -> Option<&Slot> {
        let known = self.by_update_id.find(id, |place| slot(&self.chunks, place).map(|slot| slot.update_id.get()));
        slot(&self.chunks, known.or_else(|| self.former.get(&id).copied())?)
    }

    /// All slots.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).take(self.count)
    }

    /// How many hosts are known.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// How many update ids are known.
    pub(super) fn update_ids(&self) -> usize {
        self.by_update_id.len() + self.former.len()
    }

    /// Whether this host is known with this update id; 0: it has none.
    pub(crate) fn knows(&self, id: HostId, update_id: u128) -> bool {
        self.get(id).is_some_and(|slot| update_id == 0 || slot.update_id.get() == update_id)
    }

    /// Gives the host a slot if it has none, and the update id; 0: none.
    pub(crate) fn meet(&mut self, id: HostId, update_id: u128) {
        let Self { chunks, count, by_id, by_update_id, former } = self;
        let found = by_id.find(id, |place| slot(chunks, place).map(|slot| slot.id.get()));
        let place = found.unwrap_or(*count);
        if place == chunks.len() * CHUNK {
            chunks.push(Arc::new(std::array::from_fn(|_| Slot::default())));
        }
        let Some(known) = slot(chunks, place) else { return };
        if found.is_none() {
            known.id.set(id);
            *count += 1;
            by_id.insert(id, place, |place| slot(chunks, place).map(|slot| slot.id.get()));
        }
        let id_of = |place: usize| slot(chunks, place).map(|slot| slot.update_id.get());
        let before = known.update_id.get();
        if update_id == 0 || update_id == before {
            return;
        }
        if before != 0 {
            by_update_id.remove(before, id_of);
            // A host may change its update id with each question.
            if former.len() >= *count + MOST_FORMER {
                former.clear();
            }
            former.insert(before, place);
        }
        // Who has it on the way to another one has it no more.
        if let Some(other) = by_update_id.remove(update_id, id_of).and_then(|at| slot(chunks, at)) {
            other.update_id.set(0);
        }
        known.update_id.set(update_id);
        by_update_id.insert(update_id, place, id_of);
    }

    /// The table without the hosts for which `goes` is true.
    pub(crate) fn without(&self, goes: impl Fn(HostId) -> bool) -> Self {
        let mut next = Self::default();
        for slot in self.slots().filter(|slot| !goes(slot.id.get())) {
            next.meet(slot.id.get(), slot.update_id.get());
            if let Some(copy) = self::slot(&next.chunks, next.count - 1) {
                copy.take(slot);
            }
        }
        next
    }
}

fn slot(chunks: &[Arc<[Slot; CHUNK]>], place: usize) -> Option<&Slot> {
    chunks.get(place / CHUNK)?.get(place % CHUNK)
}

/// A UUID that changes while others read. Half of one and half of another is none that somebody has.
#[derive(Default)]
struct AtomicId([AtomicU64; 2]);

impl AtomicId {
    fn get(&self) -> u128 {
        let [high, low] = self.0.each_ref().map(|half| u128::from(half.load(Ordering::Relaxed)));
        high << 64 | low
    }

    fn set(&self, id: u128) {
        let halves = [id >> 64, id & u128::from(u64::MAX)];
        for (at, half) in self.0.iter().zip(halves) {
            at.store(u64::try_from(half).unwrap_or(0), Ordering::Relaxed);
        }
    }
}

/// A host's word, and when the core was last told of it. One line of a processor's cache, so that a question reads one.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Slot {
    id: AtomicId,
    /// Its updater's id; 0: it has none.
    update_id: AtomicId,
    pub(super) word: AtomicU64,
    /// [`name_of`] the group that it is known to declare; [`BOUND`] is set where what a question says of its group does not count.
    declared: AtomicU64,
    /// The first bytes of its key; 0: it has none.
    pub(super) key: AtomicU64,
    pub(super) heard: AtomicU32,
    pub(super) asked: AtomicU32,
}

/// The bit of [`Slot::declared`] of a host that reports, that an operator assigned, or that was allowed to update.
const BOUND: u64 = 1;

impl Slot {
    /// What is known of the host.
    pub(crate) fn know(&self, declared: u64, is_bound: bool) {
        self.declared.store(declared | if is_bound { BOUND } else { 0 }, Ordering::Relaxed);
    }

    pub(super) fn declares(&self) -> u64 {
        self.declared.load(Ordering::Relaxed) & !BOUND
    }

    pub(super) fn is_bound(&self) -> bool {
        self.declared.load(Ordering::Relaxed) & BOUND != 0
    }

    /// What another slot has, but for the ids.
    fn take(&self, other: &Self) {
        for (to, from) in [(&self.word, &other.word), (&self.declared, &other.declared), (&self.key, &other.key)] {
            to.store(from.load(Ordering::Relaxed), Ordering::Release);
        }
        self.heard.store(other.heard.load(Ordering::Relaxed), Ordering::Relaxed);
        self.asked.store(other.asked.load(Ordering::Relaxed), Ordering::Relaxed);
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

/// What slots know of a key; never 0.
pub(super) fn first(key: Key) -> u64 {
    u64::from_be_bytes(key.0.first_chunk().copied().unwrap_or_default()).max(1)
}

/// A group's name as slots compare it, without [`BOUND`].
pub(crate) fn name_of(group: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    group.hash(&mut hash);
    hash.finish() & !BOUND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_id_leads_to_the_host_that_has_it_and_no_other() {
        let mut hosts = HostTable::default();
        [(1, 7), (2, 7), (1, 8), (3, 0)].into_iter().for_each(|(host, update_id)| hosts.meet(host, update_id));
        for hosts in [hosts.clone(), hosts.without(|_| false)] {
            let host = |update_id| hosts.by_update_id(update_id).map(|slot| slot.id.get());
            assert_eq!((host(7), host(8), hosts.len()), (Some(2), Some(1), 3));
        }
        hosts.meet(2, 9);
        let hosts = hosts.without(|id| id == 1);
        assert!(hosts.get(1).is_none() && hosts.by_update_id(8).is_none() && hosts.knows(2, 9) && hosts.knows(3, 0));
    }
}
