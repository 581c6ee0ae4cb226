//! Ids of hosts: UUIDs as numbers. A script may call a host by any text.

use fleet_engine::host::HostId;
pub use fleet_engine::host::uuid as text;
use sha2::{Digest, Sha256};

/// Characters of a UUID with its hyphens.
const LONGEST: usize = 36;
/// Hexadecimal digits of a UUID.
const DIGITS: u32 = 32;

/// The number of a UUID with or without hyphens; `None` for another text, and for the one of zeros.
pub fn uuid(text: &str) -> Option<HostId> {
    if text.len() > LONGEST {
        return None;
    }
    // Without a copy: each question has two of them.
    let mut number = 0;
    let mut digits = 0;
    for char in text.chars().filter(|char| *char != '-') {
        number = number << 4 | u128::from(char.to_digit(16)?);
        digits += 1;
    }
    (digits == DIGITS && number != 0).then_some(number)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_uuid_is_of_32_hexadecimal_digits_with_or_without_hyphens() {
        let id = 0x4b9a_8a2c_53b5_4e21_9bb7_2f7c_1f4c_6d10;
        for good in [
            "4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d10",
            "4B9A8A2C-53b5-4e21-9bb7-2f7c1f4c6d10",
            "4b9a8a2c53b54e219bb72f7c1f4c6d10",
        ] {
            assert_eq!(uuid(good), Some(id), "{good}");
        }
        for bad in [
            "",
            "web-1",
            "00000000-0000-0000-0000-000000000000",
            "4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d1",
            "4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d100",
            "4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d1g",
            "+b9a8a2c53b54e219bb72f7c1f4c6d10",
            "{4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d10}",
            "4b9a8a2c53b54e219bb72f7c1f4c6d1\u{0663}",
        ] {
            assert_eq!(uuid(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_the_same(id in 1u128..) {
            prop_assert_eq!(uuid(&text(id)), Some(id));
            prop_assert_eq!(parse(&text(id).replace('-', "")), id);
        }
    }
}
