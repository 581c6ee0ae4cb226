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
    host: String,
    path: String,
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
        &self.host
    }

    /// The host to connect to, with its port.
    pub(crate) fn api_host(&self) -> &str {
        if self.host == DOCKER_HUB { DOCKER_HUB_API } else { &self.host }
    }

    /// The repository within the registry; `library/NAME` for the official images of Docker Hub.
    pub fn path(&self) -> &str {
        &self.path
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
        let new = || Self { tag: Some(tag.to_owned()), digest: None, ..self.clone() };
        is_tag(tag).then(new).ok_or_else(|| refused(tag))
    }

    /// With a digest in place of the one it has.
    #[must_use]
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }

    /// What a manifest is asked for by: the digest, else the tag, else `latest`.
    pub(crate) fn wanted(&self) -> String {
        let tag = || self.tag.as_deref().unwrap_or("latest").to_owned();
        self.digest.map_or_else(tag, |hex| format!("sha256:{hex}"))
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
        let host = if matches!(host, "" | "index.docker.io" | DOCKER_HUB_API) { DOCKER_HUB } else { host };
        let official = if host == DOCKER_HUB && !path.contains('/') { "library/" } else { "" };
        let (name, tag, digest) = (name.to_owned(), tag.map(str::to_owned), digest.flatten());
        Ok(Self { name, host: host.to_owned(), path: format!("{official}{path}"), tag, digest })
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
    let digest: Digest = text.strip_prefix("sha256:")?.parse().ok()?;
    text.ends_with(&digest.to_string()).then_some(digest)
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

/// Letters, digits and `_`; behind the first one also `.` and `-`.
pub(crate) fn is_tag(tag: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Host, path, tag, digest.
    fn parts(text: &str) -> (String, String, Option<String>, bool) {
        let image: ImageReference = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(image.to_string(), text);
        (image.host.clone(), image.path.clone(), image.tag.clone(), image.digest.is_some())
    }

    #[test]
    fn a_name_is_read_as_runtimes_read_it() {
        let hex = "0123456789abcdef".repeat(4);
        for (text, host, path, tag, has_digest) in [
            ("agent", "docker.io", "library/agent", None, false),
            ("agent:1.0", "docker.io", "library/agent", Some("1.0"), false),
            ("team/agent", "docker.io", "team/agent", None, false),
            ("docker.io/agent", "docker.io", "library/agent", None, false),
            ("index.docker.io/team/agent", "docker.io", "team/agent", None, false),
            ("localhost/agent", "localhost", "agent", None, false),
            ("localhost:5000/agent:a", "localhost:5000", "agent", Some("a"), false),
            ("Registry/agent", "Registry", "agent", None, false),
            ("127.0.0.1:5000/a/b/c", "127.0.0.1:5000", "a/b/c", None, false),
            ("[::1]:5000/a", "[::1]:5000", "a", None, false),
            ("[2001:db8::1]/a", "[2001:db8::1]", "a", None, false),
            ("r.example/a-b--c/d.e_f__g:_T.a-G", "r.example", "a-b--c/d.e_f__g", Some("_T.a-G"), false),
            (&format!("r.example/a:1@sha256:{hex}"), "r.example", "a", Some("1"), true),
            (&format!("a@sha256:{hex}"), "docker.io", "library/a", None, true),
            (&format!("library/{hex}"), "docker.io", &format!("library/{hex}"), None, false),
        ] {
            assert_eq!(parts(text), (host.into(), path.into(), tag.map(str::to_owned), has_digest), "{text}");
        }
    }

    #[test]
    fn what_a_runtime_refuses_is_refused() {
        let hex = "0123456789abcdef".repeat(4);
        let (upper, long_tag, long_name) = (hex.to_uppercase(), "t".repeat(129), "a".repeat(256));
        for text in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "A",
            "team/Agent",
            "a.",
            ".a",
            "a..b",
            "a___b",
            "a-",
            "_a",
            "a._b",
            "a b",
            "a\n",
            "ä",
            "a:",
            "a:.b",
            "a:-b",
            "a:b c",
            "a:b:c",
            ":a",
            "https://r.example/a",
            "r.example:/a",
            "r.example:0/a",
            "r.example:65536/a",
            "r.example:+1/a",
            "r.example:a/b",
            "-r.example/a",
            "r-.example/a",
            "r..example/a",
            ".example/a",
            "r.example./a",
            "[::1/a",
            "[::g]/a",
            "::1/a",
            "r_x.example/a",
            "../a",
            "r.example/../a",
            "r.example/a?b",
            "r.example/a%2f",
            "me@r.example/a",
            "a@",
            "a@sha256:",
            "a@sha512:00",
            "a@sha256:00",
            &hex,
            &format!("a@sha256:{upper}"),
            &format!("a@sha256:{hex}0"),
            &format!("a@sha256:{hex}@sha256:{hex}"),
            &format!("a:{long_tag}"),
            &long_name,
        ] {
            let error = text.parse::<ImageReference>().expect_err(text);
            assert_eq!(error.code, RegistryCode::ConfigInvalid, "{text}");
        }
    }

    #[test]
    fn parts_are_replaced() {
        let (digest, image) = (Digest::of(b""), "r.example/team/agent:1.0.0".parse::<ImageReference>().unwrap());
        let signed = image.with_digest(digest);
        assert_eq!(signed.to_string(), format!("r.example/team/agent:1.0.0@sha256:{digest}"));
        assert_eq!(signed.with_tag("2.0.0").unwrap().to_string(), "r.example/team/agent:2.0.0");
        assert_eq!((image.wanted(), signed.wanted()), ("1.0.0".to_owned(), format!("sha256:{digest}")));
        assert_eq!((image.short_name(), image.name()), ("agent", "r.example/team/agent"));
        for bad in ["", "a/b", "..", "a@b", "{version}"] {
            assert_eq!(image.with_tag(bad).unwrap_err().code, RegistryCode::ConfigInvalid, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_built_from_good_parts_is_read_and_printed_again(
            host in "([a-z0-9]{1,8}\\.[a-z]{2,5}(:[1-9][0-9]{0,3})?|team|localhost)/",
            path in "[a-z0-9]{1,9}((\\.|_|__|-{1,3})[a-z0-9]{1,9}){0,3}(/[a-z0-9]{1,9}){0,3}",
            tag in "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?",
            digest in "(@sha256:[0-9a-f]{64})?",
        ) {
            let text = format!("{host}{path}{tag}{digest}");
            let image: ImageReference = text.parse().unwrap();
            prop_assert_eq!(image.to_string(), text);
            prop_assert_eq!(image.tag().unwrap_or_default(), tag.trim_start_matches(':'));
        }

        #[test]
        fn any_text_is_refused_or_printed_as_it_was(text in "[a-zA-Z0-9:/@._\\[\\]-]{0,40}") {
            if let Ok(image) = text.parse::<ImageReference>() {
                prop_assert_eq!(image.to_string(), text);
            }
        }
    }
}
