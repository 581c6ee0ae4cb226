//! Where signatures are, and which one counts (KUBE §4, point 2).

use std::collections::BTreeMap;
use std::fmt;

use protocol::Digest;

use crate::Result;
use crate::client::Registry;
use crate::error::{RegistryCode, RegistryError, quoted};
use crate::key::CosignKey;
use crate::manifest::{Descriptor, Manifest, ManifestKind};
use crate::reference::ImageReference;
use crate::signature::{SignedClaim, bundle, simple_signing};

/// Most candidates of an image, over all places: each costs requests.
const MAX_CANDIDATES: usize = 20;
/// Largest candidate, bytes: one has a few hundred, with certificates and log entries some ten thousand.
const MAX_CANDIDATE: u64 = 1 << 20;
/// Most reasons that an error tells.
const MAX_REASONS: usize = 3;
/// A layer of simple signing, and its signature.
const SIMPLE_LAYER: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
/// A layer that is a bundle.
const BUNDLE_LAYER: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// Where a signature was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignaturePlace {
    /// The tag `sha256-HEX.sig`: cosign 2, and 3 in the old format.
    SigTag,
    /// The registry's referrers API: cosign 3.
    Referrers,
    /// The tag `sha256-HEX`: cosign 3, where the registry does not serve that API.
    FallbackTag,
}

impl fmt::Display for SignaturePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SigTag => "the tag sha256-….sig",
            Self::Referrers => "the referrers API",
            Self::FallbackTag => "the tag sha256-…",
        })
    }
}

/// The signature that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignatureProof {
    /// Who signed what.
    pub claim: SignedClaim,
    /// Where it was.
    pub place: SignaturePlace,
    /// The annotations that had to be signed, and are.
    pub required: BTreeMap<String, String>,
}

/// A look through the three places.
struct Search<'a> {
    registry: &'a Registry,
    image: ImageReference,
    digest: Digest,
    keys: &'a [CosignKey],
    require: &'a BTreeMap<String, String>,
    left: usize,
    /// Why candidates do not count.
    reasons: Vec<String>,
    /// A place that could not be read now: another look may find it.
    passing: Option<RegistryError>,
}

impl Registry {
    /// Looks for a signature over `digest`, in the repository of `image`, by one of `keys`, with all annotations of `require`
    /// signed. One suffices.
    ///
    /// Errors: `signature`; `registry_unreachable` where there is none but not all places could be read.
    pub fn verify(
        &self,
        image: &ImageReference,
        digest: Digest,
        keys: &[CosignKey],
        require: &BTreeMap<String, String>,
    ) -> Result<SignatureProof> {
        let (image, left) = (image.with_digest(digest), MAX_CANDIDATES);
        let mut search =
            Search { registry: self, image, digest, keys, require, left, reasons: Vec::new(), passing: None };
        let proof = match search.sig_tag() {
            None => search.bundles(),
            proof => proof,
        };
        proof.ok_or_else(|| search.failure())
    }
}

