//! An update graph: which versions lead to which (Cincinnati's protocol, as OpenShift and Fedora CoreOS speak it).

use std::collections::BTreeSet;

use error::{Code, Error, Result};
use http_client::{encoded, is_unseen, shown};
use protocol::find::Digests;
use protocol::{Arch, Version};
use serde_json::Value;

use super::channel::found;
use super::find::excerpt;
use super::said::{Said, Way, Word};

/// The channel of a URL that names none.
const CHANNEL: &str = "stable";
/// Where `teleport-fleet` has the digest of a node's archive: this, and `oss/amd64` (FLEET §9).
const DIGEST: &str = "fleet.digest.";

/// What has a say in which version is chosen.
pub struct Choice<'a> {
    /// Who chooses, for a reason: `this host`.
    pub who: &'a str,
    /// The version that it runs.
    pub own: Option<&'a Version>,
    /// Versions that failed there.
    pub refused: &'a [&'a Version],
    /// Edges to lower versions count (`spec.allow_downgrade`).
    pub downwards: bool,
}

/// Asks the server at `url`, and chooses. `arch` and `id`: this host's architecture and its id towards servers.
///
/// Errors: [`Code::Network`] where there is no answer; [`Code::ClusterAnswer`] for one that is none; [`Code::Interrupted`].
pub fn ask(url: &str, choice: &Choice<'_>, arch: Arch, id: Option<&str>, way: &Way<'_>) -> Result<Word> {
    let place = question(url, choice.own, arch, id);
    let body = found(&place, way)?;
    choose(&body, choice)
        .map_err(|why| Error::new(Code::ClusterAnswer, format!("{} answered no usable graph: {why}", shown(&place))))
}

/// The URL with this host's parameters; those that it has itself stay. A URL with `stream` or `basearch` is Fedora CoreOS's.
fn question(url: &str, own: Option<&Version>, arch: Arch, id: Option<&str>) -> String {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    let own = own.map(ToString::to_string);
    let machine = match arch {
        Arch::Amd64 => "x86_64",
        Arch::Arm64 => "aarch64",
        other => other.as_str(),
    };
    let ours = if has("stream") || has("basearch") {
        [("stream", Some(CHANNEL)), ("basearch", Some(machine)), ("os_version", own.as_deref()), ("node_uuid", id)]
    } else {
        [("channel", Some(CHANNEL)), ("version", own.as_deref()), ("arch", Some(arch.as_str())), ("id", id)]
    };
    let ours = ours.into_iter().filter(|(name, _)| !has(name));
    let mut pairs: Vec<String> = query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
    pairs.extend(ours.filter_map(|(name, value)| Some(format!("{name}={}", encoded(value?)))));
    format!("{path}?{}", pairs.join("&"))
}

/// The newest version to which an edge leads from this host's own.
///
/// Errors: why `body` is no graph: what is not as the protocol says leads nowhere.
pub fn choose(body: &str, choice: &Choice<'_>) -> Result<Word, String> {
    let graph = Graph::parse(body)?;
    let Some(own) = choice.own else {
        return Ok(Word::Nothing("no version is installed, and a graph leads from one version to the next".to_owned()));
    };
    let Some(at) = graph.nodes.iter().position(|node| node.version == *own) else {
        return Ok(Word::Nothing(format!("the graph does not contain {own}")));
    };
    if let Some(why) = &graph.nodes[at].dead_end {
        return Ok(Word::Nothing(format!("{own} is a dead end: no update leads from it ({why})")));
    }
    let successors = graph.edges.iter().filter(|(from, _)| *from == at).map(|(_, to)| &graph.nodes[*to]);
    let mut best: Option<&Node> = None;
    let mut held = "no update leads from it".to_owned();
    let above = graph.nodes.iter().filter(|node| node.barrier && own.precedes(&node.version)).map(|node| &node.version);
    let barrier = above.reduce(|lowest, version| if version.precedes(lowest) { version } else { lowest });
    for node in successors.filter(|node| !barrier.is_some_and(|barrier| barrier.precedes(&node.version))) {
        let version = &node.version;
        if !own.precedes(version) && !choice.downwards {
            held = "its updates lead to lower versions only, which allow_downgrade would have to allow".to_owned();
        } else if choice.refused.contains(&version) {
            held = format!("the versions to which its updates lead failed on {}", choice.who);
        } else if best.is_none_or(|best| best.version.precedes(version)) {
            best = Some(node);
        }
    }
    Ok(match best {
        Some(Node { version, digests, .. }) => {
            Word::Version(Box::new(Said { digests: digests.clone(), ..Said::version(version.clone()) }))
        }
        None => Word::Nothing(format!("{own} is the version to stay on: {held}")),
    })
}

/// A graph that is as the protocol says.
struct Graph {
    nodes: Vec<Node>,
    edges: Vec<(usize, usize)>,
}

