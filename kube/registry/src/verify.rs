//! Where signatures are, and which one counts (KUBE §4, point 2).

use std::collections::BTreeMap;

use protocol::Digest;

use crate::Result;
use crate::client::Registry;
use crate::error::{RegistryCode, RegistryError};
use crate::manifest::{Descriptor, OciManifest};
use crate::reference::ImageReference;
use crate::signature::{BUNDLE, CosignKey, SignedClaim, bundle, simple_signing};

/// Most candidates of an image, over all places: each costs requests.
const MAX_CANDIDATES: usize = 20;
/// Largest candidate, bytes: a signature has a few hundred, with certificates and log entries some ten thousand.
const MAX_CANDIDATE: u64 = 1 << 20;
/// Most reasons that an error tells.
const MAX_REASONS: usize = 3;
/// A layer of simple signing.
const SIMPLE_LAYER: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The annotation with its signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// The tag of cosign 2, and of cosign 3 in the old format.
pub const SIG_TAG: &str = "sha256-HEX.sig";
/// The registry's referrers API: cosign 3.
pub const REFERRERS: &str = "referrers";
/// The tag of cosign 3 where the registry does not serve that API.
pub const FALLBACK_TAG: &str = "sha256-HEX";

/// The signature that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureProof {
    /// Who signed what.
    pub claim: SignedClaim,
    /// Where it was: [`SIG_TAG`], [`REFERRERS`] or [`FALLBACK_TAG`].
    pub place: &'static str,
    /// The annotations that had to be signed, and are.
    pub required: BTreeMap<String, String>,
}

/// A look through the three places.
struct SignatureSearch<'a> {
    registry: &'a Registry,
    /// With the digest whose signature is looked for.
    image: ImageReference,
    digest: Digest,
    keys: &'a [CosignKey],
    required: &'a BTreeMap<String, String>,
    /// Candidates that were opened.
    count: usize,
    /// Why they do not count.
    reasons: Vec<String>,
    /// What could not be read now: another look may find a signature there.
    unread: Option<RegistryError>,
}

impl Registry {
    /// Looks for a signature over `digest`, in the repository of `image`, by one of `keys`, with all annotations of `required`
    /// signed. One suffices.
    ///
    /// Errors: `signature`; `registry_unreachable` or `registry_denied` where there is none but not all could be read.
    pub fn verify(
        &self,
        image: &ImageReference,
        digest: Digest,
        keys: &[CosignKey],
        required: &BTreeMap<String, String>,
    ) -> Result<SignatureProof> {
        let (image, reasons) = (image.with_digest(digest), Vec::new());
        let mut search =
            SignatureSearch { registry: self, image, digest, keys, required, count: 0, reasons, unread: None };
        search.sig_tag().or_else(|| search.bundles()).ok_or_else(|| search.failure())
    }
}

impl SignatureSearch<'_> {
    fn sig_tag(&mut self) -> Option<SignatureProof> {
        let found = self.tag(&format!("sha256-{}.sig", self.digest))?;
        self.first(SIG_TAG, if found.is_index { &[] } else { &found.parts[1..] })
    }

    /// Referrers; where the registry does not serve them, what cosign writes in their place.
    fn bundles(&mut self) -> Option<SignatureProof> {
        let found = self.registry.referrers(&self.image, self.digest);
        let (place, found) = match found.map_err(|error| self.told(error)).ok()? {
            Some(found) => (REFERRERS, found),
            None => (FALLBACK_TAG, self.tag(&format!("sha256-{}", self.digest))?),
        };
        self.first(place, if found.is_index { &found.parts } else { &[] })
    }

    /// The first of the candidates that counts.
    fn first(&mut self, place: &'static str, candidates: &[Descriptor]) -> Option<SignatureProof> {
        for candidate in candidates {
            self.count += 1;
            if self.count > MAX_CANDIDATES {
                self.reasons.insert(0, format!("only the first {MAX_CANDIDATES} candidates are read"));
                return None;
            }
            let claim = match place {
                SIG_TAG => self.simple(candidate),
                _ => self.bundle(candidate),
            };
            match claim.and_then(|claim| self.with_required(claim)) {
                Ok(claim) => return Some(SignatureProof { claim, place, required: self.required.clone() }),
                Err(why) => self.reasons.push(format!("{place}: {why}")),
            }
        }
        None
    }

    fn simple(&mut self, layer: &Descriptor) -> Result<SignedClaim, String> {
        let signature = layer.annotations.get(SIGNATURE).filter(|_| layer.media_type == SIMPLE_LAYER);
        let signature = signature.ok_or("a layer is no signature")?;
        simple_signing(&self.content(layer)?, signature, self.digest, self.keys)
    }

    /// Opens an artefact, whatever the entry says it is: cosign 3 writes the type of its empty configuration there.
    fn bundle(&mut self, entry: &Descriptor) -> Result<SignedClaim, String> {
        let artefact = self.image.with_digest(entry.digest()?);
        let found = self.registry.manifest(&artefact).map_err(|error| self.told(error))?;
        let layer = found.parts.iter().find(|layer| layer.media_type == BUNDLE).ok_or("an artefact is no signature")?;
        bundle(&self.content(layer)?, self.digest, self.keys)
    }

    fn content(&mut self, layer: &Descriptor) -> Result<Vec<u8>, String> {
        let digest = layer.digest()?;
        self.registry.blob(&self.image, digest, MAX_CANDIDATE).map_err(|error| self.told(error))
    }

    /// The manifest at a tag, where there is one.
    fn tag(&mut self, tag: &str) -> Option<OciManifest> {
        let found = self.image.with_tag(tag).and_then(|image| self.registry.manifest(&image));
        found.map_err(|error| self.told(error)).ok()
    }

    /// An error's text; one that may pass is kept.
    fn told(&mut self, error: RegistryError) -> String {
        let what = error.what.clone();
        if matches!(error.code, RegistryCode::RegistryUnreachable | RegistryCode::RegistryDenied) {
            self.unread = Some(error);
        }
        what
    }

    fn with_required(&self, claim: SignedClaim) -> Result<SignedClaim, String> {
        let lack = self.required.iter().find(|(name, value)| claim.annotations.get(*name) != Some(*value));
        lack.map_or(Ok(claim), |(name, value)| Err(format!("{name:?}: {value:?} is not among its signed annotations")))
    }

    fn failure(mut self) -> RegistryError {
        if let Some(error) = self.unread {
            return error;
        }
        self.reasons.dedup();
        let why = self.reasons.iter().take(MAX_REASONS).fold(String::new(), |all, why| all + "; " + why);
        let what = format!("{}@sha256:{} has no signature that counts{why}", self.image.name(), self.digest);
        RegistryError::new(RegistryCode::Signature, what, "sign it with cosign, or correct spec.verify")
    }
}
