//! Where archives come from and by which way: mirrors, signatures, HTTP proxies, certificate authorities; and that
//! what worked by hand works later without flags and environment (SPEC §2 to §4).

use crate::support::*;

/// What must never be seen.
const SECRET: &str = "s3cr3t-w0rd";

/// The arguments of an `enable` without base URL and CA.
fn enable_args(image: &Image, more: &[&str]) -> Vec<String> {
    let addr = image.cluster.addr();
    ["enable", "--proxy", &addr].iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

fn run(image: &Image, args: &[String], env: &[(&str, &str)]) -> Ran {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    image.run_with(&args, env)
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Every file below the versions directory but binaries and `.credentials`, as text.
fn everything_written(image: &Image) -> String {
    fn walk(dir: &Path, all: &mut String) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "bin") {
                walk(&path, all);
            } else if path.is_file() && path.file_name().is_some_and(|name| name != ".credentials") {
                *all += &String::from_utf8_lossy(&std::fs::read(path).unwrap());
            }
        }
    }
    let mut all = String::new();
    walk(&image.versions(), &mut all);
    all
}

/// No secret in what a run said, nor in any file but `.credentials`, which is root's alone.
#[track_caller]
fn keeps_secrets(image: &Image, ran: &Ran) {
    assert!(!ran.stderr.contains(SECRET) && !ran.stdout.contains(SECRET), "{ran:#?}");
    assert!(!everything_written(image).contains(SECRET), "{}", image.config());
    let credentials = image.versions().join(".credentials");
    if credentials.exists() {
        assert_eq!(std::fs::metadata(credentials).unwrap().permissions().mode() & 0o7777, 0o600);
    }
}

/// A directory as a `file://` mirror below a directory that only we can change.
fn local_mirror(archives: &[Archive]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let mirror = dir.path().join("mirror");
    std::fs::create_dir(&mirror).unwrap();
    set_mode(&mirror, 0o755);
    for archive in archives {
        archive.write_to(&mirror);
    }
    (dir, mirror)
}

#[test]
fn a_directory_is_a_mirror_and_stays_the_mirror() {
    let image = Image::new("1.0.0");
    let (_dir, mirror) = local_mirror(&[Archive::simple("1.0.0"), Archive::simple("2.0.0")]);
    let url = format!("file://{}", mirror.display());
    image.enable_from(&url, &[]).ok();
    image.cluster.set_directive(Find::version("2.0.0"));
    image.run(&["update"]).ok();
    assert!(image.versions().join("2.0.0/sha256").exists());
    assert!(image.cluster.requests_to("/cdn/").is_empty());
    let status = image.status();
    assert_eq!(status["base_url"], url);
}

#[test]
fn a_mirror_directory_that_others_can_change_is_refused() {
    let image = Image::new("1.0.0");
    let (dir, mirror) = local_mirror(&[Archive::simple("1.0.0")]);
    let archive = mirror.join("teleport-v1.0.0-linux-amd64-bin.tar.gz");
    let ca = image.cluster.ca_file().display().to_string();
    let url = format!("file://{}", mirror.display());
    let args = enable_args(&image, &["--log-format", "json", "--ca-file", &ca, "--base-url", &url]);
    let refused = |what: &str, code: &str| {
        let ran = run(&image, &args, &[]);
        assert_eq!((ran.status, ran.error_code().as_str()), (1, code), "{what}: {ran:#?}");
        assert!(!image.versions().join("1.0.0").exists() && !image.path("/usr/local/bin").exists(), "{what}");
    };
    for (what, path, bad, good) in [
        ("directory writable by others", mirror.as_path(), 0o777, 0o755),
        ("directory writable by the group", &mirror, 0o775, 0o755),
        ("directory with the sticky bit", &mirror, 0o1777, 0o755),
        ("directory above", dir.path(), 0o777, 0o755),
        ("archive writable by others", &archive, 0o666, 0o644),
    ] {
        set_mode(path, bad);
        refused(what, "permission");
        set_mode(path, good);
    }
    std::os::unix::fs::chown(&mirror, Some(12345), None).unwrap();
    refused("directory of another", "permission");
    std::os::unix::fs::chown(&mirror, Some(0), None).unwrap();
    std::os::unix::fs::chown(&archive, Some(12345), None).unwrap();
    refused("archive of another", "permission");
    std::os::unix::fs::chown(&archive, Some(0), None).unwrap();

    std::fs::rename(&archive, mirror.join("aside")).unwrap();
    refused("no such file", "archive_missing");
    std::fs::create_dir(&archive).unwrap();
    refused("a directory in its place", "archive_missing");
    std::fs::remove_dir(&archive).unwrap();
    std::fs::rename(mirror.join("aside"), &archive).unwrap();
    std::fs::rename(&mirror, dir.path().join("elsewhere")).unwrap();
    refused("no such directory", "archive_missing");
    std::fs::rename(dir.path().join("elsewhere"), &mirror).unwrap();
    run(&image, &args, &[]).ok();
}

