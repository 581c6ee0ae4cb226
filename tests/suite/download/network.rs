//! Servers, mirrors and networks that go wrong, for each question that is asked of them (SPEC §3, §4).

use testing::cluster::Misbehaviour::{self, *};
use testing::cluster::{FindPath, Request};

use crate::support::*;

/// Bounds short enough for a test; two tries, so that what passes by itself may pass.
const SHORT: &str = "  network:\n    answer: 3s\n    stall: 400ms\n    tries: 2\n    resumes: 1\n";
/// End of an archive's path.
const ARCHIVE: &str = "-bin.tar.gz$";
/// End of a digest's path.
const DIGEST: &str = ".sha256$";
/// The first find path.
const V1: &str = "/v1/webapi/find";
/// Either find path.
const FIND: &str = "/webapi/find";

/// An image with 1.0.0 installed.
fn enabled(settings: &str) -> Image {
    let image = Image::new("1.0.0");
    image.settings(settings);
    image.enable(&[]).ok();
    image.cluster.forget_requests();
    image
}

/// Enabled, and 2.0.0 named and published, so long that its body comes in many pieces.
fn with_update(settings: &str) -> Image {
    let image = enabled(settings);
    image.cluster.publish(&Archive::simple("2.0.0").padding(1 << 20));
    image.cluster.set_directive(Find::version("2.0.0"));
    image
}

fn update(image: &Image) -> Ran {
    image.run(&["--log-format", "json", "update"])
}

/// GETs of the archive, without the HEAD that asks for its size.
fn downloads(image: &Image) -> Vec<Request> {
    let mut requests = image.cluster.requests_to(ARCHIVE);
    requests.retain(|request| request.method == "GET");
    requests
}

fn ranges(image: &Image) -> Vec<Option<String>> {
    downloads(image).iter().map(|request| request.header("range").map(str::to_owned)).collect()
}

fn archive_path(image: &Image) -> std::path::PathBuf {
    image.cluster.cdn().join("teleport-v2.0.0-linux-amd64-bin.tar.gz")
}

/// The shortest of the limits that hold where the settings say nothing: what ends sooner ended by the settings.
const SHORTEST_DEFAULT: Duration = Duration::from_secs(30);

/// `update` fails with this code and words, changes nothing but `status`, and works again once the server behaves.
#[track_caller]
fn fails(image: &Image, before: &[String], what: &str, code: &str, words: &[&str]) {
    let start = Instant::now();
    // The timer would wait after the second failure in a row.
    let ran = image.run(&["--log-format", "json", "update", "--now"]);
    assert_eq!((ran.status, ran.error_code().as_str()), (1, code), "{what}: {ran:#?}");
    assert!(start.elapsed() < SHORTEST_DEFAULT, "{what}: {:?}", start.elapsed());
    for words in words {
        assert!(ran.stderr.contains(words), "{what}: no {words:?} in {ran:#?}");
    }
    image.cluster.behave();
    assert_eq!(image.last_result()["error_code"], code, "{what}");
    assert_eq!(image.tree_but_status(), before, "{what}");
}

#[test]
fn a_name_that_only_the_hosts_other_resolvers_know_is_told_where_names_are_looked_up() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let image = Image::new("1.0.0");
    let words = "this program uses only /etc/hosts and DNS";
    // A network without DNS; then the name in /etc/hosts, as the advice is.
    let run = |hosts: &str| {
        std::fs::write(image.path("/etc/hosts"), hosts).unwrap();
        let script = "mount --bind \"$ROOT/etc/hosts\" /etc/hosts && ip link set lo up && \
                      exec \"$@\" --root \"$ROOT\" enable --proxy teleport.home:1";
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "-n", "sh", "-c", script, "sh"]).arg(updater()).env("ROOT", image.root());
        Ran::of(&command.output().unwrap())
    };
    run("127.0.0.1 localhost\n").fails(1, words);
    let ran = run("127.0.0.1 teleport.home\n").fails(1, "Connection refused");
    assert!(!ran.stderr.contains(words), "{ran:#?}");
}

