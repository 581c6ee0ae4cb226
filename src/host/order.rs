//! Sorting a few things. The standard library's sorts are 4 KB of code for each type, and our lists have some dozens of entries.
//! A map or set that is collected is sorted as well: one that is extended is not.

/// Sorts `items`, equal ones as they stood. The time grows with the square of their number.
pub(crate) fn sort<T: Ord>(items: &mut Vec<T>) {
    sort_by(items, |one, other| one < other);
}

/// As [`sort`], by `is_before`.
pub(crate) fn sort_by<T>(items: &mut Vec<T>, is_before: impl Fn(&T, &T) -> bool) {
    for next in 1..items.len() {
        let item = items.remove(next);
        let place = items[..next].partition_point(|known| !is_before(&item, known));
        items.insert(place, item);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_sorts_as_the_standard_library_does(items in proptest::collection::vec((0u8..6, 0u8..6), 0..40)) {
            let (mut ours, mut theirs) = (items.clone(), items.clone());
            sort(&mut ours);
            theirs.sort();
            prop_assert_eq!(&ours, &theirs);
            let (mut ours, mut theirs) = (items.clone(), items);
            sort_by(&mut ours, |one, other| one.0 > other.0);
            theirs.sort_by_key(|item| std::cmp::Reverse(item.0));
            prop_assert_eq!(ours, theirs);
        }
    }
}
