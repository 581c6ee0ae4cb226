//! SHA-256 digests, as archives announce them and manifests keep them.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use sha2::Digest as _;

use crate::error::{Kind, ParseError};
use crate::serde_as_text;

/// Read at a time, bytes: fits a second-level cache.
const BUFFER: usize = 256 << 10;

/// A SHA-256 digest; 64 lower-case hex digits as text, either case on input.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// The digest of all that `from` gives.
    ///
    /// Errors: those of `from`, but for an interruption.
    pub fn of_reader(mut from: impl Read) -> io::Result<Self> {
        let mut hasher = sha2::Sha256::new();
        let mut buffer = vec![0; BUFFER];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(Self(hasher.finalize().into())),
                Ok(count) => hasher.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The digest in the first word of a `.sha256` file or marker. Errors: [`Kind::Digest`].
    pub fn first_token(text: &[u8]) -> Result<Self, ParseError> {
        let word = text.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
        String::from_utf8_lossy(word).parse()
    }
}

impl FromStr for Digest {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut bytes = [0; 32];
        match base16ct::mixed::decode(text, &mut bytes) {
            Ok(decoded) if decoded.len() == 32 => Ok(Self(bytes)),
            _ => {
                let start: String = text.chars().take(64).collect();
                Err(ParseError::new(Kind::Digest, format!("{start:?} is not a SHA-256 digest")))
            }
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base16ct::lower::encode_string(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

serde_as_text!(Digest);

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
            assert_eq!(Digest::first_token(bad.as_bytes()).unwrap_err().kind, Kind::Digest, "{bad:?}");
        }
    }
}
