//! Detached signatures of archives: ECDSA P-256 over the SHA-256 that was computed while unpacking (SPEC §4).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::{DecodePublicKey as _, EncodePublicKey as _};

use crate::report::{Code, Error, Result};
use protocol::Digest;

/// Length of a signature as bare r and s, bytes.
const RAW_LEN: usize = 64;

/// The key archives must be signed with. Parsed from PEM or from base64 DER (SPKI), shown as base64 DER.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
    der: Vec<u8>,
}

impl PublicKey {
    /// `SHA256:` and the base64 digest of the key, to compare by eye.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", BASE64_STANDARD.encode(Digest::of(&self.der).0))
    }

    /// Checks the text of a `.sig` file against an archive's digest.
    ///
    /// Errors: [`Code::SignatureInvalid`] for an empty, malformed or wrong signature.
    pub fn verify(&self, archive: Digest, signature: &[u8]) -> Result<()> {
        let invalid = |what: &str| Error::new(Code::SignatureInvalid, what);
        let text: Vec<u8> = signature.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        if text.is_empty() {
            return Err(invalid("the signature is empty"));
        }
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| invalid("the signature is not base64"))?;
        let parsed = match Signature::from_der(&bytes) {
            Err(_) if bytes.len() == RAW_LEN => Signature::from_slice(&bytes),
            parsed => parsed,
        };
        let parsed = parsed.map_err(|_| invalid("the signature is not an ECDSA P-256 signature"))?;
        self.key.verify_prehash(&archive.0, &parsed).map_err(|_| {
            invalid("the signature does not match the archive")
                .advise("do not install this archive; check the mirror and the configured public key")
        })
    }
}

impl FromStr for PublicKey {
    type Err = Error;

    /// Errors: [`Code::ConfigInvalid`].
    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            Error::new(Code::ConfigInvalid, "the public key is not an ECDSA P-256 public key")
                .advise("give it as PEM (-----BEGIN PUBLIC KEY-----) or as base64 DER")
        };
        let key = if text.contains("-----BEGIN") {
            VerifyingKey::from_public_key_pem(text.trim()).map_err(|_| refused())?
        } else {
            let bare: String = text.split_whitespace().collect();
            let der = BASE64_STANDARD.decode(bare).map_err(|_| refused())?;
            VerifyingKey::from_public_key_der(&der).map_err(|_| refused())?
        };
        let der = key.to_public_key_der().map_err(|_| refused())?.into_vec();
        Ok(Self { key, der })
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_STANDARD.encode(&self.der))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p256::ecdsa::SigningKey;
    use p256::ecdsa::signature::hazmat::PrehashSigner as _;
    use p256::pkcs8::LineEnding;

    fn pair(seed: u8) -> (SigningKey, PublicKey) {
        let signing = SigningKey::from_slice(&[seed; 32]).unwrap();
        let pem = signing.verifying_key().to_public_key_pem(LineEnding::LF).unwrap();
        (signing, pem.parse().unwrap())
    }

    fn sign(key: &SigningKey, digest: Digest) -> Signature {
        key.sign_prehash(&digest.0).unwrap()
    }

    #[test]
    fn a_signature_fits_as_der_and_raw_and_only_its_archive_and_key() {
        let (signing, public) = pair(1);
        let digest = Digest::of(b"archive");
        let signature = sign(&signing, digest);
        let der = BASE64_STANDARD.encode(signature.to_der().as_bytes());
        let raw = BASE64_STANDARD.encode(signature.to_bytes());
        let wrapped = format!("{}\n{}\n", &der[..20], &der[20..]);
        for text in [&der, &raw, &wrapped] {
            public.verify(digest, text.as_bytes()).unwrap();
            assert_eq!(public.verify(Digest::of(b"other"), text.as_bytes()).unwrap_err().code, Code::SignatureInvalid);
            assert_eq!(pair(2).1.verify(digest, text.as_bytes()).unwrap_err().code, Code::SignatureInvalid);
        }
    }

    #[test]
    fn no_signature_a_zero_signature_and_garbage_are_errors() {
        let (signing, public) = pair(1);
        let digest = Digest::of(b"archive");
        let zero = BASE64_STANDARD.encode([0; RAW_LEN]);
        let zero_der = BASE64_STANDARD.encode([0x30, 6, 2, 1, 0, 2, 1, 0]);
        let mut half = sign(&signing, digest).to_bytes();
        half[32..].fill(0);
        let half = BASE64_STANDARD.encode(half);
        for bad in ["", " \n", &zero, &zero_der, &half, "AAAA", "not base64!", "<html>"] {
            assert_eq!(public.verify(digest, bad.as_bytes()).unwrap_err().code, Code::SignatureInvalid, "{bad:?}");
        }
    }

    #[test]
    fn a_key_survives_being_stored_as_text_and_other_keys_are_refused() {
        let (_, public) = pair(1);
        assert_eq!(public.to_string().parse::<PublicKey>().unwrap(), public);
        assert!(public.fingerprint().starts_with("SHA256:"));
        for bad in ["", "AAAA", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "/etc/key.pem"] {
            assert_eq!(bad.parse::<PublicKey>().unwrap_err().code, Code::ConfigInvalid, "{bad:?}");
        }
    }
}