#[test]
fn with_a_public_key_only_archives_signed_with_it_are_installed_from_then_on() {
    let image = Image::new("1.0.0");
    let (ours, theirs) = (Signer::fixed(1), Signer::fixed(2));
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), ours.public_key_pem()).unwrap();
    let key_path = key.path().display().to_string();

    let garbage = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(garbage.path(), "not a key\n").unwrap();
    let ran = image.enable(&["--public-key", &garbage.path().display().to_string()]);
    assert_ne!(ran.status, 0, "{ran:#?}");
    assert!(!image.versions().join("1.0.0").exists());

    image.enable(&["--log-format", "json", "--public-key", &key_path]).refused("signature_invalid");
    assert!(!image.versions().join("1.0.0").exists());
    image.cluster.publish(&Archive::simple("1.0.0").signed(&ours));
    image.enable(&["--public-key", &key_path]).ok();
    // By content: the file may go.
    drop(key);

    let before = image.tree_but_status();
    let fails = |what: &str, code: &str| {
        image.cluster.set_directive(Find::version("2.0.0"));
        // The announced digest stays the same: the timer would wait.
        let ran = image.run(&["--log-format", "json", "update", "--now"]);
        assert_eq!((ran.status, ran.error_code().as_str()), (1, code), "{what}: {ran:#?}");
        assert_eq!(image.tree_but_status(), before, "{what}");
    };
    image.cluster.publish(&Archive::simple("2.0.0"));
    fails("unsigned", "signature_invalid");
    image.cluster.publish(&Archive::simple("2.0.0").signed(&theirs));
    fails("another key's", "signature_invalid");
    let sig = image.cluster.cdn().join("teleport-v2.0.0-linux-amd64-bin.tar.gz.sig");
    for (what, text) in [("garbage", "garbage"), ("empty", ""), ("base64 of nothing", "AAAA"), ("HTML", "<html>")] {
        std::fs::write(&sig, text).unwrap();
        fails(what, "signature_invalid");
    }
    let of_the_old = image.cluster.cdn().join("teleport-v1.0.0-linux-amd64-bin.tar.gz.sig");
    std::fs::copy(of_the_old, &sig).unwrap();
    fails("another archive's", "signature_invalid");
    image.cluster.publish(&Archive::simple("2.0.0").signed(&ours));
    for (how, code) in [
        (Misbehaviour::WrongType, "signature_invalid"),
        (Misbehaviour::Status(403, None), "signature_invalid"),
        (Misbehaviour::HugeBody(3 << 20), "network"),
    ] {
        image.cluster.misbehave(".sig$", how.clone());
        fails(&format!("{how:?}"), code);
        image.cluster.behave();
    }
    // A signature does not make up for a wrong digest.
    image.cluster.misbehave(".sha256$", Misbehaviour::Stale);
    fails("stale digest", "checksum_mismatch");
    image.cluster.behave();
    image.run(&["update"]).ok();
    assert!(image.versions().join("2.0.0/sha256").exists());
}

