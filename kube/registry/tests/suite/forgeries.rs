//! Each forgery breaks one thing in a signature that is good without it.

use std::collections::BTreeMap;

use protocol::Digest;
use registry::{ImageReference, Registry, RegistryCode, VersionBinding};
use serde_json::{Value, json};
use testing::cluster::Signer;
use testing::registry::{MANIFEST, StandInRegistry, bundle, simple_payload, statement};

use crate::support::{agent, key, open};

const REPOSITORY: &str = "team/agent";
const IN_TOTO: &str = "application/vnd.in-toto+json";
const SIGN: &str = "https://sigstore.dev/cosign/sign/v1";

/// A registry with the agent 2.0.0 and 1.0.0, not signed.
struct Bed {
    registry: StandInRegistry,
    image: Digest,
    old: Digest,
    signer: Signer,
    require: BTreeMap<String, String>,
}

impl Bed {
    fn new() -> Self {
        let registry = StandInRegistry::default();
        let push =
            |version: &str| registry.push_image(REPOSITORY, version, Some(version), &["linux/amd64", "linux/arm64"]);
        let (old, image) = (push("1.0.0"), push("2.0.0"));
        Self { registry, image, old, signer: Signer::fixed(1), require: BTreeMap::new() }
    }

    fn simple(&self, payload: &[u8], signature: &str) {
        self.registry.push_simple(REPOSITORY, self.image, payload, signature);
    }

    fn bundle(&self, bundle: &Value) {
        self.registry.push_bundle(REPOSITORY, self.image, bundle);
    }

    /// The payload of simple signing of the image, and its signature.
    fn good(&self) -> (Vec<u8>, String) {
        let payload = simple_payload(self.image, &Value::Null);
        let signature = self.signed(&payload);
        (payload, signature)
    }

    fn signed(&self, bytes: &[u8]) -> String {
        self.signer.sign(&Digest::of(bytes).0).trim().to_owned()
    }

    /// What the updater does before it writes 2.0.0: `None` where nothing speaks against it.
    fn refusal(&self) -> Option<RegistryCode> {
        let (client, wanted): (Registry, ImageReference) = (open(&self.registry), agent("2.0.0"));
        let facts = client.resolve(&wanted).unwrap();
        let proof = match client.verify(&wanted, facts.digest, &[key(&self.signer)], &self.require) {
            Ok(proof) => proof,
            Err(error) => return Some(error.code),
        };
        match VersionBinding::of(&"2.0.0".parse().unwrap(), &facts, Some(&proof), None) {
            VersionBinding::Bound => None,
            VersionBinding::Unbound => panic!("the images have labels"),
            VersionBinding::Mismatch(_) => Some(RegistryCode::Signature),
        }
    }
}

