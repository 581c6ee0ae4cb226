//! `--root`: images are baked without touching anything else, and come to life on a host.

use crate::support::*;

cases_of! { "images/image_host.txt":
    a_host_whose_versions_could_not_run_is_told_so_before_the_download;
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: not root");
    }
    is_root
}

/// Runs `script` with the updater's `enable` line as `"$@"`, and the image's root as `$ROOT`.
fn enable_within(image: &Image, wrapper: &[&str], script: &str) -> Ran {
    let (shell, args) = match wrapper {
        [] => ("sh", &[][..]),
        [program, rest @ ..] => (*program, rest),
    };
    let mut command = Command::new(shell);
    command.args(args);
    if !wrapper.is_empty() {
        command.arg("sh");
    }
    command.args(["-c", script, "sh"]).arg(updater()).arg("--root").arg(image.root()).args(image.enable_args());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("ROOT", image.root());
    Ran::of(&command.output().unwrap())
}

#[test]
fn an_image_is_baked_and_nothing_else_is_touched() {
    transcript::play("images/image.txt");
}

#[test]
fn a_host_without_dev_null_installs_a_release_all_the_same() {
    if !is_root() {
        return;
    }
    let image = Image::new("1.0.0");
    let script = "mount -t tmpfs none /dev && exec \"$@\"";
    enable_within(&image, &["unshare", "-m"], script).ok();
    assert!(image.path("/usr/local/bin/teleport").is_symlink());
}

#[test]
fn an_image_baked_from_outside_comes_to_life_with_an_id_of_its_own() {
    let Some(rig) = Rig::up("baked") else { return };
    rig.release(&Archive::simple("1.0.0"));
    // Baked while nothing runs in it, as a chroot or a mounted disk.
    rig.bed.halt();
    std::fs::remove_file(rig.path("/etc/teleport.yaml")).unwrap();
    let baked = Command::new(updater())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .arg("--root")
        .arg(rig.bed.root())
        .args(["enable", "--proxy", &rig.cluster.addr(), "--base-url", &rig.cluster.base_url(), "--ca-file"])
        .arg(rig.cluster.ca_file())
        .output()
        .unwrap();
    Ran::of(&baked).ok();
    let config = rig.path("/var/lib/teleport/versions/updates.yaml");
    let image = std::fs::read_to_string(&config).unwrap();
    assert!(image.contains("enabled: true") && !image.contains("update_id"), "{image}");
    assert!(!rig.path("/var/lib/teleport/host_uuid").exists());
    assert!(rig.cluster.requests().iter().all(|request| request.query.iter().all(|(key, _)| key != "update_id")));

    rig.bed.boot();
    rig.bed.run(&["true"]);
    // cloud-init.
    rig.bed.write("/etc/teleport.yaml", "teleport:\n  data_dir: /var/lib/teleport\n", 0o600);
    rig.start_agent();
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
    let first_run = || {
        rig.cluster.forget_requests();
        rig.updater(&["update"]).ok();
        let text = std::fs::read_to_string(&config).unwrap();
        let line = text.lines().find(|line| line.trim_start().starts_with("update_id: ")).expect("an id").to_owned();
        let id = line.split_once(": ").unwrap().1.trim_matches('"').to_owned();
        let asked = rig.cluster.requests_to("find");
        assert!(asked[0].query.contains(&("update_id".to_owned(), id.clone())), "{line}: {asked:#?}");
        id
    };
    let id = first_run();
    assert_eq!((id.len(), first_run()), (36, id.clone()));
    // Another host made from the same image.
    std::fs::write(&config, image).unwrap();
    assert_ne!(first_run(), id);
    rig.update_to(&Archive::simple("1.1.0"));
    assert_eq!(rig.status()["agent_version_running"], "1.1.0");
}

#[test]
fn nothing_outside_the_image_is_written_and_no_service_is_asked() {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: no strace");
        return;
    }
    let image = Image::new("1.0.0");
    let log = tempfile::NamedTempFile::new().unwrap();
    let calls = "trace=execve,open,openat,openat2,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,symlink,\
                 symlinkat,link,linkat,chmod,fchmodat,chown,fchownat,truncate,utimensat,mknod,mknodat,kill,connect";
    let ca = image.cluster.ca_file().display().to_string();
    let output = Command::new("strace")
        .args(["-f", "-qq", "-y", "-s", "4096", "-o"])
        .arg(log.path())
        .args(["-e", calls])
        .arg(updater())
        .arg("--root")
        .arg(image.root())
        .args(["-i", "dev", "enable", "--proxy", &image.cluster.addr()])
        .args(["--base-url", &image.cluster.base_url(), "--ca-file", &ca])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .output()
        .unwrap();
    Ran::of(&output).ok();
    let root = image.root().display().to_string();
    let text = std::fs::read_to_string(log.path()).unwrap();
    let mut ran = Vec::new();
    for line in text.lines().filter(|line| [" = -1 ", " --- ", " +++ "].iter().all(|word| !line.contains(word))) {
        let call = line.split_once(' ').unwrap().1.trim_start().split('(').next().unwrap().to_owned();
        if call == "execve" && line.contains("= 0") {
            ran.push(line.to_owned());
        }
        let opens = ["open", "openat", "openat2"].contains(&call.as_str());
        let reads = opens && !["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| line.contains(flag));
        if call == "execve" || reads || line.contains("resumed>") || line.contains("/dev/null") {
            continue;
        }
        if call == "connect" {
            assert!(!line.contains("sun_path=\"/run/systemd") && !line.contains("dbus"), "{line}");
            continue;
        }
        assert!(line.contains(&root), "{line}");
    }
    assert!(ran.iter().any(|line| line.contains("/systemctl\"")), "{ran:#?}");
    for line in ran.iter().filter(|line| line.contains("/systemctl\"")) {
        assert!(line.contains(&format!("\"--root={root}\"")), "{line}");
    }
}

