//! A slice of `make fleet-crash`: the server is killed, and its disk fails, at some system calls of some decisions.

use testing::crash::fleet::NAMES;
use testing::crash::fleet::suite::some;

use crate::support::PROGRAM;

/// One decision in so many, and points of it in each suite.
const SLICE: (usize, usize) = (3, 1);
/// Which ones; `FLEET_CRASH_SEED` for others.
const SEED: u64 = 3;

#[test]
fn a_slice_of_decisions_cut_short_loses_none_that_was_answered_and_makes_none_twice() {
    let seed = std::env::var("FLEET_CRASH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let (every, points) = SLICE;
    for name in NAMES.into_iter().skip(seed as usize % every).step_by(every) {
        let row = some(PROGRAM.into(), name, points, seed);
        assert_eq!((row.tried, row.violations), (2 * points, Vec::<String>::new()), "seed {seed}");
    }
}
