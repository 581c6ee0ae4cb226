//! Servers, mirrors and networks that go wrong, for each question that is asked of them (SPEC §3, §4).

use testing::cluster::Misbehaviour::*;
use testing::cluster::Request;

use crate::support::*;

/// End of an archive's path.
const ARCHIVE: &str = "-bin.tar.gz$";

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

#[test]
fn servers_mirrors_and_networks_go_wrong() {
    transcript::play("download/network.txt");
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
