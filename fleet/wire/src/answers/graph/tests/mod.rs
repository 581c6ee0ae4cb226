mod bytes;

use std::collections::BTreeSet;

use fleet_engine::resource::{Phased, Release};
use proptest::prelude::*;
use protocol::{Arch, Digest, Edition, Version};
use serde_json::json;

use super::phase::{throttle, wariness};
use super::*;
use crate::ids;

/// When the phased rollouts of these tests begin.
const START: i64 = 1_767_225_600;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// A release of the channel `stable` that nothing leads to.
fn plain(text: &str) -> Release {
    Release {
        version: version(text),
        channels: vec!["stable".to_owned()],
        critical: false,
        barrier: false,
        deadend: false,
        blocked: None,
        requires_from: Vec::new(),
        rollout: None,
        digests: Vec::new(),
        image_digests: Vec::new(),
    }
}

/// One that everybody sees.
fn rolled(text: &str) -> Release {
    Release { rollout: Some(phased(1.0, None)), ..plain(text) }
}

fn phased(start_value: f64, duration_minutes: Option<u32>) -> Phased {
    Phased { start: at(0), start_value, duration_minutes }
}

fn stable() -> GraphQuestion {
    GraphQuestion::read("channel=stable").unwrap()
}

fn graph(releases: &[Release], asked: &GraphQuestion) -> UpdateGraph {
    Catalogue::new(releases.to_vec()).graph(asked, at(1)).unwrap()
}

/// Edges as pairs of versions.
fn edges(graph: &UpdateGraph) -> Vec<(&str, &str)> {
    let name = |index: usize| graph.nodes[index].version.as_str();
    graph.edges.iter().map(|(from, to)| (name(*from), name(*to))).collect()
}

fn place(graph: &UpdateGraph, version: &Version) -> Option<usize> {
    nodes(graph).into_iter().position(|node| node == version.to_string())
}

fn nodes(graph: &UpdateGraph) -> Vec<&str> {
    graph.nodes.iter().map(|node| node.version.as_str()).collect()
}

/// Releases as `version:mark,mark`; what has neither `plain` nor `barrier` is seen by everybody.
fn marked(text: &str) -> Vec<Release> {
    let one = |word: &str| {
        let (name, marks) = word.split_once(':').unwrap_or((word, ""));
        let is_rolled = !marks.contains("plain") && !marks.contains("barrier");
        let mut release = if is_rolled { rolled(name) } else { plain(name) };
        for mark in marks.split(',').filter(|mark| !mark.is_empty()) {
            match mark.split_once('=').unwrap_or((mark, "")) {
                ("plain", _) => {}
                ("barrier", _) => release.barrier = true,
                ("hidden", _) => release.rollout = Some(phased(0.0, None)),
                ("deadend", _) => release.deadend = true,
                ("blocked", _) => release.blocked = Some("bad".to_owned()),
                ("critical", _) => release.critical = true,
                ("channel", name) => release.channels = vec![name.to_owned()],
                ("from", names) => release.requires_from = names.split('+').map(version).collect(),
                _ => panic!("{mark}"),
            }
        }
        release
    };
    text.split(' ').map(one).collect()
}

