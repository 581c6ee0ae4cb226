//! Texts that many hosts have in common, each kept once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::said::SaidTable;

/// A text of a [`NameTable`]; 0 is the empty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Name(u32);

impl Name {
    /// The empty text.
    pub const NONE: Self = Self(0);

    /// Whether it is the empty text.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// The texts: versions, groups, keys and values of labels; and what each host says of itself.
#[derive(Debug, Clone)]
pub struct NameTable {
    texts: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, Name>,
    /// Numbers whose texts are kept no more: the next texts have them.
    free: Vec<Name>,
    pub(crate) said: SaidTable<(Name, Name)>,
}

/// Which names somebody has.
pub(crate) struct Used(Vec<bool>);

impl Used {
    /// Somebody has this name; whether that is news.
    pub(crate) fn mark(&mut self, name: Name) -> bool {
        self.0.get_mut(name.0 as usize).is_some_and(|is_used| !std::mem::replace(is_used, true))
    }
}

impl Default for NameTable {
    fn default() -> Self {
        let empty: Arc<str> = Arc::from("");
        let by_text = HashMap::from([(Arc::clone(&empty), Name::NONE)]);
        Self { texts: vec![empty], by_text, free: Vec::new(), said: SaidTable::default() }
    }
}

impl NameTable {
    /// The name of `text`, which is kept from now on, until [`NameTable::keep_only`].
    pub(crate) fn keep(&mut self, text: &str) -> Name {
        if let Some(name) = self.by_text.get(text) {
            return *name;
        }
        let text: Arc<str> = Arc::from(text);
        let name = self.place(Arc::clone(&text));
        self.by_text.insert(text, name);
        name
    }

    fn place(&mut self, text: Arc<str>) -> Name {
        if let Some(name) = self.free.pop()
            && let Some(place) = self.texts.get_mut(name.0 as usize)
        {
            *place = text;
            return name;
        }
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(text);
        name
    }

    /// Marks for these names: nobody has any but the empty one.
    pub(crate) fn unused(&self) -> Used {
        let mut used = Used(vec![false; self.texts.len()]);
        used.mark(Name::NONE);
        used
    }

    /// Frees the texts that are not marked; the others keep their names.
    pub(crate) fn keep_only(&mut self, used: &Used) {
        let is_used = |at: usize| used.0.get(at).copied().unwrap_or(false);
        let length = used.0.iter().rposition(|is_used| *is_used).map_or(1, |last| last + 1);
        let empty: Arc<str> = Arc::from("");
        self.free.clear();
        // From the end, so that the lowest numbers are given first.
        for (at, text) in self.texts.iter_mut().enumerate().rev().filter(|(at, _)| !is_used(*at)) {
            // A number that was free before has no text, and the empty one stays.
            if !text.is_empty() {
                self.by_text.remove(text);
                *text = Arc::clone(&empty);
            }
            if at < length {
                self.free.extend(u32::try_from(at).map(Name));
            }
        }
        self.texts.truncate(length);
        self.texts.shrink_to(2 * length);
        self.by_text.shrink_to(2 * self.by_text.len());
    }

    /// How many texts are kept; the empty one is.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.by_text.len()
    }

    /// The name of `text` if it is kept.
    pub fn find(&self, text: &str) -> Option<Name> {
        self.by_text.get(text).copied()
    }

    /// The text of `name`.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", |text| text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_is_freed_and_the_others_keep_their_names() {
        let mut names = NameTable::default();
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|text| names.keep(text));
        let mut used = names.unused();
        assert!(used.mark(b) && !used.mark(b) && !used.mark(Name::NONE));
        names.keep_only(&used);
        assert_eq!((names.len(), names.text(b), names.find("b")), (2, "b", Some(b)));
        for (name, text) in [(a, "a"), (c, "c"), (d, "d")] {
            assert_eq!((names.text(name), names.find(text)), ("", None));
        }
        // Twice, so that a number that is free already is freed again.
        names.keep_only(&used);
        assert_eq!((names.find(""), names.len()), (Some(Name::NONE), 2));
        assert_eq!(["e", "f", "b", "g"].map(|text| names.keep(text)), [a, c, b, d], "the lowest first");
        assert_eq!((names.text(a), names.len()), ("e", 5));
        names.keep_only(&names.unused());
        assert_eq!((names.len(), names.texts.len()), (1, 1));
    }
}
