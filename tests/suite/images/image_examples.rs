//! The Ansible play and the mirror script, as shipped in `packaging/examples`, run for real: ansible-core against a bed with
//! systemd, the script against the test cluster's archives.

use crate::support::package::with_repository;
use crate::support::*;

const PLAY: &str = "packaging/examples/ansible/teleport-update.yml";
const SCRIPT: &str = "packaging/examples/mirror/mirror.sh";

// --- Ansible ---

/// ansible-core's own ssh connection, whose `ssh` program enters the bed in place of dialling.
const SSH: &str = "#!/bin/bash\nexec \"$BED_SH\" exec \"$BED_NAME\" sh -c \"${@: -1}\"\n";

/// The play on the rig's bed.
fn play(rig: &Rig, variables: &serde_json::Value) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let ssh = dir.path().join("ssh");
    std::fs::write(&ssh, SSH).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new("ansible-playbook")
        .args(["--inventory", "bed,", "--extra-vars", &variables.to_string()])
        .arg(checkout(PLAY))
        .current_dir(dir.path())
        .env("ANSIBLE_LOCAL_TEMP", dir.path().join("temp"))
        .env("ANSIBLE_SSH_CONTROL_PATH_DIR", dir.path().join("control"))
        .env("BED_SH", checkout("tests/beds/bed.sh"))
        .env("BED_NAME", rig.bed.name())
        .env("ANSIBLE_SSH_EXECUTABLE", &ssh)
        .env("ANSIBLE_PIPELINING", "true")
        .env("ANSIBLE_SSH_TRANSFER_METHOD", "piped")
        .env("ANSIBLE_NOCOLOR", "true")
        .output();
    Ran::of(&output.unwrap())
}