#[test]
fn each_release_is_reached_from_those_that_may_go_to_it() {
    for (what, releases, wanted) in [
        (
            "from every release since the last barrier",
            "1.0.0 1.1.0 2.0.0:barrier 2.1.0 2.2.0",
            "1.0.0>1.1.0 1.0.0>2.0.0 1.1.0>2.0.0 2.0.0>2.1.0 2.0.0>2.2.0 2.1.0>2.2.0",
        ),
        ("neither phased in nor a barrier: from nowhere", "1.0.0 1.1.0:plain 1.2.0", "1.0.0>1.2.0 1.1.0>1.2.0"),
        ("a barrier that is phased in is seen as late as others", "1.0.0 2.0.0:barrier,hidden 2.1.0", "2.0.0>2.1.0"),
        ("a barrier of another channel", "1.0.0 2.0.0:barrier,channel=beta 2.1.0 2.2.0", "2.1.0>2.2.0"),
        ("nobody leaves a dead end", "1.0.0 1.1.0:deadend 1.2.0", "1.0.0>1.1.0 1.0.0>1.2.0"),
        ("nobody new gets a blocked release", "1.0.0 1.1.0:blocked 1.2.0", "1.0.0>1.2.0 1.1.0>1.2.0"),
        ("nor one that is critical", "1.0.0 1.1.0:blocked,critical 1.2.0", "1.0.0>1.2.0 1.1.0>1.2.0"),
        ("a blocked barrier is a barrier still", "1.0.0 2.0.0:barrier,blocked 2.1.0", "2.0.0>2.1.0"),
        (
            "requirements: from those alone, and not from before the barrier",
            "0.9.0 1.0.0:barrier 1.1.0 1.2.0:from=1.1.0+0.9.0",
            "0.9.0>1.0.0 1.0.0>1.1.0 1.1.0>1.2.0",
        ),
        ("from A to B", "1.0.0 1.1.0", "1.0.0>1.1.0"),
        // OpenShift's test of a candidate: hosts come back.
        ("that is replaced by one from B to A", "1.0.0:from=1.1.0 1.1.0", "1.1.0>1.0.0"),
        ("but not from a dead end", "1.0.0:from=1.1.0 1.1.0:deadend", ""),
        (
            "pre-releases come before their release, and build metadata leads nowhere",
            "1.0.0 1.0.0-rc.1 1.0.0+a 1.0.0-rc.2",
            "1.0.0-rc.1>1.0.0-rc.2 1.0.0-rc.1>1.0.0 1.0.0-rc.1>1.0.0+a 1.0.0-rc.2>1.0.0 1.0.0-rc.2>1.0.0+a",
        ),
    ] {
        let graph = graph(&marked(releases), &stable());
        let found: Vec<String> = edges(&graph).iter().map(|(from, to)| format!("{from}>{to}")).collect();
        assert_eq!(found.join(" "), wanted, "{what}");
        // Why one is blocked is for operators.
        assert!(!serde_json::to_string(&graph).unwrap().contains("bad"), "{what}");
    }
    let sorted = graph(&marked("1.0.0 1.0.0-rc.1 1.0.0+a 1.0.0-rc.2"), &stable());
    assert_eq!(nodes(&sorted), ["1.0.0-rc.1", "1.0.0-rc.2", "1.0.0", "1.0.0+a"]);
}

#[test]
fn only_the_channel_s_releases_are_in_its_graph() {
    let both = Release { channels: vec!["beta".to_owned(), "stable".to_owned()], ..rolled("1.1.0") };
    let beta = Release { channels: vec!["beta".to_owned()], ..rolled("1.2.0") };
    let nowhere = Release { channels: Vec::new(), ..rolled("1.3.0") };
    let releases = [rolled("1.0.0"), both, beta, nowhere];
    assert_eq!(nodes(&graph(&releases, &stable())), ["1.0.0", "1.1.0"]);
    assert_eq!(edges(&graph(&releases, &GraphQuestion::read("channel=beta").unwrap())), [("1.1.0", "1.2.0")]);
    let other = graph(&releases, &GraphQuestion::read("channel=other").unwrap());
    assert_eq!(serde_json::to_value(&other).unwrap(), json!({ "nodes": [], "edges": [] }));
}

#[test]
fn only_what_is_built_for_the_architecture_is_in_its_graph() {
    let digest = Digest::of(b"x");
    let arm = Release { digests: vec![((Edition::Oss, Arch::Arm64), digest)], ..rolled("1.1.0") };
    let intel = Release { digests: vec![((Edition::Enterprise, Arch::Amd64), digest)], ..rolled("1.2.0") };
    let releases = [rolled("1.0.0"), arm, intel];
    let of = |arch: &str| {
        let graph = graph(&releases, &GraphQuestion::read(&format!("channel=stable&arch={arch}")).unwrap());
        nodes(&graph).join(" ")
    };
    assert_eq!(of(""), "1.0.0 1.1.0 1.2.0");
    assert_eq!((of("arm64"), of("aarch64")), ("1.0.0 1.1.0".to_owned(), "1.0.0 1.1.0".to_owned()));
    assert_eq!((of("amd64"), of("x86_64")), ("1.0.0 1.2.0".to_owned(), "1.0.0 1.2.0".to_owned()));
    assert_eq!((of("386"), of("s390x")), ("1.0.0".to_owned(), String::new()));
}

