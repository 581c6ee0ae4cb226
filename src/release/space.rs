//! How much room a new version needs, before its first byte is fetched (SPEC §4, space). Pure.

/// Left free beside everything, bytes: the agent goes on writing meanwhile.
pub(crate) const RESERVE: u64 = 64 << 20;
/// How much larger than the active version the next one may be, percent.
const GROWTH_PERCENT: u64 = 10;
/// Unpacked size by archive size: releases of 2023 to 2026 are 2.6 to 4.3 times as large unpacked.
const UNPACKED_TIMES: u64 = 5;
/// When nothing is known, bytes: the largest edition of 2026 has 796 MB.
const UNKNOWN: u64 = 1 << 30;

/// Bytes that one more version may take unpacked, without the [`RESERVE`].
///
/// `archive`: its Content-Length, bytes; `active`: size of the active version, bytes. The archive itself is never
/// stored. What is known of this host's edition counts more than a ratio, unless the archive alone is larger.
pub(crate) fn version(archive: Option<u64>, active: Option<u64>) -> u64 {
    match (archive, active) {
        (archive, Some(active)) => {
            (active.saturating_add(active / 100 * GROWTH_PERCENT)).max(archive.unwrap_or(0).saturating_mul(2))
        }
        (Some(archive), None) => archive.saturating_mul(UNPACKED_TIMES),
        (None, None) => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_uses_what_is_known() {
        assert_eq!(version(None, None), UNKNOWN);
        assert_eq!(version(Some(100), None), 500);
        assert_eq!(version(None, Some(1000)), 1100);
        assert_eq!(version(Some(100), Some(1000)), 1100);
        assert_eq!(version(Some(1000), Some(100)), 2000);
        assert_eq!(version(Some(u64::MAX), None), u64::MAX);
    }

    #[test]
    fn todays_largest_edition_fits_its_estimate() {
        assert!(version(Some(188_521_662), None) > 796_000_000);
    }
}
