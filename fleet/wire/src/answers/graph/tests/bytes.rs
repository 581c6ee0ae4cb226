//! Graphs as they are sent: how large they are, and who shares them.

use super::*;
use ::bytes::Bytes;

/// As many releases as a channel has, each of which leads to all that come later.
fn full(count: usize) -> Vec<Release> {
    let digests = [Edition::Oss, Edition::Enterprise, Edition::EnterpriseFips]
        .into_iter()
        .flat_map(|edition| [Arch::Amd64, Arch::Arm64].map(|arch| ((edition, arch), Digest::of(b""))))
        .collect::<Vec<_>>();
    (0..count)
        .map(|number| Release { digests: digests.clone(), ..rolled(&format!("17.{}.{}", number / 50, number % 50)) })
        .collect()
}

#[test]
fn the_graph_of_a_full_channel_fits_an_updaters_answer() {
    let count = fleet_engine::resource_set::MOST_IN_CHANNEL;
    let reply = reply(&Catalogue::new(full(count)), "channel=stable", None, at(1));
    let graph: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(graph["nodes"].as_array().unwrap().len(), count);
    assert_eq!(graph["edges"].as_array().unwrap().len(), count * (count - 1) / 2);
    // What updaters read at most of an answer.
    assert!(reply.body.len() < 1 << 20, "{} bytes", reply.body.len());
}

#[test]
fn who_sees_the_same_shares_the_same_bytes_and_who_does_not_gets_his_own() {
    let hidden = Release { rollout: Some(phased(0.5, None)), ..plain("18.0.0") };
    let catalogue = Catalogue::new(full(20).into_iter().chain([hidden]));
    let ask = |query: &str| reply(&catalogue, query, None, at(1)).body;
    let bytes = |body: &Bytes| std::ptr::from_ref::<[u8]>(body).addr();
    let (early, late) = (ask("channel=stable&rollout_wariness=0.1"), ask("channel=stable&rollout_wariness=0.9"));
    assert_ne!(early, late);
    for (query, same) in [
        ("channel=stable&rollout_wariness=0.2&version=17.0.0&node_uuid=a", &early),
        ("channel=stable&rollout_wariness=0.8", &late),
        ("channel=stable&rollout_wariness=0.9&arch=amd64", &late),
    ] {
        assert_eq!(ask(query), *same, "{query}");
    }
    assert_eq!(bytes(&ask("channel=stable&rollout_wariness=0.3")), bytes(&early));
    let graph = |wariness: &str| {
        let asked = GraphQuestion::read(&format!("channel=stable&rollout_wariness={wariness}")).unwrap();
        serde_json::to_vec(&catalogue.graph(&asked, at(1)).unwrap()).unwrap()
    };
    assert_eq!((&*early, &*late), (&*graph("0.1"), &*graph("0.9")));
}

#[test]
fn what_strangers_ask_for_keeps_no_graphs() {
    let phases = (0..12).map(|number| Release { rollout: Some(phased(0.5, None)), ..plain(&format!("18.0.{number}")) });
    let catalogue = Catalogue::new(phases);
    let mut most = 0;
    for number in 0..2000 {
        for query in [
            format!("channel=x{number}"),
            format!("channel=stable&arch=a{number}"),
            format!("channel=stable&node_uuid={number}"),
            format!("stream=y{number}&basearch=x86_64"),
        ] {
            reply(&catalogue, &query, None, at(1));
        }
        most = most.max(catalogue.kept());
    }
    assert!((2..=32).contains(&most), "{most} graphs were kept");
}
