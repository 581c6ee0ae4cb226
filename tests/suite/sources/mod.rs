//! Sources of versions that are no cluster (docs/sources.md): the real binary, and real servers. What is done to an image alone is told by
//! the transcripts beside this file.

mod loop_of_rfd_0109;
mod takeover;

use crate::support::source::{GRAPH, closed_window, graph, open_window};
use crate::support::*;

tests_of! { transcript::play:
    channels_are_followed_as_seed_001_says("sources/channel.txt");
    files_are_followed("sources/file.txt");
    graphs_are_followed_as_seed_004_says("sources/graph.txt");
    hosts_go_from_source_to_source("sources/switching.txt");
    what_is_said_of_a_source_is_kept_and_refused("sources/told.txt");
    images_of_another_updater_are_taken_over("sources/takeover.txt");
}

/// A host of 1.0.0 that follows the channel.
fn on_channel(versions: &[&str]) -> Image {
    let image = Image::with(versions);
    image.say("1.0.0", "no");
    image.follow(&image.channel(), &[]).ok();
    image
}

#[test]
fn an_update_that_is_critical_is_attempted_once_or_twice_an_hour() {
    let image = on_channel(&["1.0.0"]);
    image.set_window(&closed_window());
    // There is no such archive: each attempt fails.
    image.say("1.1.0", "yes");
    image.cluster.publish_bytes("teleport-v1.1.0-linux-amd64-bin.tar.gz", b"no archive");
    image.run(&["update"]).fails(1, "error");
    let asked = || image.cluster.requests_to("bin.tar.gz$").len();
    let first = asked();
    assert!(first > 0);
    for _ in 0..3 {
        image.run(&["update"]).ok().says("next attempt at");
    }
    assert_eq!(asked(), first);
    let status = image.status();
    let delayed = &status["delayed"][0];
    let time = |key: &str| delayed[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_second();
    assert!((30 * 60..=60 * 60).contains(&(time("retry_at") - time("time"))), "{delayed}");
}

#[test]
fn an_answer_of_a_megabyte_is_an_error_that_leaves_every_command_usable() {
    let image = on_channel(&["1.0.0", "1.1.0"]);
    image.say("1.1.0", "no");
    let schedule = |text: &str| image.cluster.set_page("/v1/maintenance-schedule", &[(200, text)]);
    // A line that grows with each quote that is escaped, one word, and beginnings of windows that would be looked at for hours.
    for text in ["\"".repeat(1_000_000), "\u{1b}".repeat(4_000), "Mon 02:00\n".repeat(90_000)] {
        schedule(&text);
        let ran = image.run(&["update"]).fails(1, "maintenance schedule");
        assert!(ran.stderr.len() < 2_000, "{} bytes", ran.stderr.len());
        image.run(&["status", "--format", "json"]).ok();
        assert!(image.config().len() < 20_000, "{} bytes", image.config().len());
    }
    assert_eq!(image.last_result()["error_code"], "cluster_answer");
    schedule(&"Mon 02:00\n".repeat(65));
    image.run(&["update"]).fails(1, "64 lines");
    assert_eq!(image.linked(), "1.0.0");
    schedule(&open_window());
    image.run(&["update"]).ok();
    assert_eq!(image.linked(), "1.1.0");
}

#[test]
fn another_server_is_asked_the_question_alone_and_the_known_proxy_stays() {
    let image = Image::with(&["1.0.0", "2.0.0"]);
    image.enable(&[]).ok();
    let dir = tempfile::tempdir().unwrap();
    let other = Cluster::start(dir.path());
    other.set_directive(Find::version("2.0.0"));
    let both = dir.path().join("both.pem");
    std::fs::write(&both, format!("{}{}", image.cluster.ca_pem(), other.ca_pem())).unwrap();
    image.cluster.forget_requests();
    let source = format!("https://{}", other.addr());
    image.run(&["enable", "--source", &source, "--ca-file", both.to_str().unwrap()]).ok();
    assert_eq!(image.linked(), "2.0.0");
    assert!(image.cluster.requests_to("find").is_empty() && !other.requests_to("find").is_empty());
    let status = image.status();
    assert_eq!((&status["source"], &status["proxy"]), (&Value::from(source.as_str()), &image.cluster.addr().into()));
    // Two words forget it, and a command without the flag leaves it.
    image.run(&["enable"]).ok();
    assert!(image.config().contains(&format!("source: {source}")), "{}", image.config());
    for word in ["", "default"] {
        image.run(&["enable", "--source", &source]).ok();
        image.run(&["enable", "--source", word]).ok();
        assert!(!image.config().contains("source:"), "{word:?}: {}", image.config());
        assert_eq!(image.linked(), "1.0.0");
    }
}

#[test]
fn a_timer_waits_where_a_source_names_one_version_and_another_in_turns() {
    let image = Image::with(&["2.0.0", "2.1.0", "2.0.1"]);
    let file = image.root().with_file_name("release.yaml");
    let say = |version: &str| std::fs::write(&file, format!("version: {version}\ncritical: yes\n")).unwrap();
    say("2.0.0");
    image.follow(&format!("file://{}", file.display()), &[]).ok();
    // After the fourth return.
    let mut moves = 0;
    for round in 0..12 {
        let version = ["2.0.1", "2.1.0"][round % 2];
        say(version);
        let before = image.linked();
        let ran = image.run(&["update"]).ok();
        moves += usize::from(image.linked() != before);
        assert!(image.linked() == version || ran.stderr.contains("switched back and forth"), "{ran:#?}");
    }
    assert!((4..=7).contains(&moves), "{moves}");
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
