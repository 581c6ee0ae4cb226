//! The keys of a mapping, of which none is ignored.

use super::nearest;
use super::reader::Reader;

/// Most unknown keys of a mapping that are told: more than all faults of a text.
const MOST: usize = 20;

/// The keys of a mapping. A key that is asked for is known; [`Fields::end`] refuses all others.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    here: Reader<'a>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Of the mapping that stands there.
    pub(super) fn new(here: Reader<'a>) -> Self {
        Self { here, known: Vec::new() }
    }

    /// The place of a key.
    pub(super) fn get(&mut self, name: &'static str) -> Reader<'a> {
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
