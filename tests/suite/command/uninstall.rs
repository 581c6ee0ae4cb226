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
