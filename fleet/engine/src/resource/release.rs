//! `fleet_release`: what is known of a version (FLEET §9).

use jiff::Timestamp;
use protocol::{Arch, Digest, Edition, Version};

use super::reader::ResourceReader;
use super::shown::escaped;

/// Most minutes that a phased rollout takes: a year.
const MOST_MINUTES: u32 = 366 * 24 * 60;

/// Most items of a list.
const MOST_ITEMS: usize = 100;

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
pub(super) fn read(spec: &ResourceReader<'_>) -> Option<Release> {
    let mut fields = spec.fields()?;
    let version = fields.get("version").needed("the version").version();
    let channels = channels(&fields.get("channels"));
    let mut flag = |name| fields.get(name).boolean().unwrap_or(false);
    let (critical, barrier, deadend) = (flag("critical"), flag("barrier"), flag("deadend"));
    let blocked = blocked(&fields.get("blocked"));
    let requires_from = requires_from(&fields.get("requires_from"), version.as_ref());
    let rollout = rollout(&fields.get("rollout"));
    let digests = digests(&fields.get("digests"));
    fields.end();
    Some(Release { version: version?, channels, critical, barrier, deadend, blocked, requires_from, rollout, digests })
}

fn channels(reader: &ResourceReader<'_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for item in reader.items_up_to(MOST_ITEMS, "channels") {
        match super::channel::name(&item.clone().needed("a channel's name")) {
            Some(name) if names.contains(&name) => item.refuse(format!("{name} is in the list twice")),
            Some(name) => names.push(name),
            None => {}
        }
    }
    names
}

fn blocked(reader: &ResourceReader<'_>) -> Option<String> {
    let mut fields = reader.there()?.fields()?;
    let reason = fields.get("reason").needed("the reason, for those who ask why").name().map(str::to_owned);
    fields.end();
    reason
}

fn requires_from(reader: &ResourceReader<'_>, own: Option<&Version>) -> Vec<Version> {
    let mut versions = Vec::new();
    for item in reader.items_up_to(MOST_ITEMS, "versions") {
        let Some(version) = item.clone().needed("a version").version() else { continue };
        if Some(&version) == own {
            item.wrong("another version: none is reached from itself");
        }
        versions.push(version);
    }
    versions
}

fn rollout(reader: &ResourceReader<'_>) -> Option<Phased> {
    let mut fields = reader.there()?.fields()?;
    let start = fields.get("start").needed("the time when it begins").time();
    let start_value = fields.get("start_value").share().unwrap_or(0.0);
    let duration_minutes = fields.get("duration_minutes").integer(0..=MOST_MINUTES);
    fields.end();
    Some(Phased { start: start?, start_value, duration_minutes })
}

fn digests(reader: &ResourceReader<'_>) -> Vec<((Edition, Arch), Digest)> {
    let mut digests: Vec<((Edition, Arch), Digest)> = Vec::new();
    for (key, place) in reader.pairs_up_to(MOST_ITEMS, "digests") {
        let archive: Option<(Edition, Arch)> =
            key.split_once('/').and_then(|(edition, arch)| Some((edition.parse().ok()?, arch.parse().ok()?)));
        let Some(archive) = archive else {
            place.refuse(format!("{} is not an edition and an architecture such as oss/amd64", escaped(key)));
            continue;
        };
        // Editions have other names as well.
        if digests.iter().any(|(known, _)| *known == archive) {
            place.refuse("is in the list twice");
            continue;
        }
        if let Some(digest) = place.needed("the archive's SHA-256").digest() {
            digests.push((archive, digest));
        }
    }
    digests
}
