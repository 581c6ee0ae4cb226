//! What binds an image to a version, which a signature does not (KUBE §4, point 3).

use protocol::{Digest, Version};

use crate::resolve::ImageFacts;
use crate::verify::SignatureProof;

/// Whether an image is that version's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionBinding {
    /// At least one witness says so, and none says otherwise.
    Bound,
    /// Nobody says anything: `version_unbound`.
    Unbound,
    /// A witness says otherwise, in a line for a person: an old image under a new tag looks like this.
    Mismatch(String),
}

impl VersionBinding {
    /// Asks the three witnesses of `version`: the label of each platform's configuration, a signed annotation that was required
    /// to be the version, and the digest that the rollout server gave.
    pub fn of(version: &Version, facts: &ImageFacts, proof: Option<&SignatureProof>, told: Option<Digest>) -> Self {
        // A base image leaves its own label behind (`24.04`): only a version is the agent's.
        let label = |label: &String| label.parse::<Version>().ok();
        let labels = facts.platforms.iter().map(|platform| (platform, platform.version_label.as_ref().and_then(label)));
        let mut is_labelled = true;
        for (platform, label) in labels {
            match label {
                Some(label) if label != *version => {
                    return Self::Mismatch(format!("the label of {platform} says version {label}, not {version}"));
                }
                label => is_labelled &= label.is_some(),
            }
        }
        if let Some(told) = told.filter(|told| *told != facts.digest) {
            let digest = facts.digest;
            return Self::Mismatch(format!("the rollout server names sha256:{told}, the registry has sha256:{digest}"));
        }
        let text = version.to_string();
        let is_signed = proof.is_some_and(|proof| proof.required.values().any(|value| *value == text));
        if is_labelled || is_signed || told.is_some() { Self::Bound } else { Self::Unbound }
    }
}
