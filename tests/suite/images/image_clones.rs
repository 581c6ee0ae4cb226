//! Golden images under the real cloud-init: an image is baked of a host, and two hosts boot from it. Both workflows of RFD
//! 0169, with the files of `packaging/examples/cloud-init` as shipped; only what their heads name is replaced.

use crate::support::package::with_repository;
use crate::support::*;

const ROOT: &str = "bookworm-cloud";
/// cloud-init's whole first boot on a busy machine.
const FIRST_BOOT: Duration = Duration::from_secs(120);
/// What an operator runs last in a builder, with `cloud-init clean`'s own words for the machine id.
const CLEAN: &str = "cloud-init clean --logs --machine-id";

/// A cluster, and the images and hosts that belong to it.
struct Foundry {
    dir: tempfile::TempDir,
    cluster: Cluster,
}

impl Foundry {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(&dir.path().join("cluster"));
        Self { dir, cluster }
    }

    fn release(&self, version: &str) {
        self.cluster.publish(&Archive::simple(version));
        self.cluster.set_directive(Find::version(version));
    }

    /// A cloud image before anything of ours is in it, booted. The test's cluster stands for the public one: its authority
    /// is one of the system's, its archives are where `base_url` says; our package is in apt's repository; the timer is in a
    /// hurry.
    fn builder(&self, name: &str, base_url: &str) -> Option<Bed> {
        let deb = deb("1.0.0")?;
        let bed = Bed::up_on(ROOT, name, &[])?;
        bed.write("/etc/hosts", "127.0.0.1 localhost\n", 0o644);
        bed.write("/etc/cloud/cloud.cfg.d/99-bed.cfg", "locale: false\nnetwork: {config: disabled}\n", 0o644);
        let roots = bed.sh("cat /etc/ssl/certs/ca-certificates.crt") + self.cluster.ca_pem();
        bed.write("/etc/ssl/certs/ca-certificates.crt", roots, 0o644);
        let config = format!("version: v1\nkind: agent_versions\nspec:\n{FAST}{base_url}");
        bed.write(format!("{VERSIONS}/updates.yaml"), config, 0o644);
        // The first line takes back all of the unit's own.
        let hurry =
            "[Timer]\nOnBootSec=\nOnBootSec=2s\nOnUnitInactiveSec=2s\nRandomizedDelaySec=0\nAccuracySec=100ms\n";
        bed.write("/etc/systemd/system/teleport-update.timer.d/hurry.conf", hurry, 0o644);
        with_repository(&bed, &deb);
        Some(bed)
    }

    fn base_url(&self) -> String {
        format!("  base_url: {}\n", self.cluster.base_url())
    }

    /// Cleans a builder as its operator does, stops it, and keeps what is on its disk.
    fn bake(&self, bed: Bed) -> PathBuf {
        bed.sh(CLEAN);
        bed.halt();
        let layer = self.dir.path().join("layer");
        bed.layer(&layer);
        layer
    }

    /// First boot of an instance of the image `layer` with this user data, until cloud-init is done.
    fn instance(&self, layer: &Path, name: &str, user_data: &str) -> Bed {
        let seed = self.dir.path().join(format!("seed-{name}"));
        std::fs::create_dir_all(&seed).unwrap();
        std::fs::write(seed.join("meta-data"), format!("instance-id: i-{name}\nlocal-hostname: {name}\n")).unwrap();
        std::fs::write(seed.join("user-data"), user_data).unwrap();
        let bind = format!("--bind-ro={}:/var/lib/cloud/seed/nocloud", seed.display());
        let bed = Bed::clone_of(ROOT, layer, name, &[&bind]).expect("a bed after the first one");
        bed.until("cloud-init status | grep -qE 'done|error'", FIRST_BOOT);
        let status = Ran::of(&bed.exec(&["cloud-init", "status", "--long"]));
        assert!(status.stdout.contains("status: done"), "{status:#?}\n{}", log(&bed));
        bed
    }

    /// The shipped file `name`, with the values of this cluster.
    fn user_data(&self, name: &str) -> String {
        let file = checkout(&format!("packaging/examples/cloud-init/{name}"));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.starts_with("#cloud-config\n") && text.contains("example.teleport.sh"), "{text}");
        text.replace("example.teleport.sh", &self.cluster.addr())
    }

    /// The ids with which the cluster was asked since it last forgot.
    fn ids(&self) -> Vec<Option<String>> {
        let asked = self.cluster.requests_to("find");
        let mut ids: Vec<_> = asked.iter().map(|request| request.parameter("update_id").map(str::to_owned)).collect();
        ids.sort();
        ids.dedup();
        ids
    }
}

