//! Which place of a list has a key: four bytes a slot in a table that is mostly full, where a map would have its keys once more.

use std::hash::{BuildHasher, RandomState};

/// Slots of a table that is made anew, for so many entries: one in seven beyond them, so that chains stay short, and some to grow.
const fn slots_for(entries: usize) -> usize {
    entries + entries / 6 + 8
}

/// From hashes to places in a list that has what they are of. An open table, probed from slot to slot.
#[derive(Debug, Clone, Default)]
pub struct PlaceTable {
    /// A place counted from 1, and above it bits of its hash; 0: nothing.
    slots: Vec<u32>,
    /// Bits of a place.
    bits: u32,
    count: usize,
}

impl PlaceTable {
    /// Makes room for so many more; `hash_of` gives the hash of a place.
    pub fn reserve(&mut self, more: usize, hash_of: impl Fn(usize) -> u64) {
        let entries = self.count + more;
        if entries.saturating_mul(8) > self.slots.len() * 7 {
            // By a fifth at least, so that it is made anew seldom.
            let entries = entries.max(self.count + self.count / 5);
            self.resize(slots_for(entries), entries, hash_of);
        }
    }

    /// How many places there are.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The place that has this hash and is it.
    pub fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        self.place(self.seek(hash, is_it).ok()?)
    }

    /// Has `at` be found, instead of the place that is it; `hash_of` gives the hash of a place.
    pub fn insert(&mut self, hash: u64, at: usize, is_it: impl Fn(usize) -> bool, hash_of: impl Fn(usize) -> u64) {
        self.reserve(1, &hash_of);
        if (at + 1) >> self.bits != 0 {
            self.resize(self.slots.len(), at + 1, hash_of);
        }
        let slot = self.seek(hash, is_it);
        self.count += usize::from(slot.is_err());
        let (Ok(slot) | Err(slot)) = slot;
        let place = u32::try_from(at + 1).unwrap_or(u32::MAX) | self.tag(hash);
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = place;
        }
    }

    /// Takes the place away that is it, and gives it.
    pub fn remove(
        &mut self,
        hash: u64,
        is_it: impl Fn(usize) -> bool,
        hash_of: impl Fn(usize) -> u64,
    ) -> Option<usize> {
        let mut gap = self.seek(hash, is_it).ok()?;
        let (removed, length) = (self.place(gap)?, self.slots.len());
        let mut slot = gap;
        loop {
            slot = (slot + 1) % length;
            let Some(place) = self.place(slot) else { break };
            let way = |from: usize| (slot + length - from) % length;
            // Who would not be found over the gap moves into it.
            if way(self.home(hash_of(place))) >= way(gap) {
                self.slots.swap(gap, slot);
                gap = slot;
            }
        }
        if let Some(gap) = self.slots.get_mut(gap) {
            *gap = 0;
        }
        self.count -= 1;
        Some(removed)
    }

    /// The slot of the place that is it, or the free one that ends the search.
    fn seek(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let (tag, mut slot) = (self.tag(hash), self.home(hash));
        while let Some(found) = self.slots.get(slot).filter(|found| **found != 0) {
            let place = found & !self.tags();
            if found & self.tags() == tag && is_it(place as usize - 1) {
                return Ok(slot);
            }
            slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
        }
        Err(slot)
    }

    fn place(&self, slot: usize) -> Option<usize> {
        (self.slots.get(slot)? & !self.tags()).checked_sub(1).map(|place| place as usize)
    }

    /// Where the search for this hash begins.
    fn home(&self, hash: u64) -> usize {
        usize::try_from((u128::from(hash) * self.slots.len() as u128) >> 64).unwrap_or_default()
    }

    /// What tells this hash from others in the same slots.
    fn tag(&self, hash: u64) -> u32 {
        let [.., a, b, c, d] = hash.to_be_bytes();
        u32::from_be_bytes([a, b, c, d]) & self.tags()
    }

    fn tags(&self) -> u32 {
        u32::MAX.checked_shl(self.bits).unwrap_or(0)
    }

    /// So many slots, with room for so many places.
    fn resize(&mut self, slots: usize, places: usize, hash_of: impl Fn(usize) -> u64) {
        let old = std::mem::take(self);
        // A list may be longer than the table: what is there keeps its bits.
        let bits = usize::BITS - slots.max(places + 1).leading_zeros();
        (self.slots, self.bits, self.count) = (vec![0; slots], bits.clamp(old.bits, u32::BITS), old.count);
        for place in (0..old.slots.len()).filter_map(|slot| old.place(slot)) {
            let hash = hash_of(place);
            let (Ok(slot) | Err(slot)) = self.seek(hash, |_| false);
            let place = u32::try_from(place + 1).unwrap_or(u32::MAX) | self.tag(hash);
            if let Some(slot) = self.slots.get_mut(slot) {
                *slot = place;
            }
        }
    }
}

/// From ids to places in a list that has the ids; every id that is here has its place there. The hash is keyed: hosts choose
/// their ids.
#[derive(Debug, Clone, Default)]
pub struct Index {
    places: PlaceTable,
    hash: RandomState,
}

impl Index {
    /// Makes room for so many more; `id_of` gives the id of a place.
    pub fn reserve(&mut self, more: usize, id_of: impl Fn(usize) -> Option<u128>) {
        self.places.reserve(more, |at| self.hash.hash_one(id_of(at).unwrap_or_default()));
    }

    /// The place of `id`; `id_of` gives the id of a place.
    pub fn find(&self, id: u128, id_of: impl Fn(usize) -> Option<u128>) -> Option<usize> {
        self.places.find(self.hash.hash_one(id), |at| id_of(at) == Some(id))
    }

    /// Puts `id` at the place `at`, instead of another place that has this id.
    pub fn insert(&mut self, id: u128, at: usize, id_of: impl Fn(usize) -> Option<u128>) {
        let (hash, is_it) = (&self.hash, |at: usize| id_of(at) == Some(id));
        self.places.insert(hash.hash_one(id), at, is_it, |at| hash.hash_one(id_of(at).unwrap_or_default()));
    }

    /// Takes `id` away, which a place still has, and gives the place.
    pub fn remove(&mut self, id: u128, id_of: impl Fn(usize) -> Option<u128>) -> Option<usize> {
        let (hash, is_it) = (&self.hash, |at: usize| id_of(at) == Some(id));
        self.places.remove(hash.hash_one(id), is_it, |at| hash.hash_one(id_of(at).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_finds_what_a_map_finds(ids in proptest::collection::vec((0_u128..300, 0..4), 0..400)) {
            let (mut index, mut map) = (Index::default(), HashMap::new());
            let id_of = |at: usize| ids.get(at).map(|(id, _)| *id);
            for (at, (id, what)) in ids.iter().enumerate() {
                if *what == 0 {
                    prop_assert_eq!(index.remove(*id, id_of), map.remove(id));
                } else {
                    index.insert(*id, at, id_of);
                    map.insert(*id, at);
                }
            }
            for id in 0..301 {
                prop_assert_eq!(index.find(id, id_of), map.get(&id).copied());
            }
        }
    }
}
