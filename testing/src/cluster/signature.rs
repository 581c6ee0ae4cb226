//! Detached signatures: base64 of the DER form of ECDSA P-256 over SHA-256.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use p256::ecdsa::signature::hazmat::PrehashSigner;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::pkcs8::{EncodePublicKey, LineEnding};

/// A release key.
#[derive(Debug, Clone)]
pub struct Signer {
    key: SigningKey,
}

impl Signer {
    /// The key number `number`, the same in every run; 0 is no key.
    pub fn fixed(number: u8) -> Self {
        Self { key: SigningKey::from_slice(&[number; 32]).expect("a number from 1 to 254") }
    }

    /// The public half, as PEM (`BEGIN PUBLIC KEY`).
    pub fn public_key_pem(&self) -> String {
        self.key.verifying_key().to_public_key_pem(LineEnding::LF).unwrap()
    }

    /// The contents of a `.sig` file for an archive with this SHA-256.
    pub fn sign(&self, sha256: &[u8; 32]) -> String {
        let signature: DerSignature = self.key.sign_prehash(sha256).unwrap();
        BASE64_STANDARD.encode(signature.as_bytes()) + "\n"
    }
}
