//! `uninstall`: what goes, what stays, what comes back.

use crate::support::*;

/// Settings, data, and things of others right beside ours.
fn furnish(image: &Image) {
    for dir in ["/var/lib/teleport/proc", "/var/lib/teleport/versions/notes", "/usr/local/bin", "/opt/tools"] {
        std::fs::create_dir_all(image.path(dir)).unwrap();
    }
    for (file, text) in [
        ("/etc/teleport.yaml", "teleport:\n  data_dir: /var/lib/teleport\n"),
        ("/var/lib/teleport/host_uuid", "5f0c6f9c-0000-4000-8000-000000000001"),
        ("/var/lib/teleport/proc/state", "the agent's"),
        ("/var/lib/teleport/versions/notes/read.me", "an operator's"),
        ("/usr/local/bin/other", "#!/bin/sh\n"),
        ("/opt/tools/tsh", "another tsh"),
    ] {
        std::fs::write(image.path(file), text).unwrap();
    }
    std::fs::set_permissions(image.path("/etc/teleport.yaml"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink("/opt/tools/tsh", image.path("/usr/local/bin/tsh-of-ours")).unwrap();
}

#[test]
fn what_is_not_ours_stays_and_nothing_else() {
    transcript::play("command/uninstall.txt");
}

#[test]
fn killed_anywhere_the_next_command_makes_it_whole_or_finishes_it() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: no strace");
        return;
    }
    let image = Image::new("1.0.0");
    furnish(&image);
    image.enable(&[]).ok();
    image.make_slim("1.0.0");
    let whole = image.tree();
    let is_bookkeeping = |line: &String| ["versions/.lock/", "updates.yaml "].iter().any(|name| line.contains(name));
    let (mut undone, mut finished) = (0, 0);
    for call in ["fsync", "/^rename", "/^(unlink|rmdir)"] {
        for nth in 1.. {
            let copy = copy_of(&image.root());
            let root = copy.path();
            if !is_killed_at(root, &["uninstall"], call, nth) {
                break;
            }
            let at = format!("{call} {nth}");
            let run = |args: &[&str]| Ran::of(&updater_at(root).args(args).output().unwrap());
            run(&["recover"]).ok();
            let after = tree(root);
            assert!(!after.iter().any(|line| line.contains(".journal ")), "{at}: {after:#?}");
            if root.join("usr/local/bin/teleport").is_symlink() {
                let missing = whole.iter().filter(|line| !after.contains(line) && !is_bookkeeping(line));
                assert_eq!(missing.count(), 0, "{at}: {after:#?}");
                assert!(root.join("var/lib/teleport/versions/updates.yaml").exists(), "{at}");
                undone += 1;
            } else {
                finished += 1;
            }
            run(&["uninstall"]).ok();
            let mut left = tree(&root.join("var/lib/teleport/versions"));
            left.retain(|line| !line.starts_with("notes/"));
            assert_eq!(left.len(), 2, "only the lock, {at}: {left:#?}");
            assert!(root.join("etc/teleport.yaml").exists() && root.join("usr/local/bin/other").exists(), "{at}");
        }
    }
    // Both sides of the commit were hit.
    assert!(undone > 5 && finished > 5, "{undone} undone, {finished} finished");
}

#[test]
fn an_agent_that_runs_is_not_uninstalled_and_one_that_was_stopped_is() {
    let Some(rig) = Rig::on_one("uninstall") else { return };
    let pid = rig.bed.sh("cat /run/teleport.pid");
    rig.updater(&["uninstall"]).fails(1, "systemctl disable --now teleport");
    assert_eq!(rig.bed.sh("cat /run/teleport.pid"), pid);
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");

    rig.bed.sh("systemctl stop teleport; systemctl is-enabled teleport");
    let data = || {
        let mut lines = tree(&rig.path("/var/lib/teleport"));
        lines.retain(|line| !line.starts_with("versions/"));
        lines
    };
    let (before, yaml) = (data(), std::fs::read(rig.path("/etc/teleport.yaml")).unwrap());
    rig.updater(&["uninstall"]).ok();
    assert_eq!(data(), before);
    assert_eq!(std::fs::read(rig.path("/etc/teleport.yaml")).unwrap(), yaml);
    assert_eq!(tree(&rig.path("/var/lib/teleport/versions")).len(), 2, "only the lock");
    // The links of `systemctl enable` went too, and systemd knows of no such unit.
    let left = rig.bed.sh("find /etc/systemd /usr/local -name 'teleport*' -o -name 'tsh*' -o -name 'tctl*'");
    assert_eq!(left, "");
    assert_eq!(rig.bed.sh("systemctl show -p LoadState teleport"), "LoadState=not-found\n");
    // The package's own parts are the package manager's.
    rig.bed.sh(
        "test -x /usr/lib/teleport-update/teleport-update && test -e /usr/lib/systemd/system/teleport-update.timer",
    );
    // And back again, with the same data.
    rig.enable(&[]).ok();
    rig.start_agent();
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
}

#[test]
fn forced_it_stops_the_agent_first() {
    let Some(rig) = Rig::on_one("uninstallforce") else { return };
    let pid = rig.bed.sh("cat /run/teleport.pid").trim().to_owned();
    rig.updater(&["uninstall", "--force"]).ok();
    rig.bed.until(&format!("! kill -0 {pid}"), Duration::from_secs(30));
    assert_eq!(rig.sql("PRAGMA integrity_check"), ["ok"]);
    assert!(!rig.path("/usr/local/bin/teleport").is_symlink());
    rig.updater(&["uninstall", "--force"]).ok();
}

#[test]
fn an_uninstall_cut_off_by_power_loss_while_stopping_leaves_the_agent_as_it_was() {
    let Some(rig) = Rig::up("uninstallcut") else { return };
    // An agent that does not hear SIGTERM holds the run in its first step.
    rig.release(&Archive::simple("1.0.0").behaviour("ignores-term"));
    rig.enable(&[]).ok();
    rig.start_agent();
    rig.bed.sh("systemctl enable teleport-update-recover; systemd-run --unit=going teleport-update uninstall --force");
    rig.bed.until("systemctl show -p ActiveState teleport | grep deactivating", Duration::from_secs(10));
    rig.bed.cut();
    rig.bed.boot();
    rig.until_ready();
    let status = rig.status();
    assert_eq!((&status["agent_version_running"], &status["recovery_pending"]), (&"1.0.0".into(), &false.into()));
    rig.bed.sh("systemctl is-enabled teleport");
}
