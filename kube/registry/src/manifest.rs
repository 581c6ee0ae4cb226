//! Manifests and indexes: read, with nothing ambiguous left.

use std::collections::BTreeMap;

use protocol::Digest;
use serde::{Deserialize, Deserializer};

use crate::error::quoted;
use crate::reference::sha256;

/// Most entries of an index, most layers of a manifest: the largest official images have a dozen platforms, each with an
/// attestation; runtimes take 127 layers.
const MAX_PARTS: usize = 256;

/// What an index may be.
pub(crate) const INDEX: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
/// What a manifest of one platform's image may be.
pub(crate) const SINGLE: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];

/// Where other bytes are, and what somebody says of them.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Descriptor {
    #[serde(rename = "mediaType", default)]
    pub media_type: String,
    pub digest: String,
    pub platform: Option<Platform>,
    #[serde(default, deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// Errors: what the digest is instead of SHA-256, for a person.
    pub(crate) fn digest(&self) -> Result<Digest, String> {
        sha256(&self.digest).ok_or_else(|| format!("{} is no sha256 digest", quoted(&self.digest)))
    }
}

/// What an image runs on, as an index and a configuration write it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Platform {
    pub os: String,
    pub architecture: String,
    #[serde(default, deserialize_with = "or_default")]
    pub variant: String,
}

#[derive(Deserialize)]
struct ManifestText {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

/// A manifest or an index that can be read in one way only.
#[derive(Debug, Clone)]
pub struct OciManifest {
    /// Of exactly the bytes that were read.
    pub digest: Digest,
    /// How many these are.
    pub size: u64,
    /// As the document says, or the registry where it does not.
    pub media_type: String,
    pub(crate) is_index: bool,
    /// The entries of an index; else configuration and layers.
    pub(crate) parts: Vec<Descriptor>,
}

impl OciManifest {
    /// Reads `bytes`, which were sent as `sent` (a media type, or empty).
    ///
    /// Errors, for a person: what is no manifest, or one to a runtime and another to us.
    pub fn read(bytes: &[u8], sent: &str) -> Result<Self, String> {
        let text: ManifestText = serde_json::from_slice(bytes).map_err(|_| "what was sent is no manifest")?;
        // Runtimes go by the type, readers by the keys: a text with both was a hole (GHSA-77vh-xpmg-72qh).
        let (parts, types) = match (text.config, text.layers, text.manifests) {
            (Some(config), Some(layers), None) => ([vec![config], layers].concat(), SINGLE),
            (None, None, Some(entries)) => (entries, INDEX),
            _ => return Err("what was sent is neither a manifest nor an index".to_owned()),
        };
        let sent = sent.split(';').next().unwrap_or_default().trim();
        let media_type = if text.media_type.is_empty() { sent } else { &text.media_type };
        let is_one = sent.is_empty() || sent == media_type;
        if !is_one || !(media_type.is_empty() || types.contains(&media_type)) || parts.len() > MAX_PARTS {
            let what = format!("the manifest was sent as {}, and is {}", quoted(sent), quoted(&text.media_type));
            return Err(format!("{what}, with {} parts", parts.len()));
        }
        let (digest, size, media_type) = (Digest::of(bytes), bytes.len() as u64, media_type.to_owned());
        Ok(Self { digest, size, media_type, is_index: types == INDEX, parts })
    }
}

/// `null`, which Go writes for an empty map, is nothing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}
