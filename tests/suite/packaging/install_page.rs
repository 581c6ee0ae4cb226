//! The commands of `docs/install.md`, as they stand there, each on the kind of host that it is for.

use crate::packaging::old_packages::toys::{self, Layout, Toy};
use crate::support;
use crate::support::*;

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
    assert_eq!(kinds, ["apt", "bare", "dnf", "extension", "go", "mirror", "old", "repository", "script", "sysext"]);
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
    // As on Red Hat; a directory's mode is the host's own.
    host.rig.bed.sh("chmod 555 / /usr/bin /usr/lib");
    let modes = "stat -c %a:%U / /etc /usr /usr/bin /usr/lib /usr/share/man";
    let before = host.rig.bed.sh(modes);
    host.next();
    assert_eq!(host.rig.bed.sh(modes), before);
    host.rig.bed.sh("test $(stat -c %a:%U /usr/lib/teleport-update) = 755:root");
    host.rig.enable(&[]).ok();
    host.rig
        .bed
        .sh("systemctl is-active teleport-update.timer && systemctl is-enabled teleport-update-recover.service");
    host.next();
    for gone in ["usr/lib/teleport-update", "usr/bin/teleport-update", "lib/systemd/system/teleport-update.timer"] {
        assert!(!host.rig.path(&format!("/{gone}")).exists(), "{gone}");
    }
    assert_eq!(host.rig.bed.sh(modes), before);
    assert_eq!(host.rig.bed.sh("find /usr /etc -xdev -name '*teleport-update*' ! -type d"), "");
    host.done();
}

/// Makes the extension of the page in `dir`; its archive.
fn extension(dir: &Path) -> Option<std::path::PathBuf> {
    let deb = package::deb("1.0.0")?;
    std::fs::copy(&deb, dir.join(deb.file_name().unwrap())).unwrap();
    std::os::unix::fs::symlink(beds::checkout("packaging"), dir.join("packaging")).unwrap();
    for block in blocks().remove("extension").unwrap() {
        let output = Command::new("sh").args(["-ec", &block]).current_dir(dir).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    Some(dir.join("teleport-update.tar"))
}

#[test]
fn a_host_with_a_sealed_usr_gets_the_updater_by_a_system_extension() {
    let dir = tempfile::tempdir().unwrap();
    let Some(archive) = extension(dir.path()) else { return };
    let Some(mut host) = Host::up("bookworm", "sysext") else { return };
    host.rig.bed.sh(&format!("rm -r {HERE}"));
    host.rig.bed.put(archive, format!("{HERE}/teleport-update.tar"));
    host.next();
    host.rig.bed.sh("! touch /usr/local/bin/x");
    host.is_ours();
    assert_eq!(host.rig.bed.sh("readlink /opt/bin/teleport").trim(), "/var/lib/teleport/versions/1.0.0/bin/teleport");
    host.rig.release(&Archive::simple("1.1.0"));
    host.rig.bed.sh("systemctl start teleport-update.service");
    assert_eq!(host.rig.status()["agent_version_running"], "1.1.0");
    // A boot: the extension is merged before the recovery that is in it, and that comes before the agent.
    host.rig.bed.sh(": >/var/lib/teleport/versions/.journal");
    host.rig.bed.reboot();
    host.rig.until_ready();
    host.rig.bed.sh("systemctl is-active teleport teleport-update.timer");
    let order = "systemctl show -p InactiveExitTimestampMonotonic --value systemd-sysext teleport-update-recover teleport | grep .";
    let times: Vec<u64> = host.rig.bed.sh(order).lines().map(|line| line.parse().unwrap()).collect();
    assert!(times.len() == 3 && times.is_sorted() && times[0] > 0, "{times:?}");
    host.rig.bed.sh("test -z \"$(systemctl --failed --no-legend)\"");
    host.next();
    host.rig.bed.sh("test ! -e /usr/lib/teleport-update && test ! -e /opt/bin/teleport && touch /usr/local/bin/x");
    assert!(host.rig.path("/etc/teleport.yaml").exists());
    host.done();
}

#[test]
fn a_system_extension_is_made_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let Some(deb) = package::deb("1.0.0") else { return };
    let script = beds::checkout("packaging/examples/sysext/make-sysext.sh");
    let make =
        |args: &[&str]| support::Ran::of(&Command::new(&script).args(args).current_dir(dir.path()).output().unwrap());
    let deb = deb.to_str().unwrap();
    make(&[]).fails(2, "usage");
    make(&[deb, "cooked"]).fails(2, "usage");
    make(&["/dev/null"]).fails(1, "is not the package");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    make(&[deb]).ok();
    make(&[deb]).fails(1, "is there already");
    assert_eq!(support::tree(dir.path())[..2], ["teleport-update/ 755", "teleport-update/usr/ 755"]);
    let release = dir.path().join("teleport-update/usr/lib/extension-release.d/extension-release.teleport-update");
    assert_eq!(std::fs::read_to_string(release).unwrap(), "ID=_any\nARCHITECTURE=x86-64\n");
    std::fs::remove_dir_all(dir.path().join("teleport-update")).unwrap();
    if Command::new("mksquashfs").arg("-version").output().is_err() {
        make(&[deb, "raw"]).fails(1, "mksquashfs is missing");
        return;
    }
    make(&[deb, "raw"]).ok();
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["teleport-update.raw"]);
    let bytes = std::fs::read(dir.path().join("teleport-update.raw")).unwrap();
    assert!(bytes.starts_with(b"hsqs"), "no squashfs");
}

#[test]
fn mirror_and_repository() {
    let Some(mut host) = Host::up("bookworm", "repository") else { return };
    for tool in ["openssl", "dpkg-scanpackages", "gpg", "createrepo_c"] {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("skipped: no {tool}");
            return;
        }
    }
    let dir = host.rig.bed.root().join("srv/packages");
    let copied =
        Command::new("cp").arg("-a").args([&host.rig.bed.root().join("root/packages"), &dir]).status().unwrap();
    assert!(copied.success());
    let keys = tempfile::tempdir().unwrap();
    for block in blocks().remove("mirror").unwrap() {
        let block = block.replace("/usr/share/doc/teleport-update", checkout("packaging").to_str().unwrap());
        let mut sh = Command::new("sh");
        let output = sh.args(["-ec", &block]).current_dir(&dir).env("GNUPGHOME", keys.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains("install teleport-update 1.0.0") && said.contains("of a list signed with key.pub"),
            "{said}"
        );
    }
    host.rig.bed.sh("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*");
    host.next();
    host.rig.bed.sh("teleport-update version");
    host.done();
}
