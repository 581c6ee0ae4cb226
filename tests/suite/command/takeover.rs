//! `enable` on hosts that something else managed: the Go updater or the old distribution packages.

use crate::support::go::{MARK, agent, agent_unit, go_host, put};
use crate::support::*;

/// A running host of the Go updater, in a bed.
fn go_rig(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    go_host(rig.bed.root(), &rig.cluster.addr(), &rig.cluster.base_url(), false);
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport; systemctl is-active teleport-update.timer");
    rig.until_ready();
    Some(rig)
}

/// By its full path: until then the Go updater comes first in PATH.
fn enable(rig: &Rig) -> Ran {
    let program = "/usr/lib/teleport-update/teleport-update";
    Ran::of(&rig.bed.run(&[program, "enable", "--ca-file", "/root/ca.pem"]))
}

/// Everything that the Go updater has on the host.
fn of_go(root: &Path) -> Vec<String> {
    ["etc/systemd/system", "usr/local", "usr/lib/systemd/system", "opt"]
        .into_iter()
        .flat_map(|dir| {
            let lines = tree(&root.join(dir));
            lines.into_iter().map(move |line| format!("{dir}/{line}"))
        })
        // Directories may stay behind.
        .filter(|line| !line.split(' ').next().is_some_and(|path| path.ends_with('/')))
        .collect()
}

fn show(rig: &Rig, unit: &str, property: &str) -> String {
    rig.bed.sh(&format!("systemctl show -p {property} {unit}")).trim().split_once('=').unwrap().1.to_owned()
}

#[test]
fn an_image_that_something_else_managed_is_taken_over_or_left() {
    transcript::play("command/takeover.txt");
}

#[test]
fn a_go_host_is_taken_over_and_uninstall_gives_it_back() {
    let Some(rig) = go_rig("gohost") else { return };
    let before = of_go(rig.bed.root());
    rig.cluster.publish(&Archive::simple("1.0.0"));
    rig.cluster.set_directive(Find::version("0.0.1"));
    rig.cluster.set_directive_for_group("blue", Find::version("1.0.0"));
    // No flag but the test's own certificate: everything else was known.
    enable(&rig).ok();

    let status = rig.status();
    for (key, value) in [
        ("agent_version_running", "1.0.0".to_owned()),
        ("proxy", rig.cluster.addr()),
        ("group", "blue".to_owned()),
        ("base_url", rig.cluster.base_url()),
    ] {
        assert_eq!(status[key], value, "{key}");
    }
    assert_eq!((&status["pinned"], &status["agent_updates_enabled"]), (&false.into(), &true.into()));
    // Our units count now, and our timer ticks.
    rig.bed.sh("readlink /usr/local/lib/systemd/system/teleport.service | grep versions/1.0.0/");
    assert!(!show(&rig, "teleport", "DropInPaths").contains("teleport-update.conf"));
    assert!(show(&rig, "teleport", "DropInPaths").contains("operator.conf"));
    assert!(show(&rig, "teleport-update.timer", "FragmentPath").ends_with("/lib/systemd/system/teleport-update.timer"));
    assert_eq!(show(&rig, "teleport-update.timer", "ActiveState"), "active");
    rig.bed.sh("systemctl is-enabled teleport-update.timer teleport");
    assert!(
        show(&rig, "teleport-update.service", "ExecStart").contains("/usr/lib/teleport-update/teleport-update update")
    );
    // Its program is out of the way of `teleport-update` by hand, its own directory untouched.
    assert!(!rig.path("/usr/local/bin/teleport-update").is_symlink());
    let its_own = |lines: &[String]| lines.iter().filter(|line| line.starts_with("opt/")).cloned().collect::<Vec<_>>();
    assert_eq!(its_own(&of_go(rig.bed.root())), its_own(&before));
    rig.bed.reboot();
    rig.until_ready();
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    assert_eq!(show(&rig, "teleport-update.timer", "ActiveState"), "active");

    rig.updater(&["uninstall", "--force"]).ok();
    let mut after = of_go(rig.bed.root());
    // The package's timer stays enabled: it is the package's.
    after.retain(|line| !line.contains("timers.target.wants/teleport-update.timer"));
    assert_eq!(after, before);
    rig.bed.sh("systemctl start teleport");
    rig.until_ready();
    assert_eq!(show(&rig, "teleport-update.timer", "FragmentPath"), "/etc/systemd/system/teleport-update.timer");
    assert_eq!(show(&rig, "teleport-update.timer", "ActiveState"), "active");
    rig.bed.sh("/usr/local/bin/teleport version | grep 0.9.0; test ! -e /root/go-updater-ran");
    assert!(!rig.path("/var/lib/teleport/versions/.taken-over").exists());
}

