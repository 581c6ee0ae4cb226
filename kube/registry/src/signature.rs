//! The operator's keys and what their signatures cover: the two formats of cosign. Pure. A signature is checked before what it covers is read.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use p256::ecdsa::signature::Verifier as _;
use p256::ecdsa::{Signature, VerifyingKey};
use p256::pkcs8::DecodePublicKey as _;
use protocol::Digest;
use protocol::installer::attributes;
use serde_json::Value;

use crate::Result;
use crate::error::{RegistryCode, RegistryError, quoted};

/// What simple signing says it is.
const SIMPLE_SIGNING: &str = "cosign container image signature";
/// The only bundle that cosign writes to registries.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The payload of a bundle that we read.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// "This image is signed". Under another predicate the same key says something else of it, maybe that it is bad.
const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
/// Most signatures of one envelope that are tried, each with each key.
const MAX_SIGNATURES: usize = 4;

/// A public key that `cosign generate-key-pair` makes: ECDSA P-256.
#[derive(Clone, Debug)]
pub struct CosignKey {
    /// The file, as people are told.
    pub name: String,
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

    /// Whether `signature`, base64 of DER, is this key's over `message`.
    pub(crate) fn has_signed(&self, message: &[u8], signature: &str) -> bool {
        let der = BASE64_STANDARD.decode(signature).ok();
        let signature = der.and_then(|der| Signature::from_der(&der).ok());
        signature.is_some_and(|signature| self.key.verify(message, &signature).is_ok())
    }
}

/// What one of the keys has signed of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedClaim {
    /// The name of the key.
    pub key: String,
    /// Signed annotations that are text (`cosign sign -a NAME=VALUE`).
    pub annotations: BTreeMap<String, String>,
}

/// Checks a signature of simple signing: `bytes` are the layer's, `signature` its annotation.
///
/// Errors: why it does not count, for a person.
pub fn simple_signing(bytes: &[u8], signature: &str, image: Digest, keys: &[CosignKey]) -> Result<SignedClaim, String> {
    let key = signer(bytes, &[signature], keys)?;
    let text: Value = serde_json::from_slice(bytes).map_err(|_| "the signed text is not JSON")?;
    must_be(text.pointer("/critical/type"), SIMPLE_SIGNING, "type")?;
    must_be(text.pointer("/critical/image/docker-manifest-digest"), &format!("sha256:{image}"), "image")?;
    Ok(SignedClaim { key, annotations: attributes(&text["optional"]) })
}

/// Checks a Sigstore bundle v0.3: a DSSE envelope with an in-toto statement.
///
/// Errors: why it does not count, for a person.
pub fn bundle(bytes: &[u8], image: Digest, keys: &[CosignKey]) -> Result<SignedClaim, String> {
    let text: Value = serde_json::from_slice(bytes).map_err(|_| "the bundle is not JSON")?;
    must_be(text.get("mediaType"), BUNDLE, "type")?;
    let field = |path| text.pointer(path).and_then(Value::as_str).ok_or("the bundle has no DSSE envelope");
    let (kind, payload) = (field("/dsseEnvelope/payloadType")?, field("/dsseEnvelope/payload")?);
    let payload = BASE64_STANDARD.decode(payload).map_err(|_| "the bundle's payload is not base64")?;
    let made = text.pointer("/dsseEnvelope/signatures").and_then(Value::as_array).into_iter().flatten();
    let made: Vec<_> = made.filter_map(|one| one.get("sig")?.as_str()).take(MAX_SIGNATURES).collect();
    // The pre-authentication encoding of DSSE: the payload's type is signed too.
    let encoded = [format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).as_bytes(), &payload].concat();
    let key = signer(&encoded, &made, keys)?;
    must_be(text.pointer("/dsseEnvelope/payloadType"), IN_TOTO, "payload")?;
    let statement: Value = serde_json::from_slice(&payload).map_err(|_| "the signed statement is not JSON")?;
    must_be(statement.get("_type"), "https://in-toto.io/Statement/v1", "statement")?;
    must_be(statement.get("predicateType"), SIGN, "predicate")?;
    let subjects = statement.get("subject").and_then(Value::as_array).into_iter().flatten();
    let hex = image.to_string();
    let subject =
        subjects.clone().find(|subject| subject.pointer("/digest/sha256").is_some_and(|found| *found == hex.as_str()));
    let subject = subject.ok_or("it is another image's")?;
    // `cosign sign -a` writes to the subject; the first versions 3 signed no annotations at all (sigstore/cosign#4508).
    Ok(SignedClaim { key, annotations: attributes(&subject["annotations"]) })
}

/// The name of the key that made one of `signatures` over `message`.
fn signer(message: &[u8], signatures: &[&str], keys: &[CosignKey]) -> Result<String, String> {
    let key = keys.iter().find(|key| signatures.iter().any(|signature| key.has_signed(message, signature)));
    key.map(|key| key.name.clone()).ok_or_else(|| "none of the keys has made it".to_owned())
}

fn must_be(found: Option<&Value>, wanted: &str, what: &str) -> Result<(), String> {
    let found = found.and_then(Value::as_str).unwrap_or_default();
    if found == wanted { Ok(()) } else { Err(format!("its {what} is {}, not {wanted}", quoted(found))) }
}
