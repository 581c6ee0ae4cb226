//! Which place of a list has an id: five bytes a slot, where a map would have its keys once more.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

/// From ids to places in a list that has the ids; every id that is here has its place there. The hash is keyed: hosts choose
/// their ids.
#[derive(Debug, Clone, Default)]
pub struct Index {
    places: HashTable<u32>,
    hash: RandomState,
}

impl Index {
    /// The place of `id`; `id_of` gives the id of a place.
    pub fn find(&self, id: u128, id_of: impl Fn(usize) -> Option<u128>) -> Option<usize> {
        let is_it = |at: &u32| id_of(*at as usize) == Some(id);
        self.places.find(self.hash.hash_one(id), is_it).map(|at| *at as usize)
    }

    /// Puts `id` at the place `at`, instead of another place that has this id.
    pub fn insert(&mut self, id: u128, at: usize, id_of: impl Fn(usize) -> Option<u128>) {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        let is_it = |known: &u32| *known == at || id_of(*known as usize) == Some(id);
        let hash = |at: &u32| self.hash.hash_one(id_of(*at as usize).unwrap_or_default());
        *self.places.entry(self.hash.hash_one(id), is_it, hash).or_insert(at).get_mut() = at;
    }

    /// How many ids there are.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Takes `id` away, which a place still has, and gives the place.
    pub fn remove(&mut self, id: u128, id_of: impl Fn(usize) -> Option<u128>) -> Option<usize> {
        let is_it = |at: &u32| id_of(*at as usize) == Some(id);
        let (at, _) = self.places.find_entry(self.hash.hash_one(id), is_it).ok()?.remove();
        Some(at as usize)
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