impl Search<'_> {
    fn sig_tag(&mut self) -> Option<SignatureProof> {
        let ManifestKind::Single { layers, .. } = self.tag(&format!("sha256-{}.sig", self.digest))?.kind else {
            return None;
        };
        for layer in layers.iter().filter(|layer| layer.media_type == SIMPLE_LAYER) {
            let Some(signature) = layer.annotations.get(SIGNATURE_ANNOTATION) else { continue };
            if !self.may_go_on() {
                return None;
            }
            let payload = self.content(layer);
            let claim = payload.and_then(|payload| simple_signing(&payload, signature, self.digest, self.keys));
            if let Some(proof) = self.proof(claim, SignaturePlace::SigTag) {
                return Some(proof);
            }
        }
        None
    }

    /// Referrers; where the registry does not serve them, what cosign writes in their place.
    fn bundles(&mut self) -> Option<SignatureProof> {
        let (place, found) = match self.registry.referrers(&self.image, self.digest) {
            Ok(Some(found)) => (SignaturePlace::Referrers, found),
            Ok(None) => (SignaturePlace::FallbackTag, self.tag(&format!("sha256-{}", self.digest))?),
            Err(error) => {
                self.passing = Some(error);
                return None;
            }
        };
        let ManifestKind::Index(entries) = found.kind else { return None };
        for entry in &entries {
            if !self.may_go_on() {
                return None;
            }
            // Opened, whatever the entry says it is: cosign 3 writes the type of its empty configuration there.
            let claim = match self.bundle_bytes(entry) {
                Ok(None) => continue,
                Ok(Some(bytes)) => bundle(&bytes, self.digest, self.keys),
                Err(why) => Err(why),
            };
            if let Some(proof) = self.proof(claim, place) {
                return Some(proof);
            }
        }
        None
    }

    /// The bundle in an artefact; `None`: it is something else, an SBOM or an attestation of another kind.
    fn bundle_bytes(&mut self, entry: &Descriptor) -> Result<Option<Vec<u8>>, String> {
        let part = self.image.with_digest(entry.digest()?);
        let found = self.registry.manifest(&part).map_err(|error| self.told(error))?;
        let ManifestKind::Single { layers, .. } = found.kind else { return Ok(None) };
        let layer = layers.iter().find(|layer| layer.media_type == BUNDLE_LAYER);
        layer.map(|layer| self.content(layer)).transpose()
    }

    fn content(&mut self, layer: &Descriptor) -> Result<Vec<u8>, String> {
        let digest = layer.digest()?;
        if layer.size > MAX_CANDIDATE {
            return Err(format!("it has {} bytes, more than {MAX_CANDIDATE}", layer.size));
        }
        self.registry.blob(&self.image, digest, MAX_CANDIDATE).map_err(|error| self.told(error))
    }

    /// The manifest at a tag, where there is one.
    fn tag(&mut self, tag: &str) -> Option<Manifest> {
        let found = self.image.with_tag(tag).and_then(|image| self.registry.manifest(&image));
        match found {
            Ok(found) => return Some(found),
            Err(error) if error.code == RegistryCode::ImageAbsent => {}
            Err(error) => {
                let why = self.told(error);
                self.reasons.push(why);
            }
        }
        None
    }

    /// An error's text; one that may pass is kept.
    fn told(&mut self, error: RegistryError) -> String {
        let what = error.what.clone();
        if error.code == RegistryCode::RegistryUnreachable {
            self.passing = Some(error);
        }
        what
    }

    fn may_go_on(&mut self) -> bool {
        if self.left == 0 {
            self.reasons.insert(0, format!("only the first {MAX_CANDIDATES} candidates are read"));
            return false;
        }
        self.left -= 1;
        true
    }

    /// The proof that a claim is, if it has what is required.
    fn proof(&mut self, claim: Result<SignedClaim, String>, place: SignaturePlace) -> Option<SignatureProof> {
        let lacks = |claim: &SignedClaim| {
            let (name, value) =
                self.require.iter().find(|(name, value)| claim.annotations.get(*name) != Some(*value))?;
            let signed = claim.annotations.get(name).map_or_else(|| "nothing".to_owned(), |signed| quoted(signed));
            Some(format!("its annotation {} is {signed}, required is {}", quoted(name), quoted(value)))
        };
        match claim.and_then(|claim| lacks(&claim).map_or(Ok(claim), Err)) {
            Ok(claim) => Some(SignatureProof { claim, place, required: self.require.clone() }),
            Err(why) => {
                self.reasons.push(format!("{place}: {why}"));
                None
            }
        }
    }

    fn failure(self) -> RegistryError {
        if let Some(error) = self.passing {
            return error;
        }
        let Self { image, digest, mut reasons, .. } = self;
        let count = reasons.len();
        reasons.dedup();
        reasons.truncate(MAX_REASONS);
        let what = if count == 0 {
            format!("{}@sha256:{digest} has no signature", image.name())
        } else {
            format!("{}@sha256:{digest} has no signature that counts: {}", image.name(), reasons.join("; "))
        };
        RegistryError::new(RegistryCode::Signature, what).advise("sign it with cosign, or correct spec.verify")
    }
}
