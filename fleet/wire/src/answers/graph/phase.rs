//! Phased rollouts: a release becomes visible to more and more nodes (FLEET §9).

use fleet_engine::resource::Phased;
use jiff::Timestamp;
use protocol::Version;
use sha2::{Digest, Sha256};

use super::question::GraphQuestion;
use crate::ids;

/// The least wariness of a node that does not declare one: 0 is for those that do, the canaries.
const LEAST: f64 = 1e-6;
/// That of a node without an id: it is among the last. One hash for all such nodes would let all of them go at once.
const UNKNOWN: f64 = 1.0;

/// The share of nodes, 0 to 1, that see a release at `now`.
pub(crate) fn throttle(phased: &Phased, now: Timestamp) -> f64 {
    if now < phased.start {
        return 0.0;
    }
    let start_value = phased.start_value.clamp(0.0, 1.0);
    let Some(minutes) = phased.duration_minutes else { return start_value };
    let elapsed = now.duration_since(phased.start).as_secs_f64();
    if elapsed > 60.0 * f64::from(minutes) {
        return 1.0;
    }
    start_value + (1.0 - start_value) * elapsed / (60.0 * f64::from(minutes.max(1)))
}

/// How late a node is to see `version`, 0 to 1: as it declares, else by its id. The version is in the hash, so that it is not the
/// same nodes that are first each time.
pub(crate) fn wariness(asked: &GraphQuestion, version: &Version) -> f64 {
    match (asked.wariness, &asked.node) {
        (Some(declared), _) => declared,
        (None, None) => UNKNOWN,
        (None, Some(node)) => {
            let mut hash = Sha256::new();
            hash.update(version.to_string());
            hash.update([0]);
            // However its UUID is written.
            hash.update(ids::parse(&node.to_ascii_lowercase()).to_be_bytes());
            let first = hash.finalize().iter().take(8).fold(0, |sum: u64, byte| (sum << 8) | u64::from(*byte));
            // 2^64 is exact; the number need not be.
            (first as f64 / 18_446_744_073_709_551_616.0).clamp(LEAST, 1.0)
        }
    }
}

/// Whether a node does not see the release yet. One that declares 0 sees every release.
pub(super) fn is_hidden(asked: &GraphQuestion, version: &Version, phased: &Phased, now: Timestamp) -> bool {
    let throttle = throttle(phased, now);
    // No wariness is greater, and most releases have been seen by all for long.
    throttle < 1.0 && wariness(asked, version) > throttle
}