/// A directory outside of the image, with what an agent on the building host would have in it.
fn builder(dir: &Path) {
    let secret = |path: &str, text: &[u8]| {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for text in ["host_uuid", "state/host_uuid", "agent.yaml", "go/update.yaml", "systemd/x.service", "bin/tsh"] {
        secret(text, b"builder's own\n");
    }
    for place in ["sqlite.db", "proc/sqlite.db", "state/proc/sqlite.db"] {
        secret(place, b"");
        let database = rusqlite::Connection::open(dir.join(place)).unwrap();
        database.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES ('builder''s own');").unwrap();
    }
    std::fs::create_dir_all(dir.join("state/versions")).unwrap();
}

#[test]
fn no_link_of_an_image_leads_out_of_it() {
    // Links that stand at the same time, by their targets below the builder's directory.
    let scenes: [&[(&str, &str)]; 4] = [
        &[
            ("/var/lib/teleport", "state"),
            ("/usr/local/bin", "bin"),
            ("/usr/local/lib/systemd/system", "systemd"),
            ("/etc/systemd/system", "systemd"),
            ("/opt/teleport/default", "go"),
        ],
        &[("/var/lib/teleport/versions", "state/versions"), ("/data", "state"), ("/usr/local/lib/systemd", "systemd")],
        &[("/data/proc", "proc"), ("/usr/local", "bin"), ("/opt/teleport", "go")],
        &[
            ("/data/proc/sqlite.db", "sqlite.db"),
            ("/data/host_uuid", "host_uuid"),
            ("/etc/teleport.yaml", "agent.yaml"),
            ("/opt/teleport/default/update.yaml", "go/update.yaml"),
        ],
    ];
    for (number, scene) in scenes.iter().enumerate() {
        for dots in [false, true] {
            let image = Image::new("1.0.0");
            let outside = tempfile::tempdir().unwrap();
            builder(outside.path());
            let before = tree(outside.path());
            std::fs::write(image.path("/etc/teleport.yaml"), "teleport:\n  data_dir: /data\n").unwrap();
            for (link, target) in *scene {
                let (link, target) = (image.path(link), outside.path().join(target));
                std::fs::create_dir_all(link.parent().unwrap()).unwrap();
                let _ = std::fs::remove_file(&link);
                let up = link.strip_prefix(image.root()).unwrap().components().count() + 9;
                let dotted = format!("{}{}", "../".repeat(up), target.strip_prefix("/").unwrap().display());
                symlink(if dots { PathBuf::from(dotted) } else { target }, &link).unwrap();
            }
            let words = format!("scene {number}, dots {dots}");
            image.enable(&[]).ok();
            image.release("2.0.0");
            let moved = image.run(&["update", "--now"]);
            assert_eq!(moved.status, 0, "{words}: {moved:#?}");
            image.run(&["rollback"]);
            image.run(&["verify"]);
            assert_eq!(tree(outside.path()), before, "{words}");
            let text = String::from_utf8_lossy(b"builder's own").into_owned();
            let leaked = Command::new("grep").args(["-rlaF", &text]).arg(image.root()).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&leaked.stdout), "", "{words}");
            let version = image.status()["agent_version_installed"].clone();
            assert!(["1.0.0", "2.0.0"].contains(&version.as_str().unwrap()), "{words}: {version}");
        }
    }
}

