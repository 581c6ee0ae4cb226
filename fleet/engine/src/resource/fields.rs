//! The keys of a mapping, of which none is ignored.

use super::nearest;
use super::reader::ResourceReader;

/// Most unknown keys of a mapping that are told: more than all faults of a text.
const MOST: usize = 20;

/// The keys of a mapping. A key that is asked for is known; [`ResourceFields::end`] refuses all others.
#[derive(Debug)]
pub(super) struct ResourceFields<'a> {
    here: ResourceReader<'a>,
    known: Vec<&'static str>,
}

impl<'a> ResourceReader<'a> {
    /// The keys of a mapping; `None` (and a fault) for something else. What is absent has no keys.
    pub(super) fn fields(&self) -> Option<ResourceFields<'a>> {
        if self.is_there() && !self.is_mapping() {
            self.wrong("a mapping of keys and values");
            return None;
        }
        Some(ResourceFields { here: self.clone(), known: Vec::new() })
    }
}

impl<'a> ResourceFields<'a> {
    /// The place of a key.
    pub(super) fn get(&mut self, name: &'static str) -> ResourceReader<'a> {
        self.known.push(name);
        self.here.at(name)
    }

    /// Refuses keys that nobody asked for.
    pub(super) fn end(self) {
        let unknown = self.here.keys().filter(|(name, _)| !self.known.contains(name));
        for (name, place) in unknown.take(MOST) {
            match nearest::of(name, &self.known) {
                Some(near) => place.refuse(format!("is not a known key; did you mean {near}?")),
                None => place.refuse(format!("is not a known key; known are {}", self.known.join(", "))),
            }
        }
    }
}
