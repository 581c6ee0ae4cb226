//! Labels that many hosts have in common, kept once.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;

use crate::names::Name;

/// The labels of a host, by key; hosts with the same labels share them. Eight bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Labels(Option<Arc<Pairs>>);

/// In a box of its own, so that a pointer to it is eight bytes.
type Pairs = Box<[(Name, Name)]>;

impl Deref for Labels {
    type Target = [(Name, Name)];

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().map_or(&[], |labels| labels)
    }
}

impl Labels {
    /// Tells sets apart that are shared: where two are the same, so are their labels.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ref().map_or(0, |labels| Arc::as_ptr(labels).addr())
    }
}

/// Sets that are shared.
#[derive(Debug, Clone, Default)]
pub(crate) struct LabelSets {
    sets: HashSet<Labels>,
    /// Those that nobody has any more are dropped when there are as many.
    clean_at: usize,
}

/// Fewer sets than this are not worth cleaning.
const FEW: usize = 1024;

impl LabelSets {
    /// The set with these labels.
    pub(crate) fn keep(&mut self, labels: Vec<(Name, Name)>) -> Labels {
        if labels.is_empty() {
            return Labels::default();
        }
        let labels = Labels(Some(Arc::new(labels.into_boxed_slice())));
        if let Some(known) = self.sets.get(&labels) {
            return known.clone();
        }
        if self.sets.len() >= self.clean_at.max(FEW) {
            self.clean();
        }
        self.sets.insert(labels.clone());
        labels
    }

    /// Drops the sets that nobody has any more.
    pub(crate) fn clean(&mut self) {
        self.sets.retain(|set| set.0.as_ref().is_some_and(|set| Arc::strong_count(set) > 1));
        self.sets.shrink_to(2 * self.sets.len());
        self.clean_at = 2 * self.sets.len();
    }

    /// Keys and values of all sets.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> + '_ {
        self.sets.iter().flat_map(|set| set.iter()).flat_map(|(key, value)| [*key, *value])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NameTable;

    #[test]
    fn the_same_labels_are_kept_once_and_those_of_nobody_are_dropped() {
        let mut names = NameTable::default();
        let mut sets = LabelSets::default();
        let mut set = |sets: &mut LabelSets, value: usize| {
            let label = (names.keep("key"), names.keep(&value.to_string()));
            sets.keep(vec![label])
        };
        let first = set(&mut sets, 0);
        assert_eq!(first.address(), set(&mut sets, 0).address());
        assert_ne!(first.address(), set(&mut sets, 1).address());
        assert_eq!((first.len(), sets.keep(Vec::new()).address()), (1, 0));
        for value in 0..10 * FEW {
            set(&mut sets, value);
        }
        assert!(sets.sets.len() <= FEW, "{}", sets.sets.len());
        assert_eq!(first.address(), set(&mut sets, 0).address());
    }
}