#[test]
fn a_version_stands_once_in_a_graph_with_every_restriction_of_its_resources() {
    let twice = [
        Release { barrier: true, ..rolled("1.1.0") },
        Release { deadend: true, blocked: Some("bad".to_owned()), ..rolled("1.1.0") },
    ];
    let backwards = twice.iter().rev().cloned().collect();
    for releases in [twice.to_vec(), backwards] {
        let catalogue = Catalogue::new(releases);
        let release = catalogue.release(&version("1.1.0")).unwrap();
        assert!(release.barrier && release.deadend && release.blocked.is_some());
        assert_eq!(catalogue.graph(&stable(), at(1)).unwrap().nodes.len(), 1);
        assert_eq!(catalogue.release(&version("1.1.1")), None);
    }
}

#[test]
fn the_throttle_grows_from_its_start_to_its_end() {
    let hour = phased(0.2, Some(60));
    for (seconds, share) in
        [(-1, 0.0), (0, 0.2), (900, 0.4), (1800, 0.6), (3599, 0.2 + 0.8 * 3599.0 / 3600.0), (3600, 1.0), (3601, 1.0)]
    {
        let told = throttle(&hour, at(seconds));
        assert!((told - share).abs() < 1e-12, "{seconds} s: {told}");
    }
    for seconds in [0, 1, 1_000_000_000] {
        assert_eq!(throttle(&phased(0.25, None), at(seconds)), 0.25);
    }
    assert_eq!(throttle(&phased(0.25, None), at(-1)), 0.0);
    // No length: everybody at once, behind the start.
    let at_once = phased(0.25, Some(0));
    assert_eq!([-1, 0, 1].map(|seconds| throttle(&at_once, at(seconds))), [0.0, 0.25, 1.0]);
}

/// Whether the node sees 1.1.0, which is phased in so, at that second.
fn sees(asked: &GraphQuestion, phased: Phased, seconds: i64) -> bool {
    let releases = [rolled("1.0.0"), Release { rollout: Some(phased), ..plain("1.1.0") }];
    let now = at(seconds);
    let zero = GraphQuestion { wariness: Some(0.0), ..asked.clone() };
    let catalogue = Catalogue::new(releases);
    assert_eq!(catalogue.graph(&zero, now).unwrap().edges.len(), 1);
    catalogue.graph(asked, now).unwrap().edges.len() == 1
}

fn wary(text: &str) -> Result<GraphQuestion, GraphFault> {
    GraphQuestion::read(&format!("channel=stable&rollout_wariness={text}"))
}

#[test]
fn a_wariness_of_zero_is_never_hidden_not_even_before_the_start() {
    for text in ["0", "0.0", "-0", "-1", "-1e300"] {
        assert!(sees(&wary(text).unwrap(), phased(0.0, None), -1_000_000), "{text}");
    }
    assert!(!sees(&wary("1e-300").unwrap(), phased(0.0, None), 1));
}

#[test]
fn a_release_is_hidden_from_those_more_wary_than_its_throttle() {
    for (text, seen) in [("0.49", true), ("0.5", true), ("0.51", false), ("1", false), ("7", false), ("1e3", false)] {
        assert_eq!(sees(&wary(text).unwrap(), phased(0.5, None), 1), seen, "{text}");
    }
    // Cut to 1.
    for text in ["1", "7", "1e300"] {
        assert!(sees(&wary(text).unwrap(), phased(0.5, Some(10)), 600), "{text}");
    }
}

const NOT_FINITE: [&str; 10] = ["nan", "NaN", "-nan", "%2Bnan", "inf", "-inf", "%2Binf", "Infinity", "1e999", "-1e999"];

#[test]
fn nan_and_its_kin_are_400_in_both_styles() {
    let catalogue = Catalogue::new([rolled("1.0.0")]);
    for text in NOT_FINITE {
        let open_shift = reply(&catalogue, &format!("channel=stable&rollout_wariness={text}"), None, at(1));
        let said: Value = serde_json::from_slice(&open_shift.body).unwrap();
        assert_eq!((open_shift.status, &said["kind"]), (400, &json!("invalid_params")), "{text}");
        let core_os = reply(&catalogue, &format!("stream=stable&basearch=x86_64&rollout_wariness={text}"), None, at(1));
        assert_eq!((core_os.status, core_os.body.len()), (400, 0), "{text}");
    }
}