/// What the Go updater leaves for a second installation `dev` below `root`, beside nothing.
fn go_suffix(root: &Path, proxy: &str, base_url: &str) {
    let home = root.join("opt/teleport/dev");
    let text = format!(
        "version: v1\nkind: update_config\nspec:\n  proxy: {proxy}\n  path: /opt/teleport/dev/bin\n  group: blue\n  \
         base_url: {base_url}\n  enabled: true\n  pinned: false\nstatus:\n  active:\n    version: 0.9.0\n"
    );
    put(home.join("update.yaml"), text, 0o644);
    put(home.join("versions/0.9.0/sha256"), "0".repeat(64), 0o644);
    for dir in ["opt/teleport/dev/bin", "usr/local", "usr/lib/systemd/system"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    for name in ["teleport", "tsh", "tctl", "tbot", "fdpass-teleport", "teleport-update"] {
        let program = match name {
            "teleport-update" => b"#!/bin/sh\ntouch /root/go-updater-ran\n".to_vec(),
            _ => agent("0.9.0"),
        };
        put(home.join("versions/0.9.0/bin").join(name), program, 0o755);
        symlink(format!("/opt/teleport/dev/versions/0.9.0/bin/{name}"), home.join("bin").join(name)).unwrap();
    }
    let units = root.join("etc/systemd/system");
    let unit = agent_unit(MARK)
        .replace("/usr/local/bin/", "/opt/teleport/dev/bin/")
        .replace("/etc/teleport.yaml", "/etc/teleport_dev.yaml")
        .replace("/run/teleport.pid", "/run/teleport_dev.pid");
    put(units.join("teleport_dev.service"), unit, 0o644);
    let service = format!("{MARK}[Service]\nType=oneshot\nExecStart=/opt/teleport/dev/bin/teleport-update update\n");
    put(units.join("teleport-update_dev.service"), service, 0o644);
    let timer =
        format!("{MARK}[Timer]\nOnActiveSec=1h\nOnUnitActiveSec=1h\n\n[Install]\nWantedBy=teleport_dev.service\n");
    put(units.join("teleport-update_dev.timer"), timer, 0o640);
    let drop_in = format!("{MARK}[Service]\nEnvironment=TELEPORT_UPDATE_CONFIG_FILE=/opt/teleport/dev/update.yaml\n");
    put(units.join("teleport_dev.service.d/teleport-update_dev.conf"), drop_in, 0o644);
    std::fs::create_dir_all(units.join("teleport_dev.service.wants")).unwrap();
    let wants = units.join("teleport_dev.service.wants/teleport-update_dev.timer");
    symlink("/etc/systemd/system/teleport-update_dev.timer", wants).unwrap();
}

#[test]
fn a_go_host_of_a_suffix_is_taken_over_and_uninstall_gives_its_units_back() {
    let Some(rig) = Rig::up("gosuffix") else { return };
    go_suffix(rig.bed.root(), &rig.cluster.addr(), &rig.cluster.base_url());
    rig.prepare_dev();
    let ready = "test -S /var/lib/teleport_dev/debug.sock && test -s /run/teleport_dev.pid";
    rig.bed.sh(
        "systemctl daemon-reload; systemctl enable --now teleport_dev; systemctl is-active teleport-update_dev.timer",
    );
    rig.bed.until(ready, Duration::from_secs(20));
    let before = of_go(rig.bed.root());
    rig.cluster.publish(&Archive::simple("1.0.0"));
    rig.cluster.set_directive_for_group("blue", Find::version("1.0.0"));
    rig.updater(&["--install-suffix", "dev", "enable", "--ca-file", "/root/ca.pem"]).ok();
    rig.bed.until(ready, Duration::from_secs(20));
    let status = rig.updater(&["--install-suffix", "dev", "status", "--format", "json"]).ok().json();
    assert_eq!((&status["agent_version_running"], &status["group"]), (&"1.0.0".into(), &"blue".into()));
    assert!(show(&rig, "teleport-update_dev.service", "ExecStart").contains("--install-suffix dev update"));
    assert_eq!(show(&rig, "teleport-update_dev.timer", "ActiveState"), "active");
    rig.bed.sh("systemctl is-enabled teleport-update_dev.timer teleport_dev");
    assert!(!show(&rig, "teleport_dev", "DropInPaths").contains("teleport-update_dev.conf"));
    // A second one finds nothing to take over.
    rig.updater(&["--install-suffix", "dev", "enable", "--ca-file", "/root/ca.pem"]).ok();
    assert_eq!(show(&rig, "teleport-update_dev.timer", "ActiveState"), "active");

    rig.updater(&["--install-suffix", "dev", "uninstall", "--force"]).ok();
    assert_eq!(of_go(rig.bed.root()), before);
    rig.bed.sh("systemctl start teleport_dev");
    rig.bed.until(ready, Duration::from_secs(20));
    assert_eq!(show(&rig, "teleport-update_dev.timer", "ActiveState"), "active");
    let exe = rig.bed.sh("readlink /proc/$(cat /run/teleport_dev.pid)/exe");
    assert_eq!(exe.trim(), "/opt/teleport/dev/versions/0.9.0/bin/teleport");
    rig.bed.sh("test ! -e /root/go-updater-ran");
}

#[test]
fn a_failed_takeover_of_a_suffix_gives_its_units_back() {
    let image = Image::new("1.0.0");
    go_suffix(&image.root(), &image.cluster.addr(), &image.cluster.base_url());
    let before = of_go(&image.root());
    // The run cannot go on behind the units: what stands at the link's name is no file.
    std::fs::remove_file(image.path("/opt/teleport/dev/bin/tsh")).unwrap();
    std::fs::create_dir_all(image.path("/opt/teleport/dev/bin/tsh")).unwrap();
    image.enable(&["--install-suffix", "dev"]).fails(1, "/opt/teleport/dev/bin/tsh");
    std::fs::remove_dir(image.path("/opt/teleport/dev/bin/tsh")).unwrap();
    symlink("/opt/teleport/dev/versions/0.9.0/bin/tsh", image.path("/opt/teleport/dev/bin/tsh")).unwrap();
    assert_eq!(of_go(&image.root()), before);
    image.enable(&["--install-suffix", "dev"]).ok();
    assert_ne!(of_go(&image.root()), before);
    image.run(&["--install-suffix", "dev", "uninstall"]).ok();
    assert_eq!(of_go(&image.root()), before);
}

/// Between the installation of our package and `enable` the host is the Go updater's, as it was before.
#[test]
fn our_package_alone_changes_nothing_for_the_go_updater() {
    let Some(package) = package::deb("1.0.0") else { return };
    let Some(rig) = Rig::bare("bookworm", "gofirst") else { return };
    go_host(rig.bed.root(), &rig.cluster.addr(), &rig.cluster.base_url(), false);
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport; systemctl is-active teleport-update.timer");
    rig.until_ready();
    let before = of_go(rig.bed.root());
    let pid = rig.bed.sh("cat /run/teleport.pid");
    package::install_deb(&rig.bed, &package);
    let still_theirs = || {
        assert_eq!(show(&rig, "teleport-update.timer", "FragmentPath"), "/etc/systemd/system/teleport-update.timer");
        assert_eq!(show(&rig, "teleport-update.timer", "ActiveState"), "active");
        assert!(show(&rig, "teleport-update.service", "ExecStart").contains("/usr/local/bin/teleport-update update"));
        let of_ours = ["teleport-update.timer", "teleport-update-recover.service"];
        let mut now = of_go(rig.bed.root());
        now.retain(|line| before.contains(line) || !of_ours.iter().any(|unit| line.contains(unit)));
        now.retain(|line| !line.starts_with("usr/lib/systemd/system/teleport-update"));
        assert_eq!(now, before);
    };
    still_theirs();
    assert_eq!(rig.bed.sh("cat /run/teleport.pid"), pid);
    // By its bare name it is the Go updater's program that runs.
    assert_eq!(rig.bed.sh("command -v teleport-update").trim(), "/usr/local/bin/teleport-update");
    rig.bed.reboot();
    rig.until_ready();
    still_theirs();

    rig.cluster.publish(&Archive::simple("1.0.0"));
    rig.cluster.set_directive_for_group("blue", Find::version("1.0.0"));
    enable(&rig).ok();
    assert!(show(&rig, "teleport-update.timer", "FragmentPath").ends_with("/lib/systemd/system/teleport-update.timer"));
    assert_eq!(show(&rig, "teleport-update.timer", "ActiveState"), "active");
    assert_eq!(rig.bed.sh("command -v teleport-update").trim(), "/usr/bin/teleport-update");
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    // And the package's removal leaves the agent, not the Go updater, in charge.
    rig.bed.sh("dpkg -r teleport-update");
    rig.until_ready();
    assert!(rig.bed.sh("readlink /proc/$(cat /run/teleport.pid)/exe").starts_with("/var/lib/teleport/versions/1.0.0/"));
}

#[test]
fn a_failed_takeover_gives_everything_back_byte_for_byte() {
    let Some(rig) = go_rig("gofail") else { return };
    let before = of_go(rig.bed.root());
    rig.release(&Archive::simple("1.0.0").schema(2).behaviour("corrupts-schema"));
    rig.cluster.set_directive_for_group("blue", Find::version("1.0.0"));
    enable(&rig).fails(1, "not healthy");
    assert_eq!(of_go(rig.bed.root()), before);
    rig.until_ready();
    let exe = rig.bed.sh("readlink /proc/$(cat /run/teleport.pid)/exe");
    assert_eq!(exe.trim(), "/opt/teleport/default/versions/0.9.0/bin/teleport");
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
    assert!(!rig.path("/usr/local/lib/systemd/system/teleport.service").is_symlink());
    assert_eq!(show(&rig, "teleport-update.timer", "FragmentPath"), "/etc/systemd/system/teleport-update.timer");
    assert_eq!(show(&rig, "teleport-update.timer", "ActiveState"), "active");
    rig.bed.sh("systemctl is-enabled teleport teleport-update.timer");
    let left = tree(&rig.path("/var/lib/teleport/versions"));
    assert!(!left.iter().any(|line| line.starts_with(".unmanaged") || line.ends_with(".journal")), "{left:#?}");
    assert!(!left.iter().any(|line| line.starts_with(".taken-over") && !line.contains("/ ")), "{left:#?}");
}

/// Kills `uninstall` at every point of a taken-over image; `suffix` are the arguments that name the installation, its home
/// and link directory below the root.
fn uninstall_killed_anywhere(image: &Image, suffix: &[&str], home: &str, link_dir: &str) {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: no strace");
        return;
    }
    for name in ["teleport", "tsh", "tctl", "tbot", "fdpass-teleport"] {
        std::fs::write(image.path(home).join("versions/0.9.0/bin").join(name), name).unwrap();
    }
    let before = of_go(&image.root());
    image.enable(suffix).ok();
    let versions = match suffix {
        [] => image.versions(),
        _ => image.path("/var/lib/teleport_dev/versions"),
    };
    for entry in std::fs::read_dir(versions.join("1.0.0/bin")).unwrap() {
        std::fs::write(entry.unwrap().path(), "slim").unwrap();
    }
    let (mut undone, mut finished) = (0, 0);
    for call in ["fsync", "/^link"] {
        for nth in 1.. {
            let copy = copy_of(&image.root());
            let root = copy.path();
            if !is_killed_at(root, &[suffix, &["uninstall"]].concat(), call, nth) {
                break;
            }
            let run = |args: &[&str]| Ran::of(&updater_at(root).args(suffix).args(args).output().unwrap());
            run(&["recover"]).ok();
            let link = std::fs::read_link(root.join(link_dir).join("teleport")).unwrap();
            if link.starts_with("/var/lib") {
                undone += 1;
            } else {
                assert_eq!(of_go(root), before, "{call} {nth}");
                finished += 1;
            }
            run(&["uninstall"]).ok();
            assert_eq!(of_go(root), before, "{call} {nth}");
        }
    }
    assert!(undone > 5 && finished > 3, "{undone} undone, {finished} finished");
}

