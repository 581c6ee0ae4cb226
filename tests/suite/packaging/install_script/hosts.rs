//! The script on whole hosts: the real package, by way of the real dpkg and rpm, and then `enable`.

use super::desk;
use crate::packaging::old_packages::toys::{self, Layout, Toy};
use crate::support::*;

/// Puts the packages of `version` beside what the cluster serves, and SHA256SUMS of all so far.
fn publish(rig: &Rig, version: &str) -> Option<()> {
    let built = package::built(version)?;
    let list = rig.cluster.cdn().join("SHA256SUMS");
    let mut lines = std::fs::read_to_string(&list).unwrap_or_default();
    for entry in std::fs::read_dir(built).unwrap() {
        let path = entry.unwrap().path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("SHA256SUMS") => lines += &std::fs::read_to_string(&path).unwrap(),
            Some(name) => drop(std::fs::copy(&path, rig.cluster.cdn().join(name)).unwrap()),
            None => {}
        }
    }
    std::fs::write(list, lines).unwrap();
    rig.bed.put(desk::script(), "/root/install.sh");
    Some(())
}

/// What an operator types.
fn install(rig: &Rig, more: &[&str]) -> Ran {
    let (url, addr) = (rig.cluster.base_url(), rig.cluster.addr());
    let mut args = vec!["sh", "/root/install.sh", "--url", &url, "--ca-file", "/root/ca.pem", "--proxy", &addr];
    args.extend(more);
    args.extend(["--", "--base-url", &url, "--ca-file", "/root/ca.pem"]);
    Ran::of(&rig.bed.run(&args))
}

fn pid(rig: &Rig) -> String {
    rig.bed.sh("systemctl show -p MainPID --value teleport")
}

/// From a host with an old package to one of ours, again, up, and not down.
fn story(rig: &Rig, old: &str, version_of_ours: &str) {
    let is = |version: &str| assert_eq!(rig.bed.sh(version_of_ours).trim(), version);
    rig.release(&Archive::simple("1.0.0"));
    publish(rig, "1.0.0").unwrap();
    rig.start_agent();
    let ran = install(rig, &["--dry-run"]).ok();
    assert!(ran.stdout.contains(&format!("removes the package {old} 0.9.0")), "{ran:#?}");
    assert!(!rig.path("/usr/lib/teleport-update").exists());

    install(rig, &[]).ok();
    is("1.0.0");
    rig.until_ready();
    let status = rig.status();
    assert_eq!((&status["agent_version_running"], &status["agent_updates_enabled"]), (&"1.0.0".into(), &true.into()));
    rig.bed.sh(
        "systemctl is-active teleport-update.timer && test ! -e /opt/teleport/system && test ! -e /root/go-updater-ran",
    );

    let before = pid(rig);
    let ran = install(rig, &[]).ok();
    assert!(ran.stdout.contains("updates are enabled already, these settings are new or stay"), "{ran:#?}");
    publish(rig, "1.1.0").unwrap();
    let ran = install(rig, &[]).ok();
    assert!(ran.stdout.contains("over 1.0.0"), "{ran:#?}");
    is("1.1.0");
    install(rig, &["--version", "1.0.0"]).ok();
    is("1.1.0");
    assert_eq!(pid(rig), before);
    assert_eq!(rig.bed.sh("ls -d /tmp/teleport-update* 2>/dev/null || true"), "");
}

#[test]
fn a_debian_with_the_old_package_is_brought_over() {
    let Some(rig) = Rig::bare("bookworm", "scriptdeb") else { return };
    if package::built("1.0.0").is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    rig.bed.put(Toy::new("teleport-ent", "0.9.0", Layout::Linked).deb(dir.path()), "/root/old.deb");
    rig.bed.sh("dpkg -i /root/old.deb");
    story(&rig, "teleport-ent", "dpkg -s teleport-update | sed -n 's/^Version: //p'");
}

#[test]
fn a_red_hat_with_the_old_package_is_brought_over() {
    let Some(rig) = Rig::bare("bookworm-rpm", "scriptrpm") else { return };
    if package::built("1.0.0").is_none() {
        return;
    }
    red_hat(&rig);
    let dir = tempfile::tempdir().unwrap();
    rig.bed.put(Toy::new("teleport", "0.9.0", Layout::Plain).rpm(dir.path()), "/root/old.rpm");
    rig.bed.sh("rpm -i /root/old.rpm");
    story(&rig, "teleport", "rpm -q teleport-update | cut -d- -f3");
}

/// What the script looks at, and what its package needs there.
fn red_hat(rig: &Rig) {
    rig.bed.sh("rm /etc/os-release");
    rig.bed.write(
        "/etc/os-release",
        "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nPRETTY_NAME=\"Rocky Linux 9\"\nodd (line $\n",
        0o644,
    );
    let dir = tempfile::tempdir().unwrap();
    rig.bed.put(toys::shim(dir.path()), "/root/shim.rpm");
    rig.bed.sh("rpm -i /root/shim.rpm");
}

