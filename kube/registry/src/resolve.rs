//! What a tag names: digest, platforms, and whether all of it is there (KUBE §4, point 1).

use std::collections::BTreeSet;
use std::fmt;

use protocol::Digest;

use crate::Result;
use crate::client::{MAX_MANIFEST, Registry};
use crate::error::{RegistryCode, RegistryError, quoted};
use crate::manifest::{Descriptor, ImageConfig, Manifest, ManifestKind, PlatformEntry};
use crate::reference::ImageReference;

/// Most platforms of an image, each of which costs two questions.
const MAX_PLATFORMS: usize = 64;
/// Longest part of a platform's name, bytes.
const MAX_PLATFORM_WORD: usize = 32;
/// The label that binds an image to a version (OCI image specification, annotations).
const VERSION_LABEL: &str = "org.opencontainers.image.version";

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
    /// `v7`, or empty. `v8` of arm64, which is the only one, is empty.
    pub variant: String,
    /// Of this platform's manifest.
    pub manifest: Digest,
    /// The label `org.opencontainers.image.version` of its configuration.
    pub version_label: Option<String>,
    /// Configuration and layers.
    blobs: Vec<Digest>,
}

impl ImagePlatform {
    fn is_like(&self, other: &Self) -> bool {
        (&self.os, &self.arch, &self.variant) == (&other.os, &other.arch, &other.variant)
    }
}

impl fmt::Display for ImagePlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.arch)?;
        if self.variant.is_empty() { Ok(()) } else { write!(f, "/{}", self.variant) }
    }
}

impl Registry {
    /// Asks what `image` names: by its digest where it has one, else by its tag.
    ///
    /// Errors: `image_absent`, `registry_unreachable`, `registry_denied`, `registry_answer`.
    pub fn resolve(&self, image: &ImageReference) -> Result<ImageFacts> {
        let found = self.manifest(image)?;
        let platforms = match &found.kind {
            ManifestKind::Single { .. } => vec![self.platform(image, &found, None)?],
            ManifestKind::Index(entries) => self.platforms(image, entries)?,
        };
        if platforms.is_empty() {
            return Err(RegistryError::answer(format!("{image} is an index without a platform")));
        }
        let Manifest { digest, size, media_type, .. } = found;
        Ok(ImageFacts { digest, size, media_type, platforms })
    }

    /// Whether `facts` has each platform of `present` (of the image that runs now; none: not known, so all of its own), each with
    /// configuration and layers.
    ///
    /// Errors: `image_absent` with what is not there; else as [`Registry::resolve`].
    pub fn check_content(&self, image: &ImageReference, facts: &ImageFacts, present: &[ImagePlatform]) -> Result<()> {
        let absent = |what: String| {
            RegistryError::new(RegistryCode::ImageAbsent, format!("{image} {what}"))
                .advise("it was pushed in part, or not for all platforms: push it again")
        };
        let wanted = if present.is_empty() { &facts.platforms[..] } else { present };
        let mut blobs = BTreeSet::new();
        for platform in wanted {
            let Some(found) = facts.platforms.iter().find(|found| found.is_like(platform)) else {
                return Err(absent(format!("has no {platform}, which the image that runs now has")));
            };
            blobs.extend(found.blobs.iter().map(|blob| (blob.0, found.to_string())));
        }
        let mut seen = BTreeSet::new();
        for (blob, platform) in blobs {
            if seen.insert(blob) && !self.has_blob(image, Digest(blob))? {
                return Err(absent(format!("lacks the layer or configuration sha256:{} of {platform}", Digest(blob))));
            }
        }
        Ok(())
    }

    fn platforms(&self, image: &ImageReference, entries: &[Descriptor]) -> Result<Vec<ImagePlatform>> {
        // Attestations of BuildKit stand among the platforms, as unknown/unknown.
        let named = entries.iter().filter_map(|entry| entry.platform.as_ref().map(|platform| (entry, platform)));
        let real: Vec<_> =
            named.filter(|(_, platform)| platform.os != "unknown" && platform.architecture != "unknown").collect();
        if real.len() > MAX_PLATFORMS {
            return Err(RegistryError::answer(format!("{image} has more than {MAX_PLATFORMS} platforms")));
        }
        let one = |(entry, platform): (&Descriptor, &PlatformEntry)| {
            let digest = entry.digest().map_err(|what| RegistryError::answer(format!("{image}: {what}")))?;
            let part = image.with_digest(digest);
            self.platform(&part, &self.manifest(&part)?, Some(platform))
        };
        real.into_iter().map(one).collect()
    }

    /// `named`: what the index says of it, by which runtimes choose.
    fn platform(
        &self,
        image: &ImageReference,
        found: &Manifest,
        named: Option<&PlatformEntry>,
    ) -> Result<ImagePlatform> {
        let bad = |what: String| RegistryError::answer(format!("{image}: {what}"));
        let ManifestKind::Single { config, layers } = &found.kind else {
            return Err(bad("an index within an index is not supported".to_owned()));
        };
        let digests = [config].into_iter().chain(layers).map(Descriptor::digest);
        let blobs = digests.collect::<Result<Vec<_>, _>>().map_err(bad)?;
        let text = self.blob(image, blobs[0], MAX_MANIFEST)?;
        let config: ImageConfig =
            serde_json::from_slice(&text).map_err(|_| bad("its configuration cannot be read".to_owned()))?;
        let PlatformEntry { os, architecture: arch, variant } = named.cloned().unwrap_or(config.platform);
        let is_word = |word: &String| {
            word.len() <= MAX_PLATFORM_WORD
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        if os.is_empty() || arch.is_empty() || ![&os, &arch, &variant].into_iter().all(is_word) {
            return Err(bad(format!("{} is no platform", quoted(&format!("{os}/{arch}/{variant}")))));
        }
        let variant = if arch == "arm64" && variant == "v8" { String::new() } else { variant };
        let version_label = config.config.labels.get(VERSION_LABEL).cloned();
        Ok(ImagePlatform { os, arch, variant, manifest: found.digest, version_label, blobs })
    }
}
