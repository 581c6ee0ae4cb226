//! Which host has an id: four bytes a slot, where a map would have its keys once more.

use std::hash::{BuildHasher, RandomState};

/// A slot without a host.
const FREE: u32 = u32::MAX;
/// Slots of a new index.
const FIRST: usize = 64;

/// From ids to places in a list that has the ids. The hash is keyed: hosts choose their ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// Places by hash; a taken slot sends on to the next one. A power of two, at most three quarters taken.
    slots: Vec<u32>,
    taken: usize,
    hash: RandomState,
}

impl Index {
    /// The place of `id`; `id_of` gives the id of a place.
    pub(crate) fn find(&self, id: u128, id_of: impl Fn(usize) -> Option<u128>) -> Option<usize> {
        let mut slot = self.slot(id)?;
        loop {
            let at = self.slots.get(slot).copied().filter(|at| *at != FREE)? as usize;
            if id_of(at) == Some(id) {
                return Some(at);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Puts `id` at the place `at`, instead of another place that has this id. Every id that is here must have its place.
    pub(crate) fn insert(&mut self, id: u128, at: usize, id_of: impl Fn(usize) -> Option<u128>) {
        if 4 * (self.taken + 1) > 3 * self.slots.len() {
            self.grow(&id_of);
        }
        let Some(mut slot) = self.slot(id) else { return };
        while let Some(known) = self.slots.get(slot).copied().filter(|known| *known != FREE) {
            if known as usize == at || id_of(known as usize) == Some(id) {
                self.taken -= 1;
                break;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.put(slot, u32::try_from(at).unwrap_or(FREE));
        self.taken += 1;
    }

    /// How many ids it has, those among them that places have no longer.
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    fn slot(&self, id: u128) -> Option<usize> {
        let last = self.slots.len().checked_sub(1)?;
        // Only as many bits as there are slots are used.
        #[allow(clippy::cast_possible_truncation, reason = "the higher bits are not used")]
        let hash = self.hash.hash_one(id) as usize;
        Some(hash & last)
    }

    fn put(&mut self, slot: usize, at: u32) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = at;
        }
    }

    fn grow(&mut self, id_of: impl Fn(usize) -> Option<u128>) {
        let size = (2 * self.slots.len()).max(FIRST);
        let before = std::mem::replace(&mut self.slots, vec![FREE; size]);
        for at in before.into_iter().filter(|at| *at != FREE) {
            let Some(mut slot) = id_of(at as usize).and_then(|id| self.slot(id)) else { continue };
            while self.slots.get(slot).is_some_and(|known| *known != FREE) {
                slot = (slot + 1) & (size - 1);
            }
            self.put(slot, at);
        }
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
        fn it_finds_what_a_map_finds(ids in proptest::collection::vec(0_u128..300, 0..400)) {
            let (mut index, mut map) = (Index::default(), HashMap::new());
            for (at, id) in ids.iter().enumerate() {
                index.insert(*id, at, |at| ids.get(at).copied());
                map.insert(*id, at);
            }
            for id in 0..301 {
                prop_assert_eq!(index.find(id, |at| ids.get(at).copied()), map.get(&id).copied());
            }
            prop_assert_eq!(index.taken, map.len());
        }
    }
}
