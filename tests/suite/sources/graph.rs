//! Seed 004's client behaviour, and the protocol of its update graphs.

use super::host::{GRAPH, graph};
use crate::support::*;

/// An image on `versions[0]` that follows the graph.
fn on_graph(versions: &[&str], edges: &[(usize, usize)]) -> Image {
    let image = Image::with(versions);
    image.draw(versions, edges);
    image.follow(&image.graph(), &["--force-version", versions[0]]).ok();
    assert_eq!(image.linked(), versions[0]);
    image
}

#[test]
fn a_host_updates_as_soon_as_an_updated_release_is_available_in_its_channel() {
    let image = on_graph(&["1.0.0", "1.1.0"], &[]);
    image.changes_nothing(&["update"], 0, "no update leads from it");
    image.draw(&["1.0.0", "1.1.0"], &[(0, 1)]);
    let plan = image.run(&["plan"]).ok();
    assert!(plan.stdout.starts_with(&format!("source: {} (", image.graph())), "{plan:#?}");
    assert_eq!(image.update(), "1.1.0");
    let asked = image.cluster.requests_to(GRAPH).pop().unwrap();
    let asked: Vec<(&str, &str)> = asked.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(asked, [("channel", "stable"), ("version", "1.0.0"), ("arch", "amd64")]);
}

