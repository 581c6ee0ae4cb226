//! Ids of hosts: UUIDs as numbers. A script may call a host by any text.

use fleet_engine::host::HostId;
use sha2::{Digest, Sha256};

/// The number of a UUID with or without hyphens; of another text one that nobody else has.
pub(crate) fn parse(text: &str) -> HostId {
    let digits: String = text.chars().filter(|char| *char != '-').collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if digits.len() == 32 && number != 0 => number,
        _ => made(&[text.as_bytes()]),
    }
}

/// 128 bits that only these parts give.
pub(crate) fn made(parts: &[&[u8]]) -> u128 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

/// A UUID as it is written.
pub(crate) fn text(id: HostId) -> String {
    let hex = format!("{id:032x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}