#[test]
fn a_mirrors_credentials_are_kept_apart_and_used_later() {
    for (userinfo, auth) in [
        (format!("robot:{SECRET}@"), Auth::Basic("robot".into(), SECRET.into())),
        (format!("{SECRET}@"), Auth::Bearer(SECRET.into())),
    ] {
        let image = Image::new("1.0.0");
        image.cluster.require_auth(Some(auth.clone()));
        let url = image.cluster.base_url().replace("https://", &format!("https://{userinfo}"));
        let ran = image.enable_from(&url, &["-d"]).ok();
        keeps_secrets(&image, &ran);
        assert!(image.config().contains(&image.cluster.base_url()), "{}", image.config());
        image.release("2.0.0");
        for format in ["text", "json"] {
            let ran = image.run(&["-d", "--log-format", format, "update"]).ok();
            keeps_secrets(&image, &ran);
        }
        assert!(image.versions().join("2.0.0/sha256").exists());
        for command in [&["status"][..], &["plan"], &["verify"], &["status", "--format", "yaml"]] {
            keeps_secrets(&image, &image.run(command));
        }
        // The cluster itself never sees them.
        let find = image.cluster.requests_to("/webapi/find");
        assert!(find.iter().all(|request| request.header("authorization").is_none()));
        // A refusal does not tell them either.
        image.cluster.require_auth(Some(Auth::Bearer("changed".into())));
        image.release("3.0.0");
        let ran = image.run(&["-d", "update"]).fails(1, "401");
        keeps_secrets(&image, &ran);
    }
}

#[test]
fn one_mirrors_credentials_are_not_sent_to_another() {
    let image = Image::new("1.0.0");
    let dir = tempfile::tempdir().unwrap();
    let other = Cluster::start(dir.path());
    other.publish(&Archive::simple("2.0.0"));
    let both = dir.path().join("both.pem");
    std::fs::write(&both, format!("{}{}", image.cluster.ca_pem(), other.ca_pem())).unwrap();
    let ca = both.display().to_string();
    let url = image.cluster.base_url().replace("https://", &format!("https://{SECRET}@"));
    run(&image, &enable_args(&image, &["--ca-file", &ca, "--base-url", &url]), &[]).ok();
    image.cluster.set_directive(Find::version("2.0.0"));

    // Neither by a redirect …
    image.cluster.publish(&Archive::simple("2.0.0"));
    let name = "teleport-v2.0.0-linux-amd64-bin.tar.gz";
    image.cluster.misbehave("-bin.tar.gz$", Misbehaviour::Redirect(format!("{}/{name}", other.base_url())));
    image.run(&["update"]).ok();
    // … nor by a change of the mirror.
    other.publish(&Archive::simple("3.0.0"));
    image.cluster.set_directive(Find::version("3.0.0"));
    image.enable_from(&other.base_url(), &["--ca-file", &ca]).ok();
    image.run(&["verify"]).ok();
    let requests = other.requests();
    assert!(requests.len() >= 4, "{requests:#?}");
    assert!(requests.iter().all(|request| request.header("authorization").is_none()), "{requests:#?}");
    assert!(!image.versions().join(".credentials").exists());
}

#[test]
fn credentials_of_a_mirror_that_was_not_taken_over_are_forgotten() {
    let image = Image::enabled("1.0.0");
    let before = image.tree_but_status();
    image.cluster.set_directive(Find::version("9.0.0"));
    let url = image.cluster.base_url().replace("https://", &format!("https://{SECRET}@")) + "/nowhere";
    image.enable_from(&url, &[]).fails(1, "404");
    assert_eq!(image.tree_but_status(), before);
}