#[test]
fn an_images_journal_names_nothing_outside_of_the_image() {
    let image = Image::enabled("1.0.0");
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    std::fs::write(&victim, "builder's own").unwrap();
    let way_out = image.path("/way-out");
    symlink(outside.path(), &way_out).unwrap();
    let journal = image.versions().join(".journal");
    let root = image.root().display().to_string();
    let place = |path: &str| serde_json::json!({"step": "place", "path": path, "was": "absent", "now": "absent", "part": "helper"});
    for (step, is_foreign) in [
        (place(&victim.display().to_string()), true),
        (place(&format!("{root}/way-out/victim")), false),
        (serde_json::json!({"step": "snapshot", "dir": "../../../../../x", "stopped": false}), true),
        (serde_json::json!({"step": "stop_timer", "unit": "--root=/"}), true),
        (serde_json::json!({"step": "keep_link", "path": "/x", "kept": victim}), true),
    ] {
        let begin = serde_json::json!({
            "record": "begin", "format": 1, "command": "update", "time": "2026-01-01T00:00:00Z", "root": root,
            "writer": {"path": "/u", "sha256": "0".repeat(64), "version": "1.0.0"},
            "data_dir": format!("{root}/var/lib/teleport"),
            "plan": {"from": null, "to": null, "to_dir": null, "direction": "first", "database": "keep",
                "service": "none", "prepare": [], "switch": [step], "after": [], "notes": []},
        });
        let line = |record: &serde_json::Value| {
            let json = record.to_string();
            let sum = protocol::Digest::of(json.as_bytes()).to_string();
            format!("{} {json}\n", &sum[..8])
        };
        let intent = serde_json::json!({"record": "intent", "step": 0});
        std::fs::write(&journal, line(&begin) + &line(&intent)).unwrap();
        let ran = image.run(&["--log-format", "json", "recover"]);
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "builder's own", "{step}");
        if is_foreign {
            assert_eq!((ran.status, ran.error_code().as_str()), (1, "journal_unknown"), "{step}: {ran:#?}");
        }
        std::fs::remove_file(&journal).ok();
    }
}

/// What of the versions others than root own or may write to; the copy of a database has its owner.
fn open_parts(image: &Image) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let mut way = vec![image.path("/var/lib/teleport")];
    let mut found = Vec::new();
    while let Some(path) = way.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if meta.uid() != 0 || (!meta.is_symlink() && meta.mode() & 0o022 != 0) {
            found.push(path.clone());
        }
        if meta.is_dir() {
            way.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn after_a_recursive_chown_or_chmod_one_advice_leaves_nothing_to_others() {
    use std::os::unix::fs::MetadataExt;
    if !is_root() {
        return;
    }
    for careless in ["chown -R 900:900", "chmod -R 777", "chmod -R g+w", "chown -R root:root"] {
        let image = Image::enabled("1.0.0");
        image.release("2.0.0");
        image.run(&["update", "--now"]).ok();
        let shell =
            |script: &str| assert!(Command::new("sh").args(["-c", script]).status().unwrap().success(), "{script}");
        let program = image.versions().join("2.0.0/bin/teleport");
        let first = std::fs::metadata(&program).unwrap().ino();
        let mut held = std::fs::File::options().append(true).open(&program).unwrap();
        shell(&format!("{careless} {}", image.path("/var/lib/teleport").display()));
        if careless == "chmod -R g+w" {
            shell(&format!("chgrp -R 900 {}", image.path("/var/lib/teleport").display()));
        }
        if careless == "chown -R root:root" {
            // Harmless: nothing is downloaded again.
            image.run(&["verify"]).ok();
            assert_eq!(std::fs::metadata(&program).unwrap().ino(), first);
            continue;
        }
        let ran = image.run(&["update", "--now"]).fails(1, "can be changed by users other than root");
        let advice = ran.stderr.split('`').nth(1).unwrap();
        let (commands, repair) = advice.rsplit_once("; ").unwrap();
        let own = format!("teleport-update --root {} verify --repair", image.root().display());
        assert_eq!(repair, own, "{ran:#?}");
        shell(commands);
        image.run(&["update", "--now"]).fails(1, &own);
        image.run(&["verify"]).fails(1, "2.0.0 can be changed by users other than root");
        // Nobody but the operator knows whether the copy of a database may be trusted; all else is right.
        let ran = image.run(&["verify", "--repair"]).fails(1, "this database backup may have been changed");
        assert!(ran.stderr.contains("1.0.0: users other than root could change this version"), "{ran:#?}");
        shell(ran.stderr.rsplit('`').nth(1).unwrap());
        image.run(&["verify"]).ok();
        // Whoever had the program open writes to what is no longer it.
        assert_ne!(std::fs::metadata(&program).unwrap().ino(), first, "{careless}");
        std::io::Write::write_all(&mut held, b"his").unwrap();
        image.run(&["verify"]).ok();
        let left: Vec<_> =
            open_parts(&image).into_iter().filter(|path| !path.starts_with(image.versions().join("1.0.0"))).collect();
        assert!(left.is_empty(), "{careless}: {left:?}");
        // The other version is no other's either once it is active.
        image.release("1.0.0");
        image.run(&["pin", "--force-version", "1.0.0"]).ok();
        assert!(open_parts(&image).is_empty(), "{careless}");
    }
}
