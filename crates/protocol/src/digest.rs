//! SHA-256 digests, as archives announce them and manifests keep them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
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

    /// Digest and size in bytes of what is in the file at `path`.
    ///
    /// Errors: those of opening and reading it, but for an interruption.
    pub fn of_file(path: &Path) -> io::Result<(Self, u64)> {
        File::open(path).and_then(|file| Self::of_copy(file, io::sink()))
    }

    /// Copies all of `from` and tells digest and size in bytes of what passed.
    ///
    /// Errors: those of `from` and `to`, but for an interruption.
    pub fn of_copy(mut from: impl Read, mut to: impl Write) -> io::Result<(Self, u64)> {
        let mut hasher = sha2::Sha256::new();
        let mut buffer = vec![0; BUFFER];
        let mut size = 0;
        loop {
            let count = match from.read(&mut buffer) {
                Ok(0) => return Ok((Self(hasher.finalize().into()), size)),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hasher.update(&buffer[..count]);
            to.write_all(&buffer[..count])?;
            size += count as u64;
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

    /// Gives its bytes one at a time, each after an interruption, and then an error.
    struct Halting(Vec<u8>, bool);

    impl Read for Halting {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match self.0.pop() {
                None => Err(io::ErrorKind::BrokenPipe.into()),
                Some(byte) if self.1 => {
                    self.0.push(byte);
                    Err(io::ErrorKind::Interrupted.into())
                }
                Some(byte) => {
                    buffer[0] = byte;
                    Ok(1)
                }
            }
        }
    }

    #[test]
    fn an_interrupted_copy_goes_on_and_a_broken_one_is_an_error() {
        let mut to = Vec::new();
        let copied = Digest::of_copy(Halting(b"cba".to_vec(), false), &mut to);
        assert_eq!((copied.unwrap_err().kind(), to.as_slice()), (io::ErrorKind::BrokenPipe, &b"abc"[..]));
        let (digest, size) = Digest::of_copy(&b"abc"[..], io::sink()).unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((digest.to_string().as_str(), size), (known, 3));
    }
}
