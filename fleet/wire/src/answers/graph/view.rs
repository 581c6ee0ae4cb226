//! The graph as one client sees it.

use std::collections::BTreeMap;

use fleet_engine::resource::{Phased, Release};
use jiff::Timestamp;
use protocol::find::IMAGE;
use schemars::JsonSchema;
use serde::Serialize;

use super::phase;
use super::question::{GraphDialect, GraphQuestion};

/// What Fedora CoreOS's clients read.
const CORE_OS: &str = "org.fedoraproject.coreos";
/// What OpenShift's clients read.
const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

/// Versions, and which lead to which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UpdateGraph {
    /// From the oldest version to the newest.
    pub nodes: Vec<GraphNode>,
    /// From and to, as indexes of `nodes`: upwards, but where a release names a later one in `requires_from`. No cycle comes of that: from
    /// there nothing leads upwards.
    #[schemars(with = "Vec<[usize; 2]>")]
    pub edges: Vec<(usize, usize)>,
}

/// A version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GraphNode {
    /// The version, unique in its graph.
    pub version: String,
    /// What the client asks for to get it: the version again, since archives are found by version and edition.
    pub payload: String,
    /// What is known of it, by the keys of the client's dialect.
    pub metadata: BTreeMap<String, String>,
}

impl UpdateGraph {
    /// The graph of those of the `releases` that are wanted. `releases` are all there are, in order: a barrier holds back also
    /// where its own channel is not asked for.
    pub(super) fn new(
        releases: &[Release],
        is_wanted: impl Fn(&Release) -> bool,
        asked: &GraphQuestion,
        now: Timestamp,
    ) -> Self {
        let mut graph = Self { nodes: Vec::new(), edges: Vec::new() };
        // The nodes from which the next release can be reached: those since the last barrier, and that barrier.
        let mut since_barrier: Vec<(usize, &Release)> = Vec::new();
        for release in releases {
            let index = graph.nodes.len();
            let is_in = is_wanted(release);
            if is_in {
                graph.nodes.push(GraphNode::of(release, index, asked.dialect));
                if is_offered(release, asked, now) {
                    let from = since_barrier.iter().filter(|(_, from)| leads(from, release)).map(|(from, _)| *from);
                    graph.edges.extend(from.map(|from| (from, index)));
                }
            }
            if release.barrier {
                since_barrier.clear();
            }
            if is_in {
                since_barrier.push((index, release));
            }
        }
        graph.edges.extend(graph.downward(releases, &is_wanted, asked, now));
        graph.edges.sort_unstable();
        graph
    }

    /// The edges that an operator leads downward: a release that is reached from later ones says so (`requires_from`).
    fn downward(
        &self,
        releases: &[Release],
        is_wanted: impl Fn(&Release) -> bool,
        asked: &GraphQuestion,
        now: Timestamp,
    ) -> Vec<(usize, usize)> {
        let wanted = || releases.iter().filter(|release| is_wanted(release)).enumerate();
        let back = |(to, release): (usize, &Release)| {
            let from = wanted().filter(move |(at, from)| *at > to && goes_back(from, release));
            from.map(move |(at, _)| (at, to)).collect::<Vec<_>>()
        };
        wanted().filter(|(_, release)| is_offered(release, asked, now)).flat_map(back).collect()
    }
}

/// Whether anything leads to `release`: it is phased in or a barrier, not blocked, and its turn has come.
fn is_offered(release: &Release, asked: &GraphQuestion, now: Timestamp) -> bool {
    if release.blocked.is_some() {
        return false;
    }
    match &release.rollout {
        Some(phased) => !phase::is_hidden(asked, &release.version, phased, now),
        None => release.barrier,
    }
}

/// Whether hosts may go from one release to a later one, as far as these two decide.
fn leads(from: &Release, to: &Release) -> bool {
    let is_required = to.requires_from.is_empty() || to.requires_from.contains(&from.version);
    let is_way_back = from.requires_from.iter().any(|later| from.version.precedes(later));
    !from.deadend && is_required && !is_way_back && from.version.precedes(&to.version)
}

/// Whether hosts may go from one release back to an earlier one.
fn goes_back(from: &Release, to: &Release) -> bool {
    !from.deadend && to.requires_from.contains(&from.version)
}

impl GraphNode {
    fn of(release: &Release, index: usize, dialect: GraphDialect) -> Self {
        let version = release.version.to_string();
        let metadata = match dialect {
            GraphDialect::OpenShift => open_shift(release),
            GraphDialect::CoreOs => core_os(release, index),
        };
        Self { payload: version.clone(), version, metadata }
    }
}

fn open_shift(release: &Release) -> BTreeMap<String, String> {
    let mut channels = release.channels.clone();
    channels.sort_unstable();
    let mut metadata = BTreeMap::from([(CHANNELS.to_owned(), channels.join(","))]);
    let flags = [
        ("critical", release.critical),
        ("barrier", release.barrier),
        ("deadend", release.deadend),
        ("blocked", release.blocked.is_some()),
    ];
    for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
        metadata.insert(format!("fleet.{name}"), "true".to_owned());
    }
    for ((edition, arch), digest) in &release.digests {
        metadata.insert(format!("fleet.digest.{edition}/{arch}"), digest.to_string());
    }
    for (repository, digest) in &release.image_digests {
        metadata.insert(format!("fleet.digest.{IMAGE}{repository}"), digest.to_string());
    }
    metadata
}

fn core_os(release: &Release, index: usize) -> BTreeMap<String, String> {
    let mut metadata = BTreeMap::from([
        (format!("{CORE_OS}.scheme"), "checksum".to_owned()),
        (format!("{CORE_OS}.releases.age_index"), index.to_string()),
    ]);
    let mut add = |name: &str, value: String| metadata.insert(format!("{CORE_OS}.updates.{name}"), value);
    if release.barrier {
        add("barrier", true.to_string());
    }
    if release.deadend {
        add("deadend", true.to_string());
    }
    if let Some(Phased { start, start_value, duration_minutes }) = &release.rollout {
        add("rollout", true.to_string());
        add("start_epoch", start.as_second().to_string());
        add("start_value", start_value.to_string());
        if let Some(minutes) = duration_minutes {
            add("duration_minutes", minutes.to_string());
        }
    }
    metadata
}
