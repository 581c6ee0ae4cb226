//! The operator's public keys.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::DecodePublicKey as _;

use crate::Result;
use crate::error::{RegistryCode, RegistryError, quoted};

/// A public key that `cosign generate-key-pair` makes: ECDSA P-256.
#[derive(Clone, Debug)]
pub struct CosignKey {
    name: String,
    key: VerifyingKey,
}

impl CosignKey {
    /// Reads PEM (`-----BEGIN PUBLIC KEY-----`). `name`: the file, as people are told.
    ///
    /// Errors: `config_invalid` for another key, or several.
    pub fn from_pem(name: &str, pem: &str) -> Result<Self> {
        let key = VerifyingKey::from_public_key_pem(pem.trim()).map_err(|_| {
            let what = format!("{} is not an ECDSA P-256 public key", quoted(name));
            let advice = "give one PEM file for each key (-----BEGIN PUBLIC KEY-----), as cosign.pub is";
            RegistryError::new(RegistryCode::ConfigInvalid, what, advice)
        })?;
        Ok(Self { name: name.to_owned(), key })
    }

    /// The file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether `signature`, base64 of DER, is this key's over `message`.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &str) -> bool {
        let der = BASE64_STANDARD.decode(signature).ok();
        let signature = der.and_then(|der| Signature::from_der(&der).ok());
        signature.is_some_and(|signature| self.key.verify(message, &signature).is_ok())
    }
}