fn log(bed: &Bed) -> String {
    bed.sh("cat /var/log/cloud-init-output.log; journalctl --no-pager -u teleport-update -u teleport -n 40")
}

/// The repository in place of the example's.
const SOURCE: [(&str, &str); 2] =
    [("[signed-by=/etc/apt/keyrings/example.asc]", "[trusted=yes]"), ("https://apt.example.com", "file:///srv/apt")];

fn with_source(mut text: String) -> String {
    for (from, to) in SOURCE {
        assert!(text.contains(from), "{from} is not in {text}");
        text = text.replace(from, to);
    }
    text
}

fn apt_install(bed: &Bed) {
    bed.write("/etc/apt/sources.list.d/ours.list", "deb [trusted=yes] file:///srv/apt ./\n", 0o644);
    bed.sh(
        "export DEBIAN_FRONTEND=noninteractive; apt-get update -q && apt-get install -qy teleport-update </dev/null",
    );
}

fn status(bed: &Bed) -> Value {
    Ran::of(&bed.run(&["teleport-update", "status", "--format", "json"])).ok().json()
}

/// The value of `key` in `updates.yaml`, empty without.
fn setting(bed: &Bed, key: &str) -> String {
    look::setting(&std::fs::read_to_string(bed.path(VERSIONS).join("updates.yaml")).unwrap(), key).unwrap_or_default()
}

/// Waits until the timer has brought the agent to `version`.
fn until_running(bed: &Bed, version: &str) {
    bed.until(&format!("readlink /proc/$(cat /run/teleport.pid)/exe | grep -q /{version}/bin/teleport"), FIRST_BOOT);
}

/// Waits until the timer's run that is made here and now has ended well.
fn until_timer_ran(bed: &Bed) {
    let runs = "journalctl -q --no-pager -b -u teleport-update.service | grep -c 'Finished\\|Deactivated successfully'";
    let count = bed.exec(&["sh", "-c", runs]);
    let count: u32 = String::from_utf8(count.stdout).unwrap().trim().parse().unwrap_or(0);
    bed.until(&format!("test $({runs}) -gt {}", count + 1), SOON);
}

/// What no two hosts may share: kind and value.
fn identity(bed: &Bed) -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(bed.path(path)).unwrap().trim().to_owned();
    vec![
        ("update_id", setting(bed, "update_id")),
        ("update_id_host", setting(bed, "update_id_host")),
        ("machine-id", read("/etc/machine-id")),
        ("hostname", read("/etc/hostname")),
        ("host_uuid", read("/var/lib/teleport/host_uuid")),
    ]
}

/// What all hosts of an image share: each version's files.
fn installation(bed: &Bed) -> Vec<String> {
    let mut found = tree(&bed.path(VERSIONS));
    // Snapshots are a host's own, a manifest has the time of installation, the lock the last run's process.
    let own = ["backup/", "manifest.json", ".lock/"];
    found.retain(|line| line.contains('/') && !own.iter().any(|part| line.contains(part)));
    found.extend(tree(&bed.path("/usr/local")));
    found
}