#[test]
fn a_package_that_was_copied_to_the_host_needs_no_server() {
    for (root, name, format) in [("bookworm", "filedeb", "deb"), ("bookworm-rpm", "filerpm", "rpm")] {
        let Some(rig) = Rig::bare(root, name) else { return };
        let Some(package) = (if format == "deb" { package::deb("1.0.0") } else { package::rpm("1.0.0") }) else {
            return;
        };
        if format == "rpm" {
            red_hat(&rig);
        }
        let path = format!("/srv/{}", package.file_name().unwrap().to_str().unwrap());
        rig.bed.put(&package, &path);
        rig.bed.put(package.with_file_name("SHA256SUMS"), "/srv/SHA256SUMS");
        rig.bed.put(desk::script(), "/root/install.sh");
        let ran = Ran::of(&rig.bed.run(&["sh", "/root/install.sh", "--file", &path, "--no-enable"])).ok();
        assert!(ran.stdout.contains("against the SHA256SUMS beside it"), "{ran:#?}");
        rig.bed.sh("teleport-update version && systemctl is-enabled teleport-update.timer");
        // Damaged on its way: found out before anything is touched.
        let bytes = std::fs::read(rig.path(&path)).unwrap();
        rig.bed.sh(if format == "deb" { "dpkg -r teleport-update" } else { "rpm -e teleport-update" });
        std::fs::write(rig.path(&path), &bytes[..bytes.len() - 1000]).unwrap();
        Ran::of(&rig.bed.run(&["sh", "/root/install.sh", "--file", &path, "--no-enable"])).fails(1, "install.sh: ");
        assert!(!rig.path("/usr/lib/teleport-update/teleport-update").exists());
    }
}

#[test]
fn an_enable_that_fails_is_told_and_can_be_repeated() {
    let Some(rig) = Rig::bare("bookworm", "scriptfail") else { return };
    if publish(&rig, "1.0.0").is_none() {
        return;
    }
    let ran = install(&rig, &[]);
    // 1 is for a host on which nothing was installed.
    ran.fails(3, "teleport-update is installed, but `teleport-update enable --proxy").says("failed with status 1");
    install(&rig, &["--version", "0.9.0"]).fails(1, "names no version 0.9.0");
    rig.release(&Archive::simple("1.0.0"));
    let ran = install(&rig, &[]).ok();
    assert!(ran.stdout.contains("is installed, and 1.0.0 is not newer"), "{ran:#?}");
    assert_eq!(rig.status()["agent_updates_enabled"], true);
}

#[test]
fn what_an_operator_disabled_stays_so_and_settings_are_applied_where_they_are_given() {
    let Some(rig) = Rig::bare("bookworm", "scriptoff") else { return };
    if publish(&rig, "1.0.0").is_none() {
        return;
    }
    rig.release(&Archive::simple("1.0.0"));
    install(&rig, &[]).ok();
    let url = rig.cluster.base_url();
    let plain = |more: &[&str]| {
        let words = ["sh", "/root/install.sh", "--url", &url, "--ca-file", "/root/ca.pem"];
        Ran::of(&rig.bed.run(&[&words[..], more].concat())).ok()
    };
    assert!(plain(&[]).stdout.contains("nothing to do (updates: they are enabled already)"));
    plain(&["--group", "blue"]);
    assert_eq!(rig.status()["group"], "blue");
    rig.updater(&["disable"]).ok();
    let ran = plain(&[]);
    assert!(ran.stdout.contains("nothing to do (updates: somebody disabled them"), "{ran:#?}");
    publish(&rig, "1.1.0").unwrap();
    plain(&[]);
    assert_eq!(rig.status()["agent_updates_enabled"], false);
    plain(&["--"]);
    assert_eq!((&rig.status()["agent_updates_enabled"], &rig.status()["group"]), (&true.into(), &"blue".into()));
}

#[test]
fn a_system_that_the_package_is_not_for_is_told_the_part_of_the_page_that_is_about_it() {
    let Some(rig) = Rig::bare("bookworm", "scriptother") else { return };
    rig.bed.put(desk::script(), "/root/install.sh");
    let told = |release: &str| {
        rig.bed.sh("rm -f /etc/os-release");
        rig.bed.write("/etc/os-release", release, 0o644);
        Ran::of(&rig.bed.run(&["sh", "/root/install.sh", "--url", "/nowhere", "--no-enable"]))
    };
    // Some have another distribution's package tool installed, as this bed has dpkg.
    for (id, part) in [("alpine", "Not supported"), ("nixos", "Not supported"), ("flatcar", "Flatcar")] {
        let ran = told(&format!("ID={id}\nPRETTY_NAME=\"An {id} 1\"\n"));
        ran.fails(1, &format!("no package for An {id} 1: see \"{part}\" in docs/install.md"));
    }
    rig.bed.sh("rm /usr/bin/dpkg");
    told("ID=gentoo\nPRETTY_NAME=Gentoo\n").fails(1, "neither dpkg nor rpm: see \"Without a package manager\"");
    let page = std::fs::read_to_string(testing::beds::checkout("docs/install.md")).unwrap();
    for part in ["## Not supported\n", "### Flatcar\n", "## Without a package manager\n", "## Sealed systems\n"] {
        assert!(page.contains(part), "{part}");
    }
}
