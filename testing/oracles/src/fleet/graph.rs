//! Releases as a graph: upwards only, each version once, the same for the same question.

use std::collections::BTreeSet;

use fleet_engine::resource::{self, Resource};
use fleet_wire::answers::graph::{self, Catalogue, GraphDialect, GraphQuestion};
use serde_json::Value;

use super::{assert_line, now};

/// A line with a query, and behind it a text of releases.
pub fn fleet_graph(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (query, releases) = text.split_once('\n').unwrap_or((text, ""));
    let releases = resource::read(releases).unwrap_or_default();
    let releases: Vec<_> = releases
        .into_iter()
        .filter_map(|resource| match resource {
            Resource::Release(object) => Some(object.model),
            _ => None,
        })
        .collect();
    let catalogue = Catalogue::new(releases.clone());
    let reply = graph::reply(&catalogue, query, None, now());
    assert_eq!(graph::reply(&catalogue, query, None, now()), reply);
    // The order in which releases were written means nothing, where no version is written twice.
    let versions: BTreeSet<_> = releases.iter().map(|release| &release.version).collect();
    if versions.len() == releases.len() {
        let turned = Catalogue::new(releases.iter().rev().cloned());
        assert_eq!(graph::reply(&turned, query, None, now()), reply);
    }
    let asked = match GraphQuestion::read(query) {
        Ok(asked) => asked,
        Err(fault) => {
            assert_line(&fault.to_string());
            assert_eq!(
                reply.status,
                if GraphDialect::of(query) == GraphDialect::CoreOs { 400 } else { fault.status() }
            );
            return;
        }
    };
    assert!(asked.wariness.is_none_or(|wariness| (0.0..=1.0).contains(&wariness)));
    let Ok(graph) = catalogue.graph(&asked, now()) else { return };
    assert_eq!(reply.status, 200);
    assert!(serde_json::from_slice::<Value>(&reply.body).unwrap()["nodes"].is_array());
    let nodes: Vec<protocol::Version> = graph.nodes.iter().map(|node| node.version.parse().unwrap()).collect();
    assert!(nodes.is_sorted() && nodes.iter().collect::<BTreeSet<_>>().len() == nodes.len(), "{nodes:?}");
    for (from, to) in &graph.edges {
        assert!(from < to && *to < nodes.len() && nodes[*from].precedes(&nodes[*to]), "{from} {to} {nodes:?}");
        let target = catalogue.release(&nodes[*to]).unwrap();
        assert!(target.blocked.is_none() && (target.barrier || target.rollout.is_some()), "{target:?}");
        assert!(!catalogue.release(&nodes[*from]).unwrap().deadend);
        let between = catalogue_between(&releases, &nodes[*from], &nodes[*to]);
        assert!(!between, "an edge over a barrier: {from} {to} {nodes:?}");
    }
    assert_eq!(graph.edges.iter().collect::<BTreeSet<_>>().len(), graph.edges.len());
}

/// Whether a barrier stands between two versions.
fn catalogue_between(
    releases: &[fleet_engine::resource::Release],
    from: &protocol::Version,
    to: &protocol::Version,
) -> bool {
    let is_between = |version: &protocol::Version| from.precedes(version) && version.precedes(to);
    releases.iter().any(|release| release.barrier && is_between(&release.version))
}
