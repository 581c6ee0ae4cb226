//! SHA-256 digests, as archives announce them and manifests keep them.

use std::fmt;
use std::str::FromStr;

use sha2::Digest as _;

use crate::report::{Code, Error, Result};

/// A SHA-256 digest; 64 lower-case hex digits as text, either case on input.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest in the first word of a `.sha256` file or marker. Errors: [`Code::ChecksumInvalid`].
    pub fn first_token(text: &[u8]) -> Result<Self> {
        let word = text.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
        String::from_utf8_lossy(word).parse()
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            let start: String = text.chars().take(64).collect();
            Error::new(Code::ChecksumInvalid, format!("{start:?} is not a SHA-256 digest"))
        };
        if text.len() != 64 || !text.is_ascii() {
            return Err(refused());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digit = |at: usize| pair.get(at).and_then(|digit| char::from(*digit).to_digit(16));
            let (high, low) = (digit(0).ok_or_else(refused)?, digit(1).ok_or_else(refused)?);
            // Two hex digits fit a byte.
            *byte = (high << 4 | low) as u8;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_counts_and_must_be_64_hex_digits() {
        let digest = Digest::of(b"");
        let text = digest.to_string();
        assert!(text.starts_with("e3b0c442"));
        for good in [text.clone(), format!("{text}  a.tar.gz\n"), format!("\n {}\n", text.to_uppercase())] {
            assert_eq!(Digest::first_token(good.as_bytes()).unwrap(), digest);
        }
        for bad in ["", "\n", "abc", &text[1..], &format!("{text}0"), &text.replace('e', "g"), "<html>"] {
            assert_eq!(Digest::first_token(bad.as_bytes()).unwrap_err().code, Code::ChecksumInvalid, "{bad:?}");
        }
    }
}
