//! `fleet_release`: what is known of a version (FLEET §9).

use jiff::Timestamp;
use protocol::{Arch, Digest, Edition, Version};

use super::fields::ResourceFields;
use super::key::KeyKind;
use super::shown::escaped;

/// Longest name of a repository, bytes: registries take no more.
const LONGEST_REPOSITORY: usize = 255;

/// What a `fleet_release` says.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    /// The version.
    pub version: Version,
    /// The channels whose graphs have it.
    pub channels: Vec<String>,
    /// To be installed at once.
    pub critical: bool,
    /// Nobody goes past it without having run it.
    pub barrier: bool,
    /// Nobody leaves it.
    pub deadend: bool,
    /// Why nobody new gets it; `None`: it is not blocked.
    pub blocked: Option<String>,
    /// The versions from which alone it may be reached; empty: from any.
    pub requires_from: Vec<Version>,
    /// How it becomes visible to more and more hosts.
    pub rollout: Option<Phased>,
    /// Of its archives, by edition and architecture, in the order written.
    pub digests: Vec<((Edition, Arch), Digest)>,
    /// Of its container images, by the last part of their repository's name, in the order written.
    pub image_digests: Vec<(String, Digest)>,
}

/// A release that becomes visible to more and more hosts (Fedora CoreOS's throttle).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phased {
    /// Nobody sees it before.
    pub start: Timestamp,
    /// The share of hosts, 0 to 1, that see it from then on.
    pub start_value: f64,
    /// Minutes until all see it; `None`: the share stays.
    pub duration_minutes: Option<u32>,
}

/// Reads `spec`.
pub(super) fn read(fields: &ResourceFields<'_>) -> Option<Release> {
    let version: Option<Version> = fields.get("version");
    let archive = |key: &str| {
        let (edition, arch) = key.split_once('/')?;
        Some((edition.parse().ok()?, arch.parse().ok()?))
    };
    let image = |name: &str| is_repository_name(name).then(|| name.to_owned());
    let no_archive = "is not an edition and an architecture such as oss/amd64";
    let no_image = "is not the last part of a repository's name, such as teleport-distroless";
    let release = Release {
        channels: channels(fields),
        critical: fields.value("critical"),
        barrier: fields.value("barrier"),
        deadend: fields.value("deadend"),
        blocked: fields.fields("blocked").and_then(|blocked| blocked.get("reason")),
        requires_from: requires_from(fields, version.as_ref()),
        rollout: fields.fields("rollout").and_then(|rollout| phased(&rollout)),
        digests: digests(fields, "digests", (no_archive, "the archive's SHA-256"), archive),
        image_digests: digests(fields, "image_digests", (no_image, "the image's SHA-256"), image),
        version: version?,
    };
    Some(release)
}

fn channels(fields: &ResourceFields<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for item in fields.items("channels") {
        match super::channel::name(&item.clone().needed("a channel's name")) {
            Some(name) if names.contains(&name) => item.refuse(format!("{name} is in the list twice")),
            Some(name) => names.push(name),
            None => {}
        }
    }
    names
}

fn requires_from(fields: &ResourceFields<'_>, own: Option<&Version>) -> Vec<Version> {
    let mut versions = Vec::new();
    for item in fields.items("requires_from") {
        let Some(version) = item.clone().needed("a version").read(&KeyKind::Version) else { continue };
        if Some(&version) == own {
            item.wrong("another version: none is reached from itself");
        }
        versions.push(version);
    }
    versions
}

fn phased(fields: &ResourceFields<'_>) -> Option<Phased> {
    let start = fields.get("start");
    let (start_value, duration_minutes) = (fields.value("start_value"), fields.get("duration_minutes"));
    Some(Phased { start: start?, start_value, duration_minutes })
}

/// SHA-256 of what `read` finds in each key, in the order written; what no key is, and what to give there.
fn digests<T: PartialEq>(
    fields: &ResourceFields<'_>,
    name: &str,
    (what, needed): (&str, &str),
    read: impl Fn(&str) -> Option<T>,
) -> Vec<(T, Digest)> {
    let mut digests: Vec<(T, Digest)> = Vec::new();
    for (key, place) in fields.pairs(name) {
        match read(key) {
            None => place.refuse(format!("{} {what}", escaped(key))),
            // Editions have other names as well.
            Some(of) if digests.iter().any(|(known, _)| *known == of) => place.refuse("is in the list twice"),
            Some(of) => digests.extend(place.needed(needed).read(&KeyKind::Sha256).map(|digest| (of, digest))),
        }
    }
    digests
}

/// Whether it is one component of a repository's name (OCI distribution specification).
fn is_repository_name(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: u8| is_end(&byte) || matches!(byte, b'.' | b'_' | b'-');
    let bytes = name.as_bytes();
    name.len() <= LONGEST_REPOSITORY
        && name.bytes().all(is_inner)
        && bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
}
