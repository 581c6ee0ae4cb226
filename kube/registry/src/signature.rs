//! What a signature covers: the two formats of cosign. Pure. A signature is checked before a byte of what it covers is read.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use protocol::Digest;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::quoted;
use crate::key::CosignKey;
use crate::reference::sha256;

/// The type that simple signing names itself.
const SIMPLE_SIGNING: &str = "cosign container image signature";
/// The payload of a bundle that we read.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// The statement "this image is signed". Under any other predicate the same key says something else of it, maybe that it is bad.
const SIGN_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
/// Most signatures of one envelope that are tried, each with each key.
const MAX_SIGNATURES: usize = 4;

/// What one of the keys has signed of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedClaim {
    /// The name of the key.
    pub key: String,
    /// Signed annotations that are text.
    pub annotations: BTreeMap<String, String>,
}

/// What simple signing's payload says: `critical` must be understood, `optional` are the annotations of `cosign sign -a`.
#[derive(Deserialize)]
struct SimplePayload {
    critical: Critical,
    optional: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Critical {
    image: SignedImage,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct SignedImage {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// A Sigstore bundle, as far as a key needs it: certificates and log entries are for signatures without a key.
#[derive(Deserialize)]
struct SigstoreBundle {
    #[serde(rename = "mediaType")]
    media_type: String,
    #[serde(rename = "dsseEnvelope")]
    envelope: DsseEnvelope,
}

#[derive(Deserialize)]
struct DsseEnvelope {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: String,
    signatures: Vec<DsseSignature>,
}

#[derive(Deserialize)]
struct DsseSignature {
    sig: String,
}

#[derive(Deserialize)]
struct InTotoStatement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<InTotoSubject>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
}

#[derive(Deserialize)]
struct InTotoSubject {
    digest: BTreeMap<String, String>,
    annotations: Option<Map<String, Value>>,
}

/// Checks a signature of simple signing: `payload` is the layer's bytes, `signature` its annotation.
///
/// Errors: why not, for a person.
pub fn simple_signing(
    payload: &[u8],
    signature: &str,
    image: Digest,
    keys: &[CosignKey],
) -> Result<SignedClaim, String> {
    let key = signer(payload, [signature].into_iter(), keys)?;
    let text: SimplePayload =
        serde_json::from_slice(payload).map_err(|_| "the signed text cannot be read".to_owned())?;
    if text.critical.kind != SIMPLE_SIGNING {
        return Err(format!("the signed text is not an image's signature but {}", quoted(&text.critical.kind)));
    }
    is_of(image, [text.critical.image.digest.as_str()].into_iter())?;
    Ok(SignedClaim { key, annotations: texts(text.optional) })
}

/// Checks a Sigstore bundle v0.3: a DSSE envelope with an in-toto statement.
///
/// Errors: why not, for a person.
pub fn bundle(bytes: &[u8], image: Digest, keys: &[CosignKey]) -> Result<SignedClaim, String> {
    let unread = |_| "the bundle cannot be read".to_owned();
    let SigstoreBundle { media_type, envelope } = serde_json::from_slice(bytes).map_err(unread)?;
    if media_type != "application/vnd.dev.sigstore.bundle.v0.3+json" {
        return Err(format!("the bundle is not v0.3 but {}", quoted(&media_type)));
    }
    let payload =
        BASE64_STANDARD.decode(&envelope.payload).map_err(|_| "the bundle's payload is not base64".to_owned())?;
    // The pre-authentication encoding of DSSE: the type is signed too.
    let kind = &envelope.payload_type;
    let mut signed = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    signed.extend_from_slice(&payload);
    let key = signer(&signed, envelope.signatures.iter().map(|signature| signature.sig.as_str()), keys)?;
    if kind != IN_TOTO {
        return Err(format!("the signed text is not an in-toto statement but {}", quoted(kind)));
    }
    let statement: InTotoStatement =
        serde_json::from_slice(&payload).map_err(|_| "the signed statement cannot be read".to_owned())?;
    let is_statement =
        matches!(statement.kind.as_str(), "https://in-toto.io/Statement/v1" | "https://in-toto.io/Statement/v0.1");
    if !is_statement || statement.predicate_type != SIGN_PREDICATE {
        return Err(format!("the signed statement says something else: {}", quoted(&statement.predicate_type)));
    }
    let digest =
        |subject: &InTotoSubject| subject.digest.get("sha256").map(|hex| format!("sha256:{hex}")).unwrap_or_default();
    let digests: Vec<String> = statement.subject.iter().map(digest).collect();
    is_of(image, digests.iter().map(String::as_str))?;
    // `cosign sign -a` writes its annotations to the subject.
    let ours = statement.subject.into_iter().zip(digests).find(|(_, digest)| sha256(digest) == Some(image));
    Ok(SignedClaim { key, annotations: texts(ours.and_then(|(subject, _)| subject.annotations)) })
}

/// The key that made one of `signatures` over `message`.
fn signer<'a>(message: &[u8], signatures: impl Iterator<Item = &'a str>, keys: &[CosignKey]) -> Result<String, String> {
    let mut signatures = signatures.take(MAX_SIGNATURES);
    let found = signatures.find_map(|signature| keys.iter().find(|key| key.has_signed(message, signature)));
    found.map(|key| key.name().to_owned()).ok_or_else(|| "none of the keys has made it".to_owned())
}

fn is_of<'a>(image: Digest, mut signed: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let is_ours = signed.any(|digest| sha256(digest) == Some(image));
    is_ours.then_some(()).ok_or_else(|| "it is another image's".to_owned())
}

fn texts(map: Option<Map<String, Value>>) -> BTreeMap<String, String> {
    let pairs = map.into_iter().flatten();
    pairs.filter_map(|(key, value)| value.as_str().map(|text| (key, text.to_owned()))).collect()
}
