//! Ids of hosts: UUIDs as numbers. A script may call a host by any text.

use fleet_engine::host::HostId;
use sha2::{Digest, Sha256};

/// Characters of a UUID with its hyphens.
const LONGEST: usize = 36;

/// The number of a UUID with or without hyphens; `None` for another text, and for the one of zeros.
pub fn uuid(text: &str) -> Option<HostId> {
    if text.len() > LONGEST {
        return None;
    }
    let digits: String = text.chars().filter(|char| *char != '-').collect();
    let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(&digits, 16).ok().filter(|number| is_hex && *number != 0)
}

/// The number of a UUID; of another text one that nobody else has (scripts call hosts as they like).
pub fn parse(text: &str) -> HostId {
    uuid(text).unwrap_or_else(|| made(&[text.as_bytes()]))
}

/// 128 bits that only these parts give.
pub fn made(parts: &[&[u8]]) -> u128 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(16).fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}

/// A UUID as it is written.
pub fn text(id: HostId) -> String {
    let hex = format!("{id:032x}");
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}
