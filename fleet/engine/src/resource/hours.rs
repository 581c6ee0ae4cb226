//! How long groups take one after the other in the best case (FLEET §2).
//!
//! A group starts within the hour of its window on one of its days, is done at once, and its window counts to its end. Hours are
//! counted from the midnight before a Monday; time zones have no part in it.

use super::chain;
use crate::policy::{Gate, GroupPolicy};

const DAY: u64 = 24;

/// Hours from the opening of the first group's window to the end of the last one's, in the best case: from the day of the first
/// group on which that is soonest. No groups take none.
pub fn minimum_rollout_hours(groups: &[GroupPolicy]) -> u64 {
    let Some((first, rest)) = groups.split_first() else { return 0 };
    let hours = |(begin, end)| rest.iter().fold(end, |end, group| end_after(end, &group.gate)) - begin;
    windows(&first.gate).into_iter().map(hours).min().unwrap_or_default()
}

/// Of the chains of groups of which each requires the one before, that which takes longest in the best case: places of its
/// groups, first to last, and its hours. `edges` are, for each group, the groups that it requires; there must be no circle.
pub fn longest_chain(gates: &[&Gate], edges: &[Vec<usize>]) -> Option<(Vec<usize>, u64)> {
    chain::longest(edges, |group| windows(gates[group]), |end, group| end_after(end, gates[group]))
}

/// When windows of a group begin and end in a week.
fn windows(gate: &Gate) -> Vec<(u64, u64)> {
    let begin = |day: u64| day * DAY + u64::from(gate.opening.hour);
    (0..7).filter(|day| gate.opening.days.has(*day)).map(|day| (begin(day), begin(day) + 1)).collect()
}

/// When the window of a group ends that follows one whose window ended at `end`: the first of its hours on one of its days that
/// is not before that end, and `wait_hours` or `soak_hours` after the other's beginning.
fn end_after(end: u64, gate: &Gate) -> u64 {
    let wait = u64::from(gate.wait_hours.max(gate.soak_hours));
    let earliest = end.max(end - 1 + wait);
    let first = earliest + (u64::from(gate.opening.hour) + DAY - earliest % DAY) % DAY;
    let days = (0..7).find(|ahead| gate.opening.days.has(first / DAY + ahead)).unwrap_or_default();
    first + days * DAY + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::calendar::{Days, WindowOpening, Zone};

    fn hours(groups: &[(u8, u32)]) -> u64 {
        let group = |(hour, wait_hours): &(u8, u32)| {
            let opening = WindowOpening { days: Days::EVERY, hour: *hour, zone: Zone::UTC };
            let plain = crate::policy::GroupPolicy::v2("g", opening);
            GroupPolicy { gate: Gate { wait_hours: *wait_hours, ..plain.gate.clone() }, ..plain }
        };
        minimum_rollout_hours(&groups.iter().map(group).collect::<Vec<_>>())
    }

    /// The vectors of FLEET §2.
    #[test]
    fn the_minimum_rollout_time_is_that_of_all_eleven_vectors() {
        let vectors: [(&[(u8, u32)], u64); 11] = [
            (&[], 0),
            (&[(0, 0)], 1),
            (&[(2, 0), (4, 0)], 3),
            (&[(2, 0), (2, 0)], 25),
            (&[(2, 0), (4, 6)], 27),
            (&[(2, 0), (4, 48)], 51),
            (&[(2, 0), (3, 1)], 2),
            (&[(23, 0), (1, 0)], 3),
            (&[(12, 0), (12, 24)], 25),
            (&[(12, 0), (11, 23)], 24),
            (&[(23, 0), (1, 4), (1, 0), (10, 6)], 60),
        ];
        for (groups, wanted) in vectors {
            assert_eq!(hours(groups), wanted, "{groups:?}");
        }
    }

    /// The algorithm as FLEET §2 restates it.
    fn restated(groups: &[(u8, u32)]) -> u64 {
        let Some((first, rest)) = groups.split_first() else { return 0 };
        let mut now = i64::from(first.0) + 1;
        for (start, wait) in rest {
            let (start, wait) = (i64::from(*start), i64::from(*wait));
            let gap = (start - (now - 1) % 24).rem_euclid(24);
            let mut add = (start - now % 24).rem_euclid(24);
            if gap < wait % 24 {
                add += 24;
            }
            let mut extra = wait / 24;
            if gap == 0 && extra > 0 {
                extra -= 1;
            }
            now += add + 24 * extra + 1;
        }
        u64::try_from(now - i64::from(first.0)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_minimum_rollout_time_is_that_of_the_restated_algorithm(
            groups in proptest::collection::vec((0_u8..24, 0_u32..200), 0..8)
        ) {
            // At the same hour the restated algorithm counts a day too many for a wait that is no whole number of days: after a
            // wait of an hour the window of the next day is open.
            let is_exact = |pair: &[(u8, u32)]| pair[0].0 != pair[1].0 || pair[1].1.is_multiple_of(24);
            prop_assume!(groups.windows(2).all(is_exact));
            prop_assert_eq!(hours(&groups), restated(&groups));
        }
    }
}