#[test]
fn an_uninstall_killed_anywhere_never_loses_what_was_set_aside() {
    let image = Image::new("1.0.0");
    go_host(&image.root(), &image.cluster.addr(), &image.cluster.base_url(), false);
    uninstall_killed_anywhere(&image, &[], "/opt/teleport/default", "usr/local/bin");
}

#[test]
fn an_uninstall_of_a_suffix_killed_anywhere_never_loses_what_was_set_aside() {
    let image = Image::new("1.0.0");
    go_suffix(&image.root(), &image.cluster.addr(), &image.cluster.base_url());
    uninstall_killed_anywhere(&image, &["--install-suffix", "dev"], "/opt/teleport/dev", "opt/teleport/dev/bin");
}

/// An image of root's own with an agent's configuration and data, where there is this tool.
fn with_belongings(tool: &str) -> Option<Image> {
    if !rustix::process::geteuid().is_root() || Command::new(tool).arg("--version").output().is_err() {
        eprintln!("skipped: not root, or no {tool}");
        return None;
    }
    let image = Image::new("1.0.0");
    put(image.path("/etc/teleport.yaml"), "teleport:\n  nodename: image\n", 0o600);
    put(image.path("/var/lib/teleport/host_uuid"), "an id", 0o600);
    Some(image)
}

