//! Signatures as cosign 2 and 3 push them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use protocol::Digest;
use serde_json::{Value, json};

use super::{INDEX, MANIFEST, StandInRegistry};
use crate::cluster::Signer;

/// The type of a bundle.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// What `cosign sign` of version 2 signs: `annotations` are those of `-a`.
pub fn simple_payload(image: Digest, annotations: &Value) -> Vec<u8> {
    let payload = json!({"critical": {"identity": {"docker-reference": "registry.example/agent"},
        "image": {"docker-manifest-digest": format!("sha256:{image}")}, "type": "cosign container image signature"},
        "optional": annotations});
    serde_json::to_vec(&payload).unwrap()
}

/// What `cosign sign` of version 3 signs.
pub fn statement(image: Digest, predicate_type: &str, annotations: &Value) -> Vec<u8> {
    let statement = json!({"_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": image.to_string()}, "annotations": annotations}],
        "predicateType": predicate_type, "predicate": {}});
    serde_json::to_vec(&statement).unwrap()
}

/// A bundle v0.3 with a DSSE envelope around `payload`.
pub fn bundle(signer: &Signer, payload_type: &str, payload: &[u8]) -> Value {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    let signature = signer.sign(&Digest::of(&[head.as_bytes(), payload].concat()).0);
    json!({"mediaType": BUNDLE, "verificationMaterial": {"publicKey": {"hint": "a hint"}},
        "dsseEnvelope": {"payload": BASE64_STANDARD.encode(payload), "payloadType": payload_type,
            "signatures": [{"sig": signature.trim()}]}})
}

/// How a registry and cosign describe an artefact: with the type of its configuration, which says nothing.
pub(super) fn entry(name: &str, manifest: &[u8]) -> Value {
    let text: Value = serde_json::from_slice(manifest).unwrap();
    json!({"mediaType": MANIFEST, "digest": name, "size": manifest.len(), "artifactType": text["config"]["mediaType"]})
}

impl StandInRegistry {
    /// Signs as cosign 2 does, beside the signatures that are there.
    pub fn sign_simple(&self, repository: &str, image: Digest, signer: &Signer, annotations: &Value) {
        let payload = simple_payload(image, annotations);
        let signature = signer.sign(&Digest::of(&payload).0);
        self.push_simple(repository, image, &payload, signature.trim());
    }

    /// Adds a layer of simple signing to the tag `sha256-HEX.sig`.
    pub fn push_simple(&self, repository: &str, image: Digest, payload: &[u8], signature: &str) {
        let tag = format!("sha256-{image}.sig");
        let empty = self.push_blob(b"{}");
        let mut manifest = self.there(repository, &tag).unwrap_or_else(|| json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "size": 2, "digest": format!("sha256:{empty}")},
            "layers": []}));
        let layer = json!({"mediaType": "application/vnd.dev.cosign.simplesigning.v1+json", "size": payload.len(),
            "digest": format!("sha256:{}", self.push_blob(payload)),
            "annotations": {"dev.cosignproject.cosign/signature": signature}});
        manifest["layers"].as_array_mut().unwrap().push(layer);
        self.push_manifest(repository, Some(&tag), MANIFEST, &serde_json::to_vec(&manifest).unwrap());
    }

    /// Signs as cosign 3 does.
    pub fn sign_bundle(&self, repository: &str, image: Digest, signer: &Signer, annotations: &Value) {
        let payload = statement(image, "https://sigstore.dev/cosign/sign/v1", annotations);
        self.push_bundle(repository, image, &bundle(signer, "application/vnd.in-toto+json", &payload));
    }

    /// Attaches a bundle: as a referrer, and under the tag `sha256-HEX` where the registry does not serve these.
    pub fn push_bundle(&self, repository: &str, image: Digest, bundle: &Value) {
        let bundle = serde_json::to_vec(bundle).unwrap();
        let empty = self.push_blob(b"{}");
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "size": 2, "digest": format!("sha256:{empty}")},
            "layers": [{"mediaType": BUNDLE, "size": bundle.len(), "digest": format!("sha256:{}", self.push_blob(&bundle))}],
            "subject": {"mediaType": INDEX, "size": 1, "digest": format!("sha256:{image}")}});
        self.attach(repository, image, &serde_json::to_vec(&manifest).unwrap());
    }

    /// Attaches an artefact whose manifest is given.
    pub fn attach(&self, repository: &str, image: Digest, manifest: &[u8]) {
        let digest = self.push_manifest(repository, None, MANIFEST, manifest);
        if self.shelf().has_referrers {
            return;
        }
        let tag = format!("sha256-{image}");
        let mut index = self
            .there(repository, &tag)
            .unwrap_or_else(|| json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}));
        index["manifests"].as_array_mut().unwrap().push(entry(&format!("sha256:{digest}"), manifest));
        self.push_manifest(repository, Some(&tag), INDEX, &serde_json::to_vec(&index).unwrap());
    }

    /// What a tag's manifest says, where there is one.
    pub fn there(&self, repository: &str, tag: &str) -> Option<Value> {
        let reply = self.shelf().manifest(repository, tag)?;
        Some(serde_json::from_slice(&reply.body).unwrap())
    }
}