struct Node {
    version: Version,
    /// Nothing is to be skipped past it.
    barrier: bool,
    /// Why no update leads from it.
    dead_end: Option<String>,
    /// The digests of its archives, where `teleport-fleet` knows them.
    digests: Digests,
}

impl Graph {
    fn parse(body: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(body).map_err(|error| format!("it is not JSON ({error})"))?;
        let list =
            |key: &str| value.get(key).and_then(Value::as_array).ok_or_else(|| format!("it has no list of {key}"));
        let nodes = list("nodes")?.iter().map(Node::read).collect::<Result<Vec<_>, _>>()?;
        let mut known = BTreeSet::new();
        if let Some(twice) = nodes.iter().find(|node| !known.insert(&node.version)) {
            return Err(format!("it contains {} twice", twice.version));
        }
        let index = |end: Option<&Value>| {
            let index = end.and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
            index.filter(|index| *index < nodes.len())
        };
        let edge = |edge: &Value| match edge.as_array().map(Vec::as_slice) {
            Some([from, to]) => index(Some(from)).zip(index(Some(to))),
            _ => None,
        };
        let edges = list("edges")?.iter().map(edge).collect::<Option<Vec<_>>>();
        let edges = edges.ok_or("an edge is not a pair of numbers of its nodes")?;
        let graph = Self { nodes, edges };
        if graph.has_cycle() { Err("its edges lead in a circle".to_owned()) } else { Ok(graph) }
    }

