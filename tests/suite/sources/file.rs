//! A file on the host as source, which configuration management writes.

use super::host::closed_window;
use crate::support::*;

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
    assert_eq!(image.linked(), "1.0.0");
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
    assert_eq!((image.linked(), &image.last_result()["error_code"]), ("1.0.0".into(), &"checksum_mismatch".into()));
    let digest = image.cluster.publish(&Archive::simple("2.0.0")).sha256;
    put(
        &image,
        &format!(
            "version: 2.0.0\nwindow: '{closed}'\ncritical: yes\ndigest: sha256:{digest}\nstale_after: 2020-01-01T00:00:00Z\n"
        ),
    );
    image.run(&["update", "--now"]).ok().says("out of date since 2020");
    assert_eq!(image.linked(), "2.0.0");
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
fn either_floor_holds_for_a_version_that_is_named_by_hand_too() {
    let image = Image::with(&["1.0.0", "1.1.0", "1.2.0"]);
    let source = put(&image, "version: 1.1.0\nmin_version: 1.1.0\n");
    image.follow(&source, &[]).ok();
    let names = |version| ["enable", "--force-version", version];
    let pins = |version| ["pin", "--force-version", version];
    for text in ["version: 1.1.0\nmin_version: 1.1.0\n", "version: none\nmin_version: 1.1.0\n"] {
        put(&image, text);
        for command in [names("1.0.0"), pins("1.0.0")] {
            image.changes_nothing(&command, 1, "1.0.0 is below min_version 1.1.0 of the source");
        }
    }
    image.run(&names("1.1.0")).ok();
    assert_eq!(image.linked(), "1.1.0");
    image.set("  min_version: 1.2.0\n");
    for command in [names("1.1.0"), pins("1.1.0")] {
        image.changes_nothing(&command, 1, "is below min_version 1.2.0");
    }
    // What cannot be read names no floor either: nothing is installed until it can, or another source is followed.
    std::fs::remove_file(place(&image)).unwrap();
    image.changes_nothing(&names("1.2.0"), 1, "release.yaml");
    let base = image.cluster.base_url();
    image
        .run(&[
            "enable",
            "--source",
            "default",
            "--proxy",
            &image.cluster.addr(),
            "--base-url",
            &base,
            "--force-version",
            "1.2.0",
        ])
        .ok();
    assert_eq!(image.linked(), "1.2.0");
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
        ("version: 1.0.0\nwindow: Tue\nwindow_length: 0s\n", "line 3: window_length"),
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

#[test]
fn nobody_but_root_has_a_say_in_which_file_or_mirror_is_meant() {
    let image = Image::with(&["1.0.0", "2.0.0"]);
    put(&image, "version: 1.0.0\n");
    let theirs = image.root().with_file_name("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::symlink(place(&image), theirs.join("release.yaml")).unwrap();
    std::os::unix::fs::symlink(theirs.join("release.yaml"), image.root().with_file_name("ours")).unwrap();
    std::os::unix::fs::symlink(image.cluster.cdn(), theirs.join("mirror")).unwrap();
    let source = format!("file://{}", image.root().with_file_name("ours").display());
    image.follow(&source, &[]).ok();
    put(&image, "version: 2.0.0\n");
    // The file is root's, and a link on the way there is not; nor is one whose directory is another's.
    std::os::unix::fs::lchown(theirs.join("release.yaml"), Some(900), None).unwrap();
    image.changes_nothing(&["update"], 1, "users other than root can change");
    std::os::unix::fs::lchown(theirs.join("release.yaml"), Some(0), None).unwrap();
    std::os::unix::fs::chown(&theirs, Some(900), None).unwrap();
    image.changes_nothing(&["update"], 1, "users other than root can change");
    put(&image, "version: 2.0.0\n");
    let mirror = format!("file://{}/mirror", theirs.display());
    let own = format!("file://{}", place(&image).display());
    image.changes_nothing(
        &["enable", "--source", &own, "--base-url", &mirror],
        1,
        "can be changed by users other than root",
    );
    std::os::unix::fs::chown(&theirs, Some(0), None).unwrap();
    assert_eq!(image.update(), "2.0.0");
    image.run(&["enable", "--source", &own, "--base-url", &mirror]).ok();
    // A program writes what is read there.
    for file in ["/proc/self/comm", "/proc/self/environ"] {
        image.changes_nothing(&["enable", "--source", &format!("file://{file}")], 1, "not a regular file");
    }
}

#[test]
fn a_version_that_is_on_the_disk_must_have_the_digest_too() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    let source = put(&image, "version: 1.0.0\n");
    image.follow(&source, &[]).ok();
    put(&image, "version: 1.1.0\n");
    assert_eq!(image.update(), "1.1.0");
    put(&image, &format!("version: 1.0.0\ndigest: {}\n", "00".repeat(32)));
    for command in [&["update"][..], &["update", "--now"]] {
        image.changes_nothing(command, 1, "but the source names 0000");
        assert_eq!(image.last_result()["error_code"], "checksum_mismatch");
    }
    // What is active stays, and the true one goes.
    put(&image, &format!("version: 1.1.0\ndigest: {}\n", "00".repeat(32)));
    image.changes_nothing(&["update"], 0, "nothing to do");
    let digest = image.cluster.publish(&Archive::simple("1.0.0")).sha256;
    put(&image, &format!("version: 1.0.0\ndigest: {digest}\n"));
    assert_eq!(image.update(), "1.0.0");
}

#[test]
fn a_file_that_names_no_version_can_be_out_of_date() {
    let image = Image::with(&["1.0.0"]);
    let source = put(&image, "version: 1.0.0\n");
    image.follow(&source, &[]).ok();
    put(&image, "version: none\nstale_after: 2020-01-01T00:00:00Z\n");
    image.changes_nothing(&["update"], 0, "out of date since 2020");
}
