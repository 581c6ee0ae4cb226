//! Manifests, indexes and configurations: read, with nothing ambiguous left.

use std::collections::BTreeMap;

use protocol::Digest;
use serde::Deserialize;

use crate::error::quoted;
use crate::reference::sha256;

/// Most entries of an index that are looked at: the largest official images have a dozen platforms, each with an attestation.
const MAX_ENTRIES: usize = 256;
/// Most layers of a manifest: runtimes take 127.
const MAX_LAYERS: usize = 256;

/// Where other bytes are, and what somebody says of them.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Descriptor {
    #[serde(rename = "mediaType", default)]
    pub media_type: String,
    pub digest: String,
    #[serde(default)]
    pub size: u64,
    pub platform: Option<PlatformEntry>,
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
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct PlatformEntry {
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub architecture: String,
    #[serde(default, deserialize_with = "or_default")]
    pub variant: String,
}

/// An image's configuration: the parts that we read.
#[derive(Debug, Deserialize)]
pub(crate) struct ImageConfig {
    #[serde(flatten)]
    pub platform: PlatformEntry,
    #[serde(default, deserialize_with = "or_default")]
    pub config: ContainerConfig,
}

/// What a container gets.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ContainerConfig {
    #[serde(rename = "Labels", default, deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
}

/// A manifest's or an index's text.
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
pub struct Manifest {
    /// Of exactly the bytes that were read.
    pub digest: Digest,
    /// How many these are.
    pub size: u64,
    /// As the registry says, or the document where it does not.
    pub media_type: String,
    pub(crate) kind: ManifestKind,
}

/// What a document is.
#[derive(Debug, Clone)]
pub(crate) enum ManifestKind {
    /// One platform's image, or an artefact.
    Single { config: Descriptor, layers: Vec<Descriptor> },
    /// Several manifests.
    Index(Vec<Descriptor>),
}

impl Manifest {
    /// Reads `bytes`, whose digest is `digest`, sent as `media_type`.
    ///
    /// Errors, for a person: what is no manifest, or one to a runtime and another to us.
    pub fn read(bytes: &[u8], digest: Digest, media_type: &str) -> Result<Self, String> {
        let text: ManifestText =
            serde_json::from_slice(bytes).map_err(|_| "what was sent is no manifest".to_owned())?;
        let sent = media_type.split(';').next().unwrap_or_default().trim();
        // Runtimes go by the type, readers by the keys: both at once is a known trick (GHSA-77vh-xpmg-72qh).
        let kind = match (text.config, text.layers, text.manifests) {
            (Some(config), Some(layers), None) if layers.len() <= MAX_LAYERS => ManifestKind::Single { config, layers },
            (None, None, Some(entries)) if entries.len() <= MAX_ENTRIES => ManifestKind::Index(entries),
            _ => return Err("what was sent is neither a manifest nor an index, or too large a one".to_owned()),
        };
        let is_index = matches!(kind, ManifestKind::Index(_));
        let fits =
            |name: &str| match name {
                "application/vnd.oci.image.index.v1+json"
                | "application/vnd.docker.distribution.manifest.list.v2+json" => is_index,
                "application/vnd.oci.image.manifest.v1+json"
                | "application/vnd.docker.distribution.manifest.v2+json" => !is_index,
                // Registries send artefacts' manifests as plain JSON now and then.
                "" | "application/json" => true,
                _ => false,
            };
        let is_one =
            sent.is_empty() || text.media_type.is_empty() || sent == "application/json" || sent == text.media_type;
        if !is_one || !fits(sent) || !fits(&text.media_type) {
            let what =
                format!("the manifest has the type {}, its text another: {}", quoted(sent), quoted(&text.media_type));
            return Err(what);
        }
        let media_type = if text.media_type.is_empty() { sent.to_owned() } else { text.media_type };
        Ok(Self { digest, size: bytes.len() as u64, media_type, kind })
    }
}

/// `null`, which Go writes for an empty map, is nothing.
fn or_default<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}