    /// Takes away, again and again, what no edge leads to: a circle stays.
    fn has_cycle(&self) -> bool {
        let mut incoming = vec![0_usize; self.nodes.len()];
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        for (from, to) in &self.edges {
            incoming[*to] += 1;
            next[*from].push(*to);
        }
        let mut free: Vec<usize> = (0..self.nodes.len()).filter(|node| incoming[*node] == 0).collect();
        let mut taken = 0;
        while let Some(node) = free.pop() {
            taken += 1;
            for to in &next[node] {
                incoming[*to] -= 1;
                if incoming[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        taken < self.nodes.len()
    }
}

impl Node {
    fn read(node: &Value) -> Result<Self, String> {
        let text = node.get("version").and_then(Value::as_str).ok_or("a node has no version")?;
        let version = text.parse().map_err(|_| format!("{:?} is not a version", excerpt(text.as_bytes())))?;
        let metadata = node.get("metadata").and_then(Value::as_object);
        // Fedora CoreOS's are below a prefix of its own.
        let said = |name: &str| {
            let mut pairs = metadata.into_iter().flatten();
            let found =
                pairs.find(|(key, _)| *key == name || key.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')));
            found.map(|(_, value)| value)
        };
        // The protocol has texts; a graph written by hand may have the word of JSON.
        let is = |name: &str| said(name).is_some_and(|value| value == "true" || value == true);
        let dead_end = is("updates.deadend").then(|| {
            said("updates.deadend_reason")
                .and_then(Value::as_str)
                .unwrap_or("no reason is given")
                .chars()
                .filter(|c| !is_unseen(*c))
                .take(120)
                .collect()
        });
        let digests = metadata.map(|metadata| Digests::read(metadata, DIGEST)).transpose();
        let digests = digests.map_err(|error| format!("of {version}, {error}"))?.unwrap_or_default();
        Ok(Self { version, barrier: is("updates.barrier"), dead_end, digests })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn chosen(body: &str, own: &str, refused: &[&str], downwards: bool) -> Result<Option<String>, String> {
        let (own, refused) = (version(own), refused.iter().map(|text| version(text)).collect::<Vec<_>>());
        let refused: Vec<&Version> = refused.iter().collect();
        let word = choose(body, &Choice { who: "this host", own: Some(&own), refused: &refused, downwards })?;
        Ok(match word {
            Word::Version(said) => Some(said.version.to_string()),
            Word::Nothing(_) => None,
        })
    }

    #[test]
    fn a_barrier_is_not_skipped_and_a_dead_end_not_left() {
        let key = "org.fedoraproject.coreos.updates";
        for yes in ["\"true\"", "true"] {
            let graph = format!(
                r#"{{"nodes":[{{"version":"1.0.0"}},{{"version":"1.1.0","metadata":{{"{key}.barrier":{yes}}}}},{{"version":"1.2.0"}},
                {{"version":"1.3.0","metadata":{{"{key}.deadend":{yes},"{key}.deadend_reason":"no way"}}}}],"edges":[[0,1],[0,2],[1,2],[3,2]]}}"#
            );
            assert_eq!(chosen(&graph, "1.0.0", &[], true).unwrap().as_deref(), Some("1.1.0"));
            assert_eq!(chosen(&graph, "1.1.0", &[], true).unwrap().as_deref(), Some("1.2.0"));
            assert_eq!(chosen(&graph, "1.3.0", &[], true).unwrap(), None);
        }
    }

    #[test]
    fn the_lowest_barrier_above_the_own_version_counts() {
        let node = |version: &str| format!(r#"{{"version":"{version}","metadata":{{"updates.barrier":"true"}}}}"#);
        let barriers = ["1.3.0", "1.1.0", "0.9.0", "1.2.0"].map(node).join(",");
        let graph = format!(
            r#"{{"nodes":[{{"version":"1.0.0"}},{{"version":"1.1.5"}},{barriers}],"edges":[[0,1],[0,2],[0,3],[1,2],[1,5]]}}"#
        );
        assert_eq!(chosen(&graph, "1.0.0", &[], false).unwrap().as_deref(), Some("1.1.0"));
        assert_eq!(chosen(&graph, "1.1.5", &[], false).unwrap().as_deref(), Some("1.2.0"));
    }

    #[test]
    fn what_is_no_graph_is_an_error() {
        for (body, why) in [
            ("", "not JSON"),
            ("[]", "no list of nodes"),
            (r#"{"nodes":[]}"#, "no list of edges"),
            (r#"{"nodes":[{}],"edges":[]}"#, "no version"),
            (r#"{"nodes":[{"version":""}],"edges":[]}"#, "not a version"),
            (r#"{"nodes":[{"version":"35.1.2.3"}],"edges":[]}"#, "not a version"),
            (r#"{"nodes":[{"version":"1.0.0"},{"version":"v1.0.0"}],"edges":[]}"#, "twice"),
            (r#"{"nodes":[{"version":"1.0.0"}],"edges":[[0,1]]}"#, "pair of numbers"),
            (r#"{"nodes":[{"version":"1.0.0"}],"edges":[[0,-1]]}"#, "pair of numbers"),
            (r#"{"nodes":[{"version":"1.0.0"}],"edges":[[0]]}"#, "pair of numbers"),
            (r#"{"nodes":[{"version":"1.0.0"}],"edges":[[0,0]]}"#, "circle"),
            (
                r#"{"nodes":[{"version":"1.0.0"},{"version":"1.1.0"},{"version":"1.2.0"}],"edges":[[0,1],[1,2],[2,0]]}"#,
                "circle",
            ),
        ] {
            let told = chosen(body, "1.0.0", &[], true).unwrap_err();
            assert!(told.contains(why), "{body}: {told}");
        }
        let apart = r#"{"nodes":[{"version":"1.0.0"},{"version":"9.0.0"}],"edges":[]}"#;
        assert_eq!(chosen(apart, "1.0.0", &[], false).unwrap(), None, "a node that no edge leads to");
    }

    #[test]
    fn a_question_keeps_the_parameters_of_its_url_and_adds_this_hosts() {
        let own = version("1.2.3+a");
        let asked = |url: &str| question(url, Some(&own), Arch::Amd64, Some("id"));
        assert_eq!(asked("https://h/g"), "https://h/g?channel=stable&version=1.2.3%2Ba&arch=amd64&id=id");
        assert_eq!(
            asked("https://h/g?channel=fast&arch=s390x"),
            "https://h/g?channel=fast&arch=s390x&version=1.2.3%2Ba&id=id"
        );
        assert_eq!(
            asked("https://h/g?stream=next&rollout_wariness=0"),
            "https://h/g?stream=next&rollout_wariness=0&basearch=x86_64&os_version=1.2.3%2Ba&node_uuid=id"
        );
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_a_direct_successor_that_nothing_forbids(
            minors in proptest::collection::btree_set(0_u64..12, 1..8),
            pairs in proptest::collection::vec((0_usize..8, 0_usize..8), 0..14),
            own in 0_usize..8,
            refused in proptest::collection::vec(0_u64..12, 0..3),
        ) {
            let versions: Vec<String> = minors.iter().map(|minor| format!("1.{minor}.0")).collect();
            let count = versions.len();
            // Upwards only: no circle.
            let edges: Vec<(usize, usize)> = pairs.into_iter().map(|(from, to)| (from % count, to % count)).filter(|(from, to)| from < to).collect();
            let nodes: Vec<Value> = versions.iter().map(|version| serde_json::json!({ "version": version })).collect();
            let body = serde_json::json!({ "nodes": nodes, "edges": edges }).to_string();
            let own = own % count;
            let refused: Vec<String> = refused.iter().map(|minor| format!("1.{minor}.0")).collect();
            let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
            let found = chosen(&body, &versions[own], &refused, false).unwrap();
            let expected = edges.iter().filter(|(from, to)| *from == own && !refused.contains(&versions[*to].as_str())).map(|(_, to)| *to).max();
            prop_assert_eq!(found, expected.map(|to| versions[to].clone()));
        }
    }
}
