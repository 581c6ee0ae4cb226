//! A host's turn in a rollout that is spread over some time: the server shows it, the updater waits for it.

use sha2::{Digest, Sha256};

use crate::Revision;

/// Seconds that `host` (its UUID or `update_id`) waits before it goes to `target`: 0 to `spread`, even over a fleet, the same at
/// each try (SPEC §5, jitter).
pub fn seconds(host: &str, target: &Revision, spread: u32) -> u32 {
    let digest = Sha256::digest(format!("{host}\n{}\n{}", target.version, target.edition));
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    // At most `spread`, which fits.
    (u64::from_be_bytes(first) % (u64::from(spread) + 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Edition;

    #[test]
    fn a_turn_is_steady_for_a_host_and_even_over_a_fleet() {
        let target = Revision { version: "15.0.0".parse().unwrap(), edition: Edition::Oss };
        assert_eq!(seconds("a", &target, 600), seconds("a", &target, 600));
        assert_eq!(seconds("a", &target, 0), 0);
        let mut buckets = [0u32; 10];
        for host in 0..10_000 {
            buckets[seconds(&format!("host-{host}"), &target, 999) as usize / 100] += 1;
        }
        assert!(buckets.iter().all(|&hosts| (850..1150).contains(&hosts)), "{buckets:?}");
    }
}