fn has_belongings(image: &Image) {
    let read = |path: &str| std::fs::read_to_string(image.path(path)).unwrap();
    assert_eq!(read("/etc/teleport.yaml"), "teleport:\n  nodename: image\n");
    assert_eq!(read("/var/lib/teleport/host_uuid"), "an id");
    assert_eq!(link(&image.path("/usr/local/bin/teleport")), binary("1.0.0", "teleport"));
}

#[test]
fn in_an_image_the_package_goes_and_the_running_host_is_not_asked() {
    let Some(image) = with_belongings("dpkg") else { return };
    for dir in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/log", "tmp"] {
        std::fs::create_dir_all(image.root().join(dir)).unwrap();
    }
    put(image.root().join("var/lib/dpkg/status"), "", 0o644);
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("teleport.deb");
    // Without scripts: an empty image has no shell for them.
    let files = [
        ("usr/local/bin/teleport".to_owned(), agent("0.9.0"), 0o755),
        ("etc/default/teleport".to_owned(), b"LEVEL=info\n".to_vec(), 0o644),
        ("lib/systemd/system/teleport.service".to_owned(), agent_unit("").into(), 0o644),
    ];
    repository::deb(&package, "teleport", "0.9.0", "Architecture: all\n", "/etc/default/teleport\n", &[], &files);
    let installed = Command::new("dpkg").arg("--root").arg(image.root()).arg("-i").arg(&package).output().unwrap();
    Ran::of(&installed).ok();
    let before = Instant::now();
    image.enable(&[]).ok();
    // No lock of a package manager was waited for, which is five minutes.
    assert!(before.elapsed() < Duration::from_secs(5 * 60));
    let status = std::fs::read_to_string(image.path("/var/lib/dpkg/status")).unwrap();
    assert!(!status.contains("Package: teleport"), "{status}");
    has_belongings(&image);
}

