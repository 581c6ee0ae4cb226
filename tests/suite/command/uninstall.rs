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

/// What `after` has and `before` has not: directories apart, which may stay.
fn new_files(before: &[String], after: &[String]) -> Vec<String> {
    let is_dir = |line: &str| line.split(' ').next().is_some_and(|path| path.ends_with('/'));
    after.iter().filter(|line| !before.contains(line) && !is_dir(line)).cloned().collect()
}

#[test]
fn configuration_data_lock_and_the_files_of_others_stay_and_nothing_else() {
    let image = Image::new("1.0.0");
    furnish(&image);
    let before = image.tree();
    image.enable(&[]).ok();
    assert!(image.path("/usr/local/bin/teleport").is_symlink());
    image.update_to("1.1.0");
    image.run(&["uninstall"]).ok();
    let after = image.tree();
    let lost: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    assert!(lost.is_empty(), "{lost:#?}");
    let new = new_files(&before, &after);
    assert!(new.iter().all(|line| line.starts_with("var/lib/teleport/versions/.lock/")), "{new:#?}");
}

#[test]
fn what_failed_versions_wrote_goes_with_the_installation_also_where_the_version_has_gone() {
    let image = Image::enabled("1.0.0");
    let rows = image.versions().join("0.9.0/backup-failed");
    std::fs::create_dir_all(&rows).unwrap();
    let backup = "version: v1\nkind: db_backup\nspec:\n  version: 0.9.0\n  creation_time: 2026-01-02T03:04:05Z\n  failed: true\n";
    std::fs::write(rows.join("backup.yaml"), backup).unwrap();
    std::fs::write(rows.join("sqlite.db"), "rows").unwrap();
    image.run(&["uninstall"]).ok();
    let left: Vec<_> = std::fs::read_dir(image.versions()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
}

#[test]
fn credentials_do_not_outlive_the_installation() {
    let image = Image::new("1.0.0");
    image.cluster.require_auth(Some(Auth::Basic("mirror".into(), "s3cret".into())));
    let url = image.cluster.base_url().replace("https://", "https://mirror:s3cret@");
    let ca = image.cluster.ca_file().display().to_string();
    image.run(&["enable", "--proxy", &image.cluster.addr(), "--base-url", &url, "--ca-file", &ca]).ok();
    assert!(image.versions().join(".credentials").exists());
    image.run(&["uninstall"]).ok();
    assert!(!image.versions().join(".credentials").exists());
}

#[test]
fn a_second_uninstall_and_one_on_a_bare_host_do_nothing_and_succeed() {
    let image = Image::new("1.0.0");
    let before = image.tree();
    image.run(&["uninstall"]).ok();
    assert_eq!(image.tree(), before);
    image.enable(&[]).ok();
    image.run(&["uninstall"]).ok();
    let uninstalled = image.tree();
    assert!(image.run(&["uninstall"]).ok().stderr.contains("nothing is installed"));
    assert_eq!(new_files(&uninstalled, &image.tree()).len() + new_files(&image.tree(), &uninstalled).len(), 2);
    // Both differences are the lock, which names its last holder.
    assert!(new_files(&uninstalled, &image.tree())[0].contains("versions/.lock/"));
    image.enable(&[]).ok();
    assert!(image.path("/usr/local/bin/teleport").is_symlink());
}

#[test]
fn settings_that_cannot_be_read_stop_it_before_anything_is_removed() {
    let image = Image::enabled("1.0.0");
    std::fs::write(image.versions().join("updates.yaml"), "version: v1\nkind: agent_versions\nspec: [\n").unwrap();
    let before = image.tree();
    image.run(&["uninstall"]).fails(1, "updates.yaml");
    assert!(new_files(&before, &image.tree()).iter().all(|line| line.contains("versions/.lock/")));
    assert_eq!(before.len(), image.tree().len());
}

/// Runs the uninstall of a copy of `template`, killed at its `nth` system call named `call`. False: it got through.
fn is_killed_at(template: &Path, root: &Path, call: &str, nth: usize) -> bool {
    assert!(Command::new("cp").args(["-a", "-T"]).arg(template).arg(root).status().unwrap().success());
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:signal=KILL:when={nth}")])
        .arg(updater())
        .arg("--root")
        .arg(root)
        .arg("uninstall")
        .env_clear()
        .output()
        .unwrap();
    !output.status.success()
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
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().join("root");
            if !is_killed_at(&image.root(), &root, call, nth) {
                break;
            }
            let at = format!("{call} {nth}");
            let run = |args: &[&str]| {
                Ran::of(&Command::new(updater()).env_clear().arg("--root").arg(&root).args(args).output().unwrap())
            };
            run(&["recover"]).ok();
            let after = tree(&root);
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
