//! A file on the host as source, which configuration management writes.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::host::{active, closed_window};
use crate::support::Image;
use test_cluster::archive::Archive;

/// Where the file is: outside of the image, as a mirror's directory.
fn place(image: &Image) -> PathBuf {
    image.root().with_file_name("release.yaml")
}

fn put(image: &Image, text: &str) -> String {
    let file = place(image);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    format!("file://{}", file.display())
}

#[test]
fn a_file_names_version_and_edition_and_needs_no_network_at_all() {
    let mut image = Image::with(&["1.0.0", "2.0.0"]);
    image.cluster.go_down();
    let source = put(&image, "version: 1.0.0\nedition: oss\n");
    let base = format!("file://{}", image.cluster.cdn().display());
    image.run(&["enable", "--source", &source, "--base-url", &base]).ok();
    assert_eq!(active(&image), "1.0.0");
    put(&image, "version: v2.0.0\n");
    assert_eq!(image.update(), "2.0.0");
    put(&image, "version: none\n");
    image.changes_nothing(&["update"], 0, "names no version");
    // Its own lower version: configuration management means what it writes.
    put(&image, "version: 1.0.0\n");
    assert_eq!(image.update(), "1.0.0");
}

#[test]
fn what_others_than_root_can_change_is_not_believed() {
    let image = Image::with(&["1.0.0", "2.0.0"]);
    let source = put(&image, "version: 1.0.0\n");
    image.follow(&source, &[]).ok();
    put(&image, "version: 2.0.0\n");
    for mode in [0o646, 0o666] {
        std::fs::set_permissions(place(&image), PermissionsExt::from_mode(mode)).unwrap();
        image.changes_nothing(&["update"], 1, "users other than root can change");
    }
    std::fs::set_permissions(place(&image), PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(image.update(), "2.0.0");
    assert_eq!(image.run(&["--log-format", "json", "plan", "--format", "json"]).ok().json()["action"], "none");
}

#[test]
fn window_critical_digest_and_times_of_the_file_hold() {
    let image = Image::with(&["1.0.0", "2.0.0"]);
    let source = put(&image, "version: 1.0.0\n");
    image.follow(&source, &[]).ok();
    let closed = closed_window();
    put(&image, &format!("version: 2.0.0\nwindow: '{closed}'\n"));
    image.changes_nothing(&["update"], 0, "is closed");
    put(&image, "version: 2.0.0\nnot_before: 2999-01-01T00:00:00Z\ncritical: yes\n");
    image.changes_nothing(&["update", "--now"], 0, "not to be installed before");
    put(&image, "version: 2.0.0\nnot_after: 2020-01-01T00:00:00Z\n");
    image.changes_nothing(&["update"], 0, "not to be installed after");
    put(&image, &format!("version: 2.0.0\ndigest: {}\n", "ab".repeat(32)));
    image.run(&["update"]).fails(1, "the source names abab");
    assert_eq!((active(&image), &image.last_result()["error_code"]), ("1.0.0".into(), &"checksum_mismatch".into()));
    let digest = image.cluster.publish(&Archive::simple("2.0.0")).sha256;
    put(
        &image,
        &format!(
            "version: 2.0.0\nwindow: '{closed}'\ncritical: yes\ndigest: sha256:{digest}\nstale_after: 2020-01-01T00:00:00Z\n"
        ),
    );
    let ran = image.run(&["update", "--now"]).ok();
    assert!(ran.stderr.contains("out of date since 2020"), "{ran:#?}");
    assert_eq!(active(&image), "2.0.0");
}

#[test]
fn a_floor_of_the_file_is_a_floor_beside_the_hosts_own() {
    let image = Image::with(&["1.0.0", "1.1.0", "1.2.0"]);
    let source = put(&image, "version: 1.1.0\n");
    image.follow(&source, &[]).ok();
    put(&image, "version: 1.0.0\nmin_version: 1.1.0\n");
    image.changes_nothing(&["update", "--now"], 1, "its own min_version 1.1.0");
    // A host below it updates at once.
    put(&image, &format!("version: 1.2.0\nmin_version: 1.1.0\nwindow: '{}'\n", closed_window()));
    image.changes_nothing(&["update"], 0, "is closed");
    put(&image, &format!("version: 1.2.0\nmin_version: 1.2.0\nwindow: '{}'\n", closed_window()));
    assert_eq!(image.update(), "1.2.0");
    image.set("  min_version: 1.2.0\n");
    put(&image, "version: 1.1.0\nmin_version: 1.0.0\n");
    image.changes_nothing(&["update"], 1, "this host's min_version 1.2.0");
}

#[test]
fn what_is_no_release_file_is_an_error_with_its_line() {
    let image = Image::with(&["1.0.0"]);
    let source = put(&image, "version: 1.0.0\n");
    image.follow(&source, &[]).ok();
    for (text, what) in [
        ("", "version is not a version"),
        ("edition: oss\n", "version is not a version"),
        ("version: latest\n", "line 1: version is not a version"),
        ("version: 1.0.0\nedition: platinum\n", "line 2: edition"),
        ("version: 1.0.0\nwindow: Tueday\n", "line 2: window"),
        ("version: 1.0.0\nwindoww: Tue\n", "line 2: unknown key \"windoww\""),
        ("version: 1.0.0\ncritical: perhaps\n", "line 2: critical"),
        ("version: 1.0.0\ndigest: abc\n", "line 2: digest"),
        ("version: [1.0.0]\n", "version"),
        ("version: 1.0.0\n---\nversion: 2.0.0\n", "release.yaml"),
        ("- 1.0.0\n", "release.yaml"),
        ("{", "release.yaml"),
    ] {
        put(&image, text);
        let ran = image.changes_nothing(&["update"], 1, what);
        assert!(ran.stderr.contains("release.yaml"), "{ran:#?}");
    }
    std::fs::remove_file(place(&image)).unwrap();
    image.changes_nothing(&["update"], 1, "release.yaml");
    std::fs::create_dir(place(&image)).unwrap();
    image.changes_nothing(&["update"], 1, "not a regular file");
}
