//! A slice of `make fleet-crash`: the server is killed, and its disk fails, at some system calls of some decisions.

use test_crash::fleet::NAMES;
use test_crash::fleet::suite::some;

use crate::support::PROGRAM;

/// Points of each decision in each suite.
const POINTS: usize = 1;
/// Which ones; `FLEET_CRASH_SEED` for others.
const SEED: u64 = 3;

#[test]
fn a_slice_of_decisions_cut_short_loses_none_that_was_answered_and_makes_none_twice() {
    let seed = std::env::var("FLEET_CRASH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    for name in NAMES {
        let row = some(PROGRAM.into(), name, POINTS, seed);
        assert_eq!((row.tried, row.violations), (2 * POINTS, Vec::<String>::new()), "seed {seed}");
    }
}