/// The number of tasks that changed something.
#[track_caller]
fn changed(ran: &Ran) -> u32 {
    assert_eq!(ran.status, 0, "{ran:#?}");
    let recap = ran.stdout.lines().find(|line| line.contains("changed=")).unwrap_or_else(|| panic!("{ran:#?}"));
    recap.split("changed=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn the_ansible_play_installs_a_host_and_its_second_run_changes_nothing() {
    if Command::new("ansible-playbook").arg("--version").output().is_err() {
        eprintln!("skipped: no ansible-playbook (make setup)");
        return;
    }
    let Some(deb) = deb("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm-cloud", "ansible") else { return };
    let roots = rig.bed.sh("cat /etc/ssl/certs/ca-certificates.crt") + rig.cluster.ca_pem();
    rig.bed.write("/etc/ssl/certs/ca-certificates.crt", roots, 0o644);
    rig.release(&Archive::simple("1.0.0"));
    with_repository(&rig.bed, &deb);
    // The bed's commands are run by root already, and it has no sudo.
    let mut variables = serde_json::json!({
        "ansible_become": false,
        "teleport_proxy": rig.cluster.addr(),
        "teleport_base_url": rig.cluster.base_url(),
        "teleport_group": "canary",
        "teleport_config": "teleport:\n  data_dir: /var/lib/teleport\n  nodename: first\n",
    });
    rig.bed.write("/etc/apt/sources.list.d/ours.list", "deb [trusted=yes] file:///srv/apt ./\n", 0o644);
    rig.bed.sh("apt-get update -q");
    let first = play(&rig, &variables);
    // Package, configuration, settings with the version, the agent's unit; and its reload, for its configuration is new.
    assert_eq!(changed(&first), 5, "{first:#?}");
    rig.until_ready();
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    let again = play(&rig, &variables);
    assert_eq!(changed(&again), 0, "{again:#?}");
    // A version that the cluster rolls out is none of the play's business.
    rig.update_to(&Archive::simple("1.1.0"));
    assert_eq!(changed(&play(&rig, &variables)), 0);
    // A setting is.
    variables["teleport_group"] = "".into();
    variables["teleport_config"] = "teleport:\n  data_dir: /var/lib/teleport\n  nodename: a\n".into();
    assert_eq!(changed(&play(&rig, &variables)), 3, "configuration, its reload, settings");
    assert_eq!(rig.status()["group"], serde_json::Value::Null);
    assert_eq!(rig.status()["agent_version_running"], "1.1.0");
    assert_eq!(changed(&play(&rig, &variables)), 0);
    // Without the package's repository the first task says so, and nothing is half done.
    rig.bed.sh("dpkg --purge teleport-update; rm -r /etc/apt/sources.list.d; apt-get update -q");
    let failed = play(&rig, &variables);
    assert!(failed.status != 0 && failed.stdout.contains("teleport-update"), "{failed:#?}");
    assert!(rig.bed.sh("readlink /proc/$(cat /run/teleport.pid)/exe").contains("/1.1.0/"));
}

// --- the mirror ---

struct Mirror {
    dir: tempfile::TempDir,
    cluster: Cluster,
}

impl Mirror {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(&dir.path().join("cluster"));
        Self { dir, cluster }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("mirror")
    }

    /// Runs the script in `shell`, from the cluster's archives; `fetcher` is curl or wget.
    fn run_by(&self, shell: &str, fetcher: &str, more: &[&str]) -> Ran {
        let ca = self.cluster.ca_file().display();
        let (curl, wget) = match fetcher {
            "curl" => (format!("curl --cacert {ca}"), "no-wget".to_owned()),
            _ => ("no-curl".to_owned(), format!("wget --ca-certificate={ca}")),
        };
        let output = Command::new(shell)
            .arg(checkout(SCRIPT))
            .args(["--from", &self.cluster.base_url(), "--to"])
            .arg(self.path())
            .args(more)
            .env("CURL", curl)
            .env("WGET", wget)
            .output();
        Ran::of(&output.unwrap())
    }

    fn run(&self, more: &[&str]) -> Ran {
        self.run_by("sh", "curl", more)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

const NAME: &str = "teleport-v1.0.0-linux-amd64-bin.tar.gz";

#[test]
fn the_mirror_holds_what_was_asked_for_under_the_public_names_and_agents_install_from_it() {
    for fetcher in ["curl", "wget"] {
        for shell in ["dash", "bash"] {
            let mirror = Mirror::new();
            for (edition, arch) in [("oss", "amd64"), ("oss", "arm64"), ("enterprise-fips", "amd64")] {
                mirror.cluster.publish(&Archive::new("1.0.0", edition, arch));
            }
            mirror.run_by(shell, fetcher, &["--editions", "oss", "--archs", "amd64,arm64", "v1.0.0"]).ok();
            mirror.run_by(shell, fetcher, &["--editions", "enterprise-fips", "1.0.0"]).ok();
            let archives =
                ["teleport-ent-v1.0.0-linux-amd64-fips-bin.tar.gz", NAME, "teleport-v1.0.0-linux-arm64-bin.tar.gz"];
            let expected: Vec<String> =
                archives.iter().flat_map(|name| [(*name).to_owned(), format!("{name}.sha256")]).collect();
            assert_eq!(mirror.names(), expected);
            for name in expected {
                let [one, other] =
                    [mirror.path(), mirror.cluster.cdn().to_owned()].map(|dir| std::fs::read(dir.join(&name)));
                assert!(one.unwrap() == other.unwrap(), "{name}");
            }
        }
    }
    let image = Image::new("1.0.0");
    let mirror = Mirror { dir: tempfile::tempdir().unwrap(), cluster: Cluster::start(&image.root().join("cluster")) };
    mirror.cluster.publish(&Archive::simple("1.0.0"));
    mirror.run(&["--editions", "oss", "1.0.0"]).ok();
    image.enable_from(&format!("file://{}", mirror.path().display()), &[]).ok();
    assert!(image.versions().join("1.0.0/sha256").exists() && image.cluster.requests_to(".tar.gz").is_empty());
}

#[test]
fn a_second_run_of_the_mirror_fetches_no_archive_again() {
    let mirror = Mirror::new();
    mirror.cluster.publish(&Archive::simple("1.0.0"));
    mirror.run(&["--editions", "oss", "1.0.0"]).ok();
    let before = tree(&mirror.path());
    mirror.cluster.forget_requests();
    let ran = mirror.run(&["--editions", "oss", "1.0.0"]).ok();
    assert!(ran.stdout.contains("is there"), "{ran:#?}");
    let fetched = mirror.cluster.requests();
    assert!(fetched.iter().all(|request| !request.path.ends_with(".tar.gz")), "{fetched:#?}");
    assert_eq!(tree(&mirror.path()), before);
}

#[test]
fn an_interrupted_mirror_run_leaves_no_archive_and_goes_on_where_it_ended() {
    for fetcher in ["curl", "wget"] {
        let mirror = Mirror::new();
        mirror.cluster.publish(&Archive::simple("1.0.0"));
        let whole = std::fs::read(mirror.cluster.cdn().join(NAME)).unwrap();
        let part = mirror.path().join(".partial").join(NAME);
        std::fs::create_dir_all(part.parent().unwrap()).unwrap();
        std::fs::write(&part, &whole[..whole.len() / 2]).unwrap();
        mirror.run_by("sh", fetcher, &["--editions", "oss", "1.0.0"]).ok();
        assert!(std::fs::read(mirror.path().join(NAME)).unwrap() == whole);
        let asked = mirror.cluster.requests_to(NAME);
        let range = asked.iter().rfind(|request| request.path.ends_with(".tar.gz")).unwrap().header("range").unwrap();
        assert_eq!(range, format!("bytes={}-", whole.len() / 2), "{fetcher}");
        // What is there cannot be completed: it is of another release.
        std::fs::remove_file(mirror.path().join(NAME)).unwrap();
        for bytes in [vec![b'x'; 1000], vec![b'x'; whole.len() + 1]] {
            std::fs::create_dir_all(part.parent().unwrap()).unwrap();
            std::fs::write(&part, bytes).unwrap();
            mirror.run_by("sh", fetcher, &["--editions", "oss", "1.0.0"]).ok();
            assert!(std::fs::read(mirror.path().join(NAME)).unwrap() == whole, "{fetcher}");
            std::fs::remove_file(mirror.path().join(NAME)).unwrap();
        }
    }
}

#[test]
fn what_is_wrong_at_the_source_never_gets_a_name_in_the_mirror() {
    let mirror = Mirror::new();
    let digest = "0".repeat(64);
    mirror.cluster.publish(&Archive::simple("1.0.0"));
    std::fs::write(mirror.cluster.cdn().join(format!("{NAME}.sha256")), format!("{digest}  {NAME}\n")).unwrap();
    mirror.run(&["--editions", "oss", "1.0.0"]).fails(1, &digest);
    assert!(!mirror.path().join(NAME).exists());
    std::fs::write(mirror.cluster.cdn().join(format!("{NAME}.sha256")), "<html>\n").unwrap();
    mirror.run(&["--editions", "oss", "1.0.0"]).fails(1, "no SHA-256 digest");
    mirror.run(&["--editions", "oss", "9.9.9"]).fails(1, "no digest at");
    // One that is missing does not keep the others from being mirrored.
    mirror.cluster.publish(&Archive::simple("1.1.0"));
    mirror.run(&["--editions", "oss", "9.9.9", "1.1.0"]).fails(1, "9.9.9");
    assert!(mirror.path().join("teleport-v1.1.0-linux-amd64-bin.tar.gz").exists());
    // A good one stays when its source goes bad.
    let kept = tree(&mirror.path());
    let name = "teleport-v1.1.0-linux-amd64-bin.tar.gz";
    std::fs::write(mirror.cluster.cdn().join(format!("{name}.sha256")), format!("{digest}\n")).unwrap();
    mirror.run(&["--editions", "oss", "1.1.0"]).fails(1, &digest);
    let left: Vec<_> = tree(&mirror.path()).into_iter().filter(|line| !line.starts_with(".partial")).collect();
    assert_eq!(left, kept.into_iter().filter(|line| !line.starts_with(".partial")).collect::<Vec<_>>());
    for (arguments, what) in [
        (&["../etc"][..], "not a version"),
        (&["1.0.0", "--editions", "gold"], "not an edition"),
        (&["1.0.0", "--archs", "z80"], "not an architecture"),
        (&[], "at least one version"),
    ] {
        mirror.run(arguments).fails(2, what);
    }
    // Before anything is fetched for the good ones among them.
    mirror.cluster.forget_requests();
    mirror.run(&["1.0.0", "--editions", "oss,gold"]).fails(2, "not an edition: gold");
    assert!(mirror.cluster.requests().is_empty());
}

#[test]
fn with_a_key_only_signed_archives_are_mirrored() {
    let mirror = Mirror::new();
    let key = mirror.dir.path().join("key.pub");
    std::fs::write(&key, Signer::fixed(1).public_key_pem()).unwrap();
    let options = ["--editions", "oss", "--public-key", key.to_str().unwrap(), "1.0.0"];
    mirror.cluster.publish(&Archive::simple("1.0.0"));
    mirror.run(&options).fails(1, "no signature");
    mirror.cluster.publish(&Archive::simple("1.0.0").signed(&Signer::fixed(2)));
    mirror.run(&options).fails(1, "is not by");
    assert!(!mirror.path().join(NAME).exists());
    mirror.cluster.publish(&Archive::simple("1.0.0").signed(&Signer::fixed(1)));
    mirror.run(&options).ok();
    assert_eq!(mirror.names(), [NAME.to_owned(), format!("{NAME}.sha256"), format!("{NAME}.sig")]);
    let image = Image::new("1.0.0");
    let base = format!("file://{}", mirror.path().display());
    image.enable_from(&base, &["--public-key", key.to_str().unwrap()]).ok();
}

#[test]
fn a_connection_that_breaks_in_an_archive_is_taken_up_again() {
    let mirror = Mirror::new();
    mirror.cluster.publish(&Archive::simple("1.0.0"));
    mirror.cluster.misbehave_times(&format!("/cdn/{NAME}"), Misbehaviour::CutAfter { bytes: 5000 }, 1);
    let first = mirror.run(&["--editions", "oss", "1.0.0"]);
    let second = mirror.run(&["--editions", "oss", "1.0.0"]).ok();
    assert!(first.status <= 1 && second.status == 0, "{first:#?}");
    mirror.cluster.set_directive(Find::version("1.0.0"));
    assert_eq!(
        std::fs::read(mirror.path().join(NAME)).unwrap(),
        std::fs::read(mirror.cluster.cdn().join(NAME)).unwrap()
    );
}

#[test]
fn the_mirror_is_not_led_from_https_to_http() {
    for fetcher in ["curl", "wget"] {
        let mirror = Mirror::new();
        mirror.cluster.publish(&Archive::simple("1.0.0"));
        let copy = |base: String| Misbehaviour::Redirect(format!("{base}/copy.tar.gz"));
        std::fs::copy(mirror.cluster.cdn().join(NAME), mirror.cluster.cdn().join("copy.tar.gz")).unwrap();
        mirror.cluster.misbehave(&format!("{NAME}$"), copy(mirror.cluster.plain_base_url()));
        mirror.run_by("sh", fetcher, &["--editions", "oss", "1.0.0"]).fails(1, "cannot fetch");
        assert!(!mirror.path().join(NAME).exists(), "{fetcher}");
        mirror.cluster.behave();
        mirror.cluster.misbehave(&format!("{NAME}$"), copy(mirror.cluster.base_url()));
        mirror.run_by("sh", fetcher, &["--editions", "oss", "1.0.0"]).ok();
        assert!(mirror.path().join(NAME).exists(), "{fetcher}");
    }
}

#[test]
fn two_runs_of_the_mirror_do_not_meet_in_one_directory() {
    let mirror = Mirror::new();
    mirror.cluster.publish(&Archive::simple("1.0.0"));
    std::fs::create_dir(mirror.path()).unwrap();
    let other = std::fs::File::open(mirror.path()).unwrap();
    other.lock().unwrap();
    mirror.run(&["--editions", "oss", "1.0.0"]).fails(1, "another run is at work in");
    assert!(mirror.cluster.requests().is_empty());
    drop(other);
    mirror.run(&["--editions", "oss", "1.0.0"]).ok();
    assert!(mirror.path().join(NAME).exists());
}
