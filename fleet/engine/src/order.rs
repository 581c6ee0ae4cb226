//! The order of hosts in a rollout, and digests.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::host::HostId;

/// A host's place: the first 64 bits of SHA-256 over its UUID and the rollout's id (FLEET §3). Ties are broken by UUID.
pub fn key(host: HostId, rollout: u128) -> u64 {
    let mut hash = Sha256::new();
    hash.update(host.to_be_bytes());
    hash.update(rollout.to_be_bytes());
    first(&hash.finalize())
}

/// 128 bits that nobody can choose: of the seed, and of what makes this rollout another one than those before.
pub(crate) fn rollout_id(seed: u64, number: u64, start: &str, target: &str) -> u128 {
    let mut hash = Sha256::new();
    hash.update(seed.to_be_bytes());
    hash.update(number.to_be_bytes());
    hash.update(start.as_bytes());
    hash.update([0]);
    hash.update(target.as_bytes());
    let digest = hash.finalize();
    (u128::from(first(&digest)) << 64) | u128::from(first(digest.get(8..).unwrap_or_default()))
}

/// Tells a group's policy from another.
pub(crate) fn digest_of(policy: &impl Serialize) -> u64 {
    let text = serde_json::to_vec(policy).unwrap_or_default();
    first(&Sha256::digest(text))
}

fn first(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}
