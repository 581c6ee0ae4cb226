//! What `verify` finds, `verify --repair` puts right.

mod support;

use std::os::unix::fs::FileExt;

use support::Image;

#[test]
#[allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "the test spoils a file on purpose")]
fn a_file_with_other_bytes_of_the_same_size_is_found_and_downloaded_again() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let tsh = image.versions().join("1.0.0/bin/tsh");
    let good = std::fs::read(&tsh).unwrap();
    std::fs::File::options().write(true).open(&tsh).unwrap().write_all_at(b"spoilt", 1000).unwrap();
    image.run(&["verify"]).fails(1, "bin/tsh has other content");
    image.cluster.forget_requests();
    image.run(&["verify", "--repair"]).ok();
    assert_eq!(std::fs::read(&tsh).unwrap(), good);
    assert_eq!(image.cluster.requests_to(".tar.gz$").iter().filter(|request| request.method == "GET").count(), 1);
    image.run(&["verify"]).ok();
}

#[test]
fn a_repair_of_links_alone_downloads_nothing() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let link = image.path("/usr/local/bin/tctl");
    std::fs::remove_file(&link).unwrap();
    image.cluster.forget_requests();
    image.run(&["verify", "--repair"]).ok();
    assert_eq!(std::fs::read_link(&link).unwrap().to_str(), Some("/var/lib/teleport/versions/1.0.0/bin/tctl"));
    assert!(image.cluster.requests().is_empty());
}