#[test]
fn only_recommendations_for_the_hosts_own_version_count_and_the_newest_of_them() {
    let versions = ["1.0.0", "1.1.0", "1.2.0", "2.0.0"];
    let image = on_graph(&versions, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert_eq!(image.update(), "1.2.0");
    assert_eq!(image.update(), "2.0.0");
    image.changes_nothing(&["update"], 0, "no update leads from it");
    // A host whose version the graph does not have stays as it is, in every command.
    image.draw(&["3.0.0", "4.0.0"], &[(0, 1)]);
    for command in [&["update"][..], &["update", "--now"], &["plan"], &["status"]] {
        image.run(command).ok();
        assert_eq!(image.linked(), "2.0.0");
    }
    image.changes_nothing(&["update"], 0, "the graph does not contain 2.0.0");
    let status = image.status();
    assert_eq!(status["source_reason"], "the graph does not contain 2.0.0");
    assert_eq!(status["agent_version_desired"], serde_json::Value::Null);
}

#[test]
fn a_host_without_a_version_is_told_how_it_gets_its_first() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    image.draw(&["1.0.0", "1.1.0"], &[(0, 1)]);
    image.follow(&image.graph(), &[]).fails(1, "--force-version");
    assert!(!image.config().contains("source:") && image.linked().is_empty(), "{}", image.config());
    image.follow(&image.graph(), &["--force-version", "1.0.0"]).ok();
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn a_recommendation_that_is_removed_is_not_followed() {
    let image = on_graph(&["1.0.0", "1.1.0"], &[(0, 1)]);
    image.run(&["plan"]).ok();
    image.draw(&["1.0.0", "1.1.0"], &[]);
    image.changes_nothing(&["update", "--now"], 0, "no update leads from it");
}

#[test]
fn a_compromised_upstream_leads_to_no_lower_version_unless_the_host_allows_it() {
    let image = on_graph(&["4.1.0", "4.2.4"], &[(0, 1)]);
    assert_eq!(image.update(), "4.2.4");
    image.draw(&["4.1.0", "4.2.4"], &[(1, 0)]);
    image.changes_nothing(&["update", "--now"], 0, "allow_downgrade");
    image.set("  min_version: 4.2.0\n  allow_downgrade: true\n");
    image.changes_nothing(&["update"], 1, "min_version");
    let text = image.config().replacen("  min_version: 4.2.0\n", "", 1);
    std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
    assert_eq!(image.update(), "4.1.0");
}

#[test]
fn barriers_are_not_skipped_and_dead_ends_are_not_left() {
    let image = on_graph(&["1.0.0", "1.1.0", "1.2.0"], &[]);
    let key = "org.fedoraproject.coreos.updates";
    let page = |own: &str, barrier: &str| {
        format!(
            r#"{{"nodes":[{{"version":"1.0.0","metadata":{own}}},{{"version":"1.1.0","metadata":{barrier}}},
            {{"version":"1.2.0"}}],"edges":[[0,1],[0,2],[1,2]]}}"#
        )
    };
    let dead = format!(r#"{{"{key}.deadend":"true","{key}.deadend_reason":"see\u202e the notes"}}"#);
    image.cluster.set_page(GRAPH, &[(200, &page(&dead, "{}"))]);
    image.changes_nothing(&["update"], 0, "dead end: no update leads from it (see the notes)");
    image.cluster.set_page(GRAPH, &[(200, &page("{}", &format!(r#"{{"{key}.barrier":"true"}}"#)))]);
    assert_eq!(image.update(), "1.1.0");
    assert_eq!(image.update(), "1.2.0");
}

#[test]
fn a_version_that_failed_here_is_not_chosen_again() {
    let image = on_graph(&["1.0.0", "1.1.0", "1.2.0"], &[(0, 1), (0, 2)]);
    let refused = "status:\n  refused:\n    - version: 1.2.0\n      edition: oss\n      reason: ends\n      error_code: unhealthy\n      \
                   time: \"2020-01-01T00:00:00Z\"\n      count: 1\n      retry_at: \"2020-01-01T01:00:00Z\"\n";
    let text = image.config().split("\nstatus:").next().unwrap().to_owned();
    std::fs::write(image.versions().join("updates.yaml"), format!("{}\n{refused}", text.trim_end())).unwrap();
    image.run(&["status"]).ok();
    assert_eq!(image.update(), "1.1.0");
}

#[test]
fn what_is_no_graph_is_an_error_and_changes_nothing() {
    let image = on_graph(&["1.0.0", "1.1.0"], &[(0, 1)]);
    let huge: String = (0..60_000).map(|number| format!("\"1.0.{number}\",")).collect();
    for (body, what) in [
        ("<html>", "not JSON"),
        ("null", "no list of nodes"),
        (&graph(&["1.0.0", "1.1.0", "1.0.0"], &[(0, 1)]), "twice"),
        (&graph(&["1.0.0", "1.1.0"], &[(0, 2)]), "not a pair of numbers"),
        (&graph(&["1.0.0", "1.1.0"], &[(0, 1), (1, 0)]), "circle"),
        (&graph(&["1.0.0", "seven"], &[(0, 1)]), "is not a version"),
        (&format!("{{\"nodes\":[{huge}]}}{}", " ".repeat(1 << 20)), "graph"),
        (&("[".repeat(100_000)), "not JSON"),
    ] {
        image.cluster.set_page(GRAPH, &[(200, body)]);
        image.changes_nothing(&["update"], 1, what);
    }
    // Both styles of errors: OpenShift's says what is missing, Fedora CoreOS's is empty.
    image.cluster.set_page(
        GRAPH,
        &[(400, r#"{"kind":"missing_params","value":"mandatory client parameters missing: channel"}"#)],
    );
    image.changes_nothing(&["update"], 1, "answered 400: mandatory client parameters missing: channel");
    image.cluster.set_page(GRAPH, &[(400, "")]);
    image.changes_nothing(&["update"], 1, "answered 400");
    image.cluster.misbehave(GRAPH, Misbehaviour::Status(503, None));
    image.changes_nothing(&["update"], 1, "503");
    assert_eq!(image.last_result()["error_code"], "network");
}

#[test]
fn the_parameters_are_those_of_the_urls_dialect() {
    let image = Image::with(&["1.0.0"]);
    image.draw(&["1.0.0"], &[]);
    let asked = |query: &str| {
        let source = format!("cincinnati+https://{}{GRAPH}{query}", image.cluster.addr());
        image.follow(&source, &["--force-version", "1.0.0"]).ok();
        image.run(&["update"]).ok();
        let asked = image.cluster.requests_to(GRAPH).pop().unwrap();
        asked.query.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<BTreeSet<_>>()
    };
    let of = |pairs: &[&str]| pairs.iter().map(|pair| (*pair).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(asked(""), of(&["channel=stable", "version=1.0.0", "arch=amd64"]));
    assert_eq!(asked("?channel=fast-4&arch=arm64"), of(&["channel=fast-4", "version=1.0.0", "arch=arm64"]));
    assert_eq!(
        asked("?stream=next&rollout_wariness=0.5"),
        of(&["stream=next", "rollout_wariness=0.5", "basearch=x86_64", "os_version=1.0.0"])
    );
}

#[test]
fn a_secret_in_the_query_goes_to_the_server_and_stands_in_no_file_that_others_can_read() {
    let image = Image::with(&["1.0.0"]);
    image.draw(&["1.0.0"], &[]);
    let bare = image.graph();
    for (source, secret) in [
        (format!("{bare}&token=s3cret"), ("token", "s3cret")),
        (bare.replace('?', "?sig=s3cret%2B1&"), ("sig", "s3cret+1")),
    ] {
        image.follow(&source, &["--force-version", "1.0.0"]).ok();
        for command in [&["update"][..], &["status"], &["plan"], &["status", "--format", "json"]] {
            let ran = image.run(command).ok();
            assert!(!format!("{ran:?}").contains("s3cret"), "{ran:#?}");
            assert!(*command != ["status"] || ran.stdout.contains("channel=stable"), "{ran:#?}");
            let asked = image.cluster.requests_to(GRAPH).pop().unwrap();
            let pairs: Vec<(&str, &str)> =
                asked.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert!(pairs.contains(&secret) && pairs.contains(&("channel", "stable")), "{pairs:?}");
            assert_eq!(asked.header("authorization"), None);
        }
        assert!(!image.config().contains("s3cret") && image.config().contains("channel=stable"), "{}", image.config());
        let kept = std::fs::read_to_string(image.versions().join(".credentials")).unwrap();
        assert!(kept.contains("s3cret"), "{kept}");
        image.cluster.misbehave(GRAPH, Misbehaviour::Status(500, None));
        let ran = image.run(&["update"]).fails(1, "500");
        assert!(!format!("{ran:?}{}", image.config()).contains("s3cret"), "{ran:#?}");
        image.cluster.behave();
    }
    // What stands there by hand is not shown, and used as it is.
    let text = image.config().replace("channel=stable", "channel=stable&token=s3cret-by-hand");
    std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
    let ran = image.run(&["status"]).ok();
    assert!(!format!("{ran:?}").contains("s3cret"), "{ran:#?}");
}

/// Seed 004's test plan: "the full loop for a short-lived test".
#[test]
fn a_host_goes_from_a_to_b_and_back_to_a_with_its_database() {
    let Some(rig) = Rig::up("sourceaba") else { return };
    let draw = |edges: &[(usize, usize)]| {
        rig.cluster.set_page(GRAPH, &[(200, &graph(&["1.0.0", "1.1.0"], edges))]);
    };
    rig.cluster.publish(&Archive::simple("1.0.0").schema(1).writes());
    rig.cluster.publish(&Archive::simple("1.1.0").schema(2).writes());
    draw(&[]);
    let source = format!("cincinnati+https://{}{GRAPH}?channel=candidate", rig.cluster.addr());
    let base = rig.cluster.base_url();
    let args = ["enable", "--source", &source, "--base-url", &base, "--ca-file", "/root/ca.pem", "--edition", "oss"];
    rig.updater(&[&args[..], &["--force-version", "1.0.0"]].concat()).ok();
    rig.start_agent();
    rig.note("of A");
    rig.until_written("1.0.0");
    draw(&[(0, 1)]);
    rig.updater(&["update"]).ok();
    assert_eq!(rig.running(), "1.1.0");
    rig.until_written("1.1.0");
    rig.note("of B");
    draw(&[(1, 0)]);
    // Without a word of the operator no graph leads down.
    rig.updater(&["update"]).ok();
    assert_eq!(rig.running(), "1.1.0");
    rig.edit("/var/lib/teleport/versions/updates.yaml", "\nspec:\n", "\nspec:\n  allow_downgrade: true\n");
    rig.updater(&["update"]).ok();
    assert_eq!(rig.running(), "1.0.0");
    assert!(rig.has_note("of A") && !rig.has_note("of B"), "{:?}", rig.rows());
    assert!(rig.rows_kept("1.1.0").iter().any(|row| row.ends_with("|of B")), "what B wrote is in its snapshot");
    rig.assert_tidy();
}