#[test]
fn either_dialect_is_understood_from_either_path() {
    let image = enabled("");
    for dialect in [Dialect::Rfd, Dialect::Today] {
        for (path, elsewhere) in [
            (FindPath::V1, Elsewhere::NotFound),
            (FindPath::Both, Elsewhere::NotFound),
            (FindPath::Old, Elsewhere::NotFound),
            (FindPath::Old, Elsewhere::NotAllowed),
            (FindPath::Old, Elsewhere::Html),
        ] {
            image.cluster.set_dialect(dialect);
            image.cluster.set_find_path(path, elsewhere);
            image.cluster.forget_requests();
            image.run(&["update"]).ok().says("is active, nothing to do");
            let asked: Vec<String> = image.cluster.requests().into_iter().map(|request| request.path).collect();
            let expected: &[&str] =
                if path == FindPath::Old { &["/v1/webapi/find", "/webapi/find"] } else { &["/v1/webapi/find"] };
            assert_eq!(asked, expected, "{dialect:?} {path:?} {elsewhere:?}");
        }
    }
}

#[test]
fn no_answer_to_find_changes_anything_and_the_error_names_url_and_status() {
    let image = enabled(SHORT);
    image.cluster.set_directive(Find::version("2.0.0"));
    let before = image.tree_but_status();
    let cases: Vec<(&str, Misbehaviour, &str, &[&str])> = vec![
        ("500", Status(500, None), "network", &[V1, "500"]),
        ("503 with a far Retry-After", Status(503, Some(31)), "network", &[V1, "503"]),
        ("429", Status(429, Some(0)), "network", &[V1, "429"]),
        ("403", Status(403, None), "cluster_answer", &[V1, "403"]),
        ("404 on both", Status(404, None), "cluster_answer", &[FIND, "404"]),
        ("405 on both", Status(405, None), "cluster_answer", &[FIND, "405"]),
        ("HTML on both", WrongType, "cluster_answer", &[FIND, "200"]),
        ("gzip nobody asked for", ContentEncodingGzip, "cluster_answer", &[FIND, "200"]),
        ("huge body", HugeBody(3 << 20), "network", &[V1]),
        ("huge headers", HugeHeaders(4 << 20), "network", &[V1]),
        ("closed before the answer", CloseBeforeResponse, "network", &[V1]),
        ("cut", CutAfter { bytes: 10 }, "network", &[V1]),
        ("stalled", Stall { after_bytes: 5 }, "network", &[V1]),
        ("longer than it is", WrongLength(10), "network", &[V1]),
        ("shorter than it is", WrongLength(-10), "cluster_answer", &[FIND]),
        ("redirect loop", RedirectLoop, "network", &[V1, "redirects"]),
        ("redirect to http", Redirect("http://localhost/".into()), "network", &[V1, "https"]),
        ("redirect to a file", Redirect("file:///etc/passwd".into()), "network", &[V1]),
        ("reset connections", ConnectionRefusedFor(99), "network", &[V1]),
    ];
    for (what, how, code, words) in cases {
        image.cluster.misbehave(FIND, how);
        fails(&image, &before, what, code, words);
    }
    for (what, body, code) in [
        ("no version", json!({"server_edition": "oss"}), "cluster_answer"),
        ("empty version", json!({"server_edition": "oss", "agent_version": ""}), "cluster_answer"),
        ("no semver", json!({"server_edition": "oss", "agent_version": "2.0"}), "cluster_answer"),
        ("a path", json!({"server_edition": "oss", "agent_version": "../../../etc"}), "cluster_answer"),
        ("a path as build", json!({"server_edition": "oss", "agent_version": "2.0.0+../x"}), "cluster_answer"),
        ("unknown edition", json!({"server_edition": "platinum", "agent_version": "2.0.0"}), "edition_unknown"),
        ("a list", json!(["2.0.0"]), "cluster_answer"),
    ] {
        image.cluster.set_find_body(Some(body.to_string().as_bytes()));
        fails(&image, &before, what, code, &[V1, "200"]);
    }
    image.cluster.set_find_body(None);
    image.update_to("2.0.0");
    assert_eq!(image.last_result()["outcome"], "updated");
}

#[test]
fn a_find_that_recovers_is_asked_again() {
    let image = enabled("");
    for (what, how, times, least) in [
        ("5xx", Status(503, None), 2, 0),
        ("429 with Retry-After", Status(429, Some(2)), 1, 2),
        ("closed before the answer", CloseBeforeResponse, 2, 0),
        ("reset", ConnectionRefusedFor(2), 2, 0),
        ("cut", CutAfter { bytes: 10 }, 1, 0),
    ] {
        image.cluster.misbehave_times(FIND, how, times);
        let start = Instant::now();
        let ran = image.run(&["update"]);
        assert_eq!(ran.status, 0, "{what}: {ran:#?}");
        assert!(start.elapsed() >= Duration::from_secs(least), "{what}: {:?}", start.elapsed());
        image.cluster.behave();
    }
}