/// Two hosts of one image, from their first boot to an update by their timers, and over a reboot.
fn assert_two_hosts(foundry: &Foundry, layer: &Path, user_data: &str) {
    let clones = ["left", "right"].map(|name| foundry.instance(layer, name, user_data));
    for bed in &clones {
        bed.until("test -s /run/teleport.pid", SOON);
        assert_eq!(status(bed)["agent_version_running"], "1.0.0", "{}", log(bed));
        assert_eq!(bed.sh("systemctl is-enabled teleport teleport-update.timer"), "enabled\nenabled\n");
        until_timer_ran(bed);
    }
    // The timers follow the cluster, each host under an id of its own.
    foundry.cluster.forget_requests();
    foundry.release("1.1.0");
    for bed in &clones {
        until_running(bed, "1.1.0");
        until_timer_ran(bed);
    }
    let [left, right] = clones.each_ref().map(identity);
    for (one, other) in left.iter().zip(&right) {
        assert!(one.1 != other.1 && !one.1.is_empty(), "{one:?} {other:?}");
    }
    let mut expected = [left[0].1.clone(), right[0].1.clone()].map(Some);
    expected.sort();
    assert_eq!(foundry.ids(), expected);
    let [one, other] = clones.each_ref().map(installation);
    assert_eq!(one, other);
    assert!(one.iter().any(|line| line.starts_with("1.1.0/bin/teleport 755")), "{one:#?}");
    // The first boot was the only first one.
    for (bed, before) in clones.iter().zip([&left, &right]) {
        bed.write("/etc/teleport.yaml", "teleport:\n  data_dir: /var/lib/teleport\n", 0o600);
        bed.reboot();
        until_running(bed, "1.1.0");
        until_timer_ran(bed);
        assert_eq!(&identity(bed), before);
        let yaml = std::fs::read_to_string(bed.path("/etc/teleport.yaml")).unwrap();
        assert!(!yaml.contains("proxy_server"), "cloud-init ran again: {yaml}");
    }
    let [left, right] = clones.each_ref().map(|bed| bed.sh("journalctl --no-pager -u teleport-update"));
    for (name, journal) in [("left", left), ("right", right)] {
        assert_eq!(journal.contains("is a clone of another"), had_id(layer), "{name}: {journal}");
    }
}

fn had_id(layer: &Path) -> bool {
    std::fs::read_to_string(layer.join("var/lib/teleport/versions/updates.yaml")).unwrap().contains("update_id: ")
}

#[test]
fn a_plain_cloud_image_installs_the_updater_and_the_agent_at_its_first_boot() {
    let foundry = Foundry::new();
    foundry.release("1.0.0");
    let Some(builder) = foundry.builder("plain", &foundry.base_url()) else { return };
    let layer = foundry.bake(builder);
    let bed = foundry.instance(&layer, "plain-host", &with_source(foundry.user_data("install-and-enable.yaml")));
    assert_eq!(status(&bed)["agent_version_running"], "1.0.0", "{}", log(&bed));
    assert_eq!(bed.sh("dpkg-query -W -f '${db:Status-Abbrev}' teleport-update"), "ii ");
    foundry.release("1.1.0");
    until_running(&bed, "1.1.0");
}

#[test]
fn of_an_image_with_the_package_cloud_init_makes_hosts_that_differ() {
    let foundry = Foundry::new();
    foundry.release("1.0.0");
    let Some(builder) = foundry.builder("package", &foundry.base_url()) else { return };
    apt_install(&builder);
    // The timer is on from the package's installation; without `enable` it asks nobody.
    until_timer_ran(&builder);
    assert!(foundry.cluster.requests().is_empty());
    let layer = foundry.bake(builder);
    assert!(!had_id(&layer));
    assert_two_hosts(&foundry, &layer, &with_source(foundry.user_data("install-and-enable.yaml")));
}

#[test]
fn of_an_image_enabled_in_a_running_builder_cloud_init_makes_hosts_that_differ() {
    let foundry = Foundry::new();
    foundry.release("1.0.0");
    let Some(builder) = foundry.builder("enabled", &foundry.base_url()) else { return };
    apt_install(&builder);
    builder.sh(&format!("teleport-update enable --proxy {}", foundry.cluster.addr()));
    until_timer_ran(&builder);
    let own = setting(&builder, "update_id");
    assert_eq!(own.len(), 36);
    let layer = foundry.bake(builder);
    // The builder's id is in the image, and of no use in it.
    assert!(had_id(&layer) && !layer.join("var/lib/teleport/host_uuid").exists());
    foundry.cluster.forget_requests();
    assert_two_hosts(&foundry, &layer, &foundry.user_data("baked.yaml"));
    assert!(!foundry.ids().contains(&Some(own)));
}

