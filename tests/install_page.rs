//! The commands of `docs/install.md`, as they stand there, each on the kind of host that it is for.
#![allow(clippy::disallowed_methods, reason = "the test is outside the host it tests")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are not themselves tests")]

mod support;
#[path = "old_packages/toys.rs"]
#[allow(dead_code, unused_imports, reason = "only some of the toys are used here")]
mod toys;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use support::{Rig, beds, package};
use test_cluster::archive::Archive;
use test_cluster::directive::Find;
use toys::{Layout, Toy};

const HERE: &str = "/root/packages";

/// The blocks of commands for each kind of host, in the order of the page.
fn blocks() -> BTreeMap<String, Vec<String>> {
    let page = std::fs::read_to_string(beds::checkout("docs/install.md")).unwrap();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (mark, body) = block.split_once('\n').unwrap();
        let kind = mark.strip_prefix("sh ").unwrap_or_else(|| panic!("a block that no test runs: {block}"));
        found.entry(kind.to_owned()).or_default().push(body.to_owned());
    }
    found
}

/// A page's host: a bed that trusts the cluster's certificate, with what the page says is in the current directory.
struct Host {
    rig: Rig,
    blocks: std::vec::IntoIter<String>,
}

impl Host {
    fn up(root: &str, kind: &str) -> Option<Self> {
        let built = package::built("1.0.0")?;
        let rig = Rig::bare(root, &format!("page{kind}"))?;
        for entry in std::fs::read_dir(built).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            rig.bed.put(&path, format!("{HERE}/{name}"));
            std::fs::copy(&path, rig.cluster.cdn().join(name)).unwrap();
        }
        rig.bed.put(beds::checkout("packaging/install.sh"), format!("{HERE}/install.sh"));
        rig.bed.write("/usr/local/share/ca-certificates/test.crt", rig.cluster.ca_pem(), 0o644);
        rig.bed.sh("update-ca-certificates");
        rig.release(&Archive::simple("1.0.0"));
        let blocks = blocks().remove(kind).unwrap_or_else(|| panic!("no blocks for {kind}"));
        Some(Self { rig, blocks: blocks.into_iter() })
    }

    /// Runs the page's next block; its output.
    fn next(&mut self) -> String {
        let block = self.blocks.next().expect("a further block on the page");
        let cdn = self.rig.cluster.base_url();
        let block = block
            .replace("https://packages.example.com/teleport-update", &cdn)
            .replace("example.teleport.sh", &self.rig.cluster.addr());
        self.rig.bed.write("/root/block.sh", &block, 0o644);
        // The one thing that a reader's host finds by itself: where the agent's archives are.
        self.rig.bed.sh(&format!("cd {HERE}; export TELEPORT_CDN_BASE_URL={cdn}; set -e; . /root/block.sh"))
    }

    fn is_ours(&self) {
        self.rig.until_ready();
        let exe = self.rig.bed.sh("readlink /proc/$(systemctl show -p MainPID --value teleport)/exe");
        assert_eq!(exe.trim(), "/var/lib/teleport/versions/1.0.0/bin/teleport");
    }

    /// Every block of this kind was run.
    fn done(mut self) {
        assert_eq!(self.blocks.next(), None);
    }
}

#[test]
fn every_kind_of_host_on_the_page_has_its_test() {
    let kinds: Vec<String> = blocks().into_keys().collect();
    assert_eq!(kinds, ["apt", "bare", "dnf", "go", "mirror", "old", "repository", "script"]);
}

#[test]
fn apt() {
    let Some(mut host) = Host::up("bookworm", "apt") else { return };
    assert!(host.next().contains("1.0.0"));
    host.next();
    host.is_ours();
    host.next();
    assert!(!host.rig.path("/usr/lib/teleport-update/teleport-update").exists());
    host.is_ours();
    host.done();
}

#[test]
fn dnf() {
    let Some(mut host) = Host::up("bookworm-rpm", "dnf") else { return };
    let dir = tempfile::tempdir().unwrap();
    toys::dnf_repository(&host.rig.bed, &[toys::shim(dir.path())]);
    host.rig.bed.sh("dnf -y install bed-shim");
    assert!(host.next().contains("1.0.0"));
    host.is_ours();
    host.next();
    assert!(!host.rig.path("/usr/lib/teleport-update/teleport-update").exists());
    host.is_ours();
    host.done();
}

