//! Texts that many hosts have in common, each kept once.

use std::collections::HashMap;
use std::sync::Arc;

/// A text of a [`Names`]; 0 is the empty one.
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

/// The texts: versions, groups, keys and values of labels.
#[derive(Debug, Clone)]
pub struct Names {
    texts: Vec<Arc<str>>,
    by_text: HashMap<Arc<str>, Name>,
}

impl Default for Names {
    fn default() -> Self {
        let empty: Arc<str> = Arc::from("");
        Self { texts: vec![Arc::clone(&empty)], by_text: HashMap::from([(empty, Name::NONE)]) }
    }
}

impl Names {
    /// The name of `text`, which is kept from now on.
    pub fn keep(&mut self, text: &str) -> Name {
        if let Some(name) = self.by_text.get(text) {
            return *name;
        }
        let name = Name(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = Arc::from(text);
        self.texts.push(Arc::clone(&text));
        self.by_text.insert(text, name);
        name
    }

    /// How many texts are kept.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none but the empty one.
    pub fn is_empty(&self) -> bool {
        self.texts.len() <= 1
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
