//! The hash chain of the audit log (FLEET §8): SHA-256 over the hash of the record before and all fields of this one.
//!
//! The bytes that are hashed: [`DOMAIN`], then each of previous, seq, at, who, from, action, subject, done, detail, before
//! and after as its length (8 bytes, big-endian) and its bytes. Numbers are decimal, `done` is `0` or `1`, times and detail
//! are the texts as stored, hashes are 64 lower-case hexadecimal digits.

use sha2::{Digest, Sha256};

/// Tells these hashes from those of anything else.
const DOMAIN: &[u8] = b"teleport-fleet audit 1\n";

/// Stands for the record before the first.
pub(crate) const START: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A record as it is hashed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link<'a> {
    pub(crate) previous: &'a str,
    pub(crate) seq: u64,
    pub(crate) at: &'a str,
    pub(crate) who: &'a str,
    pub(crate) from: &'a str,
    pub(crate) action: &'a str,
    pub(crate) subject: &'a str,
    pub(crate) done: bool,
    pub(crate) detail: &'a str,
    pub(crate) before: &'a str,
    pub(crate) after: &'a str,
}

impl Link<'_> {
    /// Its hash, as text.
    pub(crate) fn hash(&self) -> String {
        let Self { previous, at, who, from, action, subject, detail, before, after, .. } = *self;
        let (seq, done) = (self.seq.to_string(), if self.done { "1" } else { "0" });
        let mut hasher = Sha256::new_with_prefix(DOMAIN);
        for field in [previous, &seq, at, who, from, action, subject, done, detail, before, after] {
            // A length never exceeds 64 bits.
            hasher.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(field);
        }
        base16ct::lower::encode_string(&hasher.finalize())
    }
}
