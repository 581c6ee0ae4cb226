//! Keys and signatures: Ed25519, ECDSA P-256 and RSA-PSS. Ids of keys are names without a meaning (they have changed under
//! clients before); whom a threshold counts is the key itself.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use error::Result;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};

use super::json::Fields;
use super::roles::invalid;

/// What stands before the point in the DER of a P-256 key: the algorithm, the curve, the length, no unused bits.
const P256_HEAD: &[u8] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
/// The algorithm of an RSA key in DER.
const RSA_ALGORITHM: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
/// Fewest bytes of RSAPublicKey in DER with a modulus of 2048 bits.
const MIN_RSA: usize = 266;
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// A key that can be used here.
struct VerifyingKey {
    algorithm: &'static dyn VerificationAlgorithm,
    /// As the library takes it: 32 bytes, a point, RSAPublicKey in DER. So no two algorithms have the same.
    bytes: Vec<u8>,
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl VerifyingKey {
    /// `None` for a key that cannot be used here: it neither counts nor harms.
    fn read(key: Fields<'_>) -> Option<Self> {
        let public = key.object("keyval").ok()?.text("public").ok()?;
        let (algorithm, bytes): (&dyn VerificationAlgorithm, _) =
            match (key.text("keytype").ok()?, key.text("scheme").ok()?) {
                ("ed25519", "ed25519") => {
                    (&signature::ED25519, base16ct::mixed::decode_vec(public).ok().filter(|bytes| bytes.len() == 32)?)
                }
                ("ecdsa" | "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256") => {
                    (&signature::ECDSA_P256_SHA256_ASN1, pem(public)?.strip_prefix(P256_HEAD)?.to_vec())
                }
                ("rsa", "rsassa-pss-sha256") => (&signature::RSA_PSS_2048_8192_SHA256, rsa(&pem(public)?)?),
                _ => return None,
            };
        Some(Self { algorithm, bytes })
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.algorithm, &self.bytes).verify(message, signature).is_ok()
    }
}

/// Whether `key`, as metadata has it, can ever be counted here.
pub fn is_usable(key: &serde_json::Value) -> bool {
    Fields::of("", "the key", Some(key)).ok().and_then(VerifyingKey::read).is_some()
}

/// Whether `signature` is that of the key `key`, as metadata has it, over `message`.
pub fn verifies(key: &serde_json::Value, message: &[u8], signature: &[u8]) -> bool {
    let key = Fields::of("", "the key", Some(key)).ok().and_then(VerifyingKey::read);
    key.is_some_and(|key| key.verifies(message, signature))
}

/// The DER in a PEM.
fn pem(text: &str) -> Option<Vec<u8>> {
    let inner = text.trim().strip_prefix("-----BEGIN PUBLIC KEY-----")?.strip_suffix("-----END PUBLIC KEY-----")?;
    let bare: String = inner.split_ascii_whitespace().collect();
    BASE64_STANDARD.decode(bare).ok()
}

/// RSAPublicKey out of SubjectPublicKeyInfo.
fn rsa(der: &[u8]) -> Option<Vec<u8>> {
    let (inner, b"") = element(SEQUENCE, der)? else { return None };
    let (algorithm, rest) = element(SEQUENCE, inner)?;
    let (bits, b"") = element(BIT_STRING, rest)? else { return None };
    let key = bits.strip_prefix(&[0]).filter(|key| key.len() >= MIN_RSA)?;
    (algorithm == RSA_ALGORITHM).then_some(key.to_vec())
}

/// The content of the DER element with this tag at the start of `der`, and what follows it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// The keys of a role, and how many of them must have signed.
#[derive(PartialEq)]
pub(super) struct RoleKeys {
    /// By their ids.
    keys: Vec<(String, VerifyingKey)>,
    pub(super) threshold: u64,
}

impl RoleKeys {
    /// Errors: `tuf_invalid` for a threshold below 1, or an id that stands there twice.
    pub(super) fn read(keys: Fields<'_>, role: Fields<'_>) -> Result<Self> {
        let threshold = role.number("threshold", 1)?;
        let mut ids = role.texts("keyids")?;
        let given = ids.len();
        ids.sort_unstable();
        ids.dedup();
        if ids.len() < given {
            return Err(invalid(role.role, "a role names a key twice"));
        }
        let usable = ids.into_iter().filter_map(|id| Some((id.to_owned(), VerifyingKey::read(keys.object(id).ok()?)?)));
        Ok(Self { keys: usable.collect(), threshold })
    }

    /// How many different keys of this role signed `message`.
    pub(super) fn count(&self, message: &[u8], signatures: &[(String, Vec<u8>)]) -> u64 {
        let mut signed: Vec<&VerifyingKey> = Vec::new();
        for (id, signature) in signatures {
            let key = self.keys.iter().find(|(known, _)| known == id).map(|(_, key)| key);
            // The same key under another id is the same signer.
            if let Some(key) = key.filter(|key| !signed.contains(key) && key.verifies(message, signature)) {
                signed.push(key);
            }
        }
        signed.len() as u64
    }
}
