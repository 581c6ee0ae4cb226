//! What registries and docker's files say: nothing of it is believed beyond a digest or a signature.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol::Digest;
use registry::{
    CosignKey, DockerAuths, ImageReference, OciManifest, Registry, RegistryCode, RegistryError, Transport,
    TransportCall, TransportReply, bundle, challenge, simple_signing,
};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde_json::Value;

/// The key of the seeds, and the image that it signed: those of the registry crate's vectors.
const KEY: &str = include_str!("../../../kube/registry/tests/suite/vectors/cosign.pub");
const IMAGE: &str = "cbceff61508c637008cd0e2d3d457e541b0296debd49db29ffe580f02f1f7e5f";
/// Bytes of a public key at the end of its DER form.
const POINT: usize = 65;

/// Any text as the name of an image: what is accepted is printed as it was, and needs no escape in a URL.
pub fn image_reference(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<ImageReference>() {
        Ok(image) => {
            assert_eq!(image.to_string(), text);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
            assert!(
                image.path().bytes().all(is_plain)
                    && !image.path().split('/').any(|part| part.is_empty() || part == "..")
            );
            assert!(!image.path().bytes().any(|byte| byte.is_ascii_uppercase()));
            assert!(image.host().bytes().all(|byte| is_plain(byte) && byte != b'/' || b":[]".contains(&byte)));
            assert!(image.name().ends_with(image.short_name()) && image.name().len() <= 255);
            let other = image.with_tag("1.0.0").unwrap().with_digest(Digest::of(b""));
            assert_eq!(other.to_string().parse::<ImageReference>().unwrap(), other);
            assert_eq!((other.host(), other.path()), (image.host(), image.path()));
        }
        Err(error) => {
            assert_eq!(error.code, RegistryCode::ConfigInvalid);
            assert!(error.what.len() < 1200, "a whole page in a message");
        }
    }
}

/// Any bytes as a manifest: what is accepted is one thing, to a reader of the type and to a reader of the keys.
pub fn image_manifest(bytes: &[u8]) {
    for sent in ["", "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.v2+json"]
    {
        let Ok(found) = OciManifest::read(bytes, sent) else { continue };
        assert_eq!((found.digest, found.size), (Digest::of(bytes), bytes.len() as u64));
        // In what is passed over, serde looks neither at encodings nor at sizes of numbers.
        let Ok(text) = serde_json::from_slice::<Value>(bytes) else { continue };
        let has = |key: &str| text.get(key).is_some_and(|value| !value.is_null());
        assert!(has("manifests") != has("layers") && has("layers") == has("config"));
        let is_index = found.media_type.contains("index") || found.media_type.contains("list");
        assert!(found.media_type.is_empty() || is_index == has("manifests"), "{}", found.media_type);
        assert!(sent.is_empty() || found.media_type == sent);
    }
}

/// Any bytes as docker's `config.json`: an error is one line, and shows no password.
pub fn docker_config(bytes: &[u8]) {
    if let Err(error) = DockerAuths::from_json(bytes).map(drop) {
        assert_eq!(error.code, RegistryCode::ConfigInvalid);
        let line = error.to_string();
        assert!(line.len() < 1500 && !line.chars().any(char::is_control), "{line:?}");
    }
}

/// Any text as `WWW-Authenticate`: nothing is found that is not there.
pub fn registry_challenge(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for (name, value) in challenge(text, "Bearer").into_iter().flatten() {
        assert!(text.contains(&value) && text.to_ascii_lowercase().contains(&name));
    }
}

/// Any bytes as a bundle, and as a line with a signature before a payload: what is accepted, `ring` accepts as well.
pub fn cosign_signature(bytes: &[u8]) {
    let (image, keys): (Digest, _) = (IMAGE.parse().unwrap(), [CosignKey::from_pem("cosign.pub", KEY).unwrap()]);
    let other = Digest::of(b"another image");
    if let Some((signature, payload)) = split(bytes) {
        let claim = simple_signing(payload, signature, image, &keys);
        let text: Value = serde_json::from_slice(payload).unwrap_or_default();
        let names = text.pointer("/critical/image/docker-manifest-digest").and_then(Value::as_str);
        let is_ours =
            names == Some(&format!("sha256:{image}")) && text["critical"]["type"] == "cosign container image signature";
        assert_eq!(claim.is_ok(), is_ours && is_signed(payload, signature), "{claim:?}");
        assert!(simple_signing(payload, signature, other, &keys).is_err());
    }
    if bundle(bytes, image, &keys).is_ok() {
        let text: Value = serde_json::from_slice(bytes).unwrap();
        let envelope = &text["dsseEnvelope"];
        let payload = BASE64_STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
        let head = format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len());
        let mut signatures = envelope["signatures"].as_array().unwrap().iter().filter_map(|one| one["sig"].as_str());
        assert!(signatures.any(|signature| is_signed(&[head.as_bytes(), &payload].concat(), signature)));
        assert!(String::from_utf8(payload).unwrap().contains(IMAGE));
    }
    assert!(bundle(bytes, other, &keys).is_err());
}

fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

fn is_signed(message: &[u8], signature: &str) -> bool {
    let body: String = KEY.lines().filter(|line| !line.starts_with('-')).collect();
    let der = BASE64_STANDARD.decode(body).unwrap();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &der[der.len() - POINT..]);
    BASE64_STANDARD.decode(signature).is_ok_and(|signature| key.verify(message, &signature).is_ok())
}

/// Gives what a fuzzer wrote, piece by piece, to whatever is asked.
struct Script(Mutex<Vec<Vec<u8>>>);

impl Transport for Script {
    fn send(&self, call: &TransportCall<'_>) -> Result<TransportReply, RegistryError> {
        assert!(
            call.url.starts_with("https://") && call.url.bytes().all(|byte| byte.is_ascii_graphic()),
            "{}",
            call.url
        );
        assert!(
            call.authorization.is_none_or(|value| value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()))
        );
        let piece = self.0.lock().unwrap().pop().ok_or_else(|| RegistryError::unreachable("the script is over"))?;
        let mut lines = piece.splitn(3, |byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned());
        let mut next = || lines.next().unwrap_or_default();
        let (status, field) = (next().parse().unwrap_or(200), next());
        let headers = field.split_once(": ").map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(TransportReply { status, headers: headers.into_iter().collect(), body: next().into_bytes() })
    }
}

/// Any answers of a registry, each of a status, a header field and a body (lines; answers end with `---`): an error is one
/// line, and nothing that was not signed is found signed.
pub fn registry_answers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut pieces: Vec<_> = text.split("\n---\n").map(|piece| piece.as_bytes().to_owned()).collect();
    pieces.reverse();
    let auths = DockerAuths::from_json(br#"{"auths": {"registry.example": {"username": "me", "password": "secret"}}}"#)
        .unwrap();
    let client = Registry::new(Box::new(Script(Mutex::new(pieces))), auths, Vec::new());
    let image: ImageReference = "registry.example/team/agent:2.0.0".parse().unwrap();
    let told = |error: &RegistryError| {
        let line = error.to_string();
        assert!(!line.chars().any(char::is_control) && !line.contains("secret"), "{line:?}");
    };
    match client.resolve(&image) {
        Ok(facts) => {
            assert!(!facts.platforms.is_empty());
            let _ = client.check_content(&image, &facts, &[]).inspect_err(told);
        }
        Err(error) => told(&error),
    }
    let keys = [CosignKey::from_pem("cosign.pub", KEY).unwrap()];
    told(&client.verify(&image, Digest::of(b"never signed"), &keys, &BTreeMap::new()).unwrap_err());
}
