//! The hosts that are known, as answers find them: what the core writes of each, others read without a lock.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fleet_engine::host::HostId;
use fleet_engine::index::PlaceTable;

use super::enrolments::KeyMark;

/// The hosts that are known. A clone shares their slots, so that one with newcomers is made soon. Ids are known by a hash of 64
/// bits, whose key nobody outside has: of a million hosts two have the same one at one start in forty million.
#[derive(Default, Clone)]
pub(crate) struct HostTable {
    chunks: Vec<Arc<[Slot; CHUNK]>>,
    count: usize,
    by_id: PlaceTable,
    by_update_id: PlaceTable,
    /// Update ids that hosts had before the one that they have, and the places of these hosts.
    former: HashMap<u64, usize>,
    hash: RandomState,
}

/// Slots that are made at once: twelve kibibytes, with what [`Arc`] adds.
const CHUNK: usize = 255;
/// Most update ids that lead to a host that has another one now, beyond as many as there are hosts.
const MOST_FORMER: usize = 1024;

impl HostTable {
    /// The host with this UUID.
    pub(crate) fn get(&self, id: HostId) -> Option<&Slot> {
        self.get_near(usize::MAX, id)
    }

    /// The same, looked for first where a host is that came as the one number `place`.
    pub(crate) fn get_near(&self, place: usize, id: HostId) -> Option<&Slot> {
        let hash = self.hash(id);
        let is_it = |place| id_of(&self.chunks, place) == hash;
        let place = if is_it(place) { place } else { self.by_id.find(hash, is_it)? };
        slot(&self.chunks, place)
    }

    /// The host whose updater has this id, or had it.
    pub(crate) fn by_update_id(&self, id: u128) -> Option<&Slot> {
        let hash = self.hash(id);
        let known = self.by_update_id.find(hash, |place| update_id_of(&self.chunks, place) == hash);
        slot(&self.chunks, known.or_else(|| self.former.get(&hash).copied())?)
    }

    fn hash(&self, id: u128) -> u64 {
        self.hash.hash_one(id).max(1)
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

    /// Whether this host, which came as the one number `place`, is known with this update id; 0: it has none.
    pub(crate) fn knows(&self, place: usize, id: HostId, update_id: u128) -> bool {
        let has = |slot: &Slot| slot.update_id.load(Ordering::Relaxed) == self.hash(update_id);
        self.get_near(place, id).is_some_and(|slot| update_id == 0 || has(slot))
    }

    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        let Self { chunks, by_id, by_update_id, .. } = self;
        by_id.reserve(more, |place| id_of(chunks, place));
        by_update_id.reserve(more, |place| update_id_of(chunks, place));
    }

    /// Gives the host a slot if it has none, and the update id; 0: none.
    pub(crate) fn meet(&mut self, id: HostId, update_id: u128) {
        self.meet_hashed(self.hash(id), if update_id == 0 { 0 } else { self.hash(update_id) });
    }

    fn meet_hashed(&mut self, id: u64, update_id: u64) {
        let Self { chunks, count, by_id, by_update_id, former, .. } = self;
        let found = by_id.find(id, |place| id_of(chunks, place) == id);
        let place = found.unwrap_or(*count);
        if place == chunks.len() * CHUNK {
            chunks.push(Arc::new(std::array::from_fn(|_| Slot::default())));
        }
        let chunks = &**chunks;
        let Some(known) = slot(chunks, place) else { return };
        if found.is_none() {
            known.id.store(id, Ordering::Relaxed);
            *count += 1;
            by_id.insert(id, place, |place| id_of(chunks, place) == id, |place| id_of(chunks, place));
        }
        let (is_it, hash_of) =
            (|id: u64| move |place| update_id_of(chunks, place) == id, |place| update_id_of(chunks, place));
        let before = known.update_id.load(Ordering::Relaxed);
        if update_id == 0 || update_id == before {
            return;
        }
        if before != 0 {
            by_update_id.remove(before, is_it(before), hash_of);
            // A host may change its update id with each question.
            if former.len() >= *count + MOST_FORMER {
                former.clear();
            }
            former.insert(before, place);
        }
        // Who has it on the way to another one has it no more.
        let other = by_update_id.remove(update_id, is_it(update_id), hash_of);
        if let Some(other) = other.and_then(|at| slot(chunks, at)) {
            other.update_id.store(0, Ordering::Relaxed);
        }
        known.update_id.store(update_id, Ordering::Relaxed);
        by_update_id.insert(update_id, place, is_it(update_id), hash_of);
    }

    /// The table without these hosts.
    pub(crate) fn without(&self, gone: &[HostId]) -> Self {
        let gone: HashSet<u64> = gone.iter().map(|id| self.hash(*id)).collect();
        let mut next = Self { hash: self.hash.clone(), ..Self::default() };
        next.reserve(self.count);
        for slot in self.slots() {
            let id = slot.id.load(Ordering::Relaxed);
            if gone.contains(&id) {
                continue;
            }
            next.meet_hashed(id, slot.update_id.load(Ordering::Relaxed));
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

fn id_of(chunks: &[Arc<[Slot; CHUNK]>], place: usize) -> u64 {
    slot(chunks, place).map_or(0, |slot| slot.id.load(Ordering::Relaxed))
}

fn update_id_of(chunks: &[Arc<[Slot; CHUNK]>], place: usize) -> u64 {
    slot(chunks, place).map_or(0, |slot| slot.update_id.load(Ordering::Relaxed))
}

/// A host's word, and when the core was last told of it. 48 bytes.
#[derive(Default)]
pub(crate) struct Slot {
    /// The hash of its id.
    id: AtomicU64,
    /// That of its updater's id; 0: it has none.
    update_id: AtomicU64,
    pub(super) word: AtomicU64,
    /// [`name_of`] the group that it is known to declare; [`BOUND`] is set where what a question says of its group does not count.
    declared: AtomicU64,
    /// The mark of its key; 0: it has none.
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
    pub(crate) fn set_key(&self, key: KeyMark) {
        self.key.store(key.0.get(), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, generation: u32, answer: usize) {
        let answer = u64::try_from(answer).unwrap_or(u64::from(u32::MAX)) & u64::from(u32::MAX);
        self.word.store(u64::from(generation) << 32 | answer, Ordering::Release);
    }
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
    use std::ptr;

    use super::*;

    #[test]
    fn an_update_id_leads_to_the_host_that_has_it_and_no_other() {
        let mut hosts = HostTable::default();
        [(1, 7), (2, 7), (1, 8), (3, 0)].into_iter().for_each(|(host, update_id)| hosts.meet(host, update_id));
        for hosts in [hosts.clone(), hosts.without(&[])] {
            let is_host =
                |update_id, id| hosts.by_update_id(update_id).map(ptr::from_ref) == hosts.get(id).map(ptr::from_ref);
            assert!(is_host(7, 2) && is_host(8, 1) && hosts.len() == 3);
        }
        hosts.meet(2, 9);
        let hosts = hosts.without(&[1]);
        assert!(hosts.get(1).is_none() && hosts.by_update_id(8).is_none());
        // Wherever each is looked for first.
        for place in 0..4 {
            assert!(hosts.knows(place, 2, 9) && hosts.knows(place, 3, 0) && !hosts.knows(place, 3, 9));
        }
    }
}