#[test]
fn a_find_of_another_shape_is_fine() {
    let image = enabled(SHORT);
    for how in [Chunked, NoLength, Slow { bytes_per_sec: 200 }] {
        image.cluster.misbehave(FIND, how.clone());
        let ran = image.run(&["update"]);
        assert_eq!(ran.status, 0, "{how:?}: {ran:#?}");
        image.cluster.behave();
    }
}

#[test]
fn an_answer_that_drips_for_ever_has_a_deadline() {
    let image = enabled("  network:\n    question: 1s\n");
    let before = image.tree_but_status();
    image.cluster.misbehave(FIND, Slow { bytes_per_sec: 20 });
    image.cluster.set_find_body(Some(&[b' '; 4000]));
    fails(&image, &before, "dripping find", "network", &["did not answer in time"]);
}

#[test]
fn a_server_that_nobody_vouches_for_is_not_talked_to() {
    let image = Image::new("1.0.0");
    let (addr, base) = (image.cluster.addr(), image.cluster.base_url());
    image.run(&["enable", "--proxy", &addr, "--base-url", &base]).fails(1, "--ca-file");
    assert!(image.cluster.requests().is_empty());
    assert!(!image.versions().exists());

    image.enable(&[]).ok();
    image.cluster.forget_requests();
    let before = image.tree_but_status();
    image.cluster.misbehave("", BadTls);
    fails(&image, &before, "a certificate for another name", "network", &["/v1/webapi/find"]);
    assert!(image.cluster.requests_to("/v1/").len() <= 1, "only the status after it may have asked");
}

#[test]
fn a_cluster_that_is_down_is_written_down_for_status_and_comes_back() {
    let mut image = enabled(SHORT);
    image.release("2.0.0");
    let before = image.tree_but_status();
    image.cluster.go_down();
    update(&image).refused("network");
    assert_eq!(image.last_result()["error_code"], "network");
    // The same failure again is no reason to write again: a timer comes every few minutes.
    let config = image.config();
    update(&image).fails(1, "/v1/webapi/find");
    assert_eq!(image.config(), config);
    assert_eq!(image.tree_but_status(), before);
    // An `enable` that cannot ask says so there too.
    image.enable(&["--group", "g"]).fails(1, "/v1/webapi/find");
    assert_eq!(image.tree_but_status(), before);
    image.cluster.come_up();
    image.run(&["update"]).ok();
    assert_eq!(image.last_result()["outcome"], "updated");
}

#[test]
fn a_version_with_a_v_is_stored_without_and_a_jitter_is_cut() {
    let image = Image::new("1.0.0");
    image.cluster.set_directive(Find { version: "v1.0.0".into(), jitter: 999_999, ..Find::version("1.0.0") });
    image.enable(&[]).ok();
    assert!(image.versions().join("1.0.0/sha256").exists());
    let status = image.status();
    assert_eq!(status["agent_version_installed"], "1.0.0");
    assert_eq!(status["agent_version_desired"], "1.0.0");
    assert_eq!(status["agent_update_time_jitter"], 3600);
}

#[test]
fn a_digest_that_cannot_be_had_or_read_stops_the_update_before_the_archive() {
    let image = with_update(SHORT);
    let before = image.tree_but_status();
    let cases: Vec<(&str, Misbehaviour, &str)> = vec![
        ("404", Status(404, None), "checksum_invalid"),
        ("403", Status(403, None), "checksum_invalid"),
        ("500", Status(500, None), "network"),
        ("HTML", WrongType, "checksum_invalid"),
        ("gzip", ContentEncodingGzip, "checksum_invalid"),
        ("too short", WrongLength(-60), "checksum_invalid"),
        ("huge", HugeBody(3 << 20), "network"),
        ("huge headers", HugeHeaders(4 << 20), "network"),
        ("stalled", Stall { after_bytes: 10 }, "network"),
        ("cut", CutAfter { bytes: 10 }, "network"),
        ("closed", CloseBeforeResponse, "network"),
        ("loop", RedirectLoop, "network"),
        ("to http", Redirect(format!("{}/x.sha256", image.cluster.plain_base_url())), "network"),
    ];
    for (what, how, code) in cases {
        image.cluster.misbehave(DIGEST, how);
        fails(&image, &before, what, code, &[".sha256"]);
    }
    assert!(downloads(&image).is_empty());
    image.cluster.misbehave(DIGEST, Stale);
    fails(&image, &before, "stale", "checksum_mismatch", &[", expected "]);
    image.cluster.misbehave_times(DIGEST, Status(502, None), 1);
    image.run(&["update"]).ok();
}

