//! All releases in order: made once when a release is written, and asked by everybody.

use std::collections::BTreeMap;

use bytes::Bytes;

use fleet_engine::resource::Release;
use fleet_engine::resource_set::ResourceSet;
use jiff::Timestamp;
use protocol::Version;

use super::cache::{Cache, GraphKey};
use super::phase;
use super::question::{GraphArch, GraphDialect, GraphFault, GraphQuestion};
use super::view::UpdateGraph;
use crate::answers::find::ReleaseDigests;

/// Releases by version, each version once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalogue {
    releases: Vec<Release>,
    cache: Cache,
}

impl Catalogue {
    /// The releases among the resources.
    pub fn of(shelf: &ResourceSet) -> Self {
        Self::new(shelf.models().cloned())
    }

    /// These releases. Of two resources for one version the first counts, and each restriction of either.
    pub fn new(releases: impl IntoIterator<Item = Release>) -> Self {
        let mut by_version: BTreeMap<Version, Release> = BTreeMap::new();
        for release in releases {
            let known = by_version.entry(release.version.clone()).or_insert_with(|| release.clone());
            known.barrier |= release.barrier;
            known.deadend |= release.deadend;
            known.blocked = known.blocked.take().or(release.blocked);
        }
        Self { releases: by_version.into_values().collect(), cache: Cache::default() }
    }

    /// The release of this version.
    pub fn release(&self, version: &Version) -> Option<&Release> {
        let index = self.releases.binary_search_by(|release| release.version.cmp(version)).ok()?;
        self.releases.get(index)
    }

    /// The digests of this version's archives and images, where a release names them.
    pub fn digests(&self, version: &Version) -> ReleaseDigests<'_> {
        self.release(version).map_or_else(ReleaseDigests::default, |release| ReleaseDigests {
            archives: &release.digests,
            images: &release.image_digests,
        })
    }

    /// The graph that is asked for at `now`.
    ///
    /// # Errors
    /// There is no such stream. For OpenShift's clients that is no error: they get an empty graph.
    pub fn graph(&self, asked: &GraphQuestion, now: Timestamp) -> Result<UpdateGraph, GraphFault> {
        if asked.dialect == GraphDialect::CoreOs && !self.has(&asked.channel) {
            return Err(GraphFault::InvalidParams(format!("stream {:?} is unknown", asked.channel)));
        }
        Ok(UpdateGraph::new(&self.releases, |release| is_wanted(release, asked), asked, now))
    }

    /// The same as JSON, written once for all who see the same.
    ///
    /// # Errors
    /// As [`Catalogue::graph`]. Inside: it cannot be written.
    pub fn written(&self, asked: &GraphQuestion, now: Timestamp) -> Result<serde_json::Result<Bytes>, GraphFault> {
        // Names that nobody wrote are not kept.
        if !self.has(&asked.channel) {
            return Ok(serde_json::to_vec(&self.graph(asked, now)?).map(Into::into));
        }
        let write =
            || serde_json::to_vec(&UpdateGraph::new(&self.releases, |release| is_wanted(release, asked), asked, now));
        let is_hidden = |release: &Release| {
            is_wanted(release, asked)
                && release.rollout.as_ref().is_some_and(|phased| phase::is_hidden(asked, &release.version, phased, now))
        };
        let hidden = self.releases.iter().enumerate().filter(|(_, release)| is_hidden(release));
        let key = GraphKey::new(asked, hidden.map(|(at, _)| at).collect());
        Ok(self.cache.get(key, write))
    }

    fn has(&self, channel: &str) -> bool {
        self.releases.iter().any(|release| release.channels.iter().any(|known| known == channel))
    }

    /// How many written graphs are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.cache.len()
    }
}

fn is_wanted(release: &Release, asked: &GraphQuestion) -> bool {
    release.channels.contains(&asked.channel) && is_built_for(release, asked.arch)
}

/// Whether there is an archive for the architecture. A release that names no digests does not say what it is built for.
fn is_built_for(release: &Release, wanted: GraphArch) -> bool {
    match wanted {
        GraphArch::Any => true,
        GraphArch::Arch(arch) => {
            release.digests.is_empty() || release.digests.iter().any(|((_, built), _)| *built == arch)
        }
        GraphArch::Other => false,
    }
}
