//! What a tag names: digest, platforms, and whether all of it is there (KUBE §4, point 1).

use std::collections::BTreeMap;
use std::fmt;

use protocol::Digest;
use serde_json::Value;

use crate::Result;
use crate::client::{MAX_MANIFEST, Registry};
use crate::error::{RegistryCode, RegistryError, quoted};
use crate::manifest::{Descriptor, OciManifest, Platform};
use crate::reference::{ImageReference, is_tag};

/// Most platforms of an image, each of which costs two questions.
const MAX_PLATFORMS: usize = 64;
/// Where a configuration has the label that binds it to a version (OCI image specification, annotations).
const VERSION_LABEL: &str = "/config/Labels/org.opencontainers.image.version";

/// What a reference names now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFacts {
    /// SHA-256 of the bytes of the index, or of the manifest where there is no index.
    pub digest: Digest,
    /// How many bytes these are.
    pub size: u64,
    /// The type of index or manifest.
    pub media_type: String,
    /// At least one.
    pub platforms: Vec<ImagePlatform>,
}

/// An image of one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePlatform {
    /// `linux`.
    pub os: String,
    /// As Go names it: `amd64`, `arm64`.
    pub arch: String,
    /// `v7`, or empty; `v8` of arm64, which has no other, is empty.
    pub variant: String,
    /// Of this platform's manifest.
    pub manifest: Digest,
    /// The label `org.opencontainers.image.version` of its configuration.
    pub version_label: Option<String>,
    /// Configuration and layers.
    blobs: Vec<Digest>,
}

impl fmt::Display for ImagePlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}{}{}", self.os, self.arch, if self.variant.is_empty() { "" } else { "/" }, self.variant)
    }
}

impl Registry {
    /// Asks what `image` names: by its digest where it has one, else by its tag.
    ///
    /// Errors: `image_absent`, `registry_unreachable`, `registry_denied`, `registry_answer`.
    pub fn resolve(&self, image: &ImageReference) -> Result<ImageFacts> {
        let found = self.manifest(image)?;
        let platforms =
            if found.is_index { self.platforms(image, &found)? } else { vec![self.platform(image, &found, None)?] };
        Ok(ImageFacts { digest: found.digest, size: found.size, media_type: found.media_type, platforms })
    }

    /// Whether `facts` has each platform of `present` (of the image that runs now; empty: not known, so all of its own), each with
    /// configuration and layers.
    ///
    /// Errors: `image_absent` with what is not there; else as [`Registry::resolve`].
    pub fn check_content(&self, image: &ImageReference, facts: &ImageFacts, present: &[ImagePlatform]) -> Result<()> {
        let mut blobs = BTreeMap::new();
        for wanted in if present.is_empty() { &facts.platforms } else { present } {
            let name = wanted.to_string();
            let found = facts.platforms.iter().find(|found| found.to_string() == name);
            let what = || format!("{image} has no {name}, which the image that runs now has");
            let found =
                found.ok_or_else(|| RegistryError::new(RegistryCode::ImageAbsent, what(), "push that platform"))?;
            blobs.extend(found.blobs.iter().map(|blob| (blob.0, found)));
        }
        for (blob, platform) in blobs {
            let there = self.ask(image, &format!("blobs/sha256:{}", Digest(blob)), "*/*", None);
            there
                .map_err(|error| RegistryError { what: format!("{platform} is not whole: {}", error.what), ..error })?;
        }
        Ok(())
    }

    fn platforms(&self, image: &ImageReference, index: &OciManifest) -> Result<Vec<ImagePlatform>> {
        let named = index.parts.iter().filter_map(|entry| Some((entry, entry.platform.as_ref()?)));
        // Attestations of BuildKit stand among the platforms, as unknown/unknown.
        let real: Vec<_> = named.filter(|(_, platform)| platform.os != "unknown").collect();
        if real.is_empty() || real.len() > MAX_PLATFORMS {
            return Err(RegistryError::answer(image, format!("it is an index with {} platforms", real.len())));
        }
        let one = |(entry, platform): (&Descriptor, _)| {
            let part = image.with_digest(entry.digest().map_err(|what| RegistryError::answer(image, what))?);
            self.platform(&part, &self.manifest(&part)?, Some(platform))
        };
        real.into_iter().map(one).collect()
    }

    /// `name`: what the index says of it, by which runtimes choose.
    fn platform(&self, image: &ImageReference, found: &OciManifest, name: Option<&Platform>) -> Result<ImagePlatform> {
        let bad = |what: &str| RegistryError::answer(image, what);
        if found.is_index {
            return Err(bad("an index within an index is not supported"));
        }
        let blobs =
            found.parts.iter().map(Descriptor::digest).collect::<Result<Vec<_>, _>>().map_err(|what| bad(&what))?;
        let text = self.blob(image, blobs[0], MAX_MANIFEST)?;
        let config: Value = serde_json::from_slice(&text).map_err(|_| bad("its configuration is not JSON"))?;
        let version_label = config.pointer(VERSION_LABEL).and_then(Value::as_str).map(str::to_owned);
        let own = || serde_json::from_value(config).map_err(|_| bad("its configuration has no platform"));
        let Platform { os, architecture: arch, mut variant } = name.cloned().map_or_else(own, Ok)?;
        if !is_tag(&os) || !is_tag(&arch) || !(variant.is_empty() || is_tag(&variant)) {
            return Err(bad(&format!("{} is no platform", quoted(&format!("{os}/{arch}/{variant}")))));
        }
        if arch == "arm64" && variant == "v8" {
            variant.clear();
        }
        Ok(ImagePlatform { os, arch, variant, manifest: found.digest, version_label, blobs })
    }
}