#[test]
fn in_an_image_the_rpm_goes_and_configuration_and_data_stay() {
    let Some(image) = with_belongings("rpmbuild") else { return };
    let dir = tempfile::tempdir().unwrap();
    let wipe = [("postun", "rm -rf /var/lib/teleport /etc/teleport.yaml\n".to_owned())];
    let files = [("usr/local/bin/teleport".to_owned(), b"old".to_vec(), 0o644)];
    let package = repository::rpm(dir.path(), "teleport", "0.9.0", "", &wipe, &files);
    std::fs::create_dir_all(image.path("/var/lib/rpm")).unwrap();
    let rpm = |args: &[&str]| {
        let mut rpm = Command::new("rpm");
        Ran::of(&rpm.arg("--root").arg(image.root()).args(["--dbpath", "/var/lib/rpm"]).args(args).output().unwrap())
    };
    rpm(&["-i", "--nodeps", package.to_str().unwrap()]).ok();
    image.enable(&[]).ok();
    assert_ne!(rpm(&["-q", "teleport"]).status, 0);
    has_belongings(&image);
}

#[test]
fn an_unmanaged_agent_that_nothing_else_would_start_again_is_started_by_the_way_back() {
    let Some(rig) = Rig::up("wayback-no-restart") else { return };
    put(rig.path("/usr/local/bin/teleport"), agent("0.9.0"), 0o755);
    rig.bed.write("/etc/systemd/system/teleport.service", agent_unit(""), 0o644);
    rig.drop_in("Restart=no\n");
    rig.configure(&FAST.replace("watch: 1s", "watch: 60s"));
    rig.start_agent();
    rig.bed.sh("systemctl disable teleport");
    rig.release(&Archive::simple("1.0.0").schema(2).behaviour("ready-then-dies"));
    rig.enable(&[]).fails(1, "failed while it was being watched");
    rig.until_ready();
    assert_eq!(rig.bed.sh("readlink /proc/$(cat /run/teleport.pid)/exe").trim(), "/usr/local/bin/teleport");
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
}