#[test]
fn of_an_image_enabled_from_outside_cloud_init_makes_hosts_that_differ() {
    let foundry = Foundry::new();
    foundry.release("1.0.0");
    let Some(builder) = foundry.builder("outside", &foundry.base_url()) else { return };
    // Fedora's default; Debian's, in the other tests, is that the first boot enables every unit there is.
    builder.write("/etc/systemd/system-preset/99-default.preset", "disable *\n", 0o644);
    apt_install(&builder);
    let layer = {
        builder.sh(CLEAN);
        builder.halt();
        let enable = Command::new(updater())
            .arg("--root")
            .arg(builder.root())
            .args(["enable", "--proxy", &foundry.cluster.addr(), "--ca-file"])
            .arg(foundry.cluster.ca_file())
            .output();
        Ran::of(&enable.unwrap()).ok();
        let is_enabled = ["is-enabled", "teleport-update.timer"];
        let timer = Command::new("systemctl").arg("--root").arg(builder.root()).args(is_enabled).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&timer.stdout), "enabled\n");
        let layer = foundry.dir.path().join("layer");
        builder.layer(&layer);
        layer
    };
    assert!(!had_id(&layer));
    assert_two_hosts(&foundry, &layer, &foundry.user_data("baked.yaml"));
}

#[test]
fn of_a_builder_that_ran_the_agent_nothing_is_left_after_the_lines_of_the_guide() {
    let foundry = Foundry::new();
    foundry.release("1.0.0");
    let Some(builder) = foundry.builder("ran", &foundry.base_url()) else { return };
    apt_install(&builder);
    builder.write("/etc/teleport.yaml", "teleport:\n  data_dir: /var/lib/teleport\n", 0o600);
    builder
        .sh(&format!("teleport-update enable --proxy {} && systemctl enable --now teleport", foundry.cluster.addr()));
    until_running(&builder, "1.0.0");
    foundry.release("1.1.0");
    until_running(&builder, "1.1.0");
    until_timer_ran(&builder);
    assert!(builder.path(VERSIONS).join("1.0.0/backup/sqlite.db").exists());
    let page = std::fs::read_to_string(checkout("docs/images.md")).unwrap();
    let lines: Vec<&str> =
        page.lines().skip_while(|line| !line.starts_with("**The agent ran in the builder.**")).collect();
    let lines: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("    ")).take(2).collect();
    assert!(lines[0].starts_with("systemctl ") && lines[1].starts_with("rm -rf "), "{lines:?}");
    builder.sh(&lines.join(" && "));
    let layer = foundry.bake(builder);
    let left = tree(&layer.join("var/lib/teleport"));
    assert!(!left.iter().any(|line| line.contains("sqlite") || line.contains("host_uuid")), "{left:#?}");
    let clones = ["fore", "aft"].map(|name| foundry.instance(&layer, name, &foundry.user_data("baked.yaml")));
    for bed in &clones {
        until_running(bed, "1.1.0");
        until_timer_ran(bed);
        let journal = bed.sh("journalctl --no-pager -u teleport-update");
        assert!(
            journal.contains("is a clone of another") && !journal.contains("has the same agent identity"),
            "{journal}"
        );
    }
    let [one, other] = clones.each_ref().map(identity);
    assert!(one.iter().zip(&other).all(|(one, other)| one.1 != other.1), "{one:?} {other:?}");
}

#[test]
fn baking_from_outside_takes_out_the_id_that_a_builder_left() {
    let image = Image::new("1.0.0");
    image.settings("  update_id: eb5f221f-0778-44ca-809a-b9bf9951f007\n  update_id_host: machine:4be1d07c92aa5f13\n");
    for _ in 0..2 {
        image.enable(&[]).ok();
        assert!(!image.config().contains("update_id"), "{}", image.config());
        // The second time nothing is installed.
        let text = image.config().replace("\nspec:\n", "\nspec:\n  update_id: eb5f221f-0778-44ca-809a-b9bf9951f007\n");
        std::fs::write(image.versions().join("updates.yaml"), text).unwrap();
    }
    assert!(image.cluster.requests().iter().all(|request| request.parameter("update_id").is_none()));
}