#[test]
fn a_wariness_that_is_no_number_is_as_none() {
    let uuid = "4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d10";
    let of = |wariness: &str| {
        let asked =
            GraphQuestion::read(&format!("channel=stable&node_uuid={uuid}&rollout_wariness={wariness}")).unwrap();
        super::phase::wariness(&asked, &version("1.1.0"))
    };
    let by_hash = of("");
    assert!(by_hash > 0.0 && by_hash < 1.0);
    for text in ["abc", "0,5", "%20", "half", "0x1", "--1"] {
        assert_eq!(of(text), by_hash, "{text}");
    }
    assert_eq!(of("0.5"), 0.5);
}

fn node(uuid: &str) -> GraphQuestion {
    GraphQuestion::read(&format!("channel=stable&node_uuid={uuid}")).unwrap()
}

#[test]
fn the_same_uuid_has_the_same_answer_however_it_is_written() {
    let uuid = "4b9a8a2c-53b5-4e21-9bb7-2f7c1f4c6d10";
    let one = wariness(&node(uuid), &version("1.1.0"));
    assert_eq!(wariness(&node(&uuid.to_uppercase()), &version("1.1.0")), one);
    assert_eq!(wariness(&node(&uuid.replace('-', "")), &version("1.1.0")), one);
    let cluster = GraphQuestion::read(&format!("channel=stable&id={uuid}")).unwrap();
    assert_eq!(wariness(&cluster, &version("1.1.0")), one);
    // Fixed for ever: nodes must not lose a release they saw because the server was updated. SHA-256 of `1.1.0`, a zero byte
    // and the UUID's 16 bytes begins with a6562dc51e9e5e98.
    let expected = f64::from(0xa656_2dc5_u32) / 4_294_967_296.0;
    assert!((one - expected).abs() < 1e-9, "{one}");
}

#[test]
fn whoever_says_nothing_of_itself_is_among_the_last() {
    assert_eq!(wariness(&stable(), &version("1.1.0")), 1.0);
    assert!(!sees(&stable(), phased(0.99, None), 1));
    assert!(sees(&stable(), phased(0.0, Some(10)), 600));
}

#[test]
fn ten_thousand_nodes_are_spread_evenly_and_not_the_same_are_first_each_time() {
    const NODES: u32 = 10_000;
    let asked: Vec<GraphQuestion> = (1..=NODES).map(|number| node(&ids::text(u128::from(number)))).collect();
    let first = |text: &str, share: f64| -> BTreeSet<usize> {
        let version = version(text);
        (0..asked.len()).filter(|index| wariness(&asked[*index], &version) <= share).collect()
    };
    for share in [0.05, 0.25, 0.5, 0.75, 0.95] {
        let seen = f64::from(u32::try_from(first("1.1.0", share).len()).unwrap()) / f64::from(NODES);
        assert!((seen - share).abs() <= 0.02, "{seen} of {share}");
    }
    // Of the first tenth of one version, about a tenth is in the first tenth of another.
    let (one, other) = (first("1.1.0", 0.1), first("1.1.1", 0.1));
    let both = one.intersection(&other).count();
    assert!((50..=200).contains(&both), "{both}");
}

#[test]
fn a_question_without_a_channel_is_refused_in_cincinnati_s_words() {
    for query in ["", "version=1.0.0&arch=amd64&id=x", "channel=", "foo=bar"] {
        let refused = reply(&Catalogue::default(), query, None, at(1));
        let said: Value = serde_json::from_slice(&refused.body).unwrap();
        let expected = json!({ "kind": "missing_params", "value": "mandatory client parameters missing: channel" });
        assert_eq!((refused.status, refused.content_type, said), (400, JSON, expected), "{query}");
    }
}

#[test]
fn an_invalid_scope_of_core_os_is_400_with_an_empty_body() {
    let catalogue = Catalogue::new([rolled("1.0.0")]);
    for query in [
        "stream=stable",
        "basearch=x86_64",
        "node_uuid=x",
        "rollout_wariness=0.5",
        "os_version=1&os_checksum=2&group=default&platform=metal&oci=true",
        "stream=&basearch=x86_64",
        "stream=stable&basearch=",
        "stream=nope&basearch=x86_64",
        "stream=stable&basearch=vax",
        "stream=sta%20ble&basearch=x86_64",
    ] {
        let refused = reply(&catalogue, query, None, at(1));
        assert_eq!((refused.status, refused.body.len()), (400, 0), "{query}");
    }
    let answered = reply(&catalogue, "stream=stable&basearch=x86_64&node_uuid=x&os_version=38.1&oci=true", None, at(1));
    assert_eq!(answered.status, 200);
}

