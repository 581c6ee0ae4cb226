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

cases_of! { "download/tuf_host.txt":
    a_host_lives_with_a_tuf_repository;
}

#[test]
fn with_a_tuf_repository_nothing_is_installed_that_its_signers_do_not_mean() {
    transcript::play("download/tuf.txt");
}

#[test]
fn what_worked_by_hand_works_later_and_from_no_other_place() {
    transcript::play("download/mirrors.txt");
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