#[test]
fn a_host_without_internet_takes_signed_archives_from_its_mirror() {
    let foundry = Foundry::new();
    let signer = Signer::fixed(7);
    for version in ["1.0.0", "1.1.0"] {
        foundry.cluster.publish(&Archive::simple(version).signed(&signer));
    }
    foundry.cluster.set_directive(Find::version("1.0.0"));
    let Some(builder) = foundry.builder("mirror", "") else { return };
    apt_install(&builder);
    for entry in std::fs::read_dir(foundry.cluster.cdn()).unwrap() {
        let path = entry.unwrap().path();
        builder.put(&path, Path::new("/srv/mirror").join(path.file_name().unwrap()));
    }
    let layer = foundry.bake(builder);
    let mut user_data = foundry.user_data("air-gapped.yaml");
    let key = signer.public_key_pem().trim().replace('\n', "\n      ");
    for (from, to) in [
        ("https://mirror.example.com/teleport", "file:///srv/mirror"),
        ("-----BEGIN PUBLIC KEY-----\n      -----END PUBLIC KEY-----", &key),
    ] {
        assert!(user_data.contains(from), "{from} is not in {user_data}");
        user_data = user_data.replace(from, to);
    }
    let bed = foundry.instance(&layer, "gapped", &user_data);
    assert_eq!(status(&bed)["agent_version_running"], "1.0.0", "{}", log(&bed));
    foundry.cluster.set_directive(Find::version("1.1.0"));
    until_running(&bed, "1.1.0");
    // The key is not for show.
    bed.sh("rm /srv/mirror/teleport-v1.0.0-linux-amd64-bin.tar.gz.sig; systemctl stop teleport-update.timer");
    bed.sh("rm -r /var/lib/teleport/versions/1.0.0");
    foundry.cluster.set_directive(Find::version("1.0.0"));
    let refused = Ran::of(&bed.run(&["teleport-update", "pin", "--force-version", "1.0.0"]));
    assert_ne!(refused.status, 0, "{refused:#?}");
    assert!(foundry.cluster.requests_to(".tar.gz").is_empty());
}

#[test]
fn a_copy_of_a_host_that_kept_everything_is_told_about_its_agents_identity() {
    let Some(rig) = Rig::on_one("copied") else { return };
    rig.updater(&["update"]).ok();
    let id = setting(&rig.bed, "update_id");
    // A second run, a host that is renamed, an agent that joins anew: no copy.
    rig.bed.sh("echo 22222222-2222-4222-8222-222222222222 >/var/lib/teleport/host_uuid");
    rig.updater(&["update"]).ok();
    assert_eq!(setting(&rig.bed, "update_id"), id);
    rig.update_to(&Archive::simple("1.1.0"));
    // The disk is copied; systemd makes a new machine id, and nothing else is new.
    rig.bed.sh("tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id");
    rig.cluster.forget_requests();
    rig.updater(&["status"]).ok();
    assert_eq!(rig.cluster.requests_to("find")[0].parameter("update_id"), None, "another host's id was shown");
    let told = rig.updater(&["update"]).ok();
    assert!(
        told.stderr.contains("is a clone of another") && told.stderr.contains("/var/lib/teleport/host_uuid"),
        "{told:#?}"
    );
    let new = setting(&rig.bed, "update_id");
    assert!(new != id && new.len() == 36, "{new}");
    assert_eq!(rig.cluster.requests_to("find")[1].parameter("update_id"), Some(new.as_str()));
    let silent = rig.updater(&["update"]).ok();
    assert!(!silent.stderr.contains("clone") && setting(&rig.bed, "update_id") == new, "{silent:#?}");
}

#[test]
fn a_database_of_another_hosts_agent_is_never_restored() {
    let Some(rig) = Rig::on_one("foreign-backup") else { return };
    rig.update_to(&Archive::simple("1.1.0"));
    assert!(rig.description("1.0.0").contains("host: "), "{}", rig.description("1.0.0"));
    // What a builder leaves in an image whose agent's own data was removed, as the guide says.
    rig.bed.sh(
        "systemctl stop teleport; rm -r /var/lib/teleport/host_uuid /var/lib/teleport/proc; systemctl start teleport",
    );
    rig.until_ready();
    let before = rig.footprint();
    rig.updater(&["rollback"]).fails(1, "but this host's agent is");
    assert_eq!(rig.footprint(), before);
    assert_eq!(rig.running(), "1.1.0");
}