#[test]
fn script() {
    let Some(mut host) = Host::up("bookworm", "script") else { return };
    assert!(host.next().contains("updates are enabled already, these settings are new or stay"));
    host.rig.start_agent();
    host.is_ours();
    host.next();
    assert!(!host.rig.path("/usr/local/bin/teleport").is_symlink());
    assert!(host.rig.path("/etc/teleport.yaml").exists() && host.rig.path("/var/lib/teleport/proc/sqlite.db").exists());
    host.next();
    assert!(!host.rig.path("/var/lib/teleport/versions/updates.yaml").exists());
    assert!(host.rig.path("/var/lib/teleport/proc/sqlite.db").exists());
    host.done();
}

#[test]
fn old() {
    let Some(mut host) = Host::up("bookworm", "old") else { return };
    let dir = tempfile::tempdir().unwrap();
    host.rig.bed.put(Toy::new("teleport-ent", "0.9.0", Layout::Linked).deb(dir.path()), "/root/old.deb");
    host.rig.bed.sh(&format!("dpkg -i /root/old.deb {HERE}/teleport-update_1.0.0_amd64.deb"));
    host.rig.start_agent();
    host.next();
    host.is_ours();
    host.rig.bed.sh("! dpkg -s teleport-ent");
    host.done();
}

#[test]
fn go() {
    let Some(mut host) = Host::up("bookworm", "go") else { return };
    let (addr, base) = (host.rig.cluster.addr(), host.rig.cluster.base_url());
    host.rig.cluster.set_directive_for_group("blue", Find::version("1.0.0"));
    support::go::go_host(host.rig.bed.root(), &addr, &base, false);
    host.rig.bed.sh(&format!("dpkg -i {HERE}/teleport-update_1.0.0_amd64.deb"));
    host.rig.start_agent();
    assert!(host.next().contains("/lib/systemd/system/teleport-update.timer; enabled"));
    host.is_ours();
    host.next();
    host.rig.until_ready();
    let exe = host.rig.bed.sh("readlink /proc/$(cat /run/teleport.pid)/exe");
    assert_eq!(exe.trim(), "/opt/teleport/default/versions/0.9.0/bin/teleport");
    host.done();
}

#[test]
fn bare() {
    let Some(mut host) = Host::up("bookworm", "bare") else { return };
    host.next();
    host.rig.enable(&[]).ok();
    host.rig
        .bed
        .sh("systemctl is-active teleport-update.timer && systemctl is-enabled teleport-update-recover.service");
    host.next();
    for gone in ["usr/lib/teleport-update", "usr/bin/teleport-update", "lib/systemd/system/teleport-update.timer"] {
        assert!(!host.rig.path(&format!("/{gone}")).exists(), "{gone}");
    }
    // The directories of the host keep their modes.
    assert_eq!(host.rig.bed.sh("stat -c %a:%U / /etc /usr /usr/bin"), "755:root\n755:root\n755:root\n755:root\n");
    host.done();
}

#[test]
fn mirror_and_repository() {
    let Some(mut host) = Host::up("bookworm", "repository") else { return };
    for tool in ["openssl", "dpkg-scanpackages"] {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("skipped: no {tool}");
            return;
        }
    }
    let dir = host.rig.bed.root().join("srv/packages");
    let copied =
        Command::new("cp").arg("-a").args([&host.rig.bed.root().join("root/packages"), &dir]).status().unwrap();
    assert!(copied.success());
    for block in blocks().remove("mirror").unwrap() {
        let output = Command::new("sh").args(["-ec", &block]).current_dir(&dir).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains("install teleport-update 1.0.0") && said.contains("of a list signed with key.pub"),
            "{said}"
        );
    }
    assert!(Path::new(&dir).join("Packages").exists());
    host.rig.bed.sh("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*");
    host.next();
    host.rig.bed.sh("teleport-update version");
    host.done();
}
