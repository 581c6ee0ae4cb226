//! The signatures: Ed25519, and no other algorithm. Here are their texts; who signs and who checks brings the arithmetic.

use std::fmt;
use std::str::FromStr;

use super::MAX_NUMBER;
use crate::error::{Kind, ParseError};

/// Bytes of a public key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;
/// The only version of either header.
const VERSION: &str = "v1";
/// What is signed begins with its purpose, so that one signature is never good for another thing.
const REPORT: &[u8] = b"teleport-fleet report v1\n";
/// See [`REPORT`].
const QUESTION: &str = "teleport-fleet question v1";

/// A host's public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; KEY_BYTES]);

/// The value of [`super::SIGNATURE_HEADER`]: `v1 KEY SIGNATURE`, both in lower-case hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedReport {
    /// Whose.
    pub key: Key,
    /// Over [`report_message`].
    pub signature: [u8; SIGNATURE_BYTES],
}

/// The value of [`super::QUESTION_HEADER`]: `v1 KEY EPOCH NUMBER SIGNATURE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedQuestion {
    /// Whose.
    pub key: Key,
    /// The server's epoch, as it was last told.
    pub epoch: u64,
    /// Of the same count as the numbers of reports.
    pub number: u64,
    /// Over [`question_message`].
    pub signature: [u8; SIGNATURE_BYTES],
}

/// What the signature of a report is over: its purpose, and the very bytes of `body`.
pub fn report_message(body: &[u8]) -> Vec<u8> {
    [REPORT, body].concat()
}

/// What the signature of a question is over. `host`: its UUID; upper case is lower case there.
pub fn question_message(host: &str, epoch: u64, number: u64) -> Vec<u8> {
    format!("{QUESTION}\n{}\n{epoch}\n{number}", host.to_ascii_lowercase()).into_bytes()
}

fn bad() -> ParseError {
    ParseError::new(Kind::Answer, "not a signature: `v1`, a key and a signature in lower-case hex are expected")
}

fn bytes<const N: usize>(text: Option<&str>) -> Result<[u8; N], ParseError> {
    let mut bytes = [0; N];
    match base16ct::lower::decode(text.unwrap_or_default(), &mut bytes) {
        Ok(decoded) if decoded.len() == N => Ok(bytes),
        _ => Err(bad()),
    }
}

/// A number as it is written, and no other spelling of it.
fn number(text: Option<&str>) -> Result<u64, ParseError> {
    let text = text.unwrap_or_default();
    let number: u64 = text.parse().ok().filter(|number| *number <= MAX_NUMBER).ok_or_else(bad)?;
    if number.to_string() == text { Ok(number) } else { Err(bad()) }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base16ct::lower::encode_string(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SignedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION} {} {}", self.key, base16ct::lower::encode_string(&self.signature))
    }
}

impl FromStr for SignedReport {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut words = text.split(' ');
        let is_ours = words.next() == Some(VERSION);
        let signed = Self { key: Key(bytes(words.next())?), signature: bytes(words.next())? };
        if is_ours && words.next().is_none() { Ok(signed) } else { Err(bad()) }
    }
}

impl fmt::Display for SignedQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, epoch, number, signature } = self;
        write!(f, "{VERSION} {key} {epoch} {number} {}", base16ct::lower::encode_string(signature))
    }
}

impl FromStr for SignedQuestion {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut words = text.split(' ');
        let is_ours = words.next() == Some(VERSION);
        let (key, epoch) = (Key(bytes(words.next())?), number(words.next())?);
        let signed = Self { key, epoch, number: number(words.next())?, signature: bytes(words.next())? };
        if is_ours && words.next().is_none() { Ok(signed) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(key: [u8; 32], half: [u8; 32], epoch in 0..=MAX_NUMBER, number in 0..=MAX_NUMBER) {
            let mut signature = [0; SIGNATURE_BYTES];
            signature[..32].copy_from_slice(&half);
            let report = SignedReport { key: Key(key), signature };
            prop_assert_eq!(report.to_string().parse::<SignedReport>().ok(), Some(report));
            let question = SignedQuestion { key: Key(key), epoch, number, signature };
            prop_assert_eq!(question.to_string().parse::<SignedQuestion>().ok(), Some(question));
        }
    }

    #[test]
    fn a_header_that_is_written_otherwise_is_none() {
        let (key, signature) = ("ab".repeat(32), "cd".repeat(64));
        let report = |text: String| text.parse::<SignedReport>().is_ok();
        assert!(report(format!("v1 {key} {signature}")));
        for odd in [
            String::new(),
            format!("v2 {key} {signature}"),
            format!("v1  {key} {signature}"),
            format!("v1 {key} {signature} "),
            format!("v1 {key} {signature} x"),
            format!("v1 {} {signature}", key.to_uppercase()),
            format!("v1 {} {signature}", &key[2..]),
            format!("v1 {key} {signature}00"),
            format!("v1 {key}"),
        ] {
            assert!(!report(odd.clone()), "{odd:?}");
        }
        let question = |text: String| text.parse::<SignedQuestion>().is_ok();
        assert!(question(format!("v1 {key} 1 2 {signature}")));
        for odd in ["01 2", "1 +2", "1 -2", "1 2.0", "1", "9007199254740992 1", "1 2 3"] {
            assert!(!question(format!("v1 {key} {odd} {signature}")), "{odd:?}");
        }
    }
}