#[test]
fn what_is_documented_must_be_right_and_what_is_not_is_ignored() {
    let ask = |query: &str| reply(&Catalogue::new([rolled("1.0.0")]), query, None, at(1));
    for good in [
        "channel=stable&arch=amd64&version=4.14.1&id=5b1a4ee2-7c2d-4c22-a8a6-0ccae5f5b0ae",
        "channel=stable&channel=stable&x=1&x=2&site=west",
        "channel=stable&version=v1.0.0",
        "channel=stable&version=",
    ] {
        assert_eq!(ask(good).status, 200, "{good}");
    }
    for bad in [
        "channel=stable&channel=beta",
        "channel=%zz",
        "channel=a%00b",
        "channel=stable&version=latest",
        &format!("channel={}", "x".repeat(300)),
        &format!("channel=stable&x={}", "x".repeat(3000)),
    ] {
        let refused = ask(bad);
        let said: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!((refused.status, &said["kind"]), (400, &json!("invalid_params")), "{bad}");
    }
}

#[test]
fn a_client_that_does_not_take_json_is_told_so() {
    let ask = |accept: &str| reply(&Catalogue::default(), "channel=stable", Some(accept), at(1)).status;
    for good in ["", "*/*", "application/json", "text/html, application/*;q=0.5", "Application/JSON; charset=utf-8"] {
        assert_eq!(ask(good), 200, "{good}");
    }
    for bad in ["text/html", "application/json;q=0", "application/jsonp", "*"] {
        assert_eq!(ask(bad), 406, "{bad}");
    }
    let core_os = reply(&Catalogue::new([rolled("1.0.0")]), "stream=stable&basearch=x86_64", Some("text/html"), at(1));
    assert_eq!(core_os.status, 200);
}

