//! What Debian's cosign 2.5 and 3.1 pushed, byte for byte (`vectors/`).

use std::collections::BTreeMap;

use protocol::Digest;
use registry::{CosignKey, FALLBACK_TAG, ImageReference, REFERRERS, SIG_TAG, SignatureProof};
use testing::registry::{INDEX, MANIFEST, StandInRegistry};

use crate::support::{image, open};

const PUBLIC_KEY: &str = include_str!("vectors/cosign.pub");
/// The SHA-256 of `index.json`, as cosign signed it.
const SIGNED: &str = "cbceff61508c637008cd0e2d3d457e541b0296debd49db29ffe580f02f1f7e5f";

macro_rules! vector {
    ($name:literal) => {
        include_bytes!(concat!("vectors/", $name))
    };
}

fn repository() -> (ImageReference, Digest) {
    (image("registry.example/im:1.0.0"), SIGNED.parse().unwrap())
}

fn found(registry: &StandInRegistry) -> SignatureProof {
    assert_eq!(registry.push_manifest("im", Some("1.0.0"), INDEX, vector!("index.json")).to_string(), SIGNED);
    let (image, digest) = repository();
    let keys = [CosignKey::from_pem("cosign.pub", PUBLIC_KEY).unwrap()];
    open(registry).verify(&image, digest, &keys, &BTreeMap::new()).unwrap()
}

#[test]
fn cosign_2_is_accepted() {
    let registry = StandInRegistry::default();
    registry.push_blob(vector!("cosign2.payload.json"));
    registry.push_manifest("im", Some(&format!("sha256-{SIGNED}.sig")), MANIFEST, vector!("cosign2.manifest.json"));
    let proof = found(&registry);
    assert_eq!((proof.place, proof.claim.key.as_str()), (SIG_TAG, "cosign.pub"));
    assert!(proof.claim.annotations.is_empty());
}

#[test]
fn cosign_3_in_the_old_format_is_accepted() {
    let registry = StandInRegistry::default();
    registry.push_blob(vector!("cosign3-old.payload.json"));
    registry.push_manifest("im", Some(&format!("sha256-{SIGNED}.sig")), MANIFEST, vector!("cosign3-old.manifest.json"));
    assert_eq!(found(&registry).place, SIG_TAG);
}

fn with_bundle() -> StandInRegistry {
    let registry = StandInRegistry::default();
    registry.push_blob(vector!("cosign3.bundle.json"));
    registry.push_manifest("im", None, MANIFEST, vector!("cosign3.manifest.json"));
    registry
}

#[test]
fn cosign_3_is_accepted_by_the_fallback_tag() {
    let registry = with_bundle();
    registry.push_manifest("im", Some(&format!("sha256-{SIGNED}")), INDEX, vector!("cosign3.fallback-index.json"));
    assert_eq!(found(&registry).place, FALLBACK_TAG);
}

#[test]
fn cosign_3_is_accepted_by_referrers_and_then_the_fallback_tag_is_not_asked() {
    let registry = with_bundle();
    registry.serve_referrers();
    assert_eq!(found(&registry).place, REFERRERS);
    let asked = registry.questions();
    assert!(!asked.iter().any(|question| question.path.ends_with(&format!("/manifests/sha256-{SIGNED}"))), "{asked:?}");
}
