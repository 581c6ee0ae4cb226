//! The name of an image: `[HOST[:PORT]/]PATH[:TAG][@sha256:HEX]`, read as container runtimes do.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use protocol::Digest;

use crate::Result;
use crate::error::{RegistryCode, RegistryError, quoted};

/// Longest name without tag and digest, bytes: the limit of the distribution project.
const MAX_NAME: usize = 255;
/// Longest tag, bytes: the limit of the OCI distribution specification.
const MAX_TAG: usize = 128;
/// The registry of a name without a host, and how it is written otherwise.
const DOCKER_HUB: &str = "docker.io";
/// Where Docker Hub's API is.
const DOCKER_HUB_API: &str = "registry-1.docker.io";

/// A strict image reference. All of its parts consist of characters that need no escape in a URL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageReference {
    /// As written, without tag and digest.
    name: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl ImageReference {
    /// The name as written, without tag and digest.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The registry, with its port; `docker.io` where none is written.
    pub fn host(&self) -> &str {
        self.name.split_once('/').map_or(DOCKER_HUB, |(first, _)| match first {
            "index.docker.io" | DOCKER_HUB_API => DOCKER_HUB,
            _ if is_host(first) => first,
            _ => DOCKER_HUB,
        })
    }

    /// The host to connect to, with its port.
    pub(crate) fn api_host(&self) -> &str {
        if self.host() == DOCKER_HUB { DOCKER_HUB_API } else { self.host() }
    }

    /// The repository within the registry; `library/NAME` for the official images of Docker Hub.
    pub fn path(&self) -> String {
        let path = match self.name.split_once('/') {
            Some((first, rest)) if is_host(first) => rest,
            _ => &self.name,
        };
        if self.host() == DOCKER_HUB && !path.contains('/') { format!("library/{path}") } else { path.to_owned() }
    }

    /// The last part of the path: the repository's name in a rollout server's `image_digests`.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// The tag, where one is written.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, where one is written.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// With another tag, and without digest: it was the old tag's. Errors: `config_invalid` for what is no tag.
    pub fn with_tag(&self, tag: &str) -> Result<Self> {
        let name = self.name.clone();
        is_tag(tag).then(|| Self { name, tag: Some(tag.to_owned()), digest: None }).ok_or_else(|| refused(tag))
    }

    /// With a digest in place of the one it has.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// What a manifest is asked for by: the digest, else the tag, else `latest`.
    pub(crate) fn wanted(&self) -> String {
        self.digest
            .map_or_else(|| self.tag.clone().unwrap_or_else(|| "latest".to_owned()), |hex| format!("sha256:{hex}"))
    }
}

impl FromStr for ImageReference {
    type Err = RegistryError;

    /// Errors: `config_invalid` for anything that a container runtime would refuse, and for digests other than SHA-256.
    fn from_str(text: &str) -> Result<Self> {
        let (rest, digest) = text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(sha256(digest))));
        // A colon before the last slash is a port's.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        let (host, path) = name.split_once('/').filter(|(first, _)| is_host(first)).unwrap_or(("", name));
        let is_name =
            name.len() <= MAX_NAME && (host.is_empty() || is_authority(host)) && path.split('/').all(is_path_part);
        // Runtimes take 64 hex digits alone for the identity of a local image.
        let is_identity = sha256(&format!("sha256:{rest}")).is_some();
        if !is_name || is_identity || !tag.is_none_or(is_tag) || digest == Some(None) {
            return Err(refused(text));
        }
        Ok(Self { name: name.to_owned(), tag: tag.map(str::to_owned), digest: digest.flatten() })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))?;
        self.digest.map_or(Ok(()), |digest| write!(f, "@sha256:{digest}"))
    }
}

fn refused(text: &str) -> RegistryError {
    let advice = "give it as HOST/PATH:TAG or HOST/PATH@sha256:DIGEST, the path in lower case";
    RegistryError::new(RegistryCode::ConfigInvalid, format!("{} is not the name of an image", quoted(text)), advice)
}

/// A digest as OCI documents write it: `sha256:` and 64 lower-case hex digits.
pub(crate) fn sha256(text: &str) -> Option<Digest> {
    let hex = text.strip_prefix("sha256:")?;
    let is_lower = hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    hex.parse().ok().filter(|_| is_lower)
}

/// Whether the first part of a name is a host: runtimes look for a dot, a colon, an upper-case letter, or `localhost`.
fn is_host(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// `HOST[:PORT]` with a DNS name or an IPv4 address, or `[IPV6][:PORT]`.
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (text, "443"),
    };
    let is_edge = |char: char| char.is_ascii_alphanumeric();
    let is_label = |label: &str| {
        label.starts_with(is_edge) && label.ends_with(is_edge) && label.chars().all(|char| is_edge(char) || char == '-')
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = bare.map_or_else(|| host.split('.').all(is_label), |bare| bare.parse::<Ipv6Addr>().is_ok());
    is_host && !port.starts_with('+') && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= MAX_TAG
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// Lower-case letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_path_part(part: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    let is_separator = |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    part.starts_with(is_plain) && part.ends_with(is_plain) && part.split(is_plain).all(is_separator)
}
