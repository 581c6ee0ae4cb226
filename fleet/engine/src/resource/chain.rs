//! Groups that require one another: circles, and chains that take too long.
//!
//! Edges are, for each group, the groups that it requires, by their places in the list.

/// A circle: groups of which each requires the next, and the last the first.
pub(super) fn cycle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut looked = vec![false; edges.len()];
    let mut path = Vec::new();
    (0..edges.len()).find_map(|from| circle_from(from, edges, &mut looked, &mut path))
}

/// Follows what `from` requires; `path` led there. As deep as there are groups, which have a limit.
fn circle_from(from: usize, edges: &[Vec<usize>], looked: &mut [bool], path: &mut Vec<usize>) -> Option<Vec<usize>> {
    if let Some(begin) = path.iter().position(|group| *group == from) {
        return Some(path[begin..].to_vec());
    }
    if std::mem::replace(&mut looked[from], true) {
        return None;
    }
    path.push(from);
    let found = edges[from].iter().find_map(|to| circle_from(*to, edges, looked, path));
    path.pop();
    found
}

/// The chain whose last group ends latest after its first began: its groups, first to last, and the hours. `first` are the hours
/// at which a group's own windows begin and end, of which the best counts; `next` when it ends after one that ended then. There
/// must be no circle, and a later end of one group must not make the next end earlier.
pub(super) fn longest(
    edges: &[Vec<usize>],
    first: impl Fn(usize) -> Vec<(u64, u64)>,
    next: impl Fn(u64, usize) -> u64,
) -> Option<(Vec<usize>, u64)> {
    let order = requirements_first(edges);
    let roots = (0..edges.len()).filter(|group| edges[*group].is_empty());
    let chains = roots.filter_map(|root| {
        let windows = first(root).into_iter();
        windows.filter_map(|window| from_root(edges, &order, root, window, &next)).min_by_key(|(_, hours)| *hours)
    });
    chains.max_by_key(|(_, hours)| *hours)
}

/// The longest chain that begins with `root`, in a window that begins and ends then.
fn from_root(
    edges: &[Vec<usize>],
    order: &[usize],
    root: usize,
    (begin, end): (u64, u64),
    next: impl Fn(u64, usize) -> u64,
) -> Option<(Vec<usize>, u64)> {
    // Of each group: when it ends at the latest on a way from this root, and after which group.
    let mut ends: Vec<Option<(u64, usize)>> = vec![None; edges.len()];
    ends[root] = Some((end, root));
    for group in order {
        let ways = edges[*group].iter().filter_map(|before| Some((next(ends[*before]?.0, *group), *before)));
        ends[*group] = ends[*group].or(ways.max_by_key(|(end, _)| *end));
    }
    let last = (0..edges.len()).max_by_key(|group| ends[*group].map(|(end, _)| end))?;
    let mut chain = vec![last];
    while let Some((_, before)) = chain.last().and_then(|group| ends[*group]).filter(|(_, before)| *before != root) {
        chain.push(before);
    }
    if last != root {
        chain.push(root);
    }
    chain.reverse();
    Some((chain, ends[last]?.0 - begin))
}

/// The groups in an order in which each comes after those that it requires.
fn requirements_first(edges: &[Vec<usize>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(edges.len());
    let mut placed = vec![false; edges.len()];
    // Without a circle, each turn places at least one.
    for _ in 0..edges.len() {
        for group in 0..edges.len() {
            if !placed[group] && edges[group].iter().all(|before| placed[*before]) {
                placed[group] = true;
                order.push(group);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_wherever_they_are() {
        let of = |edges: &[&[usize]]| cycle(&edges.iter().map(|to| to.to_vec()).collect::<Vec<_>>());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[&[], &[0], &[0, 1]]), None);
        assert_eq!(of(&[&[0]]), Some(vec![0]));
        assert_eq!(of(&[&[], &[2, 0], &[1]]), Some(vec![1, 2]));
        assert_eq!(of(&[&[1], &[2], &[3], &[1]]), Some(vec![1, 2, 3]));
        let ladder: Vec<Vec<usize>> = (0..50).map(|group: usize| (0..group).collect()).collect();
        assert_eq!(cycle(&ladder), None);
    }

    #[test]
    fn the_longest_chain_is_found_among_many_ways() {
        // Each group takes as many hours as its place says; 3 is reached by way of 1 and of 2.
        let edges = vec![vec![], vec![0], vec![0], vec![1, 2], vec![]];
        let first = |group: usize| vec![(0, 9), (5, 5 + group as u64)];
        let next = |end: u64, group: usize| end + group as u64;
        assert_eq!(longest(&edges, first, next), Some((vec![0, 2, 3], 5)));
        let ladder: Vec<Vec<usize>> = (0..50).map(|group: usize| (0..group).collect()).collect();
        assert_eq!(longest(&ladder, first, next).unwrap().0.len(), 50);
        assert_eq!(longest(&[vec![]], |_| vec![(7, 8)], next), Some((vec![0], 1)));
        assert_eq!(longest(&[], first, next), None);
    }
}
