//! Hosts of RFD 0109's updater (`teleport-ent-updater`): taken over by `enable`, given back by `uninstall`.

use crate::support::go::put;
use crate::support::source::CHANNEL;
use crate::support::*;

/// The updater's files below `root`, as its package leaves them, with what enables its timer.
fn upgrader(root: &Path, channel: &str) {
    put(root.join("usr/sbin/teleport-upgrade"), "#!/bin/sh\ntouch /root/upgrader-ran\n", 0o755);
    let units = root.join("usr/lib/systemd/system");
    put(
        units.join("teleport-upgrade.service"),
        "[Service]\nType=oneshot\nExecStart=/usr/sbin/teleport-upgrade run\n",
        0o644,
    );
    let timer = "[Timer]\nOnBootSec=30min\nOnUnitActiveSec=30min\n\n[Install]\nWantedBy=timers.target\n";
    put(units.join("teleport-upgrade.timer"), timer, 0o644);
    put(root.join("etc/teleport-upgrade.d/endpoint"), format!("{channel}\n"), 0o644);
    let wants = root.join("etc/systemd/system/timers.target.wants");
    std::fs::create_dir_all(&wants).unwrap();
    symlink("/usr/lib/systemd/system/teleport-upgrade.timer", wants.join("teleport-upgrade.timer")).unwrap();
}

/// What of the updater is on the host.
fn of_upgrader(root: &Path) -> Vec<String> {
    let lines = ["etc", "usr/sbin", "usr/lib/systemd/system"].into_iter().flat_map(|dir| tree(&root.join(dir)));
    lines.filter(|line| line.contains("teleport-upgrade")).collect()
}

#[test]
fn in_an_image_its_timer_is_disabled_and_its_channel_is_told_and_not_followed_silently() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    upgrader(&image.root(), &format!("{}{CHANNEL}", image.cluster.addr()));
    let before = of_upgrader(&image.root());
    let ran = image.enable(&[]).ok();
    let hint = format!("it asked {0}; to go on with that, run `enable --source {0}`", image.channel());
    assert!(ran.stderr.contains(&hint), "{ran:#?}");
    assert!(!image.config().contains("source:"), "{}", image.config());
    assert!(!image.path("/etc/systemd/system/timers.target.wants/teleport-upgrade.timer").is_symlink());
    assert!(image.path("/etc/teleport-upgrade.d/endpoint").exists(), "the agent writes its schedule beside it");
    // Once.
    assert!(!image.run(&["enable"]).ok().stderr.contains("it asked"));
    image.run(&["uninstall"]).ok();
    assert_eq!(of_upgrader(&image.root()), before);
}

#[test]
fn a_host_that_knows_nobody_else_to_ask_follows_the_same_channel_and_is_told_so() {
    let image = Image::with(&["1.0.0", "1.1.0"]);
    upgrader(&image.root(), &format!("{}{CHANNEL}", image.cluster.addr()));
    image.say("1.1.0", "no");
    let (base, ca) = (image.cluster.base_url(), image.cluster.ca_file().display().to_string());
    image
        .run(&["enable", "--base-url", &base, "--ca-file", &ca, "--edition", "oss"])
        .ok()
        .says("which this host now follows");
    assert_eq!(image.linked(), "1.1.0");
    assert_eq!(image.status()["source"], image.channel());
}

#[test]
fn a_word_for_the_proxy_and_an_endpoint_that_is_no_channel_end_that() {
    let image = Image::with(&["1.0.0"]);
    let endpoint = format!("{}{CHANNEL}", image.cluster.addr());
    upgrader(&image.root(), &endpoint);
    image.say("1.0.0", "no");
    let (base, ca) = (image.cluster.base_url(), image.cluster.ca_file().display().to_string());
    let args = ["enable", "--base-url", &base, "--ca-file", &ca, "--edition", "oss"];
    image.run(&[&args[..], &["--source", "default"]].concat()).fails(1, "no cluster address is known");
    for (endpoint, told) in [
        (format!("http://{endpoint}"), "is not an https:// URL"),
        (format!("ftp://me:s3cret@{endpoint}"), "its endpoint is not followed"),
    ] {
        std::fs::write(image.path("/etc/teleport-upgrade.d/endpoint"), endpoint).unwrap();
        let ran = image.run(&args).fails(1, told).says("no cluster address is known");
        assert!(!ran.stderr.contains("s3cret"), "{ran:#?}");
    }
    assert_eq!(image.linked(), "");
    // A password in it goes where passwords go.
    std::fs::write(image.path("/etc/teleport-upgrade.d/endpoint"), format!("https://me:s3cret@{endpoint}")).unwrap();
    let ran = image.run(&args).ok();
    assert!(!ran.stderr.contains("s3cret") && !image.config().contains("s3cret"), "{ran:#?}");
    assert_eq!(image.linked(), "1.0.0");
}

#[test]
fn on_a_running_host_its_timer_stops_and_uninstall_starts_it_again() {
    let Some(rig) = Rig::up("sourcetake") else { return };
    upgrader(rig.bed.root(), "updates.example.com/v1/stable/cloud");
    rig.bed.sh(
        "systemctl daemon-reload; systemctl start teleport-upgrade.timer; systemctl is-active teleport-upgrade.timer",
    );
    let before = of_upgrader(rig.bed.root());
    rig.cluster.publish(&Archive::simple("1.0.0"));
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.start_agent();
    let state = |property: &str| {
        rig.bed.sh(&format!("systemctl show -p {property} --value teleport-upgrade.timer")).trim().to_owned()
    };
    assert_eq!((state("ActiveState").as_str(), state("UnitFileState").as_str()), ("inactive", "disabled"));
    rig.bed.reboot();
    rig.until_ready();
    assert_eq!(state("ActiveState"), "inactive");
    rig.updater(&["uninstall", "--force"]).ok();
    assert_eq!(of_upgrader(rig.bed.root()), before);
    assert_eq!((state("ActiveState").as_str(), state("UnitFileState").as_str()), ("active", "enabled"));
    rig.bed.sh("test ! -e /root/upgrader-ran");
}