#[test]
fn an_http_proxy_from_the_environment_is_used_later_without_it() {
    let image = Image::new("1.0.0");
    let proxy = Proxy::start();
    proxy.require("robot", SECRET);
    let url = proxy.url_with("robot", SECRET);
    let args = image.enable_args();
    let ran = run(&image, &args, &[("HTTPS_PROXY", &url)]).ok();
    keeps_secrets(&image, &ran);
    let target = format!("localhost:{}", image.cluster.port());
    let used = proxy.targets().len();
    assert!(used > 0 && proxy.targets().iter().all(|known| *known == target), "{:?}", proxy.targets());
    assert!(image.config().contains(&proxy.url()), "{}", image.config());

    image.release("2.0.0");
    for format in ["text", "json"] {
        let ran = image.run(&["-d", "--log-format", format, "update"]).ok();
        keeps_secrets(&image, &ran);
    }
    assert!(proxy.targets().len() > used, "the later run did not go through the proxy");
    assert_eq!(proxy.refused(), 0);

    // A proxy that refuses is named, its password is not.
    proxy.require("robot", "changed");
    let ran = image.run(&["-d", "update"]).fails(1, &proxy.url().replace("http://", ""));
    keeps_secrets(&image, &ran);
}

#[test]
fn what_no_proxy_names_is_asked_directly_also_later() {
    let image = Image::new("1.0.0");
    let proxy = Proxy::start();
    let args = image.enable_args();
    run(&image, &args, &[("https_proxy", &proxy.url()), ("no_proxy", "example.com,localhost")]).ok();
    image.update_to("2.0.0");
    assert!(proxy.targets().is_empty(), "{:?}", proxy.targets());
    assert!(image.config().contains("no_proxy: "), "{}", image.config());
}

#[test]
fn a_name_that_only_the_proxy_knows_is_reached_through_it() {
    let image = Image::new("1.0.0");
    let dir = tempfile::tempdir().unwrap();
    let hidden = Cluster::start_as(dir.path(), 0, &["hidden.example"]);
    hidden.publish(&Archive::simple("1.0.0"));
    hidden.set_directive(Find::version("1.0.0"));
    let proxy = Proxy::start();
    let target = format!("hidden.example:{}", hidden.port());
    proxy.route(&target, &format!("127.0.0.1:{}", hidden.port()));
    let ca = hidden.ca_file().display().to_string();
    let base = format!("https://{target}/cdn");
    let args = ["enable", "--proxy", &target, "--base-url", &base, "--ca-file", &ca];
    image.run_with(&args, &[("all_proxy", &proxy.url())]).ok();
    assert!(image.versions().join("1.0.0/sha256").exists());
}

#[test]
fn the_authority_of_a_run_by_hand_is_known_later_by_content() {
    for by_variable in [false, true] {
        let image = Image::new("1.0.0");
        let copy = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(copy.path(), image.cluster.ca_pem()).unwrap();
        let file = copy.path().display().to_string();
        let base = image.cluster.base_url();
        if by_variable {
            run(&image, &enable_args(&image, &["--base-url", &base]), &[("SSL_CERT_FILE", &file)]).ok();
        } else {
            run(&image, &enable_args(&image, &["--base-url", &base, "--ca-file", &file]), &[]).ok();
        }
        drop(copy);
        image.update_to("2.0.0");
        // Also where the variable is still set but its file is gone.
        image.release("3.0.0");
        image.run_with(&["update"], &[("SSL_CERT_FILE", &file)]).ok();
        assert!(image.versions().join("3.0.0/sha256").exists());
    }
}

#[test]
fn an_authority_that_was_given_stays_when_the_environment_names_another() {
    let image = Image::enabled("1.0.0");
    let dir = tempfile::tempdir().unwrap();
    let mirror = Cluster::start(dir.path());
    mirror.publish(&Archive::simple("2.0.0"));
    image.release("2.0.0");
    let file = mirror.ca_file().display().to_string();
    for _ in 0..2 {
        image.run_with(&["enable", "--base-url", &mirror.base_url()], &[("SSL_CERT_FILE", &file)]).ok();
        assert_eq!(image.config().matches("BEGIN CERTIFICATE").count(), 2, "the cluster's and the mirror's");
    }
    mirror.publish(&Archive::simple("3.0.0"));
    image.cluster.set_directive(Find::version("3.0.0"));
    image.run(&["update"]).ok();
    // Given anew it is the one that counts.
    let ca = image.cluster.ca_file().display().to_string();
    image.run(&["enable", "--ca-file", &ca, "--base-url", &image.cluster.base_url(), "--force-version", "3.0.0"]).ok();
    assert_eq!(image.config().matches("BEGIN CERTIFICATE").count(), 1);
}

