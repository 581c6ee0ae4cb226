//! Images as `docker buildx` pushes them.

use protocol::Digest;
use serde_json::{Value, json};

use super::{INDEX, MANIFEST, StandInRegistry};

impl StandInRegistry {
    /// Pushes an index with these platforms (`OS/ARCH[/VARIANT]`), each with a layer and a configuration, and an attestation.
    /// `version`: the label `org.opencontainers.image.version`. Gives the index's digest.
    pub fn push_image(&self, repository: &str, tag: &str, version: Option<&str>, platforms: &[&str]) -> Digest {
        let platform = |name: &str| {
            let bytes = self.manifest_of(repository, tag, version, name);
            let digest = self.push_manifest(repository, None, MANIFEST, &bytes);
            let mut words = name.split('/');
            let mut platform = json!({"os": words.next(), "architecture": words.next()});
            if let Some(variant) = words.next() {
                platform["variant"] = json!(variant);
            }
            json!({"mediaType": MANIFEST, "digest": format!("sha256:{digest}"), "size": bytes.len(), "platform": platform})
        };
        let mut entries: Vec<Value> = platforms.iter().map(|name| platform(name)).collect();
        // BuildKit's attestation of a platform: a manifest like others.
        let bytes = self.manifest_of(repository, tag, None, "unknown/unknown");
        let digest = self.push_manifest(repository, None, MANIFEST, &bytes);
        entries.push(json!({"mediaType": MANIFEST, "digest": format!("sha256:{digest}"), "size": bytes.len(),
            "annotations": {"vnd.docker.reference.type": "attestation-manifest"},
            "platform": {"os": "unknown", "architecture": "unknown"}}));
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries});
        self.push_manifest(repository, Some(tag), INDEX, &serde_json::to_vec(&index).unwrap())
    }

    /// Pushes a manifest without an index. Gives its digest.
    pub fn push_single(&self, repository: &str, tag: &str, version: Option<&str>, platform: &str) -> Digest {
        let bytes = self.manifest_of(repository, tag, version, platform);
        self.push_manifest(repository, Some(tag), MANIFEST, &bytes)
    }

    /// The bytes of a platform's layer.
    pub fn layer(repository: &str, tag: &str, platform: &str) -> Vec<u8> {
        format!("the layer of {repository}:{tag} for {platform}").into_bytes()
    }

    fn manifest_of(&self, repository: &str, tag: &str, version: Option<&str>, platform: &str) -> Vec<u8> {
        let mut words = platform.split('/');
        // Go writes null for a map without entries.
        let labels = version.map(|version| json!({"org.opencontainers.image.version": version}));
        let config = json!({"os": words.next(), "architecture": words.next(), "variant": words.next().unwrap_or_default(),
            "config": {"Labels": labels}});
        let config = serde_json::to_vec(&config).unwrap();
        let layer = Self::layer(repository, tag, platform);
        let part = |media_type: &str, bytes: &[u8]| {
            json!({"mediaType": media_type, "size": bytes.len(),
            "digest": format!("sha256:{}", self.push_blob(bytes))})
        };
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "config": part("application/vnd.oci.image.config.v1+json", &config),
            "layers": [part("application/vnd.oci.image.layer.v1.tar+gzip", &layer)]});
        serde_json::to_vec(&manifest).unwrap()
    }
}