#[test]
fn an_archive_that_cannot_be_had_leaves_the_version_in_use_as_it_was() {
    let image = with_update(SHORT);
    let before = image.tree_but_status();
    let cases: Vec<(&str, Vec<Misbehaviour>, &str, &str)> = vec![
        ("404", vec![Status(404, None)], "archive_missing", "404"),
        ("403", vec![Status(403, None)], "archive_missing", "403"),
        ("500", vec![Status(500, None)], "network", "500"),
        ("HTML", vec![WrongType], "checksum_mismatch", ", expected "),
        ("stale", vec![Stale], "checksum_mismatch", ", expected "),
        ("compressed once more", vec![ContentEncodingGzip], "checksum_mismatch", "Content-Encoding gzip"),
        ("huge body", vec![HugeBody(64 << 20)], "checksum_mismatch", ", expected "),
        ("huge headers", vec![HugeHeaders(4 << 20)], "network", ""),
        ("longer than it is", vec![WrongLength(100)], "network", ""),
        ("shorter than it is", vec![WrongLength(-100)], "checksum_mismatch", ""),
        ("closed", vec![CloseBeforeResponse], "network", ""),
        ("never a byte", vec![Stall { after_bytes: 0 }], "download_stalled", "after 0 bytes"),
        ("cut again and again", vec![CutEvery { bytes: 0 }], "network", "after 0 bytes"),
        ("loop", vec![RedirectLoop], "network", "redirects more than 3 times"),
        ("to http", vec![Redirect(format!("{}/x", image.cluster.plain_base_url()))], "network", "away from https"),
        ("wrong range", vec![CutAfter { bytes: 500_000 }, WrongRange], "network", "range requests"),
    ];
    for (what, how, code, words) in cases {
        how.into_iter().for_each(|how| image.cluster.misbehave(ARCHIVE, how));
        fails(&image, &before, what, code, &["-bin.tar.gz", words]);
    }
    image.run(&["update", "--now"]).ok();
}

#[test]
fn an_archive_that_changes_while_it_is_read_is_not_patched_together() {
    let image = with_update(SHORT);
    let before = image.tree_but_status();
    image.cluster.misbehave(ARCHIVE, CutAfter { bytes: 500_000 });
    image.cluster.misbehave(ARCHIVE, ChangedMidway);
    fails(&image, &before, "changed", "network", &["changed while it was downloaded"]);
    let requests = downloads(&image);
    assert!(requests.len() >= 2 && requests[1].header("if-range").is_some(), "{requests:#?}");
}

#[test]
fn a_dripping_download_is_too_slow_and_an_endless_one_has_a_deadline() {
    let slow = "  network:\n    min_speed: 100000\n    speed_window: 1s\n";
    let image = with_update(slow);
    let before = image.tree_but_status();
    image.cluster.misbehave(ARCHIVE, Slow { bytes_per_sec: 2000 });
    fails(&image, &before, "dripping", "download_stalled", &["slower than 100000 bytes per second"]);

    let image = with_update("  network:\n    deadline: 2s\n");
    let before = image.tree_but_status();
    image.cluster.misbehave(ARCHIVE, Slow { bytes_per_sec: 20_000 });
    fails(&image, &before, "endless", "download_stalled", &["more than 2 s"]);
}

#[test]
fn a_dropped_download_goes_on_in_the_same_pass_and_no_byte_is_asked_for_twice() {
    for shape in [None, Some(Chunked)] {
        let image = with_update("");
        let size = std::fs::metadata(archive_path(&image)).unwrap().len();
        image.cluster.misbehave(ARCHIVE, CutAfter { bytes: size / 3 });
        shape.iter().for_each(|shape| image.cluster.misbehave(ARCHIVE, shape.clone()));
        image.run(&["update"]).ok();
        assert_eq!(ranges(&image), [None, Some(format!("bytes={}-", size / 3))], "{shape:?}");
        let tag = downloads(&image)[1].header("if-range").map(str::to_owned);
        assert!(tag.is_some_and(|tag| tag.starts_with('"')), "{shape:?}");
        assert_eq!(image.last_result()["outcome"], "updated");
        image.run(&["verify"]).ok();
    }
}