#[test]
fn a_ca_file_that_is_none_is_refused_before_anything_is_asked() {
    let image = Image::new("1.0.0");
    let bad = tempfile::NamedTempFile::new().unwrap();
    for text in ["", "no certificate\n", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n"] {
        std::fs::write(bad.path(), text).unwrap();
        let ran = run(&image, &enable_args(&image, &["--ca-file", &bad.path().display().to_string()]), &[]);
        assert!(matches!(ran.status, 1 | 2), "{ran:#?}");
    }
    let ran = run(&image, &enable_args(&image, &["--ca-file", "/nonexistent.pem"]), &[]);
    ran.fails(2, "/nonexistent.pem");
    assert!(image.cluster.requests().is_empty());
    assert!(!image.versions().exists());
}

#[test]
fn insecure_lasts_one_run_and_warns() {
    let image = Image::new("1.0.0");
    let base = image.cluster.base_url();
    run(&image, &enable_args(&image, &["--base-url", &base, "--insecure"]), &[])
        .ok()
        .says("not verified")
        .says("this run only");
    assert!(!image.config().contains("insecure"), "{}", image.config());
    image.release("2.0.0");
    image.run(&["update"]).fails(1, "--ca-file");
    image.run(&["update", "--insecure"]).ok().says("not verified");
}

#[test]
fn insecure_with_a_public_key_is_remembered_and_still_warns() {
    let image = Image::new("1.0.0");
    let signer = Signer::fixed(3);
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), signer.public_key_pem()).unwrap();
    image.cluster.publish(&Archive::simple("1.0.0").signed(&signer));
    let (base, key) = (image.cluster.plain_base_url(), key.path().display().to_string());
    run(&image, &enable_args(&image, &["--base-url", &base, "--insecure", "--public-key", &key]), &[]).ok();
    assert!(image.config().contains("insecure: true"), "{}", image.config());
    image.cluster.publish(&Archive::simple("2.0.0").signed(&signer));
    image.cluster.set_directive(Find::version("2.0.0"));
    image.run(&["update"]).ok().says("not verified");
    image.release("3.0.0");
    image.run(&["update"]).fails(1, ".sig");
}

#[test]
fn plain_http_is_refused_without_insecure() {
    let image = Image::new("1.0.0");
    let ca = image.cluster.ca_file().display().to_string();
    let base = image.cluster.plain_base_url();
    let args = enable_args(&image, &["--ca-file", &ca, "--base-url", &base]);
    run(&image, &args, &[]).fails(2, "--insecure");
    assert!(image.cluster.requests().is_empty());
    assert!(!image.versions().exists());
    // The same from the environment.
    let args = enable_args(&image, &["--ca-file", &ca]);
    run(&image, &args, &[("TELEPORT_CDN_BASE_URL", &base)]).fails(2, "--insecure");
    // And from the file: a run by hand with --insecure does not make later ones unsafe.
    let args = enable_args(&image, &["--ca-file", &ca, "--base-url", &base, "--insecure"]);
    run(&image, &args, &[]).ok();
    image.release("2.0.0");
    let before = image.tree_but_status();
    let ran = image.run(&["update"]);
    assert_ne!(ran.status, 0, "{ran:#?}");
    assert_eq!(image.tree_but_status(), before);
}

#[test]
fn a_mirror_is_remembered_until_default_forgets_it() {
    let image = Image::new("1.0.0");
    image.enable(&["--group", "g"]).ok();
    image.update_to("2.0.0");
    assert!(image.config().contains(&image.cluster.base_url()));
    // 2.0.0 is there: nothing is asked of the public CDN.
    image.run(&["enable", "--base-url", "default", "--group", "default"]).ok();
    let config = image.config();
    assert!(!config.contains("base_url") && !config.contains("group"), "{config}");
}
