//! Before a change: what the tag names, whether it is whole, who signed it, and whether it is that version (KUBE §4). Blocks.

use registry::{CosignKey, ImageReference, Registry, RegistryCode, RegistryError, VersionBinding};

use crate::config::KubeAgent;
use crate::image::VERSION;
use crate::plan::Beginning;

/// An image that may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProvenImage {
    /// With its digest.
    pub image: String,
    /// What a person should know.
    pub warning: Option<String>,
}

/// Why an image may not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRefusal {
    /// A code of KUBE §4.
    pub code: &'static str,
    /// For people.
    pub why: String,
    /// It is the image's fault, and no time mends it.
    pub is_final: bool,
}

impl ImageRefusal {
    /// What may pass by itself.
    pub fn passing(code: &'static str, why: String) -> Self {
        Self { code, why, is_final: false }
    }
}

impl From<RegistryError> for ImageRefusal {
    fn from(error: RegistryError) -> Self {
        Self { code: error.code.as_str(), why: error.to_string(), is_final: error.code == RegistryCode::Signature }
    }
}

/// Looks up the image of a change. `present`: the image that runs.
///
/// Errors: why it may not be written; no pod is touched then.
pub fn prepare(
    registry: &Registry,
    agent: &KubeAgent,
    keys: &[CosignKey],
    begin: &Beginning,
    present: &str,
) -> Result<ProvenImage, ImageRefusal> {
    let Beginning { image, version, target } = begin;
    if !agent.resolve {
        let warning =
            Some("resolve is false: the tag is written as it is, and may name other bytes tomorrow".to_owned());
        return Ok(ProvenImage { image: image.clone(), warning });
    }
    let reference: ImageReference = image.parse()?;
    let facts = registry.resolve(&reference)?;
    // What the present image had is not known where its registry has forgotten it.
    let platforms = present.parse::<ImageReference>().ok().and_then(|image| registry.resolve(&image).ok());
    registry.check_content(&reference, &facts, platforms.as_ref().map_or(&[], |facts| &facts.platforms))?;
    let require = agent.verify.require.iter();
    let require = require.map(|(key, value)| (key.clone(), value.replace(VERSION, &version.to_string()))).collect();
    let proof = if keys.is_empty() { None } else { Some(registry.verify(&reference, facts.digest, keys, &require)?) };
    // The digest that the rollout server names.
    let told = target.as_ref().and_then(|target| target.digest(image));
    let warning = match VersionBinding::of(version, &facts, proof.as_ref(), told) {
        VersionBinding::Bound => None,
        VersionBinding::Unbound => Some(format!(
            "version_unbound: nothing but its tag says that {image} is {version}: set the label \
             org.opencontainers.image.version, or verify.require"
        )),
        VersionBinding::Mismatch(why) => return Err(ImageRefusal { code: "version_mismatch", why, is_final: true }),
    };
    let image = reference.with_digest(facts.digest).to_string();
    Ok(ProvenImage { image, warning })
}