/// What is forged.
type Forgery = (&'static str, fn(&mut Bed));

const FORGERIES: &[Forgery] = &[
    ("the signature is another digest's", |bed| {
        let payload = simple_payload(bed.old, &Value::Null);
        bed.simple(&payload, &bed.signed(&payload));
    }),
    ("the bundle is another digest's", |bed| {
        bed.bundle(&bundle(&bed.signer, IN_TOTO, &statement(bed.old, SIGN, &json!({}))));
    }),
    ("another key signed", |bed| {
        bed.registry.sign_simple(REPOSITORY, bed.image, &Signer::fixed(2), &Value::Null);
        bed.registry.sign_bundle(REPOSITORY, bed.image, &Signer::fixed(2), &json!({}));
    }),
    ("the signature was stripped", |bed| {
        bed.simple(&bed.good().0, "");
    }),
    ("all signatures were stripped", |_| {}),
    ("the payload was swapped", |bed| {
        let (_, signature) = bed.good();
        bed.simple(&simple_payload(bed.image, &json!({"version": "2.0.0"})), &signature);
    }),
    ("the signature is no DER", |bed| {
        let (payload, signature) = bed.good();
        bed.simple(&payload, &signature.replace("ME", "MF"));
    }),
    ("the signature is empty DER", |bed| {
        bed.simple(&bed.good().0, "MAYCAQACAQA=");
    }),
    ("a signed old image stands under the new tag", |bed| {
        bed.registry.sign_simple(REPOSITORY, bed.old, &bed.signer, &Value::Null);
        let old = bed.registry.push_image(REPOSITORY, "1.0.0", Some("1.0.0"), &["linux/amd64", "linux/arm64"]);
        assert_eq!(old, bed.old);
        bed.registry.retag(REPOSITORY, "1.0.0", "2.0.0");
    }),
    ("a signed payload of another type", |bed| {
        let payload = simple_payload(bed.image, &Value::Null);
        let other = String::from_utf8(payload).unwrap().replace("cosign container image signature", "blob signature");
        bed.simple(other.as_bytes(), &bed.signed(other.as_bytes()));
    }),
    ("a bundle with a payload of another type", |bed| {
        bed.bundle(&bundle(&bed.signer, "text/plain", &statement(bed.image, SIGN, &json!({}))));
    }),
    ("a bundle whose payload type was changed after signing", |bed| {
        let mut forged = bundle(&bed.signer, "text/plain", &statement(bed.image, SIGN, &json!({})));
        forged["dsseEnvelope"]["payloadType"] = json!(IN_TOTO);
        bed.bundle(&forged);
    }),
    ("a bundle that says something else of the image", |bed| {
        let found = statement(bed.image, "https://cosign.sigstore.dev/attestation/vuln/v1", &json!({}));
        bed.bundle(&bundle(&bed.signer, IN_TOTO, &found));
    }),
    ("a bundle of another version", |bed| {
        let mut other = bundle(&bed.signer, IN_TOTO, &statement(bed.image, SIGN, &json!({})));
        other["mediaType"] = json!("application/vnd.dev.sigstore.bundle.v0.9+json");
        bed.bundle(&other);
    }),
    ("a statement of another version", |bed| {
        let payload =
            String::from_utf8(statement(bed.image, SIGN, &json!({}))).unwrap().replace("Statement/v1", "Statement/v9");
        bed.bundle(&bundle(&bed.signer, IN_TOTO, payload.as_bytes()));
    }),
    ("a layer of another type", |bed| {
        let (payload, signature) = bed.good();
        bed.simple(&payload, &signature);
        let tag = format!("sha256-{}.sig", bed.image);
        let mut manifest = bed.registry.there(REPOSITORY, &tag).unwrap();
        manifest["layers"][0]["mediaType"] = json!("application/json");
        bed.registry.push_manifest(REPOSITORY, Some(&tag), MANIFEST, &serde_json::to_vec(&manifest).unwrap());
    }),
    ("a bundle with a mutated subject", |bed| {
        let good = bundle(&bed.signer, IN_TOTO, &statement(bed.old, SIGN, &json!({})));
        let mut forged = bundle(&bed.signer, IN_TOTO, &statement(bed.image, SIGN, &json!({})));
        forged["dsseEnvelope"]["signatures"] = good["dsseEnvelope"]["signatures"].clone();
        bed.bundle(&forged);
    }),
    ("the signature is over the payload's JSON, written differently", |bed| {
        let (payload, _) = bed.good();
        let text: Value = serde_json::from_slice(&payload).unwrap();
        bed.simple(&payload, &bed.signed(&serde_json::to_vec_pretty(&text).unwrap()));
    }),
    ("the payload is cut", |bed| {
        let (payload, signature) = bed.good();
        bed.simple(&payload[..payload.len() - 1], &signature);
    }),
    ("the signature is cut", |bed| {
        let (payload, signature) = bed.good();
        bed.simple(&payload, &signature[..signature.len() - 4]);
    }),
    ("twenty candidates stand before the good one", |bed| {
        for _ in 0..20 {
            bed.registry.sign_simple(REPOSITORY, bed.image, &Signer::fixed(2), &Value::Null);
        }
        bed.registry.sign_simple(REPOSITORY, bed.image, &bed.signer, &Value::Null);
    }),
    ("twenty artefacts stand before the good bundle", |bed| {
        for number in 0..20 {
            bed.registry.sign_bundle(REPOSITORY, bed.image, &Signer::fixed(2), &json!({"number": number.to_string()}));
        }
        bed.registry.sign_bundle(REPOSITORY, bed.image, &bed.signer, &json!({}));
    }),
    ("a required annotation is not signed", |bed| {
        bed.require = BTreeMap::from([("version".into(), "2.0.0".into())]);
        bed.registry.sign_simple(REPOSITORY, bed.image, &bed.signer, &json!({"version": "1.0.0"}));
        bed.registry.sign_simple(REPOSITORY, bed.image, &bed.signer, &Value::Null);
        bed.registry.sign_bundle(REPOSITORY, bed.image, &bed.signer, &json!({}));
    }),
    ("the candidate is larger than 1 MiB", |bed| {
        let payload = [simple_payload(bed.image, &Value::Null), vec![b' '; 1 << 20]].concat();
        bed.simple(&payload, &bed.signed(&payload));
    }),
];

#[test]
fn every_forgery_is_refused() {
    for (name, forge) in FORGERIES {
        let mut bed = Bed::new();
        forge(&mut bed);
        assert_eq!(bed.refusal(), Some(RegistryCode::Signature), "{name}");
    }
}

#[test]
fn and_without_the_forgery_it_is_accepted() {
    let good: &[Forgery] = &[
        ("simple signing", |bed| {
            let (payload, signature) = bed.good();
            bed.simple(&payload, &signature);
        }),
        ("a bundle", |bed| bed.registry.sign_bundle(REPOSITORY, bed.image, &bed.signer, &json!({}))),
        ("referrers", |bed| {
            bed.registry.serve_referrers();
            bed.registry.sign_bundle(REPOSITORY, bed.image, &bed.signer, &json!({}));
        }),
        ("nineteen candidates before the good one", |bed| {
            for _ in 0..19 {
                bed.registry.sign_simple(REPOSITORY, bed.image, &Signer::fixed(2), &Value::Null);
            }
            bed.registry.sign_simple(REPOSITORY, bed.image, &bed.signer, &Value::Null);
        }),
        ("a required annotation in simple signing", |bed| {
            bed.require = BTreeMap::from([("version".into(), "2.0.0".into())]);
            bed.registry.sign_simple(REPOSITORY, bed.image, &bed.signer, &json!({"version": "2.0.0", "by": 3}));
        }),
        ("a required annotation in a bundle", |bed| {
            bed.require = BTreeMap::from([("version".into(), "2.0.0".into())]);
            bed.registry.sign_bundle(REPOSITORY, bed.image, &bed.signer, &json!({"version": "2.0.0"}));
        }),
        ("a candidate of a little less than 1 MiB", |bed| {
            let mut payload = simple_payload(bed.image, &Value::Null);
            payload.resize(1 << 20, b' ');
            bed.simple(&payload, &bed.signed(&payload));
        }),
        ("an artefact that is no signature before it", |bed| {
            let other =
                bundle(&bed.signer, IN_TOTO, &statement(bed.image, "https://slsa.dev/provenance/v1", &json!({})));
            bed.bundle(&other);
            bed.registry.sign_bundle(REPOSITORY, bed.image, &bed.signer, &json!({}));
        }),
    ];
    for (name, sign) in good {
        let mut bed = Bed::new();
        sign(&mut bed);
        assert_eq!(bed.refusal(), None, "{name}");
    }
}
