//! A slice of `make fleet-faults`: three servers, PostgreSQL with a standby, hosts, and what goes wrong.

use std::path::Path;

use crate::support::PROGRAM;

/// Rollouts, each with some faults, from this seed on; `FLEET_FAULTS_SEED` for others.
const SLICE: (u64, u64) = (4, 2);

#[test]
fn no_fault_lets_too_many_hosts_go_or_loses_a_decision() {
    let (seed, rollouts) = SLICE;
    let seed = std::env::var("FLEET_FAULTS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(seed);
    let Some(figures) = testing::faults::many(Path::new(PROGRAM), seed..seed + rollouts, false) else { return };
    let violations: Vec<&String> = figures.violations().collect();
    assert!(violations.is_empty(), "seed {seed}: {violations:#?}\n{}", figures.table());
    assert_eq!(figures.most, 3, "as many hosts are on their way as may be");
}