#[test]
fn each_dialect_has_its_own_metadata() {
    let second = Release {
        critical: true,
        channels: vec!["stable".to_owned(), "beta".to_owned()],
        rollout: Some(phased(0.5, Some(60))),
        barrier: true,
        ..plain("1.1.0")
    };
    let digests = vec![((Edition::Oss, Arch::Amd64), Digest::of(b""))];
    let image_digests = vec![("teleport".to_owned(), Digest::of(b""))];
    let catalogue = Catalogue::new([Release { deadend: true, digests, image_digests, ..rolled("1.0.0") }, second]);
    let ask = |query: &str| -> Value {
        let reply = reply(&catalogue, query, None, at(1));
        assert_eq!((reply.status, reply.content_type), (200, JSON));
        serde_json::from_slice(&reply.body).unwrap()
    };
    let open_shift = json!({
        "nodes": [
            { "version": "1.0.0", "payload": "1.0.0", "metadata": {
                "io.openshift.upgrades.graph.release.channels": "stable", "fleet.deadend": "true",
                // Of no bytes.
                "fleet.digest.oss/amd64": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
                "fleet.digest.image/teleport": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" } },
            { "version": "1.1.0", "payload": "1.1.0", "metadata": {
                "io.openshift.upgrades.graph.release.channels": "beta,stable", "fleet.barrier": "true",
                "fleet.critical": "true" } },
        ],
        "edges": [],
    });
    assert_eq!(ask("channel=stable"), open_shift);
    let core_os = ask("stream=stable&basearch=x86_64");
    let metadata = |index: usize| core_os["nodes"][index]["metadata"].clone();
    assert_eq!(
        metadata(0),
        json!({
            "org.fedoraproject.coreos.scheme": "checksum",
            "org.fedoraproject.coreos.releases.age_index": "0",
            "org.fedoraproject.coreos.updates.deadend": "true",
            "org.fedoraproject.coreos.updates.rollout": "true",
            "org.fedoraproject.coreos.updates.start_epoch": START.to_string(),
            "org.fedoraproject.coreos.updates.start_value": "1",
        })
    );
    assert_eq!(
        metadata(1),
        json!({
            "org.fedoraproject.coreos.scheme": "checksum",
            "org.fedoraproject.coreos.releases.age_index": "1",
            "org.fedoraproject.coreos.updates.barrier": "true",
            "org.fedoraproject.coreos.updates.rollout": "true",
            "org.fedoraproject.coreos.updates.start_epoch": START.to_string(),
            "org.fedoraproject.coreos.updates.start_value": "0.5",
            "org.fedoraproject.coreos.updates.duration_minutes": "60",
        })
    );
}

#[test]
fn a_script_asks_by_the_same_names_and_has_nodes_and_edges() {
    let catalogue = Catalogue::new([rolled("1.0.0"), Release { rollout: Some(phased(0.5, None)), ..plain("1.1.0") }]);
    let ask = |question: Value| script(&catalogue, &question, at(1));
    for (wariness, edges) in [(json!(0.5), 1), (json!("0.5"), 1), (json!(0.6), 0), (json!(0), 1), (Value::Null, 0)] {
        let question =
            json!({ "channel": "stable", "arch": "amd64", "version": "1.0.0", "rollout_wariness": wariness });
        let told = ask(question).unwrap();
        assert_eq!(told.as_object().unwrap().len(), 2);
        assert_eq!(told["nodes"].as_array().unwrap().len(), 2);
        assert_eq!(told["edges"].as_array().unwrap().len(), edges, "{wariness}");
    }
    assert_eq!(ask(json!({ "arch": "amd64" })), Err(GraphFault::MissingParams("channel")));
    for bad in [
        json!([]),
        json!({ "channel": 1 }),
        json!({ "channel": "stable", "rollout_wariness": "nan" }),
        json!({ "channel": "stable", "wariness": 0 }),
        json!({ "channel": "stable", "version": "x" }),
        json!({ "channel": "stable", "node_uuid": true }),
    ] {
        assert!(matches!(ask(bad.clone()), Err(GraphFault::InvalidParams(_))), "{bad}");
    }
}

/// Releases of three minors, with any marks.
fn releases() -> impl Strategy<Value = Vec<Release>> {
    let one = (0u64..12, any::<[bool; 5]>(), 0.0..=1.0f64, proptest::option::of(0u32..10)).prop_map(
        |(minor, [is_barrier, is_dead, is_blocked, is_rolled, is_beta], share, minutes)| Release {
            barrier: is_barrier,
            deadend: is_dead && minor % 3 == 0,
            blocked: (is_blocked && minor % 2 == 0).then(|| "bad".to_owned()),
            rollout: is_rolled.then_some(phased(share, minutes)),
            channels: vec![if is_beta && minor % 4 == 0 { "beta" } else { "stable" }.to_owned()],
            ..plain(&format!("1.{minor}.0"))
        },
    );
    proptest::collection::vec(one, 0..12)
}

/// Whether one can go from a node to another by way of nodes of which `allowed` holds.
fn leads_to(graph: &UpdateGraph, from: usize, to: usize, allowed: &impl Fn(usize) -> bool) -> bool {
    graph.edges.iter().any(|(a, b)| *a == from && (*b == to || (allowed(*b) && leads_to(graph, *b, to, allowed))))
}

proptest! {
    #[test]
    fn no_way_leads_back_to_where_it_began(releases in releases(), ways in proptest::collection::vec((0usize..12, 0u64..12), 0..6)) {
        let mut releases = releases;
        for (at, from) in ways {
            if let Some(release) = releases.get_mut(at).filter(|release| release.version != version(&format!("1.{from}.0"))) {
                release.requires_from.push(version(&format!("1.{from}.0")));
            }
        }
        let graph = Catalogue::new(releases).graph(&GraphQuestion { wariness: Some(0.0), ..stable() }, at(1)).unwrap();
        for index in 0..graph.nodes.len() {
            let seen = std::cell::RefCell::new(BTreeSet::new());
            prop_assert!(!leads_to(&graph, index, index, &|by| seen.borrow_mut().insert(by)), "{graph:?}");
        }
    }

    #[test]
    fn every_path_across_a_barrier_goes_through_it(releases in releases()) {
        let asked = GraphQuestion { wariness: Some(0.0), ..stable() };
        let catalogue = Catalogue::new(releases.clone());
        let graph = catalogue.graph(&asked, at(1)).unwrap();
        for barrier in releases.iter().map(|release| &release.version) {
            let barrier = catalogue.release(barrier).unwrap();
            if !barrier.barrier {
                continue;
            }
            let own = place(&graph, &barrier.version);
            let is_before = |index: usize| version(&graph.nodes[index].version).precedes(&barrier.version);
            let is_behind = |index: usize| barrier.version.precedes(&version(&graph.nodes[index].version));
            for (from, to) in (0..graph.nodes.len()).flat_map(|a| (0..graph.nodes.len()).map(move |b| (a, b))) {
                if is_before(from) && is_behind(to) {
                    prop_assert!(!leads_to(&graph, from, to, &|index| Some(index) != own));
                }
            }
        }
    }

    #[test]
    fn blocking_a_release_takes_away_the_ways_to_it_and_no_other(releases in releases(), chosen in 0usize..12) {
        let asked = GraphQuestion { wariness: Some(0.0), ..stable() };
        let before = Catalogue::new(releases.clone());
        let Some(bad) = releases.get(chosen).map(|release| release.version.clone()) else { return Ok(()) };
        let all = releases.into_iter().map(|release| {
            let is_bad = release.version == bad;
            Release { blocked: if is_bad { Some("bad".to_owned()) } else { release.blocked }, ..release }
        });
        let (before, after) = (before.graph(&asked, at(1)).unwrap(), Catalogue::new(all).graph(&asked, at(1)).unwrap());
        let bad = place(&before, &bad);
        let kept: Vec<_> = before.edges.iter().filter(|(_, to)| Some(*to) != bad).copied().collect();
        prop_assert_eq!(after.edges, kept);
        prop_assert_eq!(after.nodes.len(), before.nodes.len());
    }

    #[test]
    fn indexes_are_in_bounds_versions_unique_and_edges_upwards(releases in releases(), uuid: u128, seconds in -100i64..1000) {
        let catalogue = Catalogue::new(releases);
        let graph = catalogue.graph(&node(&ids::text(uuid)), at(seconds)).unwrap();
        let unique: BTreeSet<&str> = nodes(&graph).into_iter().collect();
        prop_assert_eq!(unique.len(), graph.nodes.len());
        for (from, to) in &graph.edges {
            prop_assert!(from < to && *to < graph.nodes.len());
        }
        let mut distinct = graph.edges.clone();
        distinct.dedup();
        prop_assert_eq!(distinct, graph.edges);
    }

    #[test]
    fn the_order_of_resources_does_not_matter(releases in releases().prop_shuffle(), uuid: u128) {
        let mut sorted = releases;
        sorted.sort_by(|a, b| a.version.cmp(&b.version));
        sorted.dedup_by(|a, b| a.version == b.version);
        let backwards: Vec<Release> = sorted.iter().rev().cloned().collect();
        let asked = node(&ids::text(uuid));
        prop_assert_eq!(graph(&sorted, &asked), graph(&backwards, &asked));
    }

    #[test]
    fn what_a_node_sees_it_goes_on_seeing(share in 0.0..=1.0f64, minutes in proptest::option::of(0u32..200), uuid: u128, earlier in 0i64..20_000, later in 0i64..20_000) {
        let phased = phased(share, minutes);
        let (earlier, later) = (earlier.min(later), earlier.max(later));
        prop_assert!(throttle(&phased, at(earlier)) <= throttle(&phased, at(later)));
        let asked = node(&ids::text(uuid));
        prop_assert!(!sees(&asked, phased, earlier) || sees(&asked, phased, later));
    }

    #[test]
    fn a_throttle_is_a_share(share in 0.0..=1.0f64, minutes in proptest::option::of(any::<u32>()), seconds in -1_000_000_000i64..100_000_000_000) {
        let throttle = throttle(&phased(share, minutes), at(seconds));
        prop_assert!((0.0..=1.0).contains(&throttle));
    }

    #[test]
    fn no_query_makes_a_panic(text in "((channel|stream|basearch|rollout_wariness|node_uuid|version)=([a-z0-9%.+-]{0,30}|.{0,10})&?){0,6}", accept in proptest::option::of(".{0,40}")) {
        let reply = reply(&Catalogue::new([rolled("1.0.0")]), &text, accept.as_deref(), at(1));
        prop_assert!([200, 400, 406].contains(&reply.status));
    }
}