#[test]
fn a_body_that_only_the_connection_ends_is_told_as_cut() {
    let image = with_update(SHORT);
    let before = image.tree_but_status();
    image.cluster.misbehave(ARCHIVE, NoLength);
    image.cluster.misbehave(ARCHIVE, CutAfter { bytes: 500_000 });
    fails(&image, &before, "cut without a length", "network", &["500000 bytes", "no Content-Length"]);
    image.run(&["update"]).ok();
}

#[test]
fn a_connection_that_drops_every_so_many_bytes_brings_the_archive_all_the_same() {
    let image = with_update("");
    let size = std::fs::metadata(archive_path(&image)).unwrap().len();
    let piece = size / 3 + 1;
    image.cluster.misbehave(ARCHIVE, CutEvery { bytes: piece });
    image.run(&["update"]).ok();
    let expected = [None, Some(format!("bytes={piece}-")), Some(format!("bytes={}-", 2 * piece))];
    assert_eq!(ranges(&image), expected);
    image.run(&["verify"]).ok();
}

#[test]
fn a_stalled_download_goes_on_too() {
    let image = with_update("  network:\n    stall: 2s\n");
    let size = std::fs::metadata(archive_path(&image)).unwrap().len();
    // Once for the size, once for the download.
    image.cluster.misbehave_times(ARCHIVE, Stall { after_bytes: size / 2 }, 2);
    image.run(&["update"]).ok();
    assert_eq!(ranges(&image), [None, Some(format!("bytes={}-", size / 2))]);
}

#[test]
fn a_mirror_without_ranges_is_read_again_up_to_the_cut() {
    let image = with_update("");
    let size = std::fs::metadata(archive_path(&image)).unwrap().len();
    image.cluster.misbehave_times(ARCHIVE, CutAfter { bytes: size / 2 }, 2);
    image.cluster.misbehave(ARCHIVE, IgnoreRange);
    image.run(&["update"]).ok();
    assert_eq!(downloads(&image).len(), 2);
    image.run(&["verify"]).ok();
}

#[test]
fn an_archive_comes_in_any_lawful_shape() {
    for how in [Chunked, NoLength, Slow { bytes_per_sec: 2 << 20 }] {
        let image = with_update("");
        image.cluster.misbehave(ARCHIVE, how.clone());
        let ran = image.run(&["update"]);
        assert_eq!(ran.status, 0, "{how:?}: {ran:#?}");
        assert_eq!(ranges(&image), [None], "{how:?}");
        assert_eq!(downloads(&image)[0].header("accept-encoding"), Some("identity"));
    }
}

#[test]
fn a_server_that_asks_for_patience_gets_it() {
    let image = with_update("");
    // Four times in answer to the question for the size, then once more.
    image.cluster.misbehave_times(ARCHIVE, Status(429, Some(1)), 5);
    let start = Instant::now();
    image.run(&["update"]).ok();
    assert!(start.elapsed() >= Duration::from_secs(2), "{:?}", start.elapsed());
    assert!(downloads(&image).len() >= 2);
}

#[test]
fn three_redirects_are_followed_and_a_fourth_is_not() {
    let image = with_update("");
    let before = image.tree_but_status();
    let base = image.cluster.base_url();
    std::fs::copy(archive_path(&image), image.cluster.cdn().join("hop0")).unwrap();
    for hop in 1..=3 {
        image.cluster.misbehave(&format!("/hop{hop}$"), Redirect(format!("{base}/hop{}", hop - 1)));
    }
    let (two, three) = (Redirect(format!("{base}/hop2")), Redirect(format!("{base}/hop3")));
    image.cluster.misbehave_times(ARCHIVE, three, 2);
    update(&image).refused("network").says("redirects more than 3 times");
    assert_eq!(image.tree_but_status(), before);
    image.cluster.misbehave(ARCHIVE, two);
    image.run(&["update"]).ok();
    let manifest = std::fs::read_to_string(image.versions().join("2.0.0/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["source_url"], format!("{base}/teleport-v2.0.0-linux-amd64-bin.tar.gz"));
}

#[test]
fn a_version_on_disk_is_activated_without_any_request_for_its_archive() {
    let image = with_update("");
    image.run(&["update"]).ok();
    image.cluster.forget_requests();
    image.cluster.misbehave("/cdn/", Status(500, None));
    image.cluster.set_directive(Find::version("1.0.0"));
    image.run(&["update"]).ok();
    assert!(image.cluster.requests_to("/cdn/").is_empty());
    let link = std::fs::read_link(image.path("/usr/local/bin/teleport")).unwrap();
    assert!(link.ends_with("versions/1.0.0/bin/teleport"), "{}", link.display());
}
