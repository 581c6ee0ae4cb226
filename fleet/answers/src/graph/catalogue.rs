//! All releases in order: made once when a release is written, and asked by everybody.

use std::collections::BTreeMap;

use fleet_engine::resource::{Release, Resource};
use fleet_engine::shelf::Shelf;
use jiff::Timestamp;
use protocol::{Arch, Digest, Edition, Version};

use super::question::{Asked, Dialect, Fault, Wanted};
use super::view::Graph;

/// Releases by version, each version once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalogue {
    releases: Vec<Release>,
}

impl Catalogue {
    /// The releases among the resources.
    pub fn of(shelf: &Shelf) -> Self {
        let releases = shelf.all().filter_map(|resource| match resource {
            Resource::Release(object) => Some(object.model.clone()),
            _ => None,
        });
        Self::new(releases)
    }

    /// These releases. Of two resources for one version the first counts, and each restriction of either.
    pub fn new(releases: impl IntoIterator<Item = Release>) -> Self {
        let mut by_version: BTreeMap<Version, Release> = BTreeMap::new();
        for release in releases {
            match by_version.get_mut(&release.version) {
                None => {
                    by_version.insert(release.version.clone(), release);
                }
                Some(known) => {
                    known.barrier |= release.barrier;
                    known.deadend |= release.deadend;
                    if known.blocked.is_none() {
                        known.blocked = release.blocked;
                    }
                }
            }
        }
        Self { releases: by_version.into_values().collect() }
    }

    /// The release of this version.
    pub fn release(&self, version: &Version) -> Option<&Release> {
        let index = self.releases.binary_search_by(|release| release.version.cmp(version)).ok()?;
        self.releases.get(index)
    }

    /// The digests of this version's archives, where a release names them.
    pub fn digests(&self, version: &Version) -> &[((Edition, Arch), Digest)] {
        self.release(version).map_or(&[], |release| &release.digests)
    }

    /// The graph that is asked for at `now`.
    ///
    /// # Errors
    /// There is no such stream. For OpenShift's clients that is no error: they get an empty graph.
    pub fn graph(&self, asked: &Asked, now: Timestamp) -> Result<Graph, Fault> {
        let is_in = |release: &Release| release.channels.contains(&asked.channel);
        if asked.dialect == Dialect::CoreOs && !self.releases.iter().any(is_in) {
            return Err(Fault::InvalidParams(format!("stream {:?} is unknown", asked.channel)));
        }
        let is_wanted = |release: &Release| is_in(release) && is_built_for(release, asked.arch);
        Ok(Graph::new(&self.releases, is_wanted, asked, now))
    }
}

/// Whether there is an archive for the architecture. A release that names no digests does not say what it is built for.
fn is_built_for(release: &Release, wanted: Wanted) -> bool {
    match wanted {
        Wanted::Any => true,
        Wanted::Arch(arch) => {
            release.digests.is_empty() || release.digests.iter().any(|((_, built), _)| *built == arch)
        }
        Wanted::Other => false,
    }
}