#[test]
fn an_unmanaged_agent_comes_back_with_its_database_when_the_first_version_falls_in_its_watch() {
    let Some(rig) = Rig::up("wayback") else { return };
    let bin = rig.path("/usr/local/bin");
    put(bin.join("teleport"), agent("0.9.0"), 0o755);
    put(bin.join("tctl"), agent("0.9.0"), 0o750);
    symlink("/opt/old/tsh", bin.join("tsh")).unwrap();
    rig.bed.write("/etc/systemd/system/teleport.service", agent_unit(""), 0o644);
    rig.configure(&FAST.replace("watch: 1s", "watch: 60s"));
    rig.start_agent();
    rig.bed.until("test -s /var/lib/teleport/proc/sqlite.db", Duration::from_secs(20));
    let before = tree(&bin);
    rig.release(&Archive::simple("1.0.0").schema(2).behaviour("ready-then-dies"));
    rig.enable(&[])
        .fails(1, "failed while it was being watched")
        .says("the agent that was installed before is in place again");
    assert_eq!(tree(&bin), before);
    rig.until_ready();
    assert_eq!(rig.bed.sh("readlink /proc/$(cat /run/teleport.pid)/exe").trim(), "/usr/local/bin/teleport");
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
    assert_eq!(rig.sql("SELECT DISTINCT version FROM rows"), ["0.9.0"]);
    let status = rig.status();
    assert_eq!(status["last_result"]["outcome"], "rolled_back");
    assert_eq!(status["agent_version_installed"], serde_json::Value::Null);
    assert_eq!(status["refused"][0]["version"], "1.0.0");
    assert!(!rig.path("/var/lib/teleport/versions/.unmanaged").exists());
    // The fallen version's rows are kept, and it waits.
    let kept = rig.path("/var/lib/teleport/versions/1.0.0/backup/sqlite.db");
    assert!(sql_of(&kept, "SELECT DISTINCT version FROM rows").contains(&"1.0.0".to_owned()));
    rig.updater(&["update"]).ok();
    assert_eq!(tree(&bin), before);
    // A good one takes it over.
    rig.bed.sh("sed -i 's/watch: 60s/watch: 1s/' /var/lib/teleport/versions/updates.yaml");
    rig.release(&Archive::simple("1.1.0").schema(2));
    rig.enable(&[]).ok();
    assert_eq!(rig.status()["agent_version_running"], "1.1.0");
}

#[test]
fn a_running_agent_that_is_newer_is_asked_by_its_process_although_its_file_is_gone() {
    let Some(rig) = Rig::up("newerruns") else { return };
    put(rig.path("/opt/theirs/teleport"), agent("9.0.0"), 0o755);
    let unit = agent_unit("").replace("/usr/local/bin/teleport", "/opt/theirs/teleport");
    rig.bed.write("/etc/systemd/system/teleport.service", unit, 0o644);
    rig.start_agent();
    rig.bed.sh("rm /opt/theirs/teleport");
    rig.release(&Archive::simple("1.0.0"));
    let ran = rig.enable(&["--log-format", "json"]).refused("newer_agent");
    assert!(ran.stderr.contains("is Teleport 9.0.0"), "{ran:#?}");
    assert!(!rig.path("/usr/local/bin/teleport").exists());
    assert_eq!(rig.sql("SELECT DISTINCT version FROM rows"), ["9.0.0"]);
}
